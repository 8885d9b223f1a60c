"""A person takes their report back: by what only their device, or their receipt, knows."""

from pathlib import Path

from pdml.device import receipt as receipts
from pdml.device.answers import invitation
from pdml.device.delivery import Delivery, address_of
from pdml.device.memo import Memory, default_folder
from pdml.errors import InvalidInput, NotDelivered
from pdml.study import Study
from pdml.study.messages import Problem, Withdrawn


def withdraw(
    study: Study,
    url: str = "",
    *,
    receipt: Path | None = None,
    token: str = "",
    record: str = "",
    memory: Path | None = None,
    ca: Path | None = None,
) -> Withdrawn:
    """Have a service erase one's report, as long as the study's data are not complete.

    Parameters
    ----------
    study : Study
        The contract, `Study.load("study.toml")`.
    url : str
        The service that holds the report, or the name of a server; with a receipt the one that
        gave it.
    receipt : Path, optional
        A saved receipt, on whatever device; by default what this device remembers.
    token : str
        The invitation that was used, or the link that holds it; another is another person.
    record : str
        Whose record, where several people share this device.
    memory : Path, optional
        Where draws are kept, by default ~/.local/state/pdml.
    ca : Path, optional
        Trust this authority's certificates (PEM) instead of the system's.

    Returns
    -------
    Withdrawn
        The service's word that nothing but the report's number is left.

    Raises
    ------
    InvalidInput
        If neither device nor receipt knows a report, or the code that withdraws it; for a receipt
        with an invitation or a record, which may be those of another report.
    NotDelivered
        If the service cannot be reached or refuses; with the code ``frozen`` it says what can no
        longer be undone.

    Guarantees
    ----------
    - The code is sent to a service of this very study, and to nobody else.
    - This device keeps that it was withdrawn and nothing else: whoever withdraws and answers again
      is not drawn for again.
    """
    if receipt is not None and (token or record):
        raise InvalidInput("a receipt names its report by itself: leave out invitation and record")
    kept = Memory(memory or default_folder())
    memo = kept.recall(study.memory_key(invitation(token)), record)
    if receipt is not None:
        saved = receipts.load(receipt)
        if saved.receipt.study not in (study.hash, study.replaces):
            raise InvalidInput(f"{receipt} is the receipt of another study, or another version")
        code, where = saved.code, url or saved.url
    elif memo is not None and memo.withdrawn:
        raise InvalidInput("this report was withdrawn before: this device remembers nothing else")
    elif memo is None or not memo.sent:
        raise InvalidInput(
            "this device remembers no report to this study: name its invitation, its receipt, or "
            "the record"
        )
    else:
        code, where = memo.code, url
    if not code:
        raise InvalidInput(
            "this report has no withdrawal code: give the organiser its number, which is on the "
            "receipt"
        )
    with Delivery(address_of(study, where), ca=ca) as service:
        service.require_study(study.hash)
        answer = service.withdraw(code)
        if isinstance(answer, Problem):
            raise NotDelivered(f"{service.url}: {_refused(study, answer)}", answer.code)
    kept.forget_report(answer.id)
    return answer


def _refused(study: Study, answer: Problem) -> str:
    if answer.code != "frozen":
        return f"the report was not withdrawn ({answer.code}). {answer.title}"
    message = (
        "the study's data are complete, and the report is among them. It can no longer be "
        "withdrawn here, and what is computed from the data cannot be called back."
    )
    if study.notice is not None:
        day = f"{study.notice.retention:%Y-%m-%d}"
        message += f" The service erases it on {day}, or later if it cannot then."
    who = "" if study.organiser is None else f": {study.organiser.contact}"
    return f"{message} Ask the organiser what can still be done{who}"
