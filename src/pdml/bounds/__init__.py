"""What the paper proves about a training's risk, as named terms: as printed, corrected, and sharper
than the paper.

from pdml.bounds import Setting, corrected, printed, sharper
sharper.corollary1(Setting(graph=Graph.complete(5), records=(20_000,), width=20, epsilon=1.0,
radius=10.0)).total
"""

from pdml.bounds import corrected, printed, sharper
from pdml.bounds.bound import VARIANTS, Bound
from pdml.bounds.setting import Setting, longest_best

__all__ = ["VARIANTS", "Bound", "Setting", "corrected", "longest_best", "printed", "sharper"]
