"""What people must be told before they are asked: `[organiser]`, `[notice]` and `[consent]`.

A study without them may be tried out, but nobody is asked by it (`check`).
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pdml.errors import MissingNotice
from pdml.study.messages import CONSENT_VERSION
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import Mistake, ValidationErrors, key, limited_text

if TYPE_CHECKING:
    from pdml.study.definition import Study
    from pdml.study.translations import Texts

LONGEST = 20_000  # letters of the notice and of what people agree to


@dataclass(frozen=True, kw_only=True)
class Organiser:
    """Who answers for the study."""

    name: str = key("Of the person or organisation.", limited_text(200), example='"..."')
    address: str = key("Where it is.", limited_text(500), example='"..."')
    contact: str = key(
        "Where people write to: an address, a telephone number.", limited_text(200), example='"..."'
    )
    data_protection_contact: str = key(
        "The same for questions about data; by default `contact`.",
        limited_text(200),
        default="",
        example='"..."',
    )

    @property
    def for_data_protection(self) -> str:
        """Where people write to about their data."""
        return self.data_protection_contact or self.contact


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What people are told of the processing."""

    purpose: str = key(
        "What the answers, and the model, are for.",
        limited_text(2_000),
        example='"..."',
        translation="What answers are used for.",
    )
    legal_basis: str = key(
        "On what the processing rests.",
        limited_text(2_000),
        example='"..."',
        translation="By what right.",
    )
    who_sees: str = key(
        "Who sees what of an answer, in the organiser's words.",
        limited_text(2_000),
        example='"..."',
        translation="Who sees what.",
    )
    retention: datetime = key(  # UTC
        "A time with its zone, later than `closes`: collection services erase all reports then.",
        ValidationErrors.time,
        example="2030-01-01T00:00:00Z",
    )
    text: str = key(
        "The whole notice, if it says more; it may have paragraphs.",
        limited_text(LONGEST, paragraphs=True),
        default="",
        translation="The whole notice, if the study has it.",
    )
    link: str = key(
        "Where the whole notice can be read: `https`.",
        ValidationErrors.url,
        default="",
        example='"https://..."',
        translation="Where it can be read in this language; by default the study's link.",
    )


def _read_version(errors: ValidationErrors, path: Path, value: object) -> str:
    if isinstance(value, str) and CONSENT_VERSION.fullmatch(value):
        return value
    errors.reject(path, "be 1 to 16 letters, digits, dots, dashes or underscores in quotes", value)
    return ""


@dataclass(frozen=True, kw_only=True)
class Consent:
    """What people agree to, by ticking it."""

    text: str = key(
        "What people tick; it may have paragraphs.",
        limited_text(LONGEST, paragraphs=True),
        example='"..."',
        translation="What people agree to. Reports carry the version and hash of the study's own.",
    )
    version: str = key(
        "1 to 16 letters, digits, dots, dashes or underscores. Reports carry it, with the sha256 "
        "of the text.",
        _read_version,
        example='"1"',
    )

    @property
    def digest(self) -> str:
        """sha256 of the text, in hex: with the version, what a report carries."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


def in_words(study: "Study", texts: "Texts | None" = None) -> dict[str, str]:
    """What people are told, as far as the study says it, in its own words or a translation's."""
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
    """Raise `MissingNotice` if people would not be told what they must be, or too late."""
    if problems := mistakes(study, now):
        raise MissingNotice(study.id, [sentence for _, sentence in problems])
