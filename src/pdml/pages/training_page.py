"""One training as one page: a self-contained HTML document without scripts that anybody can open,
keep, mail and print."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Self

from pdml._version import __version__
from pdml.accounting import LedgerRow
from pdml.accounting.kinds import Adversary, Data
from pdml.accounting.ledger_row import representative_coalition_sizes
from pdml.errors import InvalidInput
from pdml.files import atomic_write
from pdml.model.history import History
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.pages.charts import training_charts
from pdml.pages.charts.svg import Figure
from pdml.pages.evaluation_text import Assessment
from pdml.pages.render import document

if TYPE_CHECKING:
    from pdml.training.result import TrainingResult

LISTED_SERVERS = 40  # a longer table is folded


@dataclass(frozen=True)
class ServerRow:
    """One server: its records, its links, and the accuracy of its own last release."""

    name: str
    records: int
    links: int
    accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything that the page of a training shows: the context of ``training.html``.

    Text is taken as text: markup in it is shown, not obeyed. A new section is a field here and a
    block there.
    """

    title: str
    lead: str = ""
    history: History | None = None  # None: nothing happened round by round
    expected: Expectation | None = None  # of the released model, by what was released alone
    majority: float | None = None  # accuracy of the majority-class baseline
    reference_risk: float | None = None  # of a model trained without privacy
    n_servers: int
    edges: tuple[tuple[int, int], ...]  # none where releases did not travel along links
    servers: tuple[ServerRow, ...] = ()
    released_accuracy: float | None = None
    reference_accuracy: float | None = None
    reference_note: str = ""  # how it was trained
    accuracy_note: str = ""  # "on 5,000 fresh test records"
    assessment: Assessment | None = None  # how well it predicts
    coefficients: Figure | None = None  # with what noise does to them
    effects: Figure | None = None  # of numbers that maps bend
    lines: tuple[LedgerRow, ...] = ()  # the ledger
    coalitions: tuple[LedgerRow, ...] = ()  # against one to all other servers, where that differs
    source: str  # of the noise; "simulated" protects nobody
    doubts: tuple[str, ...] = ()  # why the model may be of no use: measured, told or expected
    keep: str = ""  # why the page itself is not to be shown
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what no noise protects, and anything else a reader must know
    creation_note: str = ""
    # Of what several organisations have signed: distances are known along links only, and the bytes
    # are the same on every machine, which those of a layout by linear algebra are not.
    signed: bool = False

    def __post_init__(self) -> None:
        if self.servers and len(self.servers) != self.n_servers:
            raise InvalidInput(
                f"servers must have a row for each of the {self.n_servers} servers or be "
                f"empty, got {len(self.servers)}"
            )
        if any(not 0 <= end < self.n_servers for edge in self.edges for end in edge):
            raise InvalidInput(f"edges must join servers 0 to {self.n_servers - 1}")
        if self.history is not None:
            names = ("risk", "consensus", "noise", "spent")
            lengths = {len(getattr(self.history, name)) for name in names}
            if len(lengths) != 1 or 0 in lengths:
                raise InvalidInput(
                    "history must have one value per round in every field, got fields of "
                    f"{sorted(lengths)} values"
                )

    @classmethod
    def of(cls, result: "TrainingResult", *, accuracies: bool = False, **more: Any) -> Self:
        """What every page shows of a result; ``accuracies``: those of servers' own models, too."""
        rounds = result.rounds > 0
        rows = (row if accuracies else (*row[:3], None) for row in result.rows)
        return cls(
            history=result.history if rounds else None,
            n_servers=result.graph.n,
            edges=result.graph.edges if rounds else (),
            expected=result.expected,
            servers=tuple(ServerRow(*row) for row in rows),
            lines=tuple(result.ledger.rows()),
            coalitions=result.ledger.every_coalition,
            source=result.ledger.source,
            **more,
        )

    @property
    def records(self) -> int:
        """Of all servers."""
        return sum(row.records for row in self.servers)

    @property
    def small_coalitions(self) -> tuple[LedgerRow, ...]:
        """Against one other server and against half of them; the table has those against all."""
        others = max((line.colluding or 0 for line in self.coalitions), default=0)
        sizes = representative_coalition_sizes(others)[:-1] if others > 1 else [1]
        return tuple(line for line in self.coalitions if line.colluding in sizes)

    @property
    def measured(self) -> bool:
        """Whether the accuracy of some server's own model is known."""
        return any(row.accuracy is not None and isfinite(row.accuracy) for row in self.servers)

    @property
    def folded(self) -> bool:
        """Whether the servers are too many to be listed at once."""
        return len(self.servers) > LISTED_SERVERS

    @property
    def distances(self) -> list[float]:
        """Distances between models, round by round."""
        return (
            [] if self.history is None else [float(distance) for distance in self.history.consensus]
        )

    def pictures(self) -> Iterator[Figure]:
        """What is looked at first: quality with what to hold it against, and privacy."""
        exact = {
            "released model": self.released_accuracy,
            "majority-class baseline": self.majority,
            "without privacy": self.reference_accuracy,
        }
        if quality := training_charts.quality_figure(exact, self.expected):
            yield quality
        if self.lines:
            yield training_charts.certainty_figure(self.lines)

    def figures(self) -> Iterator[Figure]:
        """As many as there is something to show in."""
        accuracies = [row.accuracy for row in self.servers] or [None] * self.n_servers
        if self.measured:
            yield training_charts.accuracy_figure(
                accuracies, self.released_accuracy, self.reference_accuracy, self.accuracy_note
            )
        if self.history is not None:
            risk, noise, spent = (
                [float(value) for value in getattr(self.history, name)]
                for name in ("risk", "noise", "spent")
            )
            yield training_charts.spent_figure(spent, self._delta())
            yield training_charts.agreement_figure(self.distances, noise, linked=self.signed)
            if any(map(isfinite, risk)):
                yield training_charts.risk_figure(risk, self.reference_risk)
        if self.coalitions:
            yield training_charts.coalition_figure(self.coalitions)
        if not self.edges:
            return
        names = [row.name for row in self.servers] or [str(i) for i in range(self.n_servers)]
        caption = "Models travel along links only; records never do."
        if self.signed:
            places = training_charts.circle(self.n_servers)
        else:
            places = [
                (x, y) for x, y in training_charts.positions(self.n_servers, self.edges).tolist()
            ]
            caption = (
                "The closer two servers are drawn, the fewer links lie between them. " + caption
            )
        yield training_charts.graph_figure(names, self.edges, places, accuracies, caption)

    def _delta(self) -> float | None:
        """Of the features against other servers, if the ledger tells."""
        wanted = (Data.FEATURES, Adversary.OTHERS)
        deltas = (line.delta for line in self.lines if (line.data, line.adversary) == wanted)
        return next(deltas, None)


def creation_note() -> str:
    """When a page was made, and by what."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by pdml {__version__}"


def write(path: str | os.PathLike[str], page: Page) -> None:
    """Render to a file that is either the old one or the new one."""
    atomic_write(path, render(page))


def render(page: Page) -> str:
    """The whole document. It loads nothing, runs nothing, and is the same for the same page."""
    return document("training.html", page)
