"""A bound as named terms: what labels, the two noises and unfinished optimisation may cost."""

from dataclasses import dataclass

TERMS = ("labels", "objective", "iterates", "optimisation")


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Δ J_P of one classifier (``classifiers`` = 1), or summed over the servers' classifiers, is at
    most ``total``.
    """

    statement: str
    variant: str
    classifiers: int
    labels: float  # finitely many records, with randomised labels
    objective: float  # η
    iterates: float  # θ
    optimisation: float  # rounds that were not run, and inexact solves

    @property
    def total(self) -> float:
        return self.labels + self.objective + self.iterates + self.optimisation

    @property
    def per_classifier(self) -> float:
        return self.total / self.classifiers

    @property
    def terms(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in TERMS}

    @property
    def dominant(self) -> str:
        """The largest term's name."""
        return max(self.terms, key=self.terms.__getitem__)
