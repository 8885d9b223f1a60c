"""The privacy statement and DPIA of a study or of one of its trainings: what is promised to whom,
in the order in which NIST SP 800-226 asks, and the impact assessment of Art. 35 GDPR.

| file | what is in it |
|---|---|
| `sections/*.md.j2` | the prose, one file for each question: Markdown that a lawyer can edit |
| `facts.py`, `load_facts.py` | the one context of these templates: the study, and a ledger |
| `document.py` | what a document is made of, read from Markdown and written as Markdown |
| `registry.py` | the entry for the registry of deployments |
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import msgspec

from pdml import _validate
from pdml.consortium.signed_evaluation import PooledEvaluation
from pdml.errors import InvalidInput
from pdml.formatting import numbers
from pdml.formatting.markup import markdown_templates
from pdml.pages.render import document as render_template
from pdml.statement import load_facts, registry
from pdml.statement.document import Document, Section, read_section, to_markdown
from pdml.statement.facts import OTHERS, RECEIVER, TOGETHER, Facts, whom
from pdml.study import Study
from pdml.study.schema.trainable import MOST_JOBS

FILES = {"html": "statement.html", "markdown": "statement.md", "registry": "registry.yaml"}
_SIMULATED = (
    "Simulation: the noise of this run came from a seeded generator, so the run protects nobody. "
    "The figures say what a deployment with real noise would guarantee."
)
_QUESTIONS: tuple[str, ...] = (
    "unit",
    "neighbours",
    "parameters",
    "trust",
    "outside",
    "randomness",
    "channels",
)
_QUESTIONS += ("exposure", "accounting", "utility", "checking")
_DPIA = ("processing", "necessity", "risks", "rights", "decision")
_SECTIONS = markdown_templates("pdml.statement", "sections")
_SECTIONS.globals |= {"numbers": numbers, "whom": whom, "MOST_JOBS": MOST_JOBS}
_SECTIONS.globals |= {"RECEIVER": RECEIVER, "OTHERS": OTHERS, "TOGETHER": TOGETHER}


def _read(facts: Facts, *names: str) -> tuple[Section, ...]:
    """Sections by their files."""
    return tuple(
        read_section(name, _SECTIONS.get_template(f"{name}.md.j2").render(facts=facts))
        for name in names
    )


@dataclass(frozen=True)
class Statement:
    """What is promised to whom, as a page, as Markdown and as an entry for the registry.

    Attributes
    ----------
    facts : Facts
        Everything that it rests on.
    published : date, optional
        When the model was published, for the registry.
    """

    facts: Facts
    published: date | None = None

    @cached_property
    def document(self) -> Document:
        """Its sentences, once for all forms."""
        facts, study, spent = self.facts, self.facts.study, self.facts.spent
        about = "as it is planned" if spent is None else f"training {spent.job}"
        (summary,) = _read(facts, "summary")
        return Document(
            title=f"Privacy statement and DPIA (Art. 35 GDPR): {study.title}",
            lead=f"Study {study.id}, {about}. In the order in which NIST SP 800-226 evaluates "
            "differential privacy; then the data protection impact assessment, which is complete "
            "once the controller has filled in what is left blank; formulas in the appendix.",
            warning=_SIMULATED if facts.simulated else "",
            cards=tuple(facts.cards()),
            summary=tuple(part for part in summary.parts if isinstance(part, str)),
            sections=_read(facts, *_QUESTIONS),
            dpia=_read(facts, *_DPIA),
            appendix=_read(facts, *self._formulas()),
        )

    def _formulas(self) -> Iterator[str]:
        """Definition, randomised response, the noise, and how they compose."""
        yield from ("definition", "label_formula")
        if self.facts.sensitive:
            yield "attribute_formula"
        if self.facts.plan is not None:
            yield "rounds_formula" if self.facts.rounds else "sums_formula"
        yield "composition"

    @cached_property
    def html(self) -> str:
        """One self-contained page, which loads and runs nothing."""
        return render_template("statement.html", self.document)

    @cached_property
    def markdown(self) -> str:
        """The same sentences as Markdown."""
        return to_markdown(self.document)

    @cached_property
    def _entry(self) -> tuple[registry.Entry, tuple[str, ...]]:
        return registry.entry(self.facts, self.document.sections, self.published)

    @property
    def registry(self) -> dict[str, Any]:
        """The entry for the Differential Privacy Deployments Registry, as plain values."""
        values: dict[str, Any] = msgspec.to_builtins(self._entry[0])
        return values

    @property
    def registry_text(self) -> str:
        """The same as a file that is JSON and YAML alike."""
        return registry.serialize(self._entry[0])

    def text(self, form: str) -> str:
        """What a file holds: "html", "markdown" or "registry"."""
        _validate.choice("format", form, tuple(FILES))
        return {
            "html": lambda: self.html,
            "markdown": lambda: self.markdown,
            "registry": lambda: self.registry_text,
        }[form]()

    @property
    def missing(self) -> tuple[str, ...]:
        """What the controller must fill in, on the page and in the entry."""
        return tuple(dict.fromkeys((*self.document.blanks, *self._entry[1])))

    def to_dict(self) -> dict[str, Any]:
        """Its figures, as plain values for JSON; infinity as the string "inf"."""
        study, spent = self.facts.study, self.facts.spent
        return {
            "study": study.id,
            "study_hash": study.hash,
            "job": None if spent is None else spent.job,
            "verified": spent is not None and spent.verified,
            "protects_nobody": self.facts.simulated,
            "trainings": self.facts.trainings if spent is None else None,
            "trainings_allowed": None if self._uncounted else self.facts.allowed,
            "menu": list(study.menu),
            "budget": study.to_dict().get("budget"),
            "rows": [row.to_dict() for row in self.facts.rows],
            "coalitions": [row.to_dict() for row in self.facts.coalitions],
            "evaluation": None if self._evaluated is None else self._evaluated.to_dict(),
            "missing": list(self.missing),
            "registry": self.registry,
        }

    @property
    def _evaluated(self) -> PooledEvaluation | None:
        return None if self.facts.spent is None else self.facts.spent.evaluated

    @property
    def _uncounted(self) -> bool:
        return self.facts.spent is not None or self.facts.plan is None


def file_names(form: str = "") -> dict[str, str]:
    """How the files of a statement are called, by their form; of one form if it is given."""
    return {_validate.choice("format", form, tuple(FILES)): FILES[form]} if form else FILES


def statement(
    study: Study,
    result: str | os.PathLike[str] | None = None,
    *,
    evaluations: Sequence[str | os.PathLike[str]] = (),
    trainings: int = 1,
    published: date | None = None,
) -> Statement:
    """State what is promised to whom under a study, or what one of its trainings has spent.

    Parameters
    ----------
    study : Study
        Its terms, `Study.load("study.toml")`.
    result : path, optional
        A finished training: a model.json, or the folder of a result as `pdml verify` takes it,
        which is verified first. Without it the statement is about the study's plan and budget.
    evaluations : sequence of path
        With a result: what members have released of its model (`pdml node evaluate`), each checked.
    trainings : int
        Without a result: how many trainings by the study's plan to count on one data set.
    published : date, optional
        When the model was published; only the entry for the registry says it.

    Returns
    -------
    Statement
        With ``html``, ``markdown``, ``registry`` and what is ``missing``.

    Raises
    ------
    InvalidInput
        If the result is no model of this study, or is one that must not be shared.
    DataError, BudgetExceeded
        If an evaluation is not what it says, or beyond the budget.
    NotVerified
        If the folder of a result does not hold what it says.

    Guarantees
    ----------
    - Every number comes from the study or from a ledger: the plan's events, at worst, or those in
      the model's file.
    - What neither says is left blank for the controller, and named in ``missing``.

    Examples
    --------
    >>> planned = statement(Study.load("study.toml"))
    >>> planned.markdown.startswith("# Privacy statement")
    True
    """
    why = "each is counted before it happens"
    _validate.integer("trainings", trainings, low=1, high=MOST_JOBS, why=why)
    if result is None:
        if evaluations:
            raise InvalidInput(
                "evaluations must be left out without a result: they are about its model",
                setting="evaluations",
            )
        return Statement(load_facts.forecast_facts(study, trainings), published)
    if trainings != 1:
        raise InvalidInput(
            f"trainings must be left out with a result, got {trainings}: its ledger says itself "
            "what it counts",
            setting="trainings",
        )
    return Statement(load_facts.load_result_facts(study, result, evaluations), published)
