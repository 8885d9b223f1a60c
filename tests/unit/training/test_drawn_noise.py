"""The noise that trainings really draw: server by server and round by round, from both sources.

False alarms: 1e-9 per check (`fitting`); all of them together stay under 1e-6. Whatever is accepted
is also held against the usual slips: half the noise, another round's or server's would not pass.
"""

import numpy as np
import pytest
from fitting import fading, is_gaussian, is_truncated_gaussian, is_uniform_box, slips
from servers import make_server

from pdml.mechanisms.randomness import Secure, Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine
from pdml.training.server import Node

N, WIDTH, RECORDS = 3, 8_000, 12
SCALES, DECAY, BOUND = (0.4, 0.05, 0.2), 0.6, 0.9
PLAN = TrainingPlan(
    rounds=3,
    penalty=1.0,
    noise_scale=SCALES,
    noise_decay=DECAY,
    objective_bound=BOUND,
)
LAWS = {"truncated_gaussian": is_truncated_gaussian, "uniform_box": is_uniform_box}
SOURCES = [Simulated(5), Secure()]

sources = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)


def servers(classes=2):
    """Few records with many features: every release is a sample of WIDTH numbers."""
    rng = np.random.default_rng(0)
    found = []
    for i in range(N):
        x = rng.standard_normal((RECORDS, WIDTH))
        x /= np.linalg.norm(x, axis=1)[:, None] * (1 + 1e-9)
        codes = labels.codes(rng.integers(classes, size=RECORDS), 1.0, classes)
        server = make_server(Graph.complete(N), i, x, codes, epsilons=(1.0,), classes=classes)
        found.append(server)
    return found


def check_iterates(noise, server, t):
    """θ of one server in one round: its own and no other's."""
    right = fading(SCALES[server], DECAY, t)
    assert is_gaussian(noise, right), (server, t)
    others = [fading(scale, DECAY, t) for scale in SCALES if scale != SCALES[server]]
    wrong = [right * factor for factor in slips(SCALES[server], DECAY, t).values()]
    assert not any(is_gaussian(noise, stddev) for stddev in (*others, *wrong)), (server, t)


@sources
def test_the_local_engine_gives_every_server_the_noise_of_its_round(source):
    seen = []

    def watch(t, released, point):
        seen.append((released - point)[0])

    local_engine.train(Graph.complete(N), local_engine.Run(PLAN, servers(), source), observe=watch)
    assert len(seen) == PLAN.rounds
    for t, noise in enumerate(seen, start=1):
        for i in range(N):
            check_iterates(noise[i], i, t)


@sources
def test_trainings_of_a_sweep_have_noise_of_their_own(source):
    """Same servers, same round, two trainings: independent draws, each as wide as it should be."""
    seen = []

    def watch(t, released, point):
        seen.append(released - point)

    same = servers()
    other = Secure() if source.name == "secure" else Simulated(6)
    runs = [local_engine.Run(PLAN, same, each) for each in (source, other)]
    local_engine.sweep(Graph.complete(N), runs, observe=watch)
    for t, (first, second) in enumerate(seen, start=1):
        for i, scale in enumerate(SCALES):
            check_iterates(second[i], i, t)
            assert is_gaussian(first[i] - second[i], np.sqrt(2) * fading(scale, DECAY, t))


@sources
@pytest.mark.parametrize("index", range(N))
def test_a_node_draws_the_noise_of_its_round(source, index):
    """Steps of one state machine, with a twin that takes the same steps without noise."""
    server = servers()[index]
    node = Node(server, PLAN, source)
    silent = TrainingPlan(rounds=3, penalty=1.0, noise_scale=0.0)
    twin = Node(server, silent, Simulated(0), linear=node.linear)
    state = node.start()
    messages = np.random.default_rng(1).normal(size=(PLAN.rounds, 2, *state.sent.shape))
    messages[0] = 0  # as the protocol has it
    for t in range(1, PLAN.rounds + 1):
        heard = list(messages[t - 1])
        _, point = twin.step(state, heard)
        state, released = node.step(state, heard)
        check_iterates(released - point, index, t)


@sources
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("index", [0, N - 1])
def test_the_label_mean_is_masked_by_one_nth_of_the_objective_noise(source, kind, index):
    """n·(q_i - linear) is η_i: without the 1/n, with 1/n², √n or half of it the same test fails."""
    server, law = servers()[index], LAWS[kind]
    plan = TrainingPlan(objective_noise=kind, objective_bound=BOUND)
    loss = plan.loss_for(2)
    linear = server.linear(plan, loss, source)
    eta = N * (labels.label_mean(server.matrix, server.codes, loss) - linear)
    inside = eta * (1 - 1e-9)  # the mean meets a noise at the very bound on a grid of 2^-40
    assert law(inside, BOUND)
    for factor in (N, 1 / N, np.sqrt(N), 0.5, 2.0, BOUND / 6, 0.9, 1.1):
        assert not law(inside * factor, BOUND), factor


@sources
def test_servers_draw_objective_noise_of_their_own(source):
    plan = TrainingPlan(objective_bound=BOUND)
    loss = plan.loss_for(2)
    drawn = []
    for server in servers()[:2]:
        mean = labels.label_mean(server.matrix, server.codes, loss)
        drawn.append(N * (mean - server.linear(plan, loss, source)))
    apart, stddev = drawn[0] - drawn[1], BOUND / 6  # the cut takes 2e-9 of the mass
    assert is_gaussian(apart, np.sqrt(2) * stddev) and not is_gaussian(apart, stddev)
