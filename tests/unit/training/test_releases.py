"""The bytes of a release tell its value alone, whichever engine made it, with secure noise."""

import numpy as np
import pytest
from consortium import NAMES
from faint import SILENT, faint, without_sign

from pdml.mechanisms import exact_gaussian as exact
from pdml.node.protocol import wire_messages
from pdml.numerics.admm import solver, steps
from pdml.training import local_engine
from pdml.training.server import Node

HAS_NUMBA = solver.compiled_loops() is not None
modes = [False, pytest.param(True, marks=pytest.mark.skipif(not HAS_NUMBA, reason="no numba"))]


def test_a_zero_that_is_released_has_no_sign():
    for point in (0.0, -0.0):
        for noise in (0.0, -0.0):
            assert not np.signbit(steps.release_step(np.array([point]), np.array([noise]))).any()
    assert not np.signbit(exact.round_to_grid(np.array([-0.0, -1e-300, -(2.0**-42)]))).any()


@pytest.mark.parametrize("use_numba", modes)
def test_the_local_engine_and_sweeps(tmp_path, use_numba):
    made = faint(tmp_path)
    run = local_engine.Run(SILENT, made.servers, made.source)
    seen = []
    local_engine.sweep(
        made.job_terms.graph,
        [run, run],
        observe=lambda t, released, point: seen.append(released.copy()),
        use_numba=use_numba,
    )
    assert without_sign(seen)


@pytest.mark.parametrize("use_numba", modes)
def test_a_node(tmp_path, use_numba):
    made, sent = faint(tmp_path), []
    for server in made.servers:
        node = Node(server, SILENT, made.source, use_numba=use_numba)
        state = node.start()
        for _ in range(SILENT.rounds):
            state, released = node.step(state, [np.zeros((1, 4))] * server.spec.degree)
            sent.append(released)
    assert without_sign(sent)


def test_what_parties_send_and_keep(tmp_path):
    made = faint(tmp_path)
    made.run()
    shape = made.job_terms.shape
    kept = []
    for name in NAMES:
        sent = (made.journals[name].outgoing("job-1", t) for t in range(1, SILENT.rounds + 1))
        kept += [wire_messages.decode_vector(payload, shape) for payload in sent]
    made.close()
    assert without_sign(kept)
