"""A receipt as people keep it: what was sent, who holds it, whom to write to, and the code by which
they take it back. The page saves the same."""

import os
from pathlib import Path

import msgspec

from pdml.device.answers import invitation
from pdml.device.delivery import Delivery, address_of
from pdml.device.memo import Memo, Memory, default_folder
from pdml.errors import InvalidInput, NotDelivered
from pdml.files import read_named, write_private
from pdml.formats import Format
from pdml.study import Study
from pdml.study.messages import Problem, Receipt, Withdrawn

FORMAT = Format(name="saved receipt", version=1)


class SavedReceipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service's receipt with all that its owner may need later."""

    version: int
    title: str  # of the study
    organiser: str = ""
    address: str = ""
    contact: str = ""
    url: str  # of the service
    receipt: Receipt
    report: str  # its bytes, which are ASCII
    code: str  # whoever has it can withdraw the report


def make_receipt(study: Study, url: str, memo: Memo) -> SavedReceipt:
    """The receipt of a memo for its owner to keep."""
    if memo.receipt is None:
        raise InvalidInput("a receipt is kept of a report that was stored, got one that was not")
    names = {"title": study.title, "url": url, "report": memo.sent, "code": memo.code}
    if (who := study.organiser) is not None:
        names |= {"organiser": who.name, "address": who.address, "contact": who.contact}
    return SavedReceipt(version=FORMAT.version, receipt=memo.receipt, **names)


def save(path: Path, receipt: SavedReceipt) -> None:
    """Write it, for its owner alone."""
    data = msgspec.json.format(msgspec.json.encode(receipt), indent=1)
    if not write_private(path, data + b"\n", first=True):
        raise InvalidInput(f"{path} exists already: it may be another receipt")


def load(path: str | os.PathLike[str]) -> SavedReceipt:
    """Read what `save` or the page wrote."""
    data = read_named(path)
    must = f"{path} must be a receipt that the page or `pdml contribute --receipt` saved"
    return FORMAT.read(data, SavedReceipt, str(path), f"{must}, got something else")


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
        `Study.load("study.toml")`.
    url : str
        The service that holds the report, or the name of a server; with a receipt the one that
        gave it.
    receipt : Path, optional
        A saved receipt, on whatever device; by default what this device remembers.
    token, record, memory, ca
        As for `contribute`; another invitation is another person.

    Returns
    -------
    Withdrawn
        The service's word that nothing but the report's number is left.

    Raises
    ------
    InvalidInput
        If neither device nor receipt knows a report; for a receipt with an invitation or a record,
        which may be those of another report.
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
        saved = load(receipt)
        if saved.receipt.study not in (study.hash, study.replaces):
            raise InvalidInput(f"{receipt} is the receipt of another study, or another version")
        code, where = saved.code, url or saved.url
    elif memo is not None and memo.withdrawn:
        raise InvalidInput("this report was withdrawn before: this device remembers nothing else")
    elif memo is None or not memo.sent:
        name = "name its invitation, its receipt, or the record"
        raise InvalidInput(f"this device remembers no report to this study: {name}")
    else:
        code, where = memo.code, url
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
        message += f" Your organisation erases it on {day}, or later if it cannot then."
    who = "" if study.organiser is None else f": {study.organiser.contact}"
    return f"{message} Ask the organiser what can still be done{who}"
