"""From the settings of a data scientist to the plan that is trained by, and what to think of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isinf
from typing import Any

from pdml import _validate
from pdml._types import Array
from pdml.accounting import Budget
from pdml.accounting.kinds import Method
from pdml.errors import InvalidInput
from pdml.numerics.admm.graph import Graph
from pdml.numerics.interval import Range
from pdml.planning.proposal import Proposal
from pdml.planning.search.rounds_search import FIXABLE_SETTINGS
from pdml.planning.search.sums_search import preferred
from pdml.planning.server_spec import ServerSpec
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import OF_ROUNDS, OF_SUMS, TrainingPlan

AUTO = "auto"
SETTINGS = tuple(field.name for field in fields(TrainingPlan) if field.name != "colluding")
"""Settings of a plan that the planner can be told to keep; who may collude is the budget's."""

NO_LIMIT = "no limit was set on what other servers may learn of features (features_epsilon)"
SCALE_FIRST = (
    "Declare encoding=Encoding(scales=...) or ranges before anything else: most rows were longer "
    "than norm_bound and were clipped to it, and which budget or how many records would do is "
    "said of declared columns alone."
)

_LIKELY = 1 / 3  # that nothing is gained: chosen on simulated data sets (docs/guide/defaults.md)
_GAINS = {  # by whether that is likely, and whether the interval lies above 0
    (True, False): "the chance is one in three or more that the model is right no more often than",
    (False, False): "the model is expected to be right more often than",
    (False, True): "the model is right more often than",
}


@dataclass(frozen=True, kw_only=True)
class ResolvedPlan:
    """A plan, and what it must keep to."""

    plan: TrainingPlan
    budget: Budget | None  # None: nothing was asked for
    proposal: Proposal | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the ledger's reader must know."""
        unlimited = self.budget is None or isinf(self.budget.features_epsilon)
        return (NO_LIMIT,) if unlimited else ()


def resolve_plan(
    plan: TrainingPlan | str | Mapping[str, Any],
    budget: Budget | None,
    default_budget: Budget,
    *,
    local_models: bool = False,
    specs: Sequence[ServerSpec],
    epsilons: Array,
    graph: Graph,
) -> ResolvedPlan:
    """The plan to train by: the one that is given, or the planner's with the settings that are."""
    if isinstance(plan, TrainingPlan):
        return ResolvedPlan(plan=plan, budget=budget)
    overrides = _overrides(plan)
    if local_models and not overrides.get("method"):
        overrides["method"] = Method.SUMS  # a local model is made of nothing else
    from pdml.planning.search.planner import propose

    allowed = default_budget if budget is None else budget
    method = overrides.get("method", _implied_method(overrides))
    sizes = Sizes.of(specs, epsilons)
    proposal = propose(
        allowed,
        sizes,
        graph,
        method=method or preferred(sizes),
        loss=overrides.get("loss", "logistic"),
        fixed_settings={name: overrides[name] for name in FIXABLE_SETTINGS if name in overrides},
    )
    return ResolvedPlan(plan=replace(proposal.plan, **overrides), budget=allowed, proposal=proposal)


def _overrides(plan: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(plan, Mapping):
        for name in plan:
            _validate.choice("a setting of plan", name, SETTINGS)
        return {name: value for name, value in plan.items() if value is not None}
    if plan != AUTO:
        must = f"plan must be a TrainingPlan, {AUTO!r} or a mapping of settings"
        raise InvalidInput(f"{must}, got {plan!r}", setting="plan")
    return {}


def _implied_method(overrides: Mapping[str, Any]) -> str | None:
    """A setting that one method alone has asks for it."""
    methods = dict.fromkeys((*OF_ROUNDS, "rounds"), Method.ROUNDS)
    methods |= dict.fromkeys(OF_SUMS, Method.SUMS)
    return next((methods[name] for name in overrides if name in methods), None)


def utility_warnings(
    proposal: Proposal | None, gain: Range | None, *, unscaled: bool = False
) -> list[str]:
    """Why the model may be of no use, before the training and after it: whole sentences."""
    sentences = []
    ahead = gain is not None and gain.low > 0  # then no largest class is to be feared any more
    apart = None if proposal is None else proposal.comparison.apart
    behind = proposal is not None and proposal.gain.middle <= 0
    if proposal is not None and behind and not (ahead and apart == "majority"):
        text = proposal.verdict if unscaled else proposal.advice
        sentences.append(f"{text[:1].upper()}{text[1:]}.")
    likely = gain is not None and gain.none >= _LIKELY
    if gain is not None and (sentences or likely):
        sentences.append(
            f"By what was released {_GAINS[likely, gain.low > 0]} the majority-class "
            f"baseline: the difference is {100 * gain.low:+.1f} to {100 * gain.high:+.1f} points "
            "(80% interval)."
        )
    return [SCALE_FIRST, *sentences] if sentences and unscaled else sentences
