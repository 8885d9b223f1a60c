"""Rows of entries, as a pipeline finishes them."""

from pdml.encoding.row_steps import finish, take


def scale_and_clip(entries, mass, *, constant=True, bound=1.0, blocks=()):
    """Rows of entries with codes at their end, and their norms before they were clipped."""
    clear = blocks[0].start if blocks else entries.shape[1]
    steps = finish(mass, blocks, constant=constant, bound=bound)
    return take(steps, entries[:, :clear], entries[:, clear:])
