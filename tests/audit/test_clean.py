"""The unmodified code passes every attack, and the attacks are not vacuous: they come close to the
claims.

False alarms: at most 1e-6 per finding (`FALSE_ALARM`), whatever the seed; seeds are fixed here all
the same. That the attacks come close is measured at these seeds, with room to spare.
"""

import json
from dataclasses import replace
from math import inf

import pytest

from pdml.audit import ATTACKS, FALSE_ALARM, Effort, run
from pdml.cli import main

EFFORT = Effort(transcripts=8_000, labels=100_000, pairs=300)
LIGHT = Effort(transcripts=400, labels=10_000, pairs=20)
CLOSE = {  # the least share of the claim that must be measured
    "label_flips": 0.9,
    "gradient_difference": 0.7,
    "label_inference": 0.45,
    "record_membership": 0.45,
    "averaging": 0.55,
    "sensitivity": 0.9,
    "deployed_node": 0.05,  # of few runs; how wide its noise is, is measured to a tenth
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_code_as_it_is_passes(attack):
    for finding in ATTACKS[attack](LIGHT, 3):
        assert finding.passed, finding.sentence
        assert finding.confidence >= 1 - FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_code_as_it_is_passes_and_the_attack_bites(attack):
    effort = replace(EFFORT, transcripts=24_000) if attack == "averaging" else EFFORT
    for finding in ATTACKS[attack](effort, 3):
        assert finding.passed, finding.sentence
        if finding.claim < inf:
            assert finding.measured_lower_bound >= CLOSE[attack] * finding.claim, finding


def test_gradient_differences_are_open_without_theta_and_the_ledger_says_so():
    off, on = ATTACKS["gradient_difference"](LIGHT, 5)
    assert off.claim == off.measured_lower_bound == inf
    assert off.passed and on.passed


def test_an_attack_without_its_package_is_left_out_and_says_so(capsys, monkeypatch):
    missing = {name: "no_such_package" for name in ATTACKS if name != "label_flips"}
    monkeypatch.setattr("pdml.audit.NEEDS", missing)
    code, out = audit(capsys)
    assert code == 0 and "All 4 claims hold." in out
    assert "Left out: deployed_node, which needs the package no_such_package." in out
    assert audit(capsys, "--attack", "deployed_node") == (1, "")


def test_processes_do_not_change_what_is_found():
    alone, together = (
        run(
            Effort(transcripts=400, labels=10_000, pairs=20, jobs=jobs),
            attacks=["record_membership"],
        )
        for jobs in (1, 2)
    )
    assert alone == together


def audit(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["audit", "--jobs", "1", *arguments])
    return end.value.code, capsys.readouterr().out


def test_the_command_prints_claims_beside_bounds(capsys):
    code, out = audit(capsys, "--attack", "label_flips", "--attack", "sensitivity")
    assert code == 0
    assert "All 6 claims hold." in out


def test_the_command_speaks_json(capsys):
    code, out = audit(capsys, "--attack", "gradient_difference", "--json")
    said = json.loads(out)
    assert (code, said["passed"]) == (0, True)
    assert said["findings"][0]["claim"] == "inf"


def test_a_violated_claim_ends_with_1(capsys, monkeypatch):
    monkeypatch.setattr(
        "pdml.mechanisms.label_flip.LabelFlip.threshold", property(lambda self: 1 << 60)
    )
    code, out = audit(capsys, "--attack", "label_flips")
    assert code == 1
    assert "VIOLATED" in out


def test_an_unknown_attack_is_refused(capsys):
    assert audit(capsys, "--attack", "magic")[0] == 1
