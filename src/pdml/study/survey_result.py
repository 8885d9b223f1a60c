"""How many people have what a study asks about, overall and by group: from one organisation's
frozen data set, without any training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import IntArray
from pdml.encoding.attributes import Category, Number
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import MILLION, LabelFlip
from pdml.numerics import coded_rows
from pdml.numerics.prevalence import Prevalence, estimate_prevalence
from pdml.study.definition import Study
from pdml.study.frozen_dataset import FrozenData, open_frozen
from pdml.study.schema.questions import Wording
from pdml.study.study_summary import answer_text
from pdml.tables import quote_names

ALL_PEOPLE = "everybody"
MOST_CROSSED = 3
NOTE = (
    "Each share has a 95% interval, over the choice of people and the randomisation of their "
    "answers; of twenty intervals one may miss. How many people a group has comes from answers as "
    "they were given, which no noise protects: keep this inside your organisation."
)


@dataclass(frozen=True, kw_only=True)
class SurveyRow:
    """The estimated share of one answer among the people of one group."""

    question: str
    answer: str
    group: str
    prevalence: Prevalence

    def to_dict(self) -> dict[str, Any]:
        """Plain values; where too few people say something, none of a share."""
        values = {"question": self.question, "answer": self.answer, "group": self.group}
        estimate: Mapping[str, Any] = {"share": None, "low": None, "high": None}
        if self.prevalence.enough:
            estimate = {name: round(getattr(self.prevalence, name), 6) for name in estimate}
        return {**values, "people": self.prevalence.people, **estimate}


@dataclass(frozen=True, kw_only=True)
class Survey:
    """All rows, and whose answers they are of."""

    title: str
    server: str
    records: int
    rows: tuple[SurveyRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rows = [row.to_dict() for row in self.rows]
        head = {"title": self.title, "server": self.server, "records": self.records}
        return {**head, "rows": rows, "note": NOTE}


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Features whose answers are crossed; of numbers where one group ends and the next begins."""

    names: tuple[str, ...]
    edges: Mapping[str, tuple[float, ...]]

    @classmethod
    def parse(cls, text: str) -> "Grouping":
        """``sex``, ``age:30:50:70`` or ``sex*age:50``."""
        names, edges = [], {}
        for part in text.split("*"):
            name, *ends = part.split(":")
            names.append(name)
            try:
                edges[name] = tuple(float(end) for end in ends)
            except ValueError:
                raise InvalidInput(
                    f"by must have numbers after the name of a feature (age:30:50), got {part!r}",
                    setting="by",
                ) from None
        if len(names) > MOST_CROSSED or len(set(names)) < len(names):
            raise InvalidInput(
                f"by must cross at most {MOST_CROSSED} different features, got {text!r}",
                setting="by",
            )
        return cls(names=tuple(names), edges=edges)

    def groups(self, study: Study, answers: Sequence[Mapping[str, Any]]) -> "dict[str, _Mask]":
        """Who is in each group, by its name; groups of nobody are left out."""
        parts = [self._levels(study, name, answers) for name in self.names]
        groups = {}
        for levels in product(*(part.items() for part in parts)):
            members = np.logical_and.reduce([mask for _, mask in levels])
            if members.any():
                groups[", ".join(name for name, _ in levels)] = members
        return groups

    def _levels(
        self, study: Study, name: str, answers: Sequence[Mapping[str, Any]]
    ) -> "dict[str, _Mask]":
        attribute = next(
            (question for question in study.encoder.clear if question.name == name), None
        )
        if attribute is None:
            names = quote_names([question.name for question in study.encoder.clear])
            raise InvalidInput(
                f"by must name features that are sent as they are, got {name!r}: they are {names}",
                setting="by",
            )
        values = [answer[name] for answer in answers]
        silent = np.array([value is None for value in values])
        result: dict[str, _Mask] = {}
        if isinstance(attribute, Category):
            if self.edges[name]:
                raise InvalidInput(f"by must have no numbers after {name!r}", setting="by")
            texts = np.array([answer_text(value) for value in values])
            for level in attribute.levels:
                result[f"{name} {level}"] = (texts == level) & ~silent
        else:
            result |= self._intervals(
                attribute, np.array([inf if v is None else v for v in values])
            )
        if silent.any():
            result[f"{name} not answered"] = silent
        return result

    def _intervals(self, number: Number, values: NDArray[np.float64]) -> "dict[str, _Mask]":
        name, edges = number.name, self.edges[number.name]
        if not edges or list(edges) != sorted(set(edges)) or not np.isfinite(edges).all():
            raise InvalidInput(
                f"by must say where groups of {name!r} begin, rising: {name}:30:50", setting="by"
            )
        ends = (-inf, *edges, inf)
        masks = {}
        for low, high in pairwise(ends):
            text = f"{name} {low:g} to below {high:g}"
            text = f"{name} below {high:g}" if low == -inf else text
            text = f"{name} from {low:g}" if high == inf else text
            masks[text] = (values >= low) & (values < high)
        return masks


_Mask = NDArray[np.bool_]


def estimate_survey(study: Study, folder: Path, by: Sequence[str] = ()) -> Survey:
    """The shares of every randomised answer, of everybody and by group.

    Parameters
    ----------
    study : Study
        By which the answers were collected.
    folder : Path
        As `pdml collect export` wrote it.
    by : sequence of str
        Groupings as `Grouping.parse` reads them; by default every category that is sent as it is.

    Returns
    -------
    Survey
        Rows by question, then by group.

    Raises
    ------
    DataError
        If it is no data set of this study.
    InvalidInput
        If a grouping is none.
    """
    data = open_frozen(folder, study_hash=study.hash)
    groupings = [Grouping.parse(text) for text in by]
    if not by:
        names = [
            question.name for question in study.encoder.clear if isinstance(question, Category)
        ]
        groupings = [Grouping(names=(name,), edges={name: ()}) for name in names]
    answers = [study.decode(row) for row in data.features] if groupings else []
    groups = {ALL_PEOPLE: np.ones(len(data), dtype=bool)}
    for grouping in groupings:
        groups |= grouping.groups(study, answers)
    rows = [
        row
        for question in _questions(study, data)
        for group, members in groups.items()
        for row in question.rows(group, members)
    ]
    return Survey(
        title=study.title, server=data.manifest.server, records=len(data), rows=tuple(rows)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question:
    """A randomised answer of everybody: what each reported, and with which ε."""

    name: str
    answers: tuple[str, ...]
    reported: IntArray  # positions among the answers
    micro: IntArray  # ε in millionths

    def rows(self, group: str, members: _Mask) -> list[SurveyRow]:
        """Of the second of two answers, or of each of more."""
        many, reported, micro = len(self.answers), self.reported[members], self.micro[members]
        used, stratum = np.unique(micro, return_inverse=True)
        people = np.bincount(stratum).astype(float)
        flips = [LabelFlip(epsilon / MILLION, many).flip_probability for epsilon in used.tolist()]
        flip = np.array(flips)
        rows = []
        for k in range(many) if many > 2 else (1,):
            reports = np.bincount(stratum, weights=reported == k).astype(float)
            prevalence = estimate_prevalence(reports, people, 1 - flip, flip / (many - 1))
            row = SurveyRow(
                question=self.name, answer=self.answers[k], group=group, prevalence=prevalence
            )
            rows.append(row)
        return rows


def _questions(study: Study, data: FrozenData) -> list[_Question]:
    first = _Question(
        name=study.question,
        answers=study.classes,
        reported=np.asarray(data.labels, dtype=np.int64),
        micro=np.asarray(data.epsilons, dtype=np.int64),
    )
    others = []
    for attribute, block in zip(study.encoder.sensitive, study.encoder.blocks, strict=True):
        codes = np.asarray(data.features[:, block.columns], dtype=np.float64)
        assert attribute.epsilon is not None
        menu = np.array(attribute.epsilon.millionths)
        longest = block.scale * (1 - 1 / block.levels) * coded_rows.weights(menu, block.levels)
        nearest = np.abs(codes.max(axis=1)[:, None] - longest).argmin(axis=1)
        others.append(
            _Question(
                name=study.wording.get(attribute.name, Wording()).label or attribute.name,
                answers=tuple(attribute.choices),
                reported=codes.argmax(axis=1),
                micro=menu[nearest],
            )
        )
    return [first, *others]
