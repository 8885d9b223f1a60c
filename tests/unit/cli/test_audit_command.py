"""`pdml audit` as people call it."""

import json
from dataclasses import replace

from running import run

from pdml.audit import ATTACKS


def audit(capsys, *arguments):
    return run(capsys, "audit", "--jobs", "1", *arguments)[:2]


def test_an_attack_without_its_package_is_left_out_and_says_so(capsys, monkeypatch):
    for name, attack in ATTACKS.items():
        if name != "label_flips":
            monkeypatch.setitem(ATTACKS, name, replace(attack, needs="no_such_package"))
    code, out = audit(capsys)
    assert code == 0 and "All 4 claims hold." in out
    assert "Left out: deployed_node, which needs the package no_such_package." in out
    assert audit(capsys, "--attack", "deployed_node") == (1, "")


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
    code, out, err = run(capsys, "audit", "--jobs", "1", "--attack", "label_flips")
    assert code == 1 and "VIOLATED" in out
    assert "claims violated: label_flips" in err and err.count("\n") == 1


def test_an_unknown_attack_is_refused(capsys):
    assert audit(capsys, "--attack", "magic")[0] == 1
