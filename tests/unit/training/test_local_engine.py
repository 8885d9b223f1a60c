"""The local engine equals the state machine, sweeps equal single runs, and without noise ADMM finds
the optimum.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from servers import make_server

from pdml.errors import InvalidInput, NotCertified
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels, rows, solver
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import BINARY, Loss
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine
from pdml.training.server import Node

HAS_NUMBA = solver.compiled_loops() is not None
modes = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")),
]
PLAN = TrainingPlan(
    rounds=25,
    regularization=0.05,
    penalty=0.05,
    objective_bound=0.5,
    noise_scale=0.1,
    noise_decay=0.8,
    tolerance=1e-11,
)


def federation(
    graph,
    sizes,
    *,
    storage=np.ascontiguousarray,
    classes=2,
    seed=0,
    epsilon=1.0,
    plan=PLAN,
    d=6,
    one_class=None,
):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(sum(sizes), d)) * (rng.random((sum(sizes), d)) < 0.6)
    truth = np.argmax(x @ rng.normal(size=(d, classes)), axis=1)
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    source = Simulated(seed)
    reported = flip_labels(truth, np.full(len(truth), epsilon), classes, source.stream(LABELS))
    cuts = np.cumsum([0, *sizes])
    if one_class is not None:
        reported[cuts[one_class] : cuts[one_class + 1]] = 1
    codes = labels.codes(reported, epsilon, classes)
    pooled = storage(x)
    servers = [
        make_server(
            graph,
            i,
            rows.take(pooled, cuts[i], cuts[i + 1]),
            codes[cuts[i] : cuts[i + 1]],
            epsilons=(epsilon,),
            classes=classes,
            pooled=pooled,
        )
        for i in range(graph.n)
    ]
    return local_engine.Run(plan, servers, source)


def state_machines(graph, run, use_numba=False):
    """The same training by nodes that exchange messages, one dictionary of releases per round."""
    nodes = [Node(server, run.plan, run.source, use_numba=use_numba) for server in run.servers]
    states = [node.start() for node in nodes]
    for _ in range(run.plan.rounds):
        heard = [[states[j].sent for j in graph.neighbours(i)] for i in range(graph.n)]
        states = [
            node.step(state, messages)[0]
            for node, state, messages in zip(nodes, states, heard, strict=True)
        ]
        yield np.array([state.sent for state in states])


CASES = {
    "ten servers": (Graph.random(10, 13, np.random.default_rng(3)), [40] * 10, {}),
    "unequal groups": (Graph.ring(4), [5, 100, 31, 1], {}),
    "two servers": (Graph.complete(2), [30, 20], {}),
    "three classes": (Graph.star(4), [40] * 4, {"classes": 3}),
    "a server with one class only": (Graph.ring(3), [30] * 3, {"one_class": 1}),
    "square loss": (Graph.ring(3), [30] * 3, {"plan": replace(PLAN, loss="square")}),
    "matsushita loss": (Graph.ring(3), [30] * 3, {"plan": replace(PLAN, loss="matsushita")}),
    "no flips": (Graph.ring(3), [30] * 3, {"epsilon": np.inf}),
}


@pytest.mark.parametrize("use_numba", modes)
@pytest.mark.parametrize("storage", [np.ascontiguousarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("case", CASES)
def test_engine_equals_the_state_machine_round_by_round(case, storage, use_numba):
    graph, sizes, options = CASES[case]
    run = federation(graph, sizes, storage=storage, **options)
    seen = []
    trained = local_engine.train(
        graph,
        run,
        observe=lambda t, released, point: seen.append(released[0].copy()),
        use_numba=use_numba,
    )
    for t, releases in enumerate(state_machines(graph, run, use_numba)):
        np.testing.assert_allclose(seen[t], releases, atol=1e-10, rtol=0)
    np.testing.assert_array_equal(trained.released, seen[-1])
    assert (trained.solver.certified <= 1e-11).all()


@pytest.mark.parametrize("use_numba", modes)
def test_a_sweep_equals_its_single_trainings(use_numba):
    graph = Graph.ring(4)
    base = federation(graph, [30] * 4)
    runs = [
        base,
        replace(base, source=Simulated(9)),
        replace(base, plan=replace(PLAN, objective_bound=2.0)),
        replace(base, plan=replace(PLAN, noise_scale=0.3, noise_decay=0.9)),
    ]
    together = local_engine.sweep(graph, runs, use_numba=use_numba)
    for run, swept in zip(runs, together, strict=True):
        alone = local_engine.train(graph, run, use_numba=use_numba)
        np.testing.assert_allclose(swept.released, alone.released, atol=1e-9)
        np.testing.assert_allclose(swept.consensus, alone.consensus, atol=1e-8)


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
def test_the_number_of_threads_changes_nothing():
    graph = Graph.random(10, 13, np.random.default_rng(0))
    run = federation(graph, [40] * 10)
    one, three = (local_engine.train(graph, run, threads=k, use_numba=True) for k in (1, 3))
    np.testing.assert_array_equal(one.released, three.released)
    np.testing.assert_array_equal(one.solver.certified, three.solver.certified)


def test_the_same_source_gives_the_same_bits():
    graph = Graph.ring(3)
    first, second = (
        local_engine.train(graph, federation(graph, [20] * 3)).released for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_releases_carry_noise_and_the_noise_fades():
    graph = Graph.ring(3)
    run = federation(graph, [50] * 3)
    gaps = []

    def observe(t, released, point):
        gaps.append(np.linalg.norm(released - point))

    local_engine.train(graph, run, observe=observe)
    expected = np.sqrt(3 * 6) * 0.1 * 0.8 ** (np.arange(25) / 2)
    assert (np.array(gaps) > 0.3 * expected).all() and (np.array(gaps) < 3 * expected).all()


def test_consensus_is_the_largest_distance_between_servers():
    points = np.zeros((3, 1, 2))
    points[1, 0] = [3, 4]
    points[2, 0] = [0, -1]
    assert float(local_engine.diameters(points)) == pytest.approx(np.hypot(3, 5))
    many = np.random.default_rng(0).normal(size=(300, 1, 2))
    exact = max(np.linalg.norm(a - b) for a in many for b in many)
    assert exact <= local_engine.diameters(many) <= 2 * exact


def test_an_unreachable_tolerance_stops_the_run():
    graph = Graph.ring(3)
    with pytest.raises(NotCertified, match="nothing was released"):
        local_engine.train(graph, federation(graph, [20] * 3, plan=replace(PLAN, tolerance=1e-25)))


def test_sweeps_that_cannot_share_are_refused():
    graph = Graph.ring(3)
    run = federation(graph, [20] * 3)
    with pytest.raises(InvalidInput, match="must agree on penalty"):
        local_engine.sweep(graph, [run, replace(run, plan=replace(PLAN, penalty=1.0))])
    with pytest.raises(InvalidInput, match="must share their records"):
        local_engine.sweep(graph, [run, federation(graph, [20] * 3, seed=1)])
    with pytest.raises(InvalidInput, match="at least one"):
        local_engine.sweep(graph, [])
    with pytest.raises(InvalidInput, match="joins 4 servers, but 3 brought records"):
        local_engine.train(Graph.ring(4), run)


def test_labels_reach_releases_only_through_the_linear_term():
    """Two servers with opposite labels whose q - η/n agree send the same bits in every round: why η
    counts once, whatever T.
    """
    graph = Graph.ring(3)
    run = federation(graph, [40] * 3)
    server = run.servers[0]
    nodes = [
        Node(replace(server, codes=codes), run.plan, run.source)
        for codes in (server.codes, -server.codes)
    ]
    assert not np.allclose(nodes[0].linear, nodes[1].linear)
    nodes[1].linear = nodes[0].linear
    states = [node.start() for node in nodes]
    rng = np.random.default_rng(0)
    for _ in range(run.plan.rounds):
        heard = list(rng.normal(size=(2, *states[0].sent.shape)))
        states = [node.step(state, heard)[0] for node, state in zip(nodes, states, strict=True)]
        np.testing.assert_array_equal(states[0].sent, states[1].sent)


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
def test_a_fourth_loss_is_trained_as_it_is_where_numba_would_be_chosen(monkeypatch):
    """g = log cosh z: at this size the other losses are compiled, this one must not become one of
    them.
    """
    steep = Loss(
        name="cosh",
        label_weight=1.0,
        slope_bound=1.0,
        curvature_bound=1.0,
        third_bound=4 / (3 * np.sqrt(3)),
        value=lambda z: np.logaddexp(z, -z)[..., 0] - np.log(2),
        slope=lambda z: np.tanh(z),
        curvature=lambda z: (1 - np.tanh(z) ** 2)[..., None],
    )
    monkeypatch.setitem(BINARY, "cosh", steep)
    graph, plan = Graph.complete(2), replace(PLAN, loss="cosh", rounds=50)
    run = federation(graph, [20_000] * 2, plan=plan, d=25)
    assert solver.worth_compiling(2 * 20_000 * 25, plan.rounds)
    chosen, plain = (local_engine.train(graph, run, use_numba=how) for how in (None, False))
    np.testing.assert_array_equal(chosen.released, plain.released)
    assert (chosen.solver.certified <= PLAN.tolerance).all()
    matsushita = replace(run, plan=replace(plan, loss="matsushita"))
    assert np.abs(local_engine.train(graph, matsushita).released - plain.released).max() > 0.01
