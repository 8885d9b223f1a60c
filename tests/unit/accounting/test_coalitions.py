"""What k servers learn together of sums that exist as a whole only: the ledger's lines against real
masked releases.
"""

import json
from dataclasses import replace
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from fitting import has_variance
from servers import make_server

from pdml.accounting import Budget, Ledger, profiles
from pdml.accounting.events import LabelFlipped, SumsReleased
from pdml.accounting.ledger_row import representative_coalition_sizes
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.mechanisms import integer_gaussian, masks
from pdml.mechanisms.randomness import source_named
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release
from pdml.training.server import Server

N, RECORDS, WIDTH = 6, 12, 2
NAMES = tuple(f"s{i}" for i in range(N))
PLAN = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0, colluding=2)
TIMES = 150


def servers(first: tuple[tuple[float, float], int]) -> list[Server]:
    """Six servers, of which the first one's first record is given: x and the reported class."""
    rng = np.random.default_rng(5)
    graph = Graph(N, tuple((i, j) for i in range(N) for j in range(i)))
    found = []
    for i in range(N):
        x = rng.normal(size=(RECORDS, WIDTH))
        x /= np.linalg.norm(x, axis=1)[:, None]
        said = rng.integers(0, 2, RECORDS)
        if i == 0:
            x[0], said[0] = first
        codes = labels.codes(said, 1.0, 2)
        found.append(make_server(graph, i, x, codes, epsilons=[1.0], classes=2))
    return found


def seen(members: list[Server], coalition: range, job: str, source, noise: float):
    """What a coalition makes of one exchange: the total less its own sums and noise."""
    rows = []
    for member in members:
        own = sums_release.exact(member, PLAN)
        clean = sums_release.release_sums(
            own, member, TrainingPlan(method="sums", **SILENT), source
        )
        drawn = sums_release.release_sums(own, member, PLAN, source) - clean
        rows.append(clean + np.rint(noise * drawn).astype(np.int64))
    sent = {}
    for i, name in enumerate(NAMES):
        seeds = {
            other: masks.derive_seed(bytes(32), job=job, server=name, other=other)
            for other in NAMES
            if other != name
        }
        sent[name] = masks.add_masks(rows[i], name, NAMES, seeds)
    heard = masks.total(sent, NAMES) - sum(rows[i] for i in coalition)
    return integer_gaussian.dequantize(heard)[:-1]


SILENT = {"label_noise": 0.0, "square_noise": 0.0}
RECORD = ((1.0, 0.0), 1)
OTHERS = {
    "label": ((1.0, 0.0), 0),
    "turned": ((0.0, 1.0), 1),
    "half turned": ((sqrt(0.5), sqrt(0.5)), 0),
}


def ledger(members: list[Server]) -> Ledger:
    return Ledger(tuple((m.spec.flip(), *PLAN.events(m.spec)) for m in members))


@pytest.mark.parametrize("noise", [1.0, 0.5])
@pytest.mark.parametrize("k", [1, N // 2, N - 1])
def test_a_coalition_sees_what_its_line_says(k, noise):
    """All that it can use, in units of the noise that the line counts, is a standard normal vector
    about a mean that a neighbour moves by μ. A χ² test of its variance fails once in 10⁹ runs, and
    half the noise always.
    """
    coalition = range(N - k, N)
    members, source = servers(RECORD), source_named("secure")
    event = PLAN.events(members[0].spec)[0]
    honest = sqrt(N - k)
    scale = honest * np.array(
        [event.label_stddev] * WIDTH
        + [event.square_stddev, event.square_stddev / sqrt(2), event.square_stddev]
    )

    def means(first):
        clean = [
            sums_release.release_sums(
                sums_release.exact(m, PLAN), m, TrainingPlan(method="sums", **SILENT), source
            )
            for m in servers(first)
        ]
        return integer_gaussian.dequantize(sum(clean[i] for i in range(N - k)))[:-1]

    views = np.array([seen(members, coalition, f"{t}", source, noise) for t in range(TIMES)])
    assert has_variance((views - means(RECORD)) / scale, 1.0) == (noise == 1.0)
    book = ledger(members)
    for name, other in OTHERS.items():
        moved = np.linalg.norm((means(other) - means(RECORD)) / scale)
        line = profiles.epsilon_at(profiles.gaussian_profile(moved), book.delta)
        bound = Ledger(((event,),)).row("features", "other servers", colluding=k).epsilon
        assert line <= bound * (1 + 1e-9), name
    through_q = np.linalg.norm((means(OTHERS["label"]) - means(RECORD)) / scale)
    known = profiles.joint_profile(1.0, profiles.gaussian_profile(through_q))
    label = book.row("label", "other servers", 0, colluding=k).epsilon
    assert label == pytest.approx(profiles.epsilon_at(known, book.delta), rel=1e-4)


@pytest.mark.parametrize("data", ["label", "features"])
def test_every_coalition_has_a_line_and_larger_ones_learn_more(data):
    book = ledger(servers(RECORD))
    lines = book.coalitions(data)
    assert [line.colluding for line in lines] == list(range(1, N))
    assert all(one.epsilon < other.epsilon for one, other in pairwise(lines))
    whole = book.row(data, "other servers")
    assert (lines[-1].epsilon, lines[-1].certainty) == (whole.epsilon, whole.certainty)
    assert "in the total of 5 servers" in lines[0].reason and "total" not in lines[-1].reason
    summary = json.loads(json.dumps(book.to_dict(), allow_nan=False))
    mine = [line for line in summary["coalitions"] if line["data"] == data]
    assert [line["epsilon"] for line in mine] == [line.epsilon for line in lines]
    for line in lines:
        allowed = {f"{'labels' if data == 'label' else data}_epsilon": line.epsilon}
        book.check(Budget(**allowed, colluding=line.colluding))
        if line.colluding < N - 1:
            with pytest.raises(BudgetExceeded):
                book.check(Budget(**allowed, colluding=line.colluding + 1))
            assert book.last_safe_round(Budget(**allowed, colluding=line.colluding + 1)) == 0
        assert book.last_safe_round(Budget(**allowed, colluding=line.colluding)) == 1


def test_nothing_but_a_total_hides_from_one_server():
    """Rounds, and sums that everybody sends alone, are seen by every single server."""
    flip = LabelFlipped(epsilon=1.0)
    rounds = TrainingPlan(rounds=3)
    alone = TrainingPlan(method="sums")
    for plan in (rounds, alone):
        book = Ledger(tuple((flip, *plan.events(m.spec)) for m in servers(RECORD)))
        assert not book.masked and "coalitions" not in book.to_dict()
        for data in ("label", "features"):
            lines = book.coalitions(data)
            assert len(lines) == N - 1
            assert {line.epsilon for line in lines} == {book.row(data, "other servers").epsilon}
    assert Ledger((tuple(rounds.events(servers(RECORD)[0].spec)),)).coalitions("label") == []


def test_one_server_knows_every_coalition_of_its_total():
    """A node has the events of its own data set only; the total's size stands in them."""
    member = servers(RECORD)[0]
    book = Ledger(((member.spec.flip(), *PLAN.events(member.spec)),))
    assert len(book.coalitions("features")) == N - 1
    mixed = Ledger(((*book.events[0], *TrainingPlan(rounds=2).events(member.spec)),))
    least = mixed.coalitions("features")[0].epsilon
    assert least > book.coalitions("features")[0].epsilon
    assert least >= Ledger((TrainingPlan(rounds=2).events(member.spec),)).row(
        "features", "other servers"
    ).epsilon * (1 - 1e-9)


def test_the_own_server_needs_nobody_and_nobody_is_no_coalition():
    book = ledger(servers(RECORD))
    for adversary in ("own server", "own and others together"):
        one, all_of_them = (book.row("label", adversary, colluding=k) for k in (1, None))
        assert one.epsilon == all_of_them.epsilon
    with pytest.raises(InvalidInput, match="colluding"):
        book.row("label", "other servers", colluding=0)
    assert isinstance(book.events[0][1], SumsReleased)


def test_people_see_one_half_all_and_whom_the_plan_speaks_of():
    """A table with every size would be as long as there are servers."""
    assert representative_coalition_sizes(9) == [1, 4, 9] and representative_coalition_sizes(
        9, 6
    ) == [1, 4, 6, 9]
    assert representative_coalition_sizes(1, 3) == [1] and representative_coalition_sizes(
        2
    ) == representative_coalition_sizes(2, 0) == [1, 2]
    book = Ledger((tuple(PLAN.events(servers(RECORD)[0].spec)),))
    shown = book.overview(2)
    assert [line.colluding for line in shown if line.adversary == "other servers"] == [
        *representative_coalition_sizes(N - 1, 2)
    ] * 2
    for line in shown:
        assert line == book.row(line.data, line.adversary, colluding=line.colluding)
    open_ones = replace(PLAN, colluding=None)
    plain = Ledger((tuple(open_ones.events(servers(RECORD)[0].spec)),))
    assert plain.overview(2) == plain.rows()
