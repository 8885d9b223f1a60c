"""The privacy statement and DPIA of a study or of one of its trainings: what is promised to whom,
in the order in which NIST SP 800-226 asks, and the impact assessment of Art. 35 GDPR.

| file | what is in it |
|---|---|
| `sections/*.md.j2` | the prose, one file for each question: Markdown that a lawyer can edit |
| `facts.py` | the one context of these templates: the study, and a ledger |
| `document.py` | what a document is made of, read from Markdown and written as Markdown |
| `registry.py` | the entry for the registry of deployments |
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from math import isinf
from pathlib import Path
from typing import Any

import msgspec

from pdml import _validate
from pdml.accounting import Ledger
from pdml.accounting.kinds import RANDOMISED_BY
from pdml.accounting.ledger import ADVERSARIES
from pdml.consortium.result_folder import MODEL, verify_result
from pdml.consortium.signed_evaluation import combine_evaluations, digest_of
from pdml.errors import DataError, InvalidInput
from pdml.formatting import numbers
from pdml.formatting.markup import markdown_templates
from pdml.mechanisms.randomness import SOURCES
from pdml.model.model import Model, load_model
from pdml.pages.render import document as render_template
from pdml.planning.training_plan import TrainingPlan
from pdml.statement import registry
from pdml.statement.document import Document, Section, read_section, to_markdown
from pdml.statement.facts import OTHERS, RECEIVER, TOGETHER, Provenance, Spent, StatementFacts, whom
from pdml.study import Study
from pdml.study.schema import trainable
from pdml.study.schema.trainable import MOST_JOBS

FILES = {"html": "statement.html", "markdown": "statement.md", "registry": "registry.yaml"}
_SIMULATED = (
    "Simulation: the noise of this run came from a seeded generator, so the run protects nobody. "
    "The figures say what a deployment with real noise would guarantee."
)
_QUESTIONS = (
    *("unit", "neighbours", "parameters", "trust", "outside", "randomness", "channels"),
    *("exposure", "accounting", "utility", "checking"),
)
_DPIA = ("processing", "necessity", "risks", "rights", "decision")
_SECTIONS = markdown_templates("pdml.statement", "sections")
_SECTIONS.globals |= {"numbers": numbers, "whom": whom, "MOST_JOBS": MOST_JOBS}
_SECTIONS.globals |= {"RECEIVER": RECEIVER, "OTHERS": OTHERS, "TOGETHER": TOGETHER}


def _read(facts: StatementFacts, *names: str) -> tuple[Section, ...]:
    return tuple(
        read_section(name, _SECTIONS.get_template(f"{name}.md.j2").render(facts=facts))
        for name in names
    )


@dataclass(frozen=True)
class PrivacyStatement:
    """What is promised to whom, as a page, as Markdown and as an entry for the registry.

    Attributes
    ----------
    facts : StatementFacts
        Everything that it rests on.
    published : date, optional
        When the model was published, for the registry.
    """

    facts: StatementFacts
    published: date | None = None

    @cached_property
    def document(self) -> Document:
        """Its sentences, once for all forms."""
        facts, study, spent = self.facts, self.facts.study, self.facts.spent
        about = "as it is planned" if spent is None else f"training {spent.provenance.job}"
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
    def _entry(self) -> tuple[dict[str, Any], list[str]]:
        return registry.entry(self.facts, self.document.sections, self.published)

    @property
    def registry(self) -> dict[str, Any]:
        """The entry for the Differential Privacy Deployments Registry, as plain values."""
        return self._entry[0]

    @property
    def registry_text(self) -> str:
        """The same as a file that is JSON and YAML alike."""
        return registry.serialize(self.registry)

    def text(self, form: str) -> str:
        """What a file holds: "html", "markdown" or "registry"."""
        _validate.choice("format", form, tuple(FILES))
        return self.registry_text if form == "registry" else str(getattr(self, form))

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
            "job": None if spent is None else spent.provenance.job,
            "verified": spent is not None and spent.verified,
            "protects_nobody": self.facts.simulated,
            "trainings": self.facts.trainings if spent is None else None,
            "trainings_allowed": self.facts.allowed if spent is None and self.facts.plan else None,
            "menu": list(study.menu),
            "budget": study.to_dict().get("budget"),
            "rows": [row.to_dict() for row in self.facts.rows],
            "coalitions": [row.to_dict() for row in self.facts.coalitions],
            "evaluation": spent.evaluated.to_dict() if spent and spent.evaluated else None,
            "missing": list(self.missing),
            "registry": self.registry,
        }


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
) -> PrivacyStatement:
    """State what is promised to whom under a study, or what one of its trainings has spent.

    Parameters
    ----------
    study : Study
    result : path, optional
        A finished training: a model.json, or the folder of a result, which is verified first.
        Without it the statement is about the study's plan and budget.
    evaluations : sequence of path
        With a result: what members have released of its model (`pdml node evaluate`), each checked.
    trainings : int
        Without a result: how many trainings by the study's plan to count on one data set.
    published : date, optional
        When the model was published; only the entry for the registry says it.

    Returns
    -------
    PrivacyStatement
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
            must = "evaluations must be left out without a result: they are about its model"
            raise InvalidInput(must, setting="evaluations")
        return PrivacyStatement(_forecast_facts(study, trainings), published)
    if trainings != 1:
        must = f"trainings must be left out with a result, got {trainings}"
        raise InvalidInput(f"{must}: its ledger says itself what it counts", setting="trainings")
    return PrivacyStatement(_load_result_facts(study, result, evaluations), published)


def _forecast_facts(study: Study, trainings: int) -> StatementFacts:
    """What so many trainings by the study's plan spend at worst, at the δ of its budget."""
    if study.plan is None:
        if trainings > 1:
            must = f"trainings must be left out for the study {study.id}, got {trainings}"
            why = "it leaves the plan to each job: nothing is known of what a training spends"
            raise InvalidInput(f"{must}: {why}", setting="trainings")
        return StatementFacts(study=study, plan=None)
    facts = StatementFacts(study=study, plan=study.plan, trainings=trainings)
    whole = trainable.worst_case_ledger(study, study.plan, trainings)
    books = {data: _at_budget(whole, facts, data) for data in facts.kinds}
    return replace(
        facts,
        rows=tuple(books[data].row(data, whom) for data in facts.kinds for whom in ADVERSARIES),
        coalitions=tuple(
            books[data].row(data, OTHERS, colluding=k) for data in facts.kinds for k in facts.sizes
        ),
        allowed=trainable.most_jobs(study, study.plan),
        within=whole.keeps(facts.budget),
    )


def _at_budget(ledger: Ledger, facts: StatementFacts, data: str) -> Ledger:
    """At the δ at which the budget bounds it, so that the two can be compared."""
    epsilon, delta = facts.budget.bound(data)
    return ledger if isinf(epsilon) else replace(ledger, delta=delta)


def _load_result_facts(
    study: Study, result: str | os.PathLike[str], evaluations: Sequence[str | os.PathLike[str]]
) -> StatementFacts:
    """What a finished training has spent: from a model's file, or a result's folder, which is
    verified first; and what evaluations of its model have."""
    path, verified, last_digits = Path(result), False, False
    if path.is_dir():
        # Of the page a statement says nothing.
        verification = verify_result(path, study=study.hash, allow_unchecked=True)
        verification.check()
        path, verified, last_digits = path / MODEL, True, MODEL in verification.unchecked
    model = load_model(path)
    if model.local:
        must = f"result must be a model that was released, got the local model of {model.local}"
        why = "it is made of exact sums and must not be shared"
        raise InvalidInput(f"{must}: {why}", setting="result")
    provenance = _provenance(model, path)
    if provenance.study_hash != study.hash:
        must = f"result must be of the study {study.id} with the hash {study.hash}"
        other = f"{provenance.study_hash}: another study, or another revision of this one"
        raise InvalidInput(f"{must}, got a model of {other}", setting="result")
    evaluated = None
    if evaluations:
        evaluated = combine_evaluations(study, evaluations, model=digest_of(model))
    spent = Spent(
        provenance=provenance,
        counted=str(model.privacy.get("counted", "not said")),
        expected=model.expected,
        verified=verified,
        last_digits=last_digits,
        evaluated=evaluated,
    )
    rows, plan = tuple(model.ledger_rows()), TrainingPlan.from_dict(model.plan)
    facts = StatementFacts(
        study=study, plan=plan, rows=rows, coalitions=tuple(model.coalitions()), spent=spent
    )
    return _checked(facts, path)


def _provenance(model: Model, path: Path) -> Provenance:
    if "study_hash" not in model.provenance:
        must = "result must be a model that was trained under a study"
        raise InvalidInput(f"{must}, got {str(path)!r}, which names none", setting="result")
    try:
        provenance = msgspec.convert(model.provenance, Provenance)
    except msgspec.ValidationError as error:
        raise DataError(f"{str(path)!r} does not say where it comes from: {error}") from None
    by = provenance.labels_randomised_by
    lists = (provenance.records_per_server, by, provenance.earlier_releases)
    if any(values is not None and len(values) != len(provenance.servers) for values in lists):
        raise DataError(f"{str(path)!r} does not say the same of all its servers")
    if not set(by or ()) <= set(RANDOMISED_BY):
        raise DataError(f"{str(path)!r} names somebody unknown who randomised labels")
    source = provenance.noise_source
    if source not in SOURCES or source != model.privacy.get("source"):
        raise DataError(f"{str(path)!r} does not say what its noise was drawn from")
    return provenance


def _checked(facts: StatementFacts, path: Path) -> StatementFacts:
    """With a row for every coalition that is shown; anything less than all rows is no ledger."""
    rows = [(row.data, row.adversary) for row in facts.rows]
    wanted = [(data, whom) for data in facts.kinds for whom in ADVERSARIES]
    if sorted(rows) != sorted(wanted):
        must = f"must hold a ledger of {len(wanted)} rows, for each of {', '.join(facts.kinds)}"
        raise DataError(f"{str(path)!r} {must}")
    # Where all coalitions learn the same the file says it once.
    rows_of_others = [row for row in facts.rows if row.adversary == OTHERS]
    coalitions = facts.coalitions or tuple(
        replace(row, colluding=k) for row in rows_of_others for k in facts.sizes
    )
    selection = tuple(row for row in coalitions if row.colluding in facts.sizes)
    if len(selection) != len(facts.kinds) * len(facts.sizes):
        raise DataError(f"{str(path)!r} must hold a row for every number of colluding servers")
    return replace(facts, coalitions=selection)
