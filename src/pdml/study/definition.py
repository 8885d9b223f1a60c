"""The study as a value: what everybody agreed on, its canonical bytes and its hash."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray
from pdml.accounting import Budget
from pdml.encoding import device_encoding
from pdml.encoding.encoder import Attribute, Encoder, Number
from pdml.errors import DataError, InvalidInput, StudyError
from pdml.formats import canonical_json, decode
from pdml.mechanisms.label_flip import MILLION, WEAK_ABOVE, micro
from pdml.mechanisms.randomness import Stream
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.study.participant_notice import Consent, Notice, Organiser
from pdml.study.schema import study_file, toml_lines
from pdml.study.schema.questions import EPSILONS, MOST_CHOICES, Wording, read_epsilons
from pdml.study.schema.servers import Edges, Relay, ServerEntry
from pdml.study.schema.validation import (
    Mistake,
    ValidationErrors,
    distinct_texts,
    key,
    limited_text,
    whole_number,
)
from pdml.study.translations import LANGUAGES, MOST_CLASSES, Texts, build_texts, read_language
from pdml.tables import Table, columns, quote_names

MOST_RECORDS = 10**9


@dataclass(frozen=True, kw_only=True)
class Study:
    """What everybody who takes part agreed on. Each field says by `key` in which table of the file
    it stands; a study that exists obeys every rule of `pdml.study.schema.study_file`."""

    id: str = key(
        "1 to 63 lower-case letters, digits, dots, dashes or underscores, the first a letter or "
        "digit.",
        ValidationErrors.name,
        table="study",
    )
    title: str = key("What people read first.", limited_text(200), table="study")
    # the smallest number of records with which a server may train
    min_records: int = key(
        "A server trains with so many reports or more; by default 50.",
        whole_number(1, MOST_RECORDS),
        table="study",
        default=50,
        always=True,
    )
    description: str = key(
        "More of it; it may have paragraphs.",
        limited_text(5_000, paragraphs=True),
        table="study",
        default="",
    )
    language: str = key(  # of these texts
        "The language of its texts: " + ", ".join(f"`{code}`" for code in LANGUAGES) + ". Needed "
        "beside [[languages]]; left out, the page does not know it.",
        read_language,
        table="study",
        default="",
    )
    # hash of the revision before this one, which differs in keys and relay alone
    replaces: str = key(
        "The hash of the revision before this one, in which keys and relay alone differ.",
        ValidationErrors.digits,
        table="study",
        default="",
    )
    opens: datetime | None = key(  # UTC
        "A time with its zone, to the second: reports are taken from then on.",
        ValidationErrors.time,
        table="study",
        default=None,
    )
    closes: datetime | None = key(
        "A later time: no reports are taken from then on.",
        ValidationErrors.time,
        table="study",
        default=None,
    )
    question: str = key("What is kept secret.", limited_text(500), table="label")
    classes: tuple[str, ...] = key(
        f"Its 2 to {MOST_CLASSES} possible answers.", distinct_texts(2, MOST_CLASSES), table="label"
    )
    # label epsilons, ascending; the first is the floor
    menu: tuple[float, ...] = key(
        f"1 to {MOST_CHOICES} values in [{EPSILONS[0]:g}, {EPSILONS[1]:g}], ascending, of at most "
        "six decimals.",
        read_epsilons,
        table="label.epsilon",
    )
    default_epsilon: float = key(
        "The one that is suggested.", ValidationErrors.number, table="label.epsilon", name="default"
    )
    # the menu holds an epsilon above ln 19, which hardly protects
    accept_weak: bool = key(
        f"`true` is needed, and allowed, only if the menu holds one above {WEAK_ABOVE / MILLION}.",
        ValidationErrors.truth,
        table="label.epsilon",
        default=False,
    )

    # Tables with declarations of their own: `study_file.TABLES`
    encoder: Encoder
    wording: Mapping[str, Wording] = field(default_factory=dict)  # by attribute
    servers: tuple[ServerEntry, ...]
    edges: Edges  # each link once, in the order of the servers
    budget: Budget | None = None
    plan: TrainingPlan | None = None  # None if it is left to each job
    # Settings that the file writes though they are the defaults: the hash knows them, too.
    plan_settings: tuple[str, ...] = ()
    languages: tuple[Texts, ...] = ()  # the same texts in other languages
    relay: Relay | None = None  # where nodes meet
    # what people read before they answer, and what they agree to
    organiser: Organiser | None = None
    notice: Notice | None = None
    consent: Consent | None = None

    def __post_init__(self) -> None:
        try:
            document = self.to_dict()
        except (TypeError, AttributeError) as error:
            raise InvalidInput(
                f"the fields of a study must have their declared types: {error}"
            ) from None
        for name, value in self._read(document, "this study").items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_canonical, (self.canonical(),)

    # From text

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read study.toml; one `StudyError` holds every mistake and its line."""
        return cls.from_text(toml_lines.read_text(path), os.fspath(path))

    @classmethod
    def from_text(cls, text: str, source: str = "the study") -> Self:
        """A study from the text of its TOML file."""
        document, where = toml_lines.parse(text, source)
        return cls(**cls._read(document, source, where))

    @classmethod
    def from_document(cls, document: Mapping[str, Any], source: str = "the study") -> Self:
        """A study from a mapping in the layout of the TOML file."""
        return cls(**cls._read(document, source))

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

    @classmethod
    def mistakes_in(cls, document: object) -> list[Mistake]:
        """Every mistake of a document in the layout of the TOML file, as (path, sentence)."""
        return study_file.read(document, cls)[1]

    @classmethod
    def _read(
        cls, document: object, source: str, where: Mapping[toml_lines.Path, int] | None = None
    ) -> dict[str, Any]:
        """The arguments; mistakes are refused, with their lines if ``where`` knows them."""
        values, mistakes = study_file.read(document, cls)
        if mistakes:
            problems = [
                (0 if where is None else toml_lines.line_of(path, where), sentence)
                for path, sentence in mistakes
            ]
            raise StudyError(source, sorted(problems, key=itemgetter(0)))
        return {**values, "wording": MappingProxyType(values["wording"])}

    # To canonical bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, in the layout of the TOML file."""
        return study_file.write(self)

    def canonical(self) -> bytes:
        """The bytes that are hashed: the file's tables as JSON with sorted keys, no spaces, UTF-8.

        Links are sorted; comments, the order of keys, 1 or 1.0 and the spelling of times leave no
        trace. The order of attributes, classes and servers does: it fixes features and numbers.
        """
        return canonical_json(_plain(self.to_dict()))

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical bytes in hex: parties with other hashes have other studies."""
        return hashlib.sha256(self.canonical()).hexdigest()

    @cached_property
    def unkeyed_hash(self) -> str:
        """sha256 of the study without keys and relay: a device remembers its randomised answers by
        it, so that no revision randomises them again."""
        return hashlib.sha256(canonical_json(_plain(self._without_keys()))).hexdigest()

    def memory_key(self, token: str = "") -> str:
        """Under which a device remembers one person's draw; the page derives the same.

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
        original = build_texts(vars(self), self.attributes)
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
        """Whether this is the next revision of ``before``: only keys and relay may differ."""
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
        """One person's features, (width,), with each sensitive answer randomised."""
        return device_encoding.encode(self.encoder, answers, draws)

    def encode_table(self, table: Table, stream: Stream | None = None) -> NDArray[np.float32]:
        """The same for every row of a table, (m, width): sensitive answers are randomised here."""
        return device_encoding.encode_table(self.encoder, table, stream)

    def decode(self, features: NDArray[Any]) -> dict[str, float | str | None]:
        """The answers behind features, as they are shown to people; None where there is none."""
        return device_encoding.decode(self.encoder, features)

    # Columns of a table by the study's own words

    def read_labels(self, table: Table, column: str) -> IntArray:
        """Class indices of a column; errors name rows, never a person's label."""
        classes = self.classes
        return columns.positions(table, column, classes, what="the study's classes", private=True)

    def read_epsilons(self, table: Table, column: str) -> Array:
        """A column of epsilons, all on the menu."""
        domain = f"epsilons on the study's menu ({self._menu_text})"
        return columns.epsilons(table, column, allowed=self._on_menu, domain=domain)

    def repeat_epsilon(self, table: Table, epsilon: float) -> Array:
        """One epsilon of the menu for every row."""
        if not (epsilon > 0 and self._on_menu(epsilon)):
            raise InvalidInput(
                f"epsilon must be on the study's menu ({self._menu_text}), got {epsilon:g}",
                setting="epsilon",
            )
        return np.full(table.n_rows, float(epsilon))

    def check_ranges(self, table: Table) -> None:
        """Refuse a table with numbers outside the declared ranges, which encoding would clamp."""
        for attribute in self.attributes:
            if not isinstance(attribute, Number):
                continue
            values = attribute.cells(table, self.encoder.missing_values)
            outside = (values < attribute.low) | (values > attribute.high)
            if outside.any():
                row = int(np.argmax(outside))
                raise DataError(
                    f"column {attribute.name!r} must lie in "
                    f"[{attribute.low:g}, {attribute.high:g}], got {values[row]:g} in "
                    f"{table.where(row)}: {int(outside.sum()):,} of {table.n_rows:,} rows do "
                    "not, and --clamp takes the nearest end"
                )

    def _on_menu(self, epsilon: float) -> bool:
        return micro(epsilon) in self.epsilon_micro

    @property
    def _menu_text(self) -> str:
        return ", ".join(f"{value:g}" for value in self.menu)


def _plain(value: Any) -> Any:
    """Whole numbers as int, so that 1 and 1.0 are the same study."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value
