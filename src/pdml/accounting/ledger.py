"""The ledger: from events to who can learn what, with numbers (theory, section 3).

Rows are {label, features} x {own server, other servers, own and others together}, and as many for
each answer that was randomised on its own; the servers' worst one speaks for all unless a server is
named.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isinf
from typing import Any

import numpy as np

from pdml import _validate
from pdml._math import expit
from pdml.accounting import bounds, kinds, ledger_row, profiles, randomized_attributes
from pdml.accounting.budget import Budget, last_safe_round
from pdml.accounting.events import (
    CountsReleased,
    Event,
    EventGroups,
    IterateReleased,
    SumsReleased,
    group_events,
)
from pdml.accounting.kinds import Adversary, Data
from pdml.accounting.ledger_row import LedgerRow, merge_rows, representative_coalition_sizes
from pdml.accounting.per_person import PersonRows, Reports, person_rows
from pdml.accounting.per_release_loss import ReleaseLoss, concatenate_losses, release_loss
from pdml.accounting.profiles import Profile, certainty_at
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.formatting import notebook

DATA = tuple(Data)
ADVERSARIES = tuple(Adversary)


@dataclass(frozen=True, repr=False)
class Ledger:
    """What a training has spent, server by server.

    ``events[i]`` are those of server i; ``source`` says what the noise was drawn from ("simulated"
    protects nobody); ``reports``, where known, give every record its own line; ``notes`` are what
    else its reader must know. ``scope`` says what is added up where it is no training: then an
    entry of ``events`` is no server, but people who went through the same.
    """

    events: tuple[tuple[Event, ...], ...]
    source: str = "simulated"
    delta: float = 1e-6
    classes: int = 2
    reports: Reports | None = field(default=None, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    scope: str = field(default="", compare=False)

    def __repr__(self) -> str:
        """Short: the lines take a while to compute, and ``print`` shows them."""
        of = self.scope or _counted(len(self.events), "server")
        many = "" if self.reports is None else f", {_counted(len(self.reports.servers), 'report')}"
        return f"<Ledger of {of}{'' if self.scope else many}: print it for the table>"

    def __str__(self) -> str:
        """The table."""
        return notebook.as_text(*self._tabulate(reasons=False))

    def _repr_html_(self) -> str:
        """The table, and why each line is so, for notebooks."""
        return notebook.as_html(*self._tabulate(reasons=True))

    def _tabulate(self, *, reasons: bool) -> tuple[str, list[notebook.Sheet], tuple[str, ...]]:
        title = f"Who can learn what of whoever is protected least (noise: {self.source})"
        notes = tuple(f"{note[:1].upper()}{note[1:]}." for note in self.notes)
        return title, [ledger_row.sheet(self.overview(), reasons=reasons)], notes

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row for each line, those against one to all other servers included where they
            differ.

        Raises
        ------
        MissingExtra
            If pandas is not installed.
        """
        return ledger_row.frame((*self.rows(), *self.every_coalition))

    def profile(
        self, data: str, adversary: str, server: int, *, colluding: int | None = None
    ) -> Profile:
        """δ(ε) for one piece of data at one server against one adversary."""
        row = self._row(data, adversary, colluding)
        if adversary == Adversary.OTHERS:
            spent = self._exposure(server, colluding=colluding)
            per_kind = randomized_attributes.against_others(data, row, [self._sent[server]], spent)
            return profiles.worst_of(per_kind)
        if row is not None:
            return profiles.pure_profile(row.server_epsilon(self._sent[server]))
        if data == Data.FEATURES:
            return profiles.nothing_profile
        return profiles.pure_profile(self._sent[server].server_epsilon)

    @cached_property
    def _rows(self) -> dict[str, randomized_attributes.AnswerRow]:
        """Of answers that were randomised each on its own; features, too, where all were."""
        rows = {row.name: row for row in randomized_attributes.rows(self._sent)}
        whole = randomized_attributes.features(self._sent)
        return rows if whole is None else rows | {Data.FEATURES: whole}

    def _row(
        self, data: str, adversary: str, colluding: int | None
    ) -> randomized_attributes.AnswerRow | None:
        """None: the label, or features of which some came as they are."""
        _check_row(self.data, data, adversary, colluding)
        return self._rows.get(data)

    @property
    def data(self) -> tuple[str, ...]:
        """What the table has rows of."""
        return (*DATA, *(name for name in self._rows if name not in DATA))

    def _exposure(
        self, server: int | None = None, *, colluding: int | None = None, by_round: bool = False
    ) -> ReleaseLoss:
        """Of all servers' people, or of one server's."""
        return concatenate_losses(self._people(server, colluding, by_round))

    def _people(
        self, server: int | None, colluding: int | None, by_round: bool = False
    ) -> list[ReleaseLoss]:
        """Of each server's people, or of one server's; all lines ask for the same."""
        chosen = self._different if server is None else [server]
        for i in chosen:
            if (i, colluding, by_round) not in self._kept:
                self._kept[i, colluding, by_round] = release_loss(
                    self._sent[i], classes=self.classes, colluding=colluding, by_round=by_round
                )
        return [self._kept[i, colluding, by_round] for i in chosen]

    @cached_property
    def _kept(self) -> dict[tuple[int, int | None, bool], ReleaseLoss]:
        return {}

    @cached_property
    def _different(self) -> list[int]:
        """One of all servers with the same events: others have the same lines."""
        return list({events: i for i, events in enumerate(self.events)}.values())

    @cached_property
    def _sent(self) -> list[EventGroups]:
        return [group_events(events) for events in self.events]

    def row(
        self,
        data: str,
        adversary: str,
        server: int | None = None,
        *,
        colluding: int | None = None,
    ) -> LedgerRow:
        """One row of the table.

        Parameters
        ----------
        data : str
            One of `data`.
        adversary : str
            One of `ADVERSARIES`.
        server : int, optional
            Whose people; by default whoever is worst off of all servers'.
        colluding : int, optional
            How many of the other servers put together what they see; by default all.

        Guarantees
        ----------
        - ``colluding`` counts only where sums were masked so that they appear in one total; of
          everything else each server, and whoever carries it, sees all that there is. The own
          server needs nobody's help.
        """
        row = self._row(data, adversary, colluding)
        sent = [self._sent[i] for i in (self._different if server is None else [server])]
        if adversary == Adversary.OTHERS:
            return self._worst(data, row, self._people(server, colluding), sent, colluding)
        if row is not None:
            spent = [row.server_epsilon(groups) for groups in sent]
            randomiser = kinds.worst_randomiser(*(groups.by for groups in sent))
            reason = ledger_row.answers_server_reason(row, randomiser, max(spent))
        elif data == Data.FEATURES:
            spent, reason = [inf], ledger_row.features_server_reason(adversary)
        else:
            spent = [groups.server_epsilon for groups in sent]
            worst = [groups for groups in sent if groups.server_epsilon == max(spent)]
            randomiser = kinds.worst_randomiser(*(groups.by for groups in worst))
            reason = kinds.randomiser_reason(
                randomiser, max(spent), alone=adversary == Adversary.OWN
            )
            if any(groups.counts for groups in worst):
                reason = ledger_row.COUNTED
        return LedgerRow(
            data, Adversary(adversary), max(spent), 0.0, reason, float(expit(max(spent))), colluding
        )

    def _worst(
        self,
        data: str,
        row: randomized_attributes.AnswerRow | None,
        people: list[ReleaseLoss],
        sent: list[EventGroups],
        colluding: int | None = None,
    ) -> LedgerRow:
        """Whoever is worst off against other servers, of each server's people."""
        spent = concatenate_losses(people)
        profile = randomized_attributes.against_others(data, row, sent, spent)
        epsilons = profiles.epsilon_at(profile, self.delta)
        worst = int(np.argmax(epsilons))
        ends = np.cumsum([len(part.epsilon) for part in people])
        whose = sent[int(np.searchsorted(ends, worst, side="right"))]
        if row is None:
            bound = bounds.winners(data, spent, epsilons, profile(epsilons))[worst]
            arguments = (data, bound, float(epsilons[worst]), whose, colluding)
            reason = ledger_row.others_reason(*arguments)
        else:
            reason = ledger_row.answers_others_reason(row, whose, colluding)
        return LedgerRow(
            data=data,
            adversary=Adversary.OTHERS,
            epsilon=float(epsilons[worst]),
            delta=self.delta,
            reason=reason,
            certainty=float(np.max(certainty_at(profile, self.delta, epsilons))),
            colluding=colluding,
        )

    def coalitions(self, data: str) -> list[LedgerRow]:
        """What k other servers learn together, for every k from one to all.

        Parameters
        ----------
        data : str
            One of `DATA`.

        Returns
        -------
        list of LedgerRow
            n - 1 of them, n being the servers among which sums were hidden, or all servers; never
            falling with k, and all the same where nothing was hidden in a total.
        """
        return [
            self.row(data, Adversary.OTHERS, colluding=k) for k in range(1, self._hidden_among())
        ]

    def _hidden_among(self) -> int:
        """The most servers whose sums appear in one total only; without one, all servers."""
        most = max(
            (event.hidden_among for groups in self._sent for event in groups.sums), default=1
        )
        return most if most > 1 else len(self.events)

    def rows(self, server: int | None = None) -> list[LedgerRow]:
        """The whole table."""
        return [
            self.row(data, adversary, server) for data in self.data for adversary in ADVERSARIES
        ]

    def overview(self, colluding: int | None = None) -> list[LedgerRow]:
        """The whole table and, where it matters how many collude, a few coalitions.

        Parameters
        ----------
        colluding : int, optional
            So many are shown too: those that a plan or a budget speaks of.

        Returns
        -------
        list of LedgerRow
            `rows`; where sums were masked, those against other servers once for each of
            `representative_coalition_sizes`.
        """
        if not self.masked:
            return self.rows()
        few = representative_coalition_sizes(self._hidden_among() - 1, colluding)
        coalitions = [
            self.row(data, Adversary.OTHERS, colluding=k) for data in self.data for k in few
        ]
        return merge_rows(self.rows(), coalitions)

    def up_to(self, rounds: int) -> "Ledger":
        """The ledger as it stood after ``rounds`` rounds."""

        def sent(event: Event) -> bool:
            once = isinstance(event, SumsReleased | CountsReleased)
            return (event.t if isinstance(event, IterateReleased) else once) <= rounds

        kept = tuple(tuple(filter(sent, events)) for events in self.events)
        return replace(self, events=kept)

    def keeps(self, budget: Budget) -> bool:
        """Whether no more than ``budget`` is spent against the other servers: quicker than to ask
        how much is."""
        return all(self._within(data, budget) for data in (Data.FEATURES, Data.LABEL))

    def _within(self, data: str, budget: Budget) -> bool:
        spent = self._exposure(colluding=budget.colluding)
        sent = [self._sent[i] for i in self._different]
        return randomized_attributes.within_limit(data, sent, spent, *budget.limit(data))

    def check(self, budget: Budget) -> None:
        """Refuse, in one sentence, a ledger that spends more than ``budget`` against the other
        servers."""
        for data in (Data.FEATURES, Data.LABEL):
            if self._within(data, budget):
                continue
            limit, delta = budget.limit(data)
            book = replace(self, delta=delta)
            spent = [
                book.row(data, Adversary.OTHERS, i, colluding=budget.colluding).epsilon
                for i in range(len(self.events))
            ]
            server = max(range(len(spent)), key=spent.__getitem__)
            what = "no bound at all" if isinf(spent[server]) else f"epsilon {spent[server]:.3g}"
            raise BudgetExceeded(
                f"{self._amount()} would spend {what} on the {data} against {budget.whom} "
                f"(delta {delta:g}{'' if self.scope else f', server {server + 1}'}), "
                f"but the budget is epsilon {limit:.3g}{self._way_out(budget)}"
            )

    def _amount(self) -> str:
        """How much was sent, in words."""
        rounds = max((e.t for groups in self._sent for e in groups.released), default=0)
        exchanges = max((len(groups.sums) for groups in self._sent), default=0)
        counts = max((len(groups.counts) for groups in self._sent), default=0)
        phrases = [ledger_row.exchanges(exchanges)] if exchanges else []
        phrases += [ledger_row.evaluations(counts)] if counts else []
        return " and ".join([*phrases, f"{rounds} rounds"] if rounds or not phrases else phrases)

    def _way_out(self, budget: Budget) -> str:
        sent = [[e.t for e in events if isinstance(e, IterateReleased)] for events in self.events]
        # several trainings, which `last_safe_round` takes apart, or sums, of which half is none
        if any(len(set(rounds)) < len(rounds) or not rounds for rounds in sent):
            return ""
        safe = self.last_safe_round(budget)
        return f": the last safe round is {safe}" if safe else ": not even the first round is safe"

    def last_safe_round(self, budget: Budget) -> int:
        """The last round up to which this one training stays within ``budget``; 0 if the first is
        too much."""
        return last_safe_round(self.events, budget=budget, classes=self.classes)

    def person_rows(self) -> PersonRows:
        """Each record's own ε, in the order of the input: never above the worst case in `rows`."""
        if self.reports is None:
            raise InvalidInput(
                "this ledger does not know who reported with which epsilon: only its worst "
                "case can be told"
            )
        return person_rows(self.events, self.reports, delta=self.delta, classes=self.classes)

    def epsilons(self, data: str) -> list[float]:
        """ε of labels or features against other servers after each round (worst server), at the
        ledger's δ."""
        _check_row(DATA, data, Adversary.OTHERS)
        spent, row = self._exposure(by_round=True), self._rows.get(data)
        sent = [self._sent[i] for i in self._different]
        forms = randomized_attributes.closed(data, row, sent, spent)
        round_epsilons = profiles.epsilon_at(forms, self.delta)[1:]
        last = randomized_attributes.against_others(data, row, sent, self._exposure())
        at_the_end = profiles.epsilon_at(last, self.delta)  # nobody knew more before
        worst: list[float] = np.minimum(round_epsilons, at_the_end).max(axis=1).tolist()
        return worst

    def to_dict(self) -> dict[str, object]:
        """Plain numbers for JSON; infinity as the string "inf"."""
        coalitions = self.every_coalition
        return {
            "source": self.source,
            "delta": self.delta,
            "rows": [row.to_dict() for row in self.rows()],
            **({"coalitions": [line.to_dict() for line in coalitions]} if coalitions else {}),
        }

    @property
    def every_coalition(self) -> tuple[LedgerRow, ...]:
        """`coalitions` of each row; none where all coalitions learn the same."""
        kinds = self.data if self.masked else ()
        return tuple(line for data in kinds for line in self.coalitions(data))

    @property
    def masked(self) -> bool:
        """Whether something appears in a total only, so that it matters how many collude."""
        return any(event.hidden_among > 1 for groups in self._sent for event in groups.sums)


def _counted(many: int, noun: str) -> str:
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def _check_row(
    rows: Sequence[str], data: str, adversary: str, colluding: int | None = None
) -> None:
    if colluding is not None:
        _validate.integer("colluding", colluding, low=1, why="each server sees something")
    if data not in rows or adversary not in ADVERSARIES:
        raise InvalidInput(
            f"the ledger has rows for {tuple(rows)} against {ADVERSARIES}, got {data!r} against "
            f"{adversary!r}"
        )
