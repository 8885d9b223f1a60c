"""Who randomised the labels: against whoever had the true ones a flip counts for nothing."""

import json
from math import inf, isinf

import numpy as np
import pytest

from pdml.accounting import Ledger, Reports, kinds
from pdml.accounting.events import LabelFlipped, decode_event, dump_event, encode_event, load_event
from pdml.accounting.kinds import (
    DEVICES,
    ELSEWHERE,
    OPERATOR,
    RANDOMISED_BY,
    SIMULATION,
    UNSAID,
)
from pdml.errors import DataError, InvalidInput
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

SPEC = ServerSpec(server=0, n_servers=3, degree=2, records=400, epsilons=(1.0,), width=4)
SENT = TrainingPlan(rounds=6, noise_scale=0.5).events(SPEC)
KNOWN = ("own server", "own and others together")


def ledger(*by, epsilon=1.0, **settings):
    events = tuple((LabelFlipped(epsilon=epsilon, by=name), *SENT) for name in by)
    return Ledger(events, **settings)


@pytest.mark.parametrize("adversary", KNOWN)
@pytest.mark.parametrize("by", RANDOMISED_BY)
def test_a_flip_hides_nothing_from_whoever_had_the_label(by, adversary):
    line = ledger(by).row("label", adversary)
    assert line.epsilon == (inf if by in (UNSAID, OPERATOR) else 1.0)
    assert isinf(line.epsilon) == (ledger(by).profile("label", adversary, 0)(1.0) == 1.0)


@pytest.mark.parametrize("by", RANDOMISED_BY)
def test_against_the_others_every_flip_counts(by):
    """They never had the labels, whoever flipped them."""
    plain, other = (ledger(name).row("label", "other servers") for name in (DEVICES, by))
    assert plain == other and plain.epsilon < 1.0


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (DEVICES, "randomised on the device; training cannot weaken it"),
        (ELSEWHERE, "as its server declares"),
        (SIMULATION, "one process played every party and had the label"),
        (UNSAID, "nobody recorded who randomised it"),
        (OPERATOR, "the collecting organisation had the true label and randomised it itself"),
    ],
)
def test_the_ledger_gives_the_reason(by, said):
    assert said in ledger(by).row("label", "own server").reason
    assert said in json.dumps(ledger(by).to_dict())


def test_without_a_flip_nobody_claims_one():
    for nothing in (Ledger((SENT,)), ledger(DEVICES, epsilon=inf)):
        for adversary in KNOWN:
            reason = nothing.row("label", adversary).reason
            assert reason == "not randomised: the collecting organisation receives it as it is"


def test_the_worst_server_speaks_for_all_and_each_for_itself():
    mixed = ledger(DEVICES, OPERATOR, ELSEWHERE)
    assert mixed.row("label", "own server").epsilon == inf
    assert "had the true label" in mixed.row("label", "own server").reason
    assert [mixed.row("label", "own server", i).epsilon for i in range(3)] == [1.0, inf, 1.0]
    alike = ledger(DEVICES, ELSEWHERE)
    assert "as its server declares" in alike.row("label", "own server").reason


def test_several_reports_are_as_good_as_the_worst_known_of_them():
    flips = (LabelFlipped(epsilon=0.5), LabelFlipped(epsilon=0.5, by=OPERATOR))
    for order in (flips, flips[::-1]):
        both = Ledger(((*order, *SENT),))
        assert both.row("label", "own server").epsilon == inf
        assert both.row("label", "other servers") == ledger(DEVICES).row("label", "other servers")


def test_a_persons_own_line_says_it_too():
    servers, epsilons = np.array([0, 1]), np.array([1.0, 1.0])
    reports = Reports(servers, epsilons, np.ones(2))
    mixed = ledger(DEVICES, OPERATOR, reports=reports)
    assert mixed.person_rows().label_receiving_server.tolist() == [1.0, inf]
    assert epsilons.tolist() == [1.0, 1.0]  # what came in is left alone
    for adversary in KNOWN:
        assert "had the true label" in mixed.row("label", adversary, 1).reason
    assert mixed.person_rows().label_other_servers[1] < 1.0


def test_an_event_says_who_randomised():
    flip = LabelFlipped(epsilon=1.0, by=OPERATOR)
    assert load_event(dump_event(flip)) == flip
    with pytest.raises(InvalidInput, match="by must be one of"):
        LabelFlipped(epsilon=1.0, by="angels")
    with pytest.raises(DataError, match="an event of the ledger"):
        decode_event(encode_event(flip) | {"by": "angels"})


def test_notes_name_the_server():
    assert kinds.randomiser_note("alice", DEVICES) == ""
    for by in RANDOMISED_BY[1:]:
        assert "alice" in kinds.randomiser_note("alice", by)
