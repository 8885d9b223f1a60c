"""Attacks on the real code, each with an empirical lower bound beside the claim it tries to break.

from pdml.audit import QUICK, run
findings = run(QUICK, seed=1)
assert all(finding.passed for finding in findings)
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from pdml import _validate
from pdml.audit.averaging import averaging
from pdml.audit.deployed import deployed_node
from pdml.audit.finding import FALSE_ALARM, Finding
from pdml.audit.gradient_difference import gradient_difference
from pdml.audit.inference import label_inference, record_membership
from pdml.audit.label_flips import label_flips
from pdml.audit.sensitivity import sensitivity
from pdml.audit.victim import Effort
from pdml.errors import InvalidInput

__all__ = ["ATTACKS", "FALSE_ALARM", "FULL", "QUICK", "Effort", "Finding", "lacks", "run"]

Attack = Callable[[Effort, int], tuple[Finding, ...]]

ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        label_flips,
        gradient_difference,
        label_inference,
        record_membership,
        averaging,
        sensitivity,
        deployed_node,
    )
}
NEEDS = {"deployed_node": "cryptography"}  # packages that only deployments have
QUICK = Effort(transcripts=8_000, labels=200_000, pairs=300)
FULL = Effort(transcripts=40_000, labels=2_000_000, pairs=10_000)


def run(
    effort: Effort = QUICK,
    *,
    seed: int = 1,
    attacks: Sequence[str] = tuple(ATTACKS),
    on_attack: Callable[[str, int, int], None] | None = None,
) -> list[Finding]:
    """Every finding of the named attacks; ``on_attack`` hears which one begins, as (name, index,
    how many).
    """
    for name in attacks:
        _validate.choice("attack", name, tuple(ATTACKS))
        if package := lacks(name):
            raise InvalidInput(f"attack {name!r} needs the package {package}: it is not installed")
    findings: list[Finding] = []
    for k, name in enumerate(attacks):
        if on_attack is not None:
            on_attack(name, k, len(attacks))
        findings += ATTACKS[name](effort, seed)
    return findings


def lacks(attack: str) -> str:
    """The package that this attack needs and that is not installed; "" if it can run."""
    package = NEEDS.get(attack, "")
    return package if package and find_spec(package) is None else ""
