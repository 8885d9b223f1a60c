"""What the paper proves about a training's risk, as named terms: as printed, corrected, and sharper
than the paper.

from pdml.paper.bounds import Setting, corrected, printed, sharper
sharper.corollary1(Setting(graph=Graph.complete(5), records=(20_000,), width=20, epsilon=1.0,
radius=10.0)).total
"""

from pdml.paper.bounds import corrected, printed, sharper
from pdml.paper.bounds.bound import Bound
from pdml.paper.bounds.promised import Complexity, Promises, promises
from pdml.paper.bounds.setting import Setting, longest_best

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
