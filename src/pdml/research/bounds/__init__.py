"""What the paper proves about a training's risk, as named terms: as printed, corrected, and sharper
than the paper.

from pdml.research.bounds import Setting, corrected, printed, sharper
sharper.corollary1(Setting(graph=Graph.complete(5), records=(20_000,), width=20, epsilon=1.0,
radius=10.0)).total
"""

from pdml.research.bounds import corrected, printed, sharper
from pdml.research.bounds.promised import Complexity, Promises, promises
from pdml.research.bounds.setting import Bound, Setting, longest_best

__all__ = [
    "Bound",
    "Complexity",
    "Promises",
    "Setting",
    "corrected",
    "longest_best",
    "printed",
    "promises",
    "sharper",
]
