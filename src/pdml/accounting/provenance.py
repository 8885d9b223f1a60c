"""Who randomised the labels: whoever did it had the true ones, and hides nothing from itself."""

from math import isinf

DEVICE = "device"  # reports came through a collection service
DECLARED = "declared"  # a table whose owner says that people's devices had done it
SIMULATION = "simulation"  # one process that played every party
UNKNOWN = "unknown"  # nobody recorded it
ORGANISATION = "organisation"  # the own server, which had the true labels

RANDOMISED_BY = (DEVICE, DECLARED, SIMULATION, UNKNOWN, ORGANISATION)
"""All of them; the later, the worse for the people."""

_OWN = {
    DEVICE: "randomised on the device; training cannot weaken it",
    DECLARED: "randomised on a device, as its server declares; training cannot weaken it",
    SIMULATION: "as if randomised on a device: one process played every party and had the label",
}
_SEEN = {
    UNKNOWN: "nobody recorded who randomised it: the own server may have had the true label",
    ORGANISATION: "the own server had the true label and randomised it itself: no protection",
}
_NOTES = {
    DECLARED: "{0} declares that its labels were randomised on people's devices.",
    SIMULATION: "One process played {0} and had its true labels.",
    UNKNOWN: "The data set of {0} does not say who randomised its labels: {0} may have had them.",
    ORGANISATION: "{0} had the true labels and randomised them: nothing protects them from it.",
}


def note(server: str, by: str) -> str:
    """A sentence about a server unless people's devices are known to have randomised; "" else."""
    return _NOTES[by].format(server) if by in _NOTES else ""


def worst(*named: str) -> str:
    """The one of several that says least."""
    return max(named, key=RANDOMISED_BY.index)


def is_seen(by: str) -> bool:
    """Whether the own server had the true labels, or nobody can say that it had not."""
    return by in _SEEN


def reason(by: str, epsilon: float, *, alone: bool) -> str:
    """How a label stands against its own server, ``alone`` or with all others.

    Parameters
    ----------
    by : str
        One of `RANDOMISED_BY`.
    epsilon : float
        What the ledger says against that server.
    alone : bool
        False: together with the other servers.

    Returns
    -------
    str
        Words for the ledger's line.
    """
    if is_seen(by):
        return _SEEN[by]
    if isinf(epsilon):
        return "not randomised: the own server receives it as it is"
    return _OWN[by] if alone else "back to the randomised response alone"
