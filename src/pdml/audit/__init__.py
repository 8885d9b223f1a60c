"""Attacks on the real code, each with an empirical lower bound beside the claim it tries to break.

from pdml.audit import QUICK, run
findings = run(QUICK, seed=1)
assert all(finding.passed for finding in findings)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from pdml._registry import Registry
from pdml.audit.answer_attacks import answer_inference
from pdml.audit.coalitions import coalition
from pdml.audit.confidence import FALSE_ALARM, Finding
from pdml.audit.deployed_rounds import deployed_node
from pdml.audit.deployed_sums import deployed_sums
from pdml.audit.rounds_attacks import (
    averaging,
    gradient_difference,
    label_flips,
    label_inference,
    record_membership,
)
from pdml.audit.sensitivity import sensitivity
from pdml.audit.sums_attacks import sums_inference, sums_membership
from pdml.audit.victim import Effort
from pdml.audit.worst_pairs import worst_pair
from pdml.errors import ClaimsViolated, InvalidInput

__all__ = [
    "ATTACKS",
    "FALSE_ALARM",
    "FULL",
    "QUICK",
    "Attack",
    "Effort",
    "Finding",
    "check",
    "lacks",
    "left_out",
    "register",
    "run",
]


@dataclass(frozen=True)
class Attack:
    """One attack on the real code: an adversary, what it measures, and what that needs.

    Parameters
    ----------
    name : str
        What a command line calls it.
    measure : callable
        (effort, seed) -> findings, each a lower bound beside the claim that it tries to break.
    needs : str
        A package that not every installation has.
    """

    name: str
    measure: Callable[[Effort, int], tuple[Finding, ...]]
    needs: str = ""

    def __call__(self, effort: Effort, seed: int) -> tuple[Finding, ...]:
        return self.measure(effort, seed)

    @property
    def lacks(self) -> str:
        """What it needs and has not got here; "" if it can run."""
        return self.needs if self.needs and find_spec(self.needs) is None else ""


ATTACKS: Registry[Attack] = Registry(
    "attack",
    Attack,
    (
        Attack("label_flips", label_flips),
        Attack("gradient_difference", gradient_difference),
        Attack("label_inference", label_inference),
        Attack("record_membership", record_membership),
        Attack("averaging", averaging),
        Attack("sensitivity", sensitivity),
        Attack("sums_inference", sums_inference),
        Attack("sums_membership", sums_membership),
        Attack("answer_inference", answer_inference),
        Attack("worst_pair", worst_pair),
        Attack("coalition", coalition, "cryptography"),
        Attack("deployed_node", deployed_node, "cryptography"),
        Attack("deployed_sums", deployed_sums, "cryptography"),
    ),
)
QUICK = Effort(transcripts=8_000, labels=200_000, pairs=300)
FULL = Effort(transcripts=40_000, labels=2_000_000, pairs=10_000)


def register(attack: Attack) -> Attack:
    """Make an attack of one's own part of `run`, in this process.

    Parameters
    ----------
    attack : Attack
        One of one's own that was registered under its name is replaced.

    Returns
    -------
    Attack
        The same.
    """
    return ATTACKS.register(attack)


def run(
    effort: Effort = QUICK,
    *,
    seed: int = 1,
    attacks: Sequence[str] = (),
    on_attack: Callable[[str, int, int], None] = lambda name, index, count: None,
) -> list[Finding]:
    """Attack the real code, and put what leaks beside what is claimed.

    Parameters
    ----------
    effort : Effort
        `QUICK` takes seconds, `FULL` minutes and comes closer to the claims.
    seed : int
        Another seed: other samples.
    attacks : sequence of str
        Names in `ATTACKS`; by default all whose packages are installed (`left_out` tells others).
    on_attack : callable
        Hears which one begins, as (name, index, how many).

    Returns
    -------
    list of Finding
        `check` raises if one of them exceeds its claim.

    Raises
    ------
    InvalidInput
        For an unknown attack, or one whose package is not installed.

    Guarantees
    ----------
    - A measured bound is wrong with a chance of at most `FALSE_ALARM`.

    Examples
    --------
    >>> check(run(attacks=["label_flips"]))  # doctest: +SKIP
    """
    names = tuple(attacks) or tuple(name for name in ATTACKS if not lacks(name))
    chosen = [ATTACKS.resolve(name) for name in names]
    for attack in chosen:
        if package := attack.lacks:
            raise InvalidInput(
                f"attack {attack.name!r} needs the package {package}: it is not installed"
            )
    findings: list[Finding] = []
    for k, attack in enumerate(chosen):
        on_attack(attack.name, k, len(chosen))
        findings += attack(effort, seed)
    return findings


def check(findings: Sequence[Finding]) -> None:
    """Hold what was measured against what is claimed.

    Parameters
    ----------
    findings : sequence of Finding
        Of `run`.

    Raises
    ------
    ClaimsViolated
        If one of them exceeds its claim.
    """
    if violated := [finding for finding in findings if not finding.passed]:
        names = ", ".join(dict.fromkeys(finding.name for finding in violated))
        count = f"{len(violated)} of {len(findings)} claims"
        raise ClaimsViolated(f"{count} violated: {names}", violated)


def left_out() -> dict[str, str]:
    """Attacks that cannot run here.

    Returns
    -------
    dict
        By name, the package that each needs.
    """
    return {name: lacks(name) for name in ATTACKS if lacks(name)}


def lacks(attack: str) -> str:
    """What an attack needs and has not got here.

    Parameters
    ----------
    attack : str
        One of `ATTACKS`.

    Returns
    -------
    str
        The package that is not installed; "" if it can run.
    """
    return ATTACKS[attack].lacks
