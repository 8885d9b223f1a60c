"""All that a statement rests on: the study, and what a plan would spend or a training has spent.

Every number of a statement comes from here, and everything here from the study or from a ledger:
`StatementFacts` is the one context of the templates in `sections/`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, isinf

import msgspec

from pdml.accounting import Budget, LedgerRow, randomized_attributes
from pdml.accounting.budget import any_of
from pdml.accounting.kinds import DEVICES, UNSAID, Data, Method, randomiser_note
from pdml.accounting.ledger import ADVERSARIES, DATA
from pdml.accounting.ledger_row import representative_coalition_sizes
from pdml.accounting.profiles import limit_certainty
from pdml.consortium.signed_evaluation import PooledEvaluation
from pdml.encoding.encoder import Attribute, Menu
from pdml.formatting import numbers
from pdml.numerics import coded_rows
from pdml.numerics.admm.labels import keep_weight
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.pages.render import HARDLY
from pdml.pages.render import sure as how_sure
from pdml.planning.training_plan import TrainingPlan
from pdml.statement.document import FigureCard
from pdml.study import Study, Wording, study_summary
from pdml.study.schema import trainable
from pdml.training.result import SEPARATE_NODES

RECEIVER, OTHERS, TOGETHER = ADVERSARIES
LIMITED = (Data.LABEL, Data.FEATURES)  # what a budget knows
Cells = tuple[str, ...]

_WHOM: dict[str, str] = {
    RECEIVER: "the collecting organisation",
    OTHERS: "all other organisations together, the relay, and whoever gets the model",
    TOGETHER: "all organisations together, the collecting one included",
}


def whom(adversary: str, colluding: int | None = None) -> str:
    """Against whom a row holds, in words."""
    if colluding is None:
        return _WHOM[adversary]
    return f"{any_of(colluding, 'the other organisations')}, the relay, and whoever gets the model"


def title(text: str) -> str:
    """Words at the beginning of a line; what people wrote stays as it is."""
    return text[:1].upper() + text[1:]


def epsilon(row: LedgerRow, letter: str = "") -> str:
    """ε for people; infinity in words."""
    text = numbers.epsilon(row.epsilon)
    return text if isinf(row.epsilon) or not letter else f"{letter} = {text}"


class Provenance(msgspec.Struct, frozen=True):
    """What must stand in the file of a study's model; what else stands there is passed over."""

    study_hash: str
    job: str
    terms: str  # the digest of what the organisations agreed on
    parties: str
    servers: list[str]
    records_per_server: list[int]
    noise_source: str
    leaks: list[str]
    labels_randomised_by: list[str] | None = None  # None: files do not say it
    earlier_releases: list[int] | None = None

    @property
    def separate_nodes(self) -> bool:
        """False: one trust domain held every organisation's records."""
        return self.parties == SEPARATE_NODES

    @property
    def randomised_by(self) -> list[str]:
        """Who randomised the labels of each server."""
        return self.labels_randomised_by or [UNSAID] * len(self.servers)

    @property
    def releases_before(self) -> list[int]:
        """Of each server: vectors, in earlier jobs on the same data set."""
        return self.earlier_releases or [0] * len(self.servers)

    @property
    def label_notes(self) -> list[str]:
        """What must be known about who randomised labels, organisation by organisation."""
        notes = map(randomiser_note, self.servers, self.randomised_by)
        return [sentence for sentence in notes if sentence]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the file of a finished training says beside its ledger."""

    provenance: Provenance
    counted: str  # which jobs the ledger counts
    expected: Expectation | None
    verified: bool  # signatures, messages, spending and model, from the folder of a result
    last_digits: bool = False  # whether its numbers differ in these from what this machine computes
    evaluated: PooledEvaluation | None = None  # by members, on other records

    @property
    def simulated(self) -> bool:
        counted = () if self.evaluated is None else self.evaluated.parts
        return "simulated" in (self.provenance.noise_source, *(part.source for part in counted))


@dataclass(frozen=True, kw_only=True)
class StatementFacts:
    """A study as it is planned (``spent`` is None), or one of its trainings. Without a plan, which
    is then left to each job, there are no rows."""

    study: Study
    plan: TrainingPlan | None
    rows: tuple[LedgerRow, ...] = ()
    # for each of `kinds`, as many of the others as `sizes` says
    coalitions: tuple[LedgerRow, ...] = ()
    trainings: int = 1  # that a plan's rows count
    allowed: int = 0  # so many trainings by the plan keep to the budget at worst
    within: bool = True  # whether the counted ones do
    spent: Spent | None = None

    # Who and what

    @property
    def budget(self) -> Budget:
        return self.study.budget or Budget()

    @property
    def kinds(self) -> tuple[str, ...]:
        """What there are rows of: label, features, each randomised answer, and these together."""
        names = [attribute.name for attribute in self.sensitive]
        return (*DATA, *randomized_attributes.names(names))

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        return tuple(self.study.encoder.sensitive)

    @property
    def clear(self) -> bool:
        """Whether any answer is sent as it was given."""
        return bool(self.study.encoder.clear)

    @property
    def n(self) -> int:
        return len(self.study.servers)

    @property
    def others(self) -> int:
        return self.n - 1

    @property
    def assumed(self) -> int | None:
        """Against how many others the budget holds; None: against all."""
        k = self.budget.colluding
        return k if k is not None and k < self.others else None

    @property
    def against(self) -> tuple[tuple[str, int | None], ...]:
        """Whom rows are about: the receiver, those assumed to collude, all others, everybody."""
        few = [(OTHERS, self.assumed)] if self.assumed else []
        return ((RECEIVER, None), *few, (OTHERS, None), (TOGETHER, None))

    @property
    def sizes(self) -> tuple[int, ...]:
        """One, half and all of the other organisations, and as many as the budget assumes."""
        return tuple(representative_coalition_sizes(self.others, self.assumed))

    @property
    def masked(self) -> bool:
        """Whether sums are to appear in one total only."""
        return self.plan is not None and self.plan.colluding is not None

    @property
    def rounds(self) -> bool:
        return self.plan is not None and self.plan.method == Method.ROUNDS

    @property
    def simulated(self) -> bool:
        return self.spent is not None and self.spent.simulated

    @property
    def single_domain(self) -> bool:
        """Whether one trust domain is known to have held all records."""
        return self.spent is not None and not self.spent.provenance.separate_nodes

    @property
    def devices(self) -> bool:
        """Whether every label was randomised on a person's device, as far as anybody says."""
        return self.spent is None or {*self.spent.provenance.randomised_by} == {DEVICES}

    @cached_property
    def untrainable(self) -> tuple[str, ...]:
        """Why the software refuses to train under the study, by its budget and its plan."""
        hopeless = self.spent is None and not self.within
        find_mistakes = trainable.mistakes if hopeless else trainable.budget_mistakes
        return tuple(sentence for _, sentence in find_mistakes(self.study))

    # What only the controller can say, as far as the study does; "" leaves a blank

    @property
    def controller(self) -> str:
        who = self.study.organiser
        return "" if who is None else f"{who.name}, {who.address}; contact: {who.contact}"

    @property
    def data_protection_contact(self) -> str:
        who = self.study.organiser
        return "" if who is None else who.for_data_protection

    @property
    def purpose(self) -> str:
        return "" if self.study.notice is None else self.study.notice.purpose

    @property
    def legal_basis(self) -> str:
        return "" if self.study.notice is None else self.study.notice.legal_basis

    @property
    def consent(self) -> str:
        """What people agree to, and its version: `[consent]`."""
        agreed = self.study.consent
        if agreed is None:
            return ""
        return f"People tick, in version {agreed.version}: “{agreed.text.strip()}”"

    @property
    def languages(self) -> str:
        codes = [self.study.language, *(texts.code for texts in self.study.languages)]
        return ", ".join(filter(None, codes))

    # Limits and rows

    def limited(self, data: str) -> bool:
        return data in LIMITED and not isinf(self.budget.limit(data)[0])

    def device_limit(self, data: str) -> tuple[float, float] | None:
        """(ε, 0) that nobody ever exceeds, by what devices do; None for what is sent as given."""
        menus = {
            randomized_attributes.named(attribute.name): _menu(attribute).menu[-1]
            for attribute in self.sensitive
        }
        if data in menus:
            return menus[data], 0.0
        label = self.study.menu[-1]
        if data == Data.LABEL:
            return label, 0.0
        if data == Data.FEATURES and self.clear:
            return None
        return label + sum(menus.values()), 0.0  # a record's label is replaced with it

    @property
    def largest_together(self) -> str:
        """The largest ε of the sensitive and all randomised answers together, by their menus."""
        most, _ = self.device_limit(randomized_attributes.TOGETHER) or (inf, 0.0)
        return numbers.epsilon(most)

    def ceiling(self, data: str, colluding: int | None = None) -> tuple[float, float] | None:
        """(ε, δ) that so many others together (None: all) never exceed; None: nothing bounds it."""
        k, most = colluding or self.others, self.budget.colluding or self.others
        bound = self.budget.bound(data)
        limits = [bound] if k <= most and not isinf(bound[0]) else []
        return min(filter(None, (*limits, self.device_limit(data))), default=None)

    def row(self, data: str, adversary: str, colluding: int | None = None) -> LedgerRow | None:
        """A row of the ledger; None without a plan."""
        if colluding is not None:
            return self.coalition(data, colluding)
        wanted = (row for row in self.rows if (row.data, row.adversary) == (data, adversary))
        return next(wanted, None)

    def coalition(self, data: str, colluding: int) -> LedgerRow | None:
        wanted = (data, colluding)
        return next((row for row in self.coalitions if (row.data, row.colluding) == wanted), None)

    # Names

    def question(self, attribute: Attribute) -> str:
        return self.study.wording.get(attribute.name, Wording()).label or attribute.name

    @property
    def randomised_questions(self) -> str:
        """The randomised answers beside the label by their questions; "" where there are none."""
        return ", ".join(f"“{self.question(attribute)}”" for attribute in self.sensitive)

    def subject(self, data: str, adversary: str = OTHERS) -> str:
        """What a row is about. That of features is about a whole record, of which the collecting
        organisation reads what is not randomised."""
        if data == Data.FEATURES and adversary != OTHERS and self.clear:
            return "the other answers" + (" that are not randomised" if self.sensitive else "")
        questions = {attribute.name: self.question(attribute) for attribute in self.sensitive}
        return study_summary.subject(data, questions)

    def coalition_name(self, k: int) -> str:
        if self.others == 1:
            return "the other organisation"
        if k == self.others:
            return "all other organisations together"
        return any_of(k, f"the {numbers.count(self.others)} other organisations")

    def budget_name(self, others: str) -> str:
        """Against how many of ``others`` the budget holds; "" where it holds against all."""
        k = self.budget.colluding
        return any_of(k, others) if k else ""

    # Cards

    def cards(self) -> Iterator[FigureCard]:
        """The figures that are asked for first: of single randomised answers there is a table."""
        for data in (kind for kind in self.kinds if kind in study_summary.SUBJECTS):
            for adversary, colluding in self.against[:-1]:
                name = f"{title(self.subject(data, adversary))}, against "
                name += whom(adversary, colluding)
                row = self.row(data, adversary, colluding)
                if row is None:
                    yield self._unplanned(name, data, adversary, colluding)
                else:
                    weak = isinf(row.epsilon) or row.certainty >= HARDLY
                    yield FigureCard(name, epsilon(row, "ε"), how_sure(row), weak)

    def _unplanned(self, name: str, data: str, adversary: str, colluding: int | None) -> FigureCard:
        """What is known where each job brings its own plan: the menu and the budget."""
        bound = self.ceiling(data, colluding) if adversary == OTHERS else self.device_limit(data)
        if bound is not None:
            source = "by what the device does, whatever is trained"
            if bound[1]:
                source = f"the budget of all trainings, with δ = {numbers.delta(bound[1])}"
            return FigureCard(name, f"ε ≤ {numbers.epsilon(bound[0])}", source)
        if adversary == RECEIVER:
            return FigureCard(
                name, numbers.NO_PROTECTION, "they are sent as they were given", weak=True
            )
        why = "the study sets none, and has no plan"
        if self.limited(Data.FEATURES):
            fewer = any_of(self.assumed or 1, "them")
            why = f"the budget holds against {fewer}, and not more; the study has no plan"
        return FigureCard(name, "no limit", why, weak=True)

    # Rows of tables

    @property
    def menus(self) -> list[tuple[str, list[Cells]]]:
        """What a person chooses, for the sensitive answer and each randomised one."""
        study = self.study
        tables = [("the sensitive answer", study.menu, study.epsilon_micro, study.classes)]
        suggested = [study.default_epsilon]
        for attribute in self.sensitive:
            menu, data = _menu(attribute), randomized_attributes.named(attribute.name)
            tables.append((self.subject(data), menu.menu, menu.millionths, attribute.choices))
            suggested.append(menu.default)
        menus = []
        for (name, values, millionths, choices), default in zip(tables, suggested, strict=True):
            names = (f"{value:g}" + " (suggested)" * (value == default) for value in values)
            meanings = (study_summary.meaning(micro, choices) for micro in millionths)
            menus.append((name, list[Cells](zip(names, meanings, strict=True))))
        return menus

    def ledger_rows(self) -> Iterator[Cells]:
        for data in self.kinds:
            for adversary, colluding in self.against:
                if (row := self.row(data, adversary, colluding)) is not None:
                    names = title(self.subject(data, adversary)), whom(adversary, colluding)
                    delta = "–" if isinf(row.epsilon) else numbers.delta(row.delta)
                    yield *names, epsilon(row), delta, how_sure(row), row.reason

    def budget_rows(self) -> Iterator[Cells]:
        """The most that the study allows: a limit is one point of a profile, a row all of it."""
        for data in reversed(LIMITED):
            limit, delta = self.budget.bound(data)
            name = title(self.subject(data))
            if isinf(limit):
                yield name, "no limit", "–", "–", "the budget sets no limit"
                continue
            factor = numbers.significant(exp(limit)) if limit < 700 else "over 10³⁰⁰"
            sure = f"at even odds before, at most {numbers.certainty(limit_certainty(limit))} sure"
            but = f", but for a chance of {numbers.delta(2 * delta)} (twice δ)" if delta else ""
            yield name, f"{limit:g}", numbers.delta(delta), factor, f"{sure} after{but}"

    @property
    def budget_limits(self) -> str:
        limits = []
        for data in reversed(LIMITED):
            limit, delta = self.budget.bound(data)
            bound = f"ε of at most {limit:g} with δ = {numbers.delta(delta)}"
            bound = "no limit by the budget" if isinf(limit) else bound
            limits.append(f"{self.subject(data)}: {bound}")
        return f"{'; '.join(limits)}, against {self.budget.whom}"

    @property
    def budget_formula(self) -> str:
        limits = []
        for data, name in ((Data.FEATURES, "features"), (Data.LABEL, "labels")):
            limit, delta = self.budget.limit(data)
            if self.limited(data):
                limits.append(f"{name}: δ({limit:g}) ≤ {numbers.delta(delta)}")
        return f"{'; '.join(limits)}, against {self.budget.whom}" if limits else "none"

    def coalition_rows(self) -> Iterator[Cells]:
        """What coalitions learn of the label and of a record."""
        for k in self.sizes:
            rows = [self.coalition(data, k) for data in LIMITED]
            cells = [cell for row in rows if row for cell in (epsilon(row), how_sure(row))]
            yield self.coalition_name(k), *cells
        cells = []
        for data in LIMITED:
            if (row := self.row(data, TOGETHER)) is not None:
                of = f" of {self.subject(data, TOGETHER)}" if data == Data.FEATURES else ""
                sure = how_sure(row) + (of if isinf(row.epsilon) else "")
                cells += [epsilon(row), sure]
        yield "the collecting organisation and any others", *cells

    def randomised_coalition_rows(self) -> Iterator[Cells]:
        for data in self.kinds[2:]:
            rows = [(self.coalition_name(k), self.coalition(data, k)) for k in self.sizes]
            rows.append(("the collecting organisation and any others", self.row(data, TOGETHER)))
            for name, row in rows:
                if row is not None:
                    yield title(self.subject(data)), name, epsilon(row), how_sure(row)

    def spending(self) -> Iterator[tuple[str, str]]:
        """What the counted trainings would spend: against whom, and how much of each data."""
        for adversary, colluding in self.against:
            if adversary == OTHERS:
                *first, last = (
                    f"{epsilon(row, 'ε')} of {self.subject(data)} (δ = {numbers.delta(row.delta)})"
                    for data in (Data.FEATURES, Data.LABEL, *self.kinds[2:])
                    if (row := self.row(data, adversary, colluding)) is not None
                )
                yield whom(adversary, colluding), f"{', '.join(first)} and {last}"

    def settings(self) -> Iterator[Cells]:
        settings = {} if self.plan is None else self.plan.to_dict()
        for name, value in settings.items():
            if value is not None:
                yield name.replace("_", " "), numbers.setting(value)

    def questions(self) -> Iterator[Cells]:
        """What is asked, which answers there are, and how they are sent."""
        study = self.study
        yield study.question, ", ".join(study.classes), self._sent(study.menu)
        for attribute in study.attributes:
            domain = study_summary.domain(attribute)
            menu = attribute.epsilon
            sent = self._sent(menu.menu) if menu else "as it was given"
            yield self.question(attribute), domain, sent

    def _sent(self, menu: tuple[float, ...]) -> str:
        choices = ", ".join(f"{value:g}" for value in menu)
        if self.devices:
            return f"randomised on the device, with an ε the person chooses from {choices}"
        return f"randomised with an ε of {choices}; by whom is said above for each organisation"

    def evaluated_rows(self) -> Iterator[Cells]:
        assert self.spent is not None and self.spent.evaluated is not None
        evaluation = self.spent.evaluated
        for part in evaluation.parts:
            releases = numbers.count(len(part.spent)) if part.spent else "not said"
            least = "" if part.spent else "at least "
            spent = least + numbers.significant(evaluation.row(part).epsilon)
            yield part.server, numbers.count(part.records), releases, spent

    # Risks

    def measure(self, data: str) -> str:
        """What stands between it and the others."""
        row = self.row(data, OTHERS)
        if row is not None:
            return row.reason
        device = "" if self.device_limit(data) is None else ", and randomised response on devices"
        return f"whatever the plan of each job adds{device}"

    def residual(self, data: str, adversary: str) -> str:
        """The residual risk, by the ledger; without one, by the menu or the budget."""
        everybody = self._residual(data, adversary, None)
        if adversary != OTHERS or self.assumed is None:
            return everybody
        few = f"against {any_of(self.assumed, 'them')}"
        figure = self._residual(data, adversary, self.assumed)
        return f"{few}: {figure}; against all of them together: {everybody}"

    def _residual(self, data: str, adversary: str, colluding: int | None) -> str:
        row = self.row(data, adversary, colluding)
        if row is not None:
            return f"{epsilon(row, 'ε')}: {how_sure(row)}"
        bound = self.ceiling(data, colluding) if adversary == OTHERS else self.device_limit(data)
        if bound is None:
            return "no limit"
        most, delta = bound
        by = f"with δ = {numbers.delta(delta)}, by the budget" if delta else "by the device"
        return f"ε of at most {most:g}, {by}"

    # Formulas

    def label_odds(self) -> Iterator[Cells]:
        classes = len(self.study.classes)
        for value, micro in zip(self.study.menu, self.study.epsilon_micro, strict=True):
            yield f"{value:g}", *_odds(value, micro, classes), self.label_weight(value)

    def label_weight(self, value: float) -> str:
        """κ(ε): what one report weighs at most, in answers that are not randomised."""
        return numbers.significant(float(keep_weight(value, len(self.study.classes))))

    def attribute_odds(self) -> Iterator[Cells]:
        """The same of randomised answers beside the label."""
        for attribute in self.sensitive:
            menu, many = _menu(attribute), len(attribute.choices)
            for value, micro in zip(menu.menu, menu.millionths, strict=True):
                weight = numbers.significant(coded_rows.weight(micro, many))
                odds = _odds(value, micro, many)
                yield self.question(attribute), f"{many}", f"{value:g}", *odds, weight

    @property
    def iterate_scales(self) -> str:
        """V of each organisation, each once."""
        assert self.plan is not None
        scales = {self.plan.iterates(i, self.n).scale for i in range(self.n)}
        return ", ".join(f"{scale:g}" for scale in sorted(scales))

    @property
    def attribute_weight(self) -> tuple[str, str] | None:
        """The most that a randomised answer beside the label can weigh, and at which ε."""
        weights = [
            (coded_rows.weight(menu.millionths[0], len(attribute.choices)), menu.menu[0])
            for attribute in self.sensitive
            if (menu := attribute.epsilon) is not None
        ]
        most, value = max(weights, default=(0.0, inf))
        return (numbers.significant(most), f"{value:g}") if weights else None


def _menu(attribute: Attribute) -> Menu:
    assert attribute.epsilon is not None
    return attribute.epsilon


def _odds(value: float, micro: int, choices: int) -> tuple[str, str]:
    kept = study_summary.keep_probability(micro, choices)
    return study_summary.share(kept), numbers.significant(exp(value))
