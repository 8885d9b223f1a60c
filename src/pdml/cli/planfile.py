"""The file between `pdml plan` and `pdml train`: a plan, the links it was made for, and the budget
it keeps.
"""

import json
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from pdml.accounting import Budget
    from pdml.core.graph import Graph
    from pdml.train.plan import TrainingPlan


def text(plan: "TrainingPlan", graph: "Graph", budget: "Budget") -> str:
    """The file's content; an infinite allowance is written "inf"."""
    allowed = {name: "inf" if value == inf else value for name, value in asdict(budget).items()}
    return json.dumps(
        {"plan": plan.to_dict(), "links": [list(edge) for edge in graph.edges], "budget": allowed},
        indent=1,
    )


def read(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Settings for the estimator; ``options`` given beside the file would contradict it, so they
    are refused.
    """
    from pdml.accounting import Budget
    from pdml.train.plan import TrainingPlan

    if options:
        raise InvalidInput(
            f"--{next(iter(options)).replace('_', '-')} must be left out beside --plan: the "
            "file settles it"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        plan, links, budget = content["plan"], content["links"], content["budget"]
        edges = [(int(a), int(b)) for a, b in links]
        allowed = {str(name): float(value) for name, value in budget.items()}
        return {
            "plan": TrainingPlan.from_dict(plan),
            "topology": edges,
            "links": None,
            "n_servers": 1 + max(max(edge) for edge in edges),
            "budget": Budget(**allowed),
        }
    except OSError as error:
        raise DataError(
            f"the plan {str(path)!r} cannot be read: {error.strerror or error}"
        ) from None
    except InvalidInput:
        raise
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{str(path)!r} is not a plan that `pdml plan --out` wrote") from None
