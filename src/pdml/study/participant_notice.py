"""What people must be told before they are asked, as a study says it: who asks, for what, until
when answers are kept, and what they agree to. And whether a study says it all.

A study says it in `[organiser]`, `[notice]` and `[consent]`; one without them keeps the hash it had
before there were any, and may be tried out, but nobody is asked by it (`check`).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from pdml.errors import MissingNotice
from pdml.study.messages import CONSENT_VERSION
from pdml.study.schema import fields
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import ABSENT, Mistake, ValidationErrors

if TYPE_CHECKING:
    from pdml.study.definition import Study
    from pdml.study.translations import Texts

LONGEST = 20_000  # letters of the notice and of what people agree to

Check = Callable[[Path, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Organiser:
    """Who answers for the study."""

    name: str
    address: str
    contact: str  # where people write to
    data_protection_contact: str = ""  # "": the same contact

    @property
    def for_data_protection(self) -> str:
        """Where people write to about their data."""
        return self.data_protection_contact or self.contact


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What people are told of the processing."""

    purpose: str
    legal_basis: str
    who_sees: str
    retention: datetime  # UTC: then collection services erase the reports
    text: str = ""  # the whole notice, if it says more
    link: str = ""  # where it can be read


@dataclass(frozen=True, kw_only=True)
class Consent:
    """What people agree to, by ticking it."""

    text: str
    version: str

    @property
    def digest(self) -> str:
        """sha256 of the text, in hex: with the version, what a report carries."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


class ParticipantNotice(TypedDict):
    """The arguments of `Study` that are for people; None for a table that is not there."""

    organiser: Organiser | None
    notice: Notice | None
    consent: Consent | None


def read(
    f: ValidationErrors, tables: Mapping[str, Any], closes: datetime | None
) -> ParticipantNotice:
    """The arguments of `Study` that are for people; None for a table that is not there."""
    organiser = _table(
        f,
        tables,
        "organiser",
        {
            "name": lambda path, value: f.text(path, value, 200),
            "address": lambda path, value: f.text(path, value, 500),
            "contact": lambda path, value: f.text(path, value, 200),
            "data_protection_contact": lambda path, value: f.text(path, value, 200),
        },
    )
    notice = _table(
        f,
        tables,
        "notice",
        {
            "purpose": lambda path, value: f.text(path, value, 2_000),
            "legal_basis": lambda path, value: f.text(path, value, 2_000),
            "who_sees": lambda path, value: f.text(path, value, 2_000),
            "retention": f.time,
            "text": lambda path, value: f.text(path, value, LONGEST, paragraphs=True),
            "link": f.url,
        },
    )
    if closes and notice and notice.get("retention") and notice["retention"] <= closes:
        why = "reports would be erased while people still answer"
        at: Path = ("notice", "retention")
        f.reject(at, "be later than study.closes", tables["notice"]["retention"], why)
    consent = _table(
        f,
        tables,
        "consent",
        {
            "text": lambda path, value: f.text(path, value, LONGEST, paragraphs=True),
            "version": lambda path, value: _version(f, path, value),
        },
    )
    return ParticipantNotice(
        organiser=None if organiser is None else Organiser(**organiser),
        notice=None if notice is None else Notice(**notice),
        consent=None if consent is None else Consent(**consent),
    )


def _table(
    f: ValidationErrors, tables: Mapping[str, Any], name: str, checks: Mapping[str, Check]
) -> dict[str, Any] | None:
    """Every key of a table that is there; something empty for each one that must be and is not."""
    value = tables.get(name, ABSENT)
    if value is ABSENT:
        return None
    required, _ = fields.of(name)
    table = f.table((name,), value, *fields.of(name))
    values = {key: check((name, key), table[key]) for key, check in checks.items() if key in table}
    return dict.fromkeys(required, "") | values


def _version(f: ValidationErrors, path: Path, value: object) -> str:
    if isinstance(value, str) and CONSENT_VERSION.fullmatch(value):
        return value
    f.reject(path, "be 1 to 16 letters, digits, dots, dashes or underscores in quotes", value)
    return ""


def in_words(study: "Study", texts: "Texts | None" = None) -> dict[str, str]:
    """Who asks, what becomes of answers, and what people agree to, as far as the study says it; in
    its own words, or those of a translation.
    """
    facts: dict[str, str] = {}
    wording = texts or study.texts()
    if (who := study.organiser) is not None:
        facts |= {"organiser": f"{who.name}, {who.address}", "contact": who.contact}
        facts |= {"about your data": who.for_data_protection}
    if (notice := study.notice) is not None:
        facts |= {
            "purpose": wording.notice["purpose"],
            "legal basis": wording.notice["legal_basis"],
        }
        facts |= {"who sees what": wording.notice["who_sees"]}
        facts |= {
            "reports are erased": f"{notice.retention:%Y-%m-%d %H:%M} UTC, or later if the server "
            "cannot then; a copy goes to training, which the organiser has to delete"
        }
        whole = wording.notice.get("text", "").strip(), wording.notice.get("link", notice.link)
        more = "\n".join(filter(None, whole))
        facts |= {"notice": more} if more else {}
    if (consent := study.consent) is not None:
        facts |= {f"you agree to (version {consent.version})": wording.consent["text"].strip()}
    return facts


def mistakes(study: "Study", now: datetime | None = None) -> list[Mistake]:
    """Why nobody may be asked by ``study``: what people would not be told, or its end."""
    needed = {
        "organiser": "who asks them, and where to write to",
        "notice": "what becomes of their answers, and until when",
        "consent": "what they agree to",
    }
    missing = [name for name in needed if getattr(study, name) is None]
    if not missing:
        return _ended(study, now)
    tables = ", ".join(f"[{name}]" for name in missing)
    why = "; ".join(needed[name] for name in missing)
    message = f"the study {study.id} has no {tables}, and people must be told before they are asked"
    return [((), f"{message}: {why}. Add what is missing, or try things out with --test")]


def _ended(study: "Study", now: datetime | None) -> list[Mistake]:
    notice = study.notice
    if now is None or notice is None or now < notice.retention:
        return []
    message = f"the study {study.id} says that every report is erased at "
    message += f"{notice.retention:%Y-%m-%d %H:%M} UTC (notice.retention), which has passed"
    return [(("notice", "retention"), f"{message}: nobody may be asked by it any more")]


def check(study: "Study", now: datetime | None = None) -> None:
    """Raise `MissingNotice` if people would not be told what they must be before they are asked, or
    if
    ``now`` their answers would be erased at once."""
    if problems := mistakes(study, now):
        raise MissingNotice(study.id, [sentence for _, sentence in problems])
