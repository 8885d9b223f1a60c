"""What one attack found: what is claimed, what was measured, and whether the one contradicts the
other.
"""

from dataclasses import dataclass, replace
from math import isinf
from typing import Any

FALSE_ALARM = 1e-6  # the chance that a true claim is reported as violated, per finding


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One claim and the attack on it.

    ``measured_lower_bound`` holds with probability ``confidence``; a claim below it is violated.
    ``quantity`` says what both are: an "epsilon", or a "ratio" to a bound that claims at most 1.
    """

    name: str
    claim: float
    measured_lower_bound: float
    confidence: float
    passed: bool
    sentence: str
    quantity: str = "epsilon"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinity as the string "inf"."""
        numbers = {"claim": self.claim, "measured_lower_bound": self.measured_lower_bound}
        return {
            "name": self.name,
            "quantity": self.quantity,
            **{name: "inf" if isinf(value) else value for name, value in numbers.items()},
            "confidence": self.confidence,
            "passed": self.passed,
            "sentence": self.sentence,
        }


def compare(
    name: str,
    claim: float,
    measured: float,
    sentence: str,
    *,
    quantity: str = "epsilon",
    confidence: float = 1 - FALSE_ALARM,
) -> Finding:
    """A finding that passes unless the measured lower bound is above the claim."""
    return Finding(
        name=name,
        claim=float(claim),
        measured_lower_bound=float(measured),
        confidence=confidence,
        passed=bool(measured <= claim),
        sentence=sentence,
        quantity=quantity,
    )


def require_ledger_rows(finding: Finding, sent: int, charged: int) -> Finding:
    """The same, but that every message must have its row of the ledger."""
    if sent == charged:
        return finding
    sentence = f"{sent} messages were sent, but the ledger has lines for {charged}"
    return replace(finding, passed=False, sentence=sentence)
