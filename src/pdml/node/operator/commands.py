"""An operator's decisions about jobs: the running node reads them in its control database."""

from contextlib import closing

from pdml.errors import InvalidInput, plain
from pdml.node.storage.control_db import (
    ENDED,
    Attempt,
    CommandKind,
    ControlDatabase,
    OfferState,
    current_attempt,
)
from pdml.node.storage.node_dir import NodeDirectory

_LONGEST = 300  # letters of a reason
_LEAST = 8  # digits of a digest that may stand for it


def offers(home: NodeDirectory) -> list[Attempt]:
    """The jobs that members have offered, oldest first, and what became of them here.

    Parameters
    ----------
    home : Home
        The node's folder, `Home.open("alice")`.

    Returns
    -------
    list of Attempt
    """
    with closing(ControlDatabase(home.folder)) as control_db:
        return control_db.attempts()


def find(home: NodeDirectory, offer: str) -> Attempt:
    """The one offer that waits for an answer under this name.

    Parameters
    ----------
    home : Home
        The node's folder.
    offer : str
        The offer's digest, at least its first 8 digits, or its job's name.

    Returns
    -------
    Attempt

    Raises
    ------
    InvalidInput
        If no such offer waits, or several do: a name is whatever members give it.
    """
    with closing(ControlDatabase(home.folder)) as control_db:
        waiting = [
            attempt for attempt in control_db.attempts() if attempt.state == OfferState.PENDING
        ]
    exact = [attempt for attempt in waiting if attempt.digest == offer]
    matches = exact or [
        attempt for attempt in waiting if attempt.job == offer or _begins(attempt, offer)
    ]
    if not matches:
        raise InvalidInput(
            f"no offer of a job {offer!r} waits for an answer in {home.folder}, and none with "
            "such a digest"
        )
    if len(matches) > 1:
        several = "; ".join(
            f"{attempt.digest} is {attempt.offerer}'s offer of {attempt.job}" for attempt in matches
        )
        raise InvalidInput(
            f"{len(matches)} offers that wait are called {offer!r}: {several}: name one by its "
            "digest"
        )
    return matches[0]


def _begins(attempt: Attempt, digits: str) -> bool:
    return len(digits) >= _LEAST and attempt.digest.startswith(digits.lower())


def accept(home: NodeDirectory, offer: str) -> Attempt:
    """Accept an offer that waits for an answer: that one, and no other of the same name.

    Parameters
    ----------
    home : Home
        The node's folder.
    offer : str
        As `find` takes it; the whole digest of the terms that were read
        (`pdml.node.protocol.offer_terms.read_terms`) accepts exactly these.

    Returns
    -------
    Attempt
        As it waited.

    Raises
    ------
    InvalidInput
        If no such offer waits, or several do.
    """
    return _decide(home, offer, OfferState.ALLOWED, "")


def refuse(home: NodeDirectory, offer: str, why: str = "") -> Attempt:
    """Refuse an offer that waits for an answer: no node then releases anything (more) for it.

    Parameters
    ----------
    home : Home
    offer : str
        As `find` takes it.
    why : str
        What the other members are told.

    Returns
    -------
    Attempt
        As it waited.

    Raises
    ------
    InvalidInput
        If no such offer waits, or several do.
    """
    return _decide(home, offer, OfferState.REFUSED, plain(why, _LONGEST) or "its operator refused")


def stop(home: NodeDirectory) -> str:
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
    with closing(ControlDatabase(home.folder)) as control_db:
        current = current_attempt(
            [attempt for attempt in control_db.attempts() if attempt.state not in ENDED]
        )
        if current is None:
            raise InvalidInput(f"the node in {home.folder} is in no job")
        control_db.push_command(CommandKind.STOP, current.attempt)
        return current.job


def _decide(home: NodeDirectory, offer: str, state: OfferState, sentence: str) -> Attempt:
    attempt = find(home, offer)
    with closing(ControlDatabase(home.folder)) as control_db:
        if not control_db.decide(attempt, state, sentence):
            raise InvalidInput(
                f"{attempt.offerer}'s offer of job {attempt.job} waits no more: "
                f"`pdml node offers {home.folder}` says what became of it"
            )
    return attempt
