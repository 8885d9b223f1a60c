"""An operator's word about jobs, left on the node's desk: the running node reads it there."""

from contextlib import closing

from pdml.errors import InvalidInput, plain
from pdml.node.desk import ALLOWED, ASKED, ENDED, REFUSED, Attempt, Desk
from pdml.node.home import Home
from pdml.node.questions import STOP

_LONGEST = 300  # letters of a reason


def offers(home: Home) -> list[Attempt]:
    """The jobs that members have offered, oldest first, and what became of them here.

    Parameters
    ----------
    home : Home
        The node's folder, `Home.open("alice")`.

    Returns
    -------
    list of Attempt
    """
    with closing(Desk(home.folder)) as desk:
        return desk.attempts()


def accept(home: Home, job: str) -> None:
    """Accept a job that waits for an answer.

    Parameters
    ----------
    home : Home
        The node's folder.
    job : str
        The job's name.

    Raises
    ------
    InvalidInput
        If no offer of this job waits.
    """
    _decide(home, job, ALLOWED, "")


def refuse(home: Home, job: str, why: str = "") -> None:
    """Refuse a job that waits for an answer; nothing will have been released for it, anywhere.

    Parameters
    ----------
    home : Home
    job : str
    why : str
        What the other members are told.

    Raises
    ------
    InvalidInput
        If no offer of this job waits.
    """
    _decide(home, job, REFUSED, plain(why, _LONGEST) or "its operator refused")


def stop(home: Home) -> str:
    """Stop the job that this node is in, at every member; the journals let it go on later.

    Parameters
    ----------
    home : Home
        The node's folder.

    Returns
    -------
    str
        The job's name.

    Raises
    ------
    InvalidInput
        If the node is in no job.
    """
    with closing(Desk(home.folder)) as desk:
        going = [each for each in desk.attempts() if each.state not in ENDED]
        if not going:
            raise InvalidInput(f"the node in {home.folder} is in no job")
        desk.wish(STOP, going[-1].attempt)
        return going[-1].job


def _decide(home: Home, job: str, state: str, sentence: str) -> None:
    with closing(Desk(home.folder)) as desk:
        waiting = [each for each in desk.attempts() if each.job == job and each.state == ASKED]
        if not waiting or not desk.move(waiting[-1].attempt, state, sentence, only_from=ASKED):
            raise InvalidInput(f"no offer of a job {job!r} waits for an answer in {home.folder}")
