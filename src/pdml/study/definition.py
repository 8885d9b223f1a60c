"""The study as a value: what everybody agreed on, its canonical bytes and its hash."""

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from pdml.accounting import Budget
from pdml.encoding import device_encoding
from pdml.encoding.encoder import Attribute, Encoder
from pdml.errors import InvalidInput, StudyError, because
from pdml.files import open_file
from pdml.formats import decode
from pdml.mechanisms.label_flip import micro
from pdml.mechanisms.randomness import Stream
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.study.participant_notice import Consent, Notice, Organiser
from pdml.study.schema import parse_study, toml_lines
from pdml.study.schema.parse_servers import Relay, ServerEntry
from pdml.study.schema.validation import Mistake
from pdml.study.translations import Texts, build_texts
from pdml.tables import Table, quote_names

MOST_BYTES = 1 << 22  # of a study file: a thousand servers with their keys


@dataclass(frozen=True)
class Wording:
    """How a form puts an attribute to people; empty where the attribute's name does."""

    label: str = ""
    help: str = ""


@dataclass(frozen=True, kw_only=True)
class Study:
    """The public contract of a study. A study that exists obeys every rule of
    `pdml.study.schema.parse_study`.
    """

    id: str
    title: str
    question: str
    classes: tuple[str, ...]
    menu: tuple[float, ...]  # label epsilons, ascending; the first is the floor
    default_epsilon: float
    encoder: Encoder
    servers: tuple[ServerEntry, ...]
    edges: tuple[tuple[str, str], ...]  # each link once, in the order of the servers
    accept_weak: bool = False  # the menu holds an epsilon above ln 19, which hardly protects
    description: str = ""
    budget: Budget | None = None
    plan: TrainingPlan | None = None  # None if it is left to each job
    # Settings that the file writes though they are the defaults: the hash knows them, too.
    plan_settings: tuple[str, ...] = ()
    opens: datetime | None = None  # UTC
    closes: datetime | None = None
    min_records: int = 50  # the smallest number of records with which a server may train
    wording: Mapping[str, Wording] = field(default_factory=dict)  # by attribute
    language: str = ""  # of these texts
    languages: tuple[Texts, ...] = ()  # the same texts in others
    relay: Relay | None = None  # where nodes meet
    # what people are told before they are asked, and what they agree to
    organiser: Organiser | None = None
    notice: Notice | None = None
    consent: Consent | None = None
    # hash of the revision before this one, which differs in keys and relay alone
    replaces: str = ""

    def __post_init__(self) -> None:
        try:
            document = self.to_dict()
        except (TypeError, AttributeError) as error:
            raise InvalidInput(
                f"the fields of a study must have their declared types: {error}"
            ) from None
        for name, value in _typed(*parse_study.read(document), "this study").items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_canonical, (self.canonical(),)

    # From text

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read study.toml; a file that is not a study raises one `StudyError` with every mistake
        and its line.
        """
        return cls.from_text(read_text(path), os.fspath(path))

    @classmethod
    def from_text(cls, text: str, source: str = "the study") -> Self:
        """A study from the text of its TOML file."""
        document, where = parse(text, source)
        return cls(**_typed(*parse_study.read(document), source, where))

    @classmethod
    def from_document(cls, document: Mapping[str, Any], source: str = "the study") -> Self:
        """A study from a mapping in the layout of the TOML file."""
        return cls(**_typed(*parse_study.read(document), source))

    @classmethod
    def from_canonical(cls, data: bytes, source: str = "the study") -> Self:
        """A study from its canonical bytes, as a collection service hands it out."""
        try:
            document = decode(data)
        except msgspec.DecodeError as error:
            raise StudyError(source, [(0, f"the canonical form must be JSON: {error}")]) from None
        study = cls.from_document(document, source)
        if study.canonical() != data:
            why = "the JSON must be in canonical form: the same study would have two hashes"
            raise StudyError(source, [(0, why)])
        return study

    # To canonical bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, in the layout of the TOML file."""
        head: dict[str, Any] = {"id": self.id, "title": self.title, "min_records": self.min_records}
        head |= _filled({"description": self.description, "language": self.language})
        head |= _filled({"replaces": self.replaces})
        times = {"opens": self.opens, "closes": self.closes}
        head |= {key: _time(moment) for key, moment in times.items() if moment is not None}
        encoder = self.encoder.to_dict()
        attributes = encoder.pop("attributes")
        maps = encoder.pop("maps", [])
        for attribute in attributes:
            attribute |= _filled(asdict(self.wording.get(attribute["name"], Wording())))
        epsilon = {"menu": list(self.menu), "default": self.default_epsilon}
        epsilon |= {"accept_weak": True} if self.accept_weak else {}
        document: dict[str, Any] = {
            "study": head,
            "label": {
                "question": self.question,
                "classes": list(self.classes),
                "epsilon": epsilon,
            },
            "attributes": attributes,
            "servers": [_filled(asdict(server)) for server in self.servers],
            "topology": {"edges": [list(edge) for edge in self.edges]},
        }
        document |= {"encoder": encoder} if encoder else {}  # version 1 leaves no trace
        document |= {"maps": maps} if maps else {}
        if self.languages:
            document["languages"] = [texts.to_dict() for texts in self.languages]
        if self.budget is not None:
            document["budget"] = _limits(self.budget)
        if self.plan is not None:
            document["plan"] = {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in self.plan.written(self.plan_settings).items()
            }
        if self.relay is not None:
            document["relay"] = _filled(asdict(self.relay))
        for key, section in self._participant_sections().items():
            filled = _filled(asdict(section))
            document[key] = {name: _time(value) for name, value in filled.items()}
        return document

    def _participant_sections(self) -> dict[str, Organiser | Notice | Consent]:
        """What people are told, as far as the study says it."""
        sections = {"organiser": self.organiser, "notice": self.notice, "consent": self.consent}
        return {key: table for key, table in sections.items() if table is not None}

    def canonical(self) -> bytes:
        """The bytes that are hashed: JSON with sorted keys, no spaces, UTF-8, whole numbers without
        a fraction.

        Its layout is that of the TOML file. Links are sorted; layout, comments, the order of keys,
        1 or 1.0 and the spelling of times leave no trace. The order of attributes, classes and
        servers does: it fixes features, labels and numbers.
        """
        return _canonical(self.to_dict())

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical bytes in hex: parties with different hashes have different
        contracts.
        """
        return hashlib.sha256(self.canonical()).hexdigest()

    @cached_property
    def unkeyed_hash(self) -> str:
        """sha256 of the contract without keys and relay, in which alone revisions differ: a device
        remembers by it what chance decided, so that no revision makes it decide again.
        """
        return hashlib.sha256(_canonical(self._without_keys())).hexdigest()

    def memory_key(self, token: str = "") -> str:
        """Under which a device remembers one person's draw: another invitation is another person,
        and all who answer without one are one. The page derives the same.

        It is `unkeyed_hash`, and of an invitation 128 bits of a hash: its reader learns which study
        was answered and by how many people, and of an invitation whether it is one they know.
        """
        if not token:
            return self.unkeyed_hash
        person = hashlib.sha256(f"pdml person {self.unkeyed_hash} {token}".encode()).hexdigest()
        return f"{self.unkeyed_hash} {person[:32]}"

    # What follows from it

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.encoder.attributes

    @cached_property
    def width(self) -> int:
        """d: the features and the constant 1, which is last."""
        return self.encoder.n_features + 1

    @cached_property
    def epsilon_micro(self) -> tuple[int, ...]:
        """The menu in millionths, exactly."""
        return tuple(micro(epsilon) for epsilon in self.menu)

    def texts(self, language: str = "") -> Texts:
        """All that people read, in one of the study's languages; "": its own."""
        wording = {name: (entry.label, entry.help) for name, entry in self.wording.items()}
        original = build_texts(
            code=self.language,
            title=self.title,
            description=self.description,
            question=self.question,
            classes=self.classes,
            attributes=self.attributes,
            wording=wording,
            notice=self.notice,
            consent=self.consent,
        )
        by_language = {texts.code: texts for texts in (original, *self.languages)}
        if language and language not in by_language:
            codes = ", ".join(filter(None, by_language)) or "not declared"
            must = f"language must be one of the study's ({codes})"
            raise InvalidInput(f"{must}, got {language!r}", setting="language")
        return by_language.get(language, original)

    def server(self, name: str) -> ServerEntry:
        for server in self.servers:
            if server.name == name:
                return server
        names = quote_names([server.name for server in self.servers])
        raise InvalidInput(f"the study {self.id!r} has no server {name!r}: its servers are {names}")

    @cached_property
    def signing_keys(self) -> dict[str, str]:
        """The pinned Ed25519 key of every server that has one, by name."""
        return {server.name: server.signing_key for server in self.servers if server.signing_key}

    def revises(self, before: "Study") -> bool:
        """Whether this is the next revision of ``before``: it says so, and nothing but keys and the
        relay differs.
        """
        return self.replaces == before.hash and self.unkeyed_hash == before.unkeyed_hash

    def _without_keys(self) -> dict[str, Any]:
        document = self.to_dict()
        document.pop("relay", None)
        document["study"].pop("replaces", None)
        document["servers"] = [{"name": server.name, "url": server.url} for server in self.servers]
        return document

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The servers linked to this one, in the study's order."""
        origin = self.server(name).name
        linked = {a if b == origin else b for a, b in self.edges if origin in (a, b)}
        return tuple(server.name for server in self.servers if server.name in linked)

    def graph(self) -> Graph:
        """The links with servers numbered in the study's order."""
        index = {server.name: i for i, server in enumerate(self.servers)}
        return Graph(len(self.servers), tuple((index[a], index[b]) for a, b in self.edges))

    @cached_property
    def terms(self) -> TrainingTerms:
        """What every training under the study has in common: its links, and what a row is."""
        rows = RowSpec(
            width=self.width,
            classes=len(self.classes),
            blocks=self.encoder.blocks,
            in_clear=bool(self.encoder.clear),
            constant=self.encoder.constant,
            menu=self.menu,
            encoding=self.encoder.digest,
        )
        return TrainingTerms.over(self.graph(), rows)

    def index(self, name: str) -> int:
        """Which server this is, in the study's order."""
        return self.servers.index(self.server(name))

    def encode(
        self, answers: Mapping[str, object], draws: Sequence[tuple[int, int]] = ()
    ) -> NDArray[np.float32]:
        """One person's features, shape (width,), with what chance made of each sensitive answer:
        see `pdml.encoding.device_encoding`.
        """
        return device_encoding.encode(self.encoder, answers, draws)

    def encode_table(self, table: Table, stream: Stream | None = None) -> NDArray[np.float32]:
        """The same for every row of a table, shape (m, width); columns without an attribute are not
        looked at. Sensitive answers are randomised here.
        """
        return device_encoding.encode_table(self.encoder, table, stream)

    def decode(self, features: NDArray[Any]) -> dict[str, float | str | None]:
        """The answers behind features, as they are shown to people; None where there is none."""
        return device_encoding.decode(self.encoder, features)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a study file: UTF-8, and not endless."""
    source = os.fspath(path)
    try:
        with open_file(source) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {source}: {because(error)}") from None
    if len(data) > MOST_BYTES:
        raise StudyError(source, [(0, f"the file must be at most {MOST_BYTES:,} bytes long")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        why = "the file must be UTF-8 text, got other bytes: save it again as UTF-8"
        raise StudyError(source, [(line, why)]) from None


def parse(text: str, source: str) -> tuple[dict[str, Any], dict[toml_lines.Path, int]]:
    """The document and the line of every path in it; text that is not TOML is a `StudyError`."""
    try:
        document = decode(text, by=tomllib.loads)
        return document, toml_lines.lines(text)
    except msgspec.DecodeError as error:
        if " (at " in str(error):
            message, line = _located(str(error), text)
            raise StudyError(source, [(line, f"this is not TOML: {message}")]) from None
        raise StudyError(
            source, [(0, "the file holds a number or a nesting that nobody can read")]
        ) from None


def line_of(path: toml_lines.Path, where: Mapping[toml_lines.Path, int]) -> int:
    """The line of a path, or of the nearest table around it."""
    while path and path not in where:
        path = path[:-1]
    return where.get(path, 1)


def _located(message: str, text: str) -> tuple[str, int]:
    """tomllib says "... (at line 3, column 7)" or "... (at end of document)"."""
    reason, _, place = message.rpartition(" (at ")
    if place.startswith("line "):
        line, column = (int("".join(filter(str.isdigit, part))) for part in place.split(","))
        return f"{reason[:1].lower()}{reason[1:]} (column {column})", line
    return f"{reason[:1].lower()}{reason[1:]} (at the end)", text.rstrip("\n").count("\n") + 1


def _typed(
    values: Mapping[str, Any],
    mistakes: Sequence[Mistake],
    source: str,
    where: Mapping[toml_lines.Path, int] | None = None,
) -> dict[str, Any]:
    """What the rules found, in the types of the fields; mistakes are refused, with their lines if
    ``where`` knows them.
    """
    if mistakes:
        problems = [(0 if where is None else line_of(path, where), text) for path, text in mistakes]
        raise StudyError(source, sorted(problems, key=itemgetter(0)))
    wording = {name: Wording(*texts) for name, texts in values["wording"].items()}
    return {**values, "wording": MappingProxyType(wording)}


def _filled(table: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out: a study without keys keeps the hash it had before there were
    any.
    """
    return {key: value for key, value in table.items() if value}


def _limits(budget: Budget) -> dict[str, Any]:
    rows = {"features": budget.limit("features"), "labels": budget.limit("label")}
    counted = {} if budget.colluding is None else {"colluding": budget.colluding}
    return counted | {
        row: {"epsilon": epsilon, "delta": delta}
        for row, (epsilon, delta) in rows.items()
        if epsilon != np.inf
    }


def _time(moment: Any) -> Any:
    return moment.isoformat().replace("+00:00", "Z") if isinstance(moment, datetime) else moment


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(
        _plain(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def _plain(value: Any) -> Any:
    """Whole numbers as int, so that 1 and 1.0 are the same study."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value
