"""A plan in a file: what a training needs to keep it, and nothing else."""

import json
from dataclasses import asdict, dataclass
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Self

from pdml.accounting import Budget
from pdml.errors import DataError, InvalidInput
from pdml.files import atomic_write, read_file
from pdml.formats import Format, decode
from pdml.planning.training_plan import TrainingPlan

FORMAT = Format(name="saved plan", version=1)


@dataclass(frozen=True, kw_only=True)
class SavedPlan:
    """A plan, the links it was made for, and the budget it keeps.

    Examples
    --------
    >>> saved = SavedPlan.load("plan.json")
    >>> saved.n_servers
    4
    """

    plan: TrainingPlan
    links: tuple[tuple[int, int], ...]
    budget: Budget

    @property
    def n_servers(self) -> int:
        """As many as the links join."""
        return 1 + max(max(link) for link in self.links)

    def settings(self) -> dict[str, Any]:
        """Those of `PDMLClassifier` that it fixes."""
        settings = {"plan": self.plan, "topology": self.links, "budget": self.budget}
        return settings | {"n_servers": self.n_servers}

    def save(self, path: str | PathLike[str]) -> None:
        """Write it as JSON; an infinite allowance is written "inf"."""
        self.plan.check_shared()
        allowed = {
            name: "inf" if value == inf else value for name, value in asdict(self.budget).items()
        }
        content = {"version": FORMAT.version, "plan": self.plan.to_dict()}
        content |= {"links": self.links, "budget": allowed}
        atomic_write(Path(path), json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote: `DataError` if it is no plan, `InvalidInput` of settings."""
        try:
            data = read_file(path)
            if why := FORMAT.refusal_of(data, f"the plan {str(path)!r}"):
                raise InvalidInput(why)
            content = decode(data)
            saved_plan = cls(
                plan=TrainingPlan.from_dict(content["plan"]),
                links=tuple((int(a), int(b)) for a, b in content["links"]),
                budget=_read_budget(content["budget"]),
            )
            _ = saved_plan.n_servers  # there is at least one link
        except OSError as error:
            raise DataError(
                f"the plan {str(path)!r} cannot be read: {error.strerror or error}"
            ) from None
        except InvalidInput:
            raise
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError(f"{str(path)!r} is not a plan that `pdml plan --out` wrote") from None
        return saved_plan


def _read_budget(limits: dict[str, Any]) -> Budget:
    """As `save` wrote it: every field, with "inf" for what has no limit."""
    colluding = limits.pop("colluding")
    if set(limits) != set(asdict(Budget())) - {"colluding"}:
        raise ValueError("a limit is missing or unknown")
    return Budget(**{name: float(value) for name, value in limits.items()}, colluding=colluding)
