"""A receipt as people keep it: what was sent, who holds it, whom to write to, and the code that
withdraws it. The page saves the same.
"""

import os
from pathlib import Path

import msgspec

from pdml.device.memo import Memo
from pdml.errors import DataError, InvalidInput, because
from pdml.files import read_file, write_private
from pdml.formats import Format, decode
from pdml.study import Study
from pdml.study.messages import Receipt

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
    code: str = ""  # whoever has it can withdraw the report; "" if only the organiser can


def make_receipt(study: Study, url: str, memo: Memo) -> SavedReceipt:
    """The receipt of a memo for its owner to keep."""
    if memo.receipt is None:
        raise InvalidInput("a receipt is kept of a report that was stored, got one that was not")
    who = study.organiser
    named = {} if who is None else {"organiser": who.name, "address": who.address}
    return SavedReceipt(
        version=FORMAT.version,
        title=study.title,
        **named,
        contact="" if who is None else who.contact,
        url=url,
        receipt=memo.receipt,
        report=memo.sent,
        code=memo.code,
    )


def save(path: Path, receipt: SavedReceipt) -> None:
    """Write it, for its owner alone."""
    data = msgspec.json.format(msgspec.json.encode(receipt), indent=1)
    if not write_private(path, data + b"\n", first=True):
        raise InvalidInput(f"{path} exists already: it may be another receipt")


def load(path: str | os.PathLike[str]) -> SavedReceipt:
    """Read what `save` or the page wrote."""
    try:
        data = read_file(path)
        receipt: SavedReceipt = decode(data, SavedReceipt)
    except OSError as error:
        raise DataError(f"cannot read {path}: {because(error)}") from None
    except msgspec.DecodeError:
        other = f"{path} must be a receipt that the page or `pdml contribute --receipt` saved"
        why = FORMAT.refusal_of(data, str(path)) or f"{other}, got something else"
        raise DataError(why) from None
    if why := FORMAT.refusal(receipt.version, str(path)):
        raise DataError(why)
    return receipt
