"""An attacker who reads a device's storage and has seen what other devices stored and what their
owners' answers were."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from scipy.stats import binom

FALSE_ALARM = 1e-6


def leaves(
    value: object,
    path: tuple[object, ...] = (),
) -> Iterator[tuple[tuple[object, ...], object]]:
    """Every single value in a JSON document with its place; JSON within text is opened, too."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        value = json.loads(value)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))
    else:
        yield path, value


def hits(states: Sequence[object], truths: Sequence[int], learn: int) -> int:
    """How many later answers are guessed by what was mostly true of the first ``learn`` devices.

    Of those in the same state, that is: all values that take at most four forms over all devices,
    labels, tables, flags, whatever there is.
    """
    found = [dict(leaves(state)) for state in states]
    places = sorted({place for each in found for place in each}, key=repr)
    few = [place for place in places if len({repr(each.get(place)) for each in found}) <= 4]
    keys = [tuple(repr(each.get(place)) for place in few) for each in found]
    seen: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
    for key, truth in zip(keys[:learn], truths[:learn], strict=True):
        seen[key][truth] += 1
    guesses = [seen[key].most_common(1)[0][0] if seen[key] else 0 for key in keys[learn:]]
    return sum(guess == truth for guess, truth in zip(guesses, truths[learn:], strict=True))


def most_hits(devices: int, kept: float) -> int:
    """More hits have a chance of at most `FALSE_ALARM` if a state says no more than a report does.

    Of two equally likely answers no guess from a report is right more often than a device keeps the
    true one.
    """
    return int(binom.ppf(1 - FALSE_ALARM, devices, kept))
