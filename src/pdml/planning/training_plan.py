"""The public settings of a training: every letter of the paper, and what they will spend."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from math import inf, sqrt
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from pdml import _validate
from pdml._math import report_weight
from pdml._registry import Registry
from pdml._types import Array
from pdml.accounting import Budget, last_safe_round
from pdml.accounting.budget import MOST_ROUNDS
from pdml.accounting.events import Event, IterateReleased, SumsReleased
from pdml.accounting.kinds import Method
from pdml.errors import InvalidInput
from pdml.formatting import notebook
from pdml.mechanisms import integer_gaussian, objective_noise
from pdml.mechanisms.exact_gaussian import rounding_shift
from pdml.mechanisms.iterate_noise import IterateNoise
from pdml.mechanisms.objective_noise import NoiseFamily, ObjectiveNoise
from pdml.numerics import coded_rows
from pdml.numerics.admm import losses
from pdml.numerics.admm.losses import SOFTMAX, Loss
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import Noise
from pdml.planning.server_spec import ServerSpec

METHODS = tuple(Method)
_NOISE_OF_ROUNDS = ("objective_bound", "objective_noise", "noise_scale", "noise_decay")
OF_ROUNDS = ("regularization", "penalty", *_NOISE_OF_ROUNDS, "tolerance")
OF_SUMS = ("label_noise", "square_noise", "colluding", "epsilon_cap")
LEAST_UNITS = 15  # of the grid, each server's part of masked noise: ten off the diagonal of S

PerServer = float | tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How n servers train; public, and agreed on beforehand.

    Settings of the other method are refused.

    Parameters
    ----------
    rounds : int
        T, how often servers exchange releases.
    regularization : float
        a, positive: how strongly large weights are punished.
    penalty : float
        β, positive: how strongly neighbours are pulled together.
    objective_bound : float
        R, how large the noise in the objective can be; 0 switches it off.
    objective_noise : str or NoiseFamily
        How it is drawn: "truncated_gaussian", "uniform_box", "uniform_ball" or "none", or a family
        of one's own (docs/guide/extending.md).
    noise_scale : float or tuple
        V, the standard deviation of the first round's noise, one for all or one per server; 0
        switches it off.
    noise_decay : float
        ρ, between 0 and 1: the factor of its variance from round to round.
    tolerance : float or tuple, optional
        The gradient norm that each primal solve must reach, one for all or one per server, because
        the ledger adds 2·tolerance/μ_i to the sensitivity; by default 1% of what one record can
        do, (1/m_i) · `record_shift` / 100.
    loss : str or Loss
        "logistic", "matsushita" or "square", or a loss of one's own; from three classes on
        "logistic" alone.
    method : str
        "rounds" is ADMM, as in the paper; "sums" is one exchange (docs/concepts/sums.md): every
        server sends Q_i and S_i once.
    label_noise : float
        Of sums: σ_Q, the noise that protects a record in the first.
    square_noise : float
        Of sums: σ_S, that in the diagonal of the second.
    colluding : int, optional
        Of sums: with k the sums appear in one total only, and each server adds the (n - k)-th part
        of the variance, so that any n - k of them add up to it. By default everybody's own sums
        may be seen, each with all of the noise.
    epsilon_cap : float, optional
        Of sums: ε*, up to which reports are counted by what they tell. Whoever chose a larger ε for
        the label counts as much as with this one, so that no few of them set the noise for all. By
        default every ε counts in full.
    """

    rounds: int = 40  # T
    regularization: float = 0.01  # a
    penalty: float = 0.1  # β
    objective_bound: float = 1.0  # R
    objective_noise: str | NoiseFamily = "truncated_gaussian"  # the distribution of η
    noise_scale: PerServer = 0.3  # V_i
    noise_decay: float = 0.95  # ρ
    tolerance: PerServer | None = None
    loss: str | Loss = "logistic"
    method: str = "rounds"
    label_noise: float = 1.1  # σ_Q
    square_noise: float = 1.9  # σ_S of the diagonal
    colluding: int | None = None  # k
    epsilon_cap: float | None = None  # ε*

    def __post_init__(self) -> None:
        self._check_method()
        why = "every round is a row of the ledger"
        _validate.integer("rounds", self.rounds, low=1, high=MOST_ROUNDS, why=why)
        reasons = {
            "regularization": "without it the local objectives are not strongly convex "
            "(Assumption 2)",
            "penalty": "without it servers never agree",
        }
        for name, why in reasons.items():
            _validate.real(name, getattr(self, name), low=0, high=1e9, open_low=True, why=why)
        self._resolve(losses.BINARY, losses.register)
        self._resolve(objective_noise.FAMILIES, objective_noise.register)
        ObjectiveNoise(self.objective_noise, self.objective_bound)
        for name in ("noise_scale", "tolerance"):
            value = getattr(self, name)
            if isinstance(value, (list, np.ndarray)):
                object.__setattr__(self, name, tuple(float(v) for v in value))
        for scale in self._as_tuple(self.noise_scale):
            IterateNoise(scale, self.noise_decay)
        why = "no solve is exact in floating point"
        for value in () if self.tolerance is None else self._as_tuple(self.tolerance):
            _validate.real("tolerance", value, low=0, open_low=True, why=why)

    def _resolve(self, registry: Registry[Any], register: Callable[[Any], Any]) -> None:
        """A built-in object is kept by its name; another one as it is, registered so that the plan
        can be read back in this process."""
        value = getattr(self, registry.setting)
        chosen = registry.resolve(value)
        if value is chosen:
            register(chosen)
        shown = str(chosen.name) if chosen.name in registry.built_in else chosen
        object.__setattr__(self, registry.setting, shown)

    def check_shared(self) -> None:
        """Refuse a loss or objective noise of one's own: other organisations lack its code."""
        for name in ("loss", "objective_noise"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise InvalidInput(
                    f"{name} must be a built-in one between organisations, got {value.name!r}: "
                    "the others have no code for it",
                    setting=name,
                )

    def _check_method(self) -> None:
        _validate.choice("method", self.method, METHODS)
        object.__setattr__(self, "method", Method(self.method))
        for name in ("label_noise", "square_noise"):
            _validate.real(name, getattr(self, name), low=0, high=integer_gaussian.LARGEST)
        if self.colluding is not None:
            _validate.integer("colluding", self.colluding, low=1, why="each server sees something")
        if self.epsilon_cap is not None:
            why = "0 would count nobody"
            cap = self.epsilon_cap
            _validate.real("epsilon_cap", cap, low=0, high=1e9, open_low=True, why=why)
        sums = self.method == Method.SUMS
        defaults = {field.name: field.default for field in fields(self)}
        for name in OF_ROUNDS if sums else OF_SUMS:
            if getattr(self, name) != defaults[name]:
                raise InvalidInput(
                    f"{name} must be left out with method {self.method!r}: it belongs to "
                    f"{METHODS[not sums]!r}",
                    setting=name,
                )
        if sums:
            if self.rounds not in (1, defaults["rounds"]):
                raise InvalidInput(
                    f"rounds must be 1 with method 'sums', got {self.rounds}: one exchange is all",
                    setting="rounds",
                )
            object.__setattr__(self, "rounds", 1)

    @staticmethod
    def _as_tuple(value: PerServer) -> tuple[float, ...]:
        return value if isinstance(value, tuple) else (value,)

    def _for_server(self, name: str, server: int, n_servers: int) -> float:
        return _validate.by_server(name, self._as_tuple(getattr(self, name)), n_servers)[server]

    def loss_for(self, classes: int) -> Loss:
        """The binary loss, or softmax from three classes on."""
        loss = losses.BINARY.resolve(self.loss)
        if classes == 2:
            return loss
        if loss.name != "logistic":
            raise InvalidInput(
                f"loss must be 'logistic' for {classes} classes, got {loss.name!r}: softmax "
                "is its only form for more than two"
            )
        return SOFTMAX

    def objective(self) -> ObjectiveNoise:
        return ObjectiveNoise(self.objective_noise, self.objective_bound)

    def iterates(self, server: int, n_servers: int) -> IterateNoise:
        return IterateNoise(self._for_server("noise_scale", server, n_servers), self.noise_decay)

    def stddevs(self, n_servers: int) -> Array:
        """σ_i(t) of every round and server, (T, n): all that is published about the noise.

        What was drawn stays with its server: its norm beside a release would narrow w_i(t) down.
        """
        noises = [self.iterates(i, n_servers) for i in range(n_servers)]
        return np.array([[noise.stddev(t) for noise in noises] for t in range(1, self.rounds + 1)])

    def ridge(self, degree: float, n_servers: int) -> float:
        """μ_i = a/n + 2βN_i: the strong convexity of server i's primal problem."""
        return self.regularization / n_servers + 2 * self.penalty * degree

    def tolerance_for(self, spec: ServerSpec) -> float:
        """The certified gradient norm asked of server i, which depends on m_i, ε and B only."""
        if self.tolerance is not None:
            return self._for_server("tolerance", spec.server, spec.n_servers)
        loss = self.loss_for(spec.classes)
        shift = spec.record_shift(loss)
        if not np.isfinite(shift):  # square loss: no record bound, so the label's alone
            shift = spec.label_shift(loss)
        return 0.01 * shift / spec.records

    def sum_stddevs(self, n_servers: int) -> tuple[float, float]:
        """(σ of every number of Q_i, σ of S_i's diagonal) that each of so many servers adds."""
        if self.colluding is not None and self.colluding >= n_servers:
            raise InvalidInput(
                f"colluding must be below the number of servers, {n_servers}, got "
                f"{self.colluding}: the server whose records are protected is not one of them",
                setting="colluding",
            )
        share = 1.0 if self.colluding is None else 1 / sqrt(n_servers - self.colluding)
        stddevs = share * self.label_noise, share * self.square_noise
        for setting, stddev in zip(("label_noise", "square_noise"), stddevs, strict=True):
            if self.colluding is not None and 0 < stddev < LEAST_UNITS * integer_gaussian.UNIT:
                least = LEAST_UNITS * integer_gaussian.UNIT / share
                raise InvalidInput(
                    f"{setting} of masked sums must be 0 or at least {least:.3g} among "
                    f"{n_servers} servers, got {getattr(self, setting):g}: finer noise than "
                    "their grid protects less than is counted",
                    setting=setting,
                )
        return stddevs

    def counted_epsilon(self, spec: ServerSpec) -> float:
        """Of sums: the largest ε that counts in full among a server's people."""
        return (
            spec.label_epsilon
            if self.epsilon_cap is None
            else min(self.epsilon_cap, spec.label_epsilon)
        )

    def cap_weight(self, classes: int) -> float:
        """Of sums: the most that a report counts."""
        cap = inf if self.epsilon_cap is None else self.epsilon_cap
        return float(report_weight(inf, classes, cap))

    def noise_of_total(self, spec: ServerSpec, *, parts: int | None = None) -> Noise:
        """Of the sums of ``parts`` of n servers added up, by default of all, whichever's spec."""
        label, square = self.sum_stddevs(spec.n_servers)
        many = sqrt(spec.n_servers if parts is None else parts)
        code_variance = coded_rows.variance(spec.blocks, spec.width)
        return Noise(label=many * label, square=many * square, coded=code_variance)

    def _sums_event(self, spec: ServerSpec) -> SumsReleased:
        loss, epsilon = self.loss_for(spec.classes), self.counted_epsilon(spec)
        shifts = statistics.shifts(epsilon, spec.norm_bound, loss, spec.classes)
        label, square = self.sum_stddevs(spec.n_servers)
        summing = statistics.rounding(spec.records) * max(shifts.record, shifts.square)
        grid = spec.width * spec.codes**0.5 * integer_gaussian.UNIT
        fixed = summing + grid
        return SumsReleased(
            label_stddev=label,
            square_stddev=square,
            label_shift=shifts.label + fixed,
            record_shift=shifts.record + fixed,
            square_shift=shifts.square + fixed,
            fixed_shift=fixed,
            epsilon=epsilon,
            hidden_among=1 if self.colluding is None else spec.n_servers,
            encoding=spec.encoding,
        )

    def events(self, spec: ServerSpec) -> tuple[Event, ...]:
        """What a server will have released after all rounds: η_i, and the release of each round.

        Guarantees
        ----------
        - Secure noise is added to n·q_i and to w_i(t) after rounding them to its grid, which can
          move two neighbours apart by `rounding_shift`; every plan counts it (10^-11 at d = 105),
          so that the ledger need not know the source.
        """
        if self.method == Method.SUMS:
            return (self._sums_event(spec),)
        size, n = spec.width * spec.codes, spec.n_servers
        grid = rounding_shift(size)
        loss, records = self.loss_for(spec.classes), spec.records
        label, record = spec.label_shift(loss) / records, spec.record_shift(loss) / records
        # of the sum over m_i records in q_i, on both neighbours
        rounding = label * records**2 * 2.0**-52
        label, record = label + rounding, record + rounding
        slack = 2 * self.tolerance_for(spec)
        ridge = self.ridge(spec.degree, n)
        eta, theta = self.objective(), self.iterates(spec.server, n)
        first = eta.event(
            size=size,
            n_servers=n,
            label_shift=label + grid / n,
            fixed_shift=rounding + grid / n,
            encoding=spec.encoding,
        )
        sent = (
            IterateReleased(
                t=t,
                stddev=theta.stddev(t),
                label_sensitivity=(label + slack) / ridge + grid,
                record_sensitivity=(record + slack) / ridge + grid,
                solver_slack=(slack + rounding) / ridge + grid,
            )
            for t in range(1, self.rounds + 1)
        )
        return (first, *sent)

    def last_safe_round(self, spec: ServerSpec, *, budget: Budget, most: int = MOST_ROUNDS) -> int:
        """The last round that a budget allows this plan's noise, whatever ``rounds`` says.

        At most ``most``; 0 if the first is too much; of sums, which are one exchange, 1 or 0.
        """
        horizon = 1 if self.method == Method.SUMS else min(most, max(self.rounds, 64))
        while True:
            planned = replace(self, rounds=horizon).events(spec)
            safe = last_safe_round([(spec.flip(), *planned)], budget=budget, classes=spec.classes)
            if safe < horizon or horizon == most or self.method == Method.SUMS:
                return safe
            horizon = min(most, 4 * horizon)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, of its method's settings alone, and a cap where there is one: job
        terms are a digest of them."""
        others = (*OF_ROUNDS, "rounds") if self.method == Method.SUMS else (*OF_SUMS, "method")
        unsaid = {*others, *(["epsilon_cap"] if self.epsilon_cap is None else [])}

        def plain(value: Any) -> Any:
            value = value.name if isinstance(value, (Loss, NoiseFamily)) else value
            return str(value) if isinstance(value, str) else value

        names = (field.name for field in fields(self) if field.name not in unsaid)
        return {name: plain(getattr(self, name)) for name in names}

    def sheet(self) -> notebook.Sheet:
        """Its settings as a table of words."""

        def format_value(value: Any) -> str:
            values = value if isinstance(value, tuple) else (value,)
            words = [f"{item:.4g}" if isinstance(item, float) else str(item) for item in values]
            return words[0] if len(set(words)) == 1 else ", ".join(words)

        settings = {"method": self.method} | self.to_dict()
        values = ((k.replace("_", " "), v) for k, v in settings.items() if v is not None)
        rows = tuple((name, format_value(value)) for name, value in values)
        return notebook.Sheet(columns=("setting", "value"), rows=rows)

    def _repr_html_(self) -> str:
        return notebook.as_html("Training plan", [self.sheet()])

    def written(self, also: Collection[str] = ()) -> dict[str, Any]:
        """The settings that differ from their defaults, and those in ``also``; never nothing."""
        settings = {
            name: value
            for name, value in self.to_dict().items()
            if value is not None and (name in also or value != SETTINGS[name].default)
        }
        return settings or {"rounds": self.rounds}  # of sums, the method differs

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainingPlan":
        names = {field.name for field in fields(cls)}
        if unknown := set(values) - names:
            raise InvalidInput(
                f"a plan has no setting {sorted(unknown)[0]!r}; it has {', '.join(sorted(names))}"
            )
        lists = {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
        return cls(**values | lists)


@dataclass(frozen=True, kw_only=True)
class PlanSetting:
    """One setting of a plan, as a file or a command line may write it."""

    name: str
    kind: type  # int, float or str
    per_server: bool  # whether each server may have its own
    default: Any


def _setting(name: str, hint: Any, default: Any) -> PlanSetting:
    kinds = get_args(hint) or (hint,)
    kind = next(kind for kind in (int, float, str) if kind in kinds)
    per_server = any(get_origin(member) is tuple for member in kinds)
    return PlanSetting(name=name, kind=kind, per_server=per_server, default=default)


_HINTS = get_type_hints(TrainingPlan)
SETTINGS: Mapping[str, PlanSetting] = MappingProxyType(
    {
        field.name: _setting(field.name, _HINTS[field.name], field.default)
        for field in fields(TrainingPlan)
    }
)


def zeros(codes: int, width: int) -> Array:
    """w̃(0) = γ(0) = 0: where every server starts, so that nothing is released before round 1."""
    return np.zeros((codes, width))
