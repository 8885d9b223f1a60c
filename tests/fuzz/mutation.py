"""Changes to a document that keep its syntax: values become odd ones, keys go, come and move.

A fuzzer that changes bytes alone spends its time on documents that no parser reads to the end.
"""

import copy
import random
import re
from collections.abc import Callable
from typing import Any

import msgspec

ODD = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    0.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
    "",
    "a",
    " ",
    "\0",
    "\u202e",
    "é",
    "\U0001f600",
    "1e999",
    "nan",
    "../x",
    "a" * 300,
    [],
    {},
    [[]],
    [0] * 70,
)
ODD_TOML = (
    "0", "-1", "1", "2", "9223372036854775807", "1e308", "-0.0", "inf", "nan", "true", "false",
    '""', '"a"', '" "', '"\\u0000"', '"\\u202e"', "[]", "[[]]", "{}", "[1, 2]", '["a", "b"]',
    "1979-05-27", "1979-05-27T07:32:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
    "07:32:00", '"""\na\nb"""',
)  # fmt: skip
Codec = tuple[Callable[[bytes], Any], Callable[[Any], bytes]]
CODECS: dict[str, Codec] = {
    "json": (msgspec.json.decode, msgspec.json.encode),
    "msgpack": (msgspec.msgpack.decode, msgspec.msgpack.encode),
}


def mutate(data: bytes, syntax: str, heads: tuple[int, ...], random_seed: int) -> bytes | None:
    """The document after one to four changes; None if it cannot be read."""
    rng = random.Random(random_seed)
    if syntax == "toml":
        return _mutate_lines(data, rng)
    for head in heads:
        for name in (syntax, *(CODECS.keys() - {syntax})):
            decode, encode = CODECS[name]
            try:
                holder = [decode(data[head:])]
                if not isinstance(holder[0], (dict, list)):
                    continue
                for _ in range(rng.randint(1, 4)):
                    _change(holder, rng)
                return data[:head] + encode(holder[0])
            except (ValueError, TypeError, RecursionError, OverflowError):
                continue
    return None


def _places(inside: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    keys = list(inside) if isinstance(inside, dict) else range(len(inside))
    places = []
    for key in keys:
        places.append((inside, key))
        if isinstance(inside[key], (dict, list)) and depth < 20:
            places += _places(inside[key], depth + 1)
    return places


def _change(holder: list[Any], rng: random.Random) -> None:
    places = _places(holder)
    container, key = rng.choice(places)
    value = container[key]
    match rng.randrange(8):
        case 0 | 1:
            container[key] = _odd(rng)
        case 2:
            container[key] = _near(value, rng)
        case 3:
            other, name = rng.choice(places)
            container[key] = msgspec.json.decode(_as_json(other[name]))
        case 4 if container is not holder:
            del container[key]
        case 5 if isinstance(container, list) and container is not holder:
            container.insert(key, value)
        case 6 if isinstance(value, (list, dict)):
            _grow(value, rng)
        case _:
            container[key] = _near(value, rng)


def _odd(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(ODD))


def _as_json(value: Any) -> bytes:
    return msgspec.json.encode(value)  # bytes become text: another kind, which is welcome


def _grow(value: Any, rng: random.Random) -> None:
    if isinstance(value, dict):
        value[rng.choice(("a", "version", "format", ""))] = _odd(rng)
    else:
        value.append(_odd(rng))


def _near(value: Any, rng: random.Random) -> Any:
    """A value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 2**16, -value, -2 * value))
    if isinstance(value, float):
        return value * rng.choice((-1.0, 2.0, 1e-9, 1e9, 1 + 2**-52))
    if isinstance(value, (str, bytes)) and value:
        k = rng.randrange(len(value))
        return rng.choice((value[:k], value[:k] + value[k + 1 :], value + value[:1]))
    return _odd(rng)


def _mutate_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(lines))
        odd = rng.choice(ODD_TOML).encode()
        match rng.randrange(6):
            case 0 if len(lines) > 1:
                del lines[k]
            case 1:
                lines.insert(k, rng.choice(lines))
            case 2:
                lines[k : k + 1] = [lines[k], lines[rng.randrange(len(lines))]]
            case 3:  # one element of a value
                lines[k] = re.sub(
                    rb"(?<=[\[, ])[^\[\], ]+(?=[\], ])", lambda m, odd=odd: odd, lines[k], count=1
                )
            case _:
                name, _, _ = lines[k].partition(b"=")
                lines[k] = name + b"= " + odd
    return b"\n".join(lines)
