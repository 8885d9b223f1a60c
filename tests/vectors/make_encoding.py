"""Write encoding.json: what every implementation of a study and of its encoding, in whatever
language, must produce.

    python tests/vectors/make_encoding.py

Nothing of the package is imported. Every operation is done in rationals and rounded once to a
double (Python's `float` of a fraction is correctly rounded), square roots by integers; float32
entries are the doubles rounded once more.
"""

import base64
import hashlib
import json
import struct
from fractions import Fraction
from math import floor, isqrt, log10
from pathlib import Path
from random import Random

PATH = Path(__file__).with_name("encoding.json")
MARGIN = Fraction(2**20 - 1, 2**20)

SERVERS = [{"name": name, "url": f"https://{name}.example"} for name in ("alice", "bob", "carol")]
RING = [["alice", "bob"], ["alice", "carol"], ["bob", "carol"]]


def study(name, attributes, classes=("no", "yes"), **head):
    """A document in the layout of study.toml, everything that has a default written out."""
    return {
        "study": {"id": name, "title": f"The study {name}", "min_records": 50, **head},
        "label": {
            "question": "Which one?",
            "classes": list(classes),
            "epsilon": {"menu": [0.4, 1, 2], "default": 1},
        },
        "attributes": attributes,
        "servers": SERVERS,
        "topology": {"edges": RING},
    }


def number(name, low, high):
    return {"kind": "number", "name": name, "range": [low, high]}


def whole(name, low, high):
    return {**number(name, low, high), "whole": True}


def category(name, *levels):
    return {"kind": "category", "name": name, "levels": list(levels)}


STUDIES = (
    (
        study("plain", [number("age", 18, 100), category("sex", "female", "male", "other")]),
        [
            {"age": 18, "sex": "female"},
            {"age": 100, "sex": "other"},
            {"age": 34, "sex": "male"},
            {"age": 17.999, "sex": "male"},
            {"age": 1e300, "sex": "male"},
            {"age": -5, "sex": "other"},
            {"age": 33.3333333333, "sex": "female"},
        ],
    ),
    (
        study(
            "zeros",
            [number("x", -1, 1), number("y", 0, 0.1), number("z", -5e-324, 1)],
            opens="2026-03-01T08:00:00Z",
        ),
        [
            {"x": 0, "y": 0, "z": 0},
            {"x": -0.0, "y": -0.0, "z": -0.0},
            {"x": -1, "y": 5e-324, "z": -5e-324},
            {"x": 1, "y": 0.1, "z": 1},
            {"x": 0.1, "y": 0.03, "z": 1e-40},
            {"x": -0.3, "y": 0.07, "z": 2e-46},
        ],
    ),
    (
        study(
            "far",
            [
                number("year", 1900000, 1900010),
                number("huge", -1e300, 1e300),
                number("tiny", 1e-9, 3e-9),
            ],
        ),
        [
            {"year": 1900003.25, "huge": 1.5e299, "tiny": 2.2e-9},
            {"year": 1900010, "huge": -1e300, "tiny": 1e-9},
            {"year": 1900000.1, "huge": 7, "tiny": 3e-9},
        ],
    ),
    (
        study(
            "letters",
            [
                category("größe", "klein", "groß", "😀"),
                {**number("Alter", 0, 120), "label": "Wie alt?", "help": "In Jahren."},
            ],
            classes=("nein", "vielleicht", "ja"),
            description='Zwei\nZeilen mit "Zitat" und \\.',
        ),
        [{"größe": "😀", "Alter": 61.5}, {"größe": "klein", "Alter": 0}],
    ),
    (
        study("whole", [whole("age", 18, 100), whole("balance", -5, 5), whole("steps", 0, 10**9)]),
        [
            {"age": 34, "balance": 0, "steps": 0},
            {"age": 100, "balance": -1, "steps": 123456789},
            {"age": 99, "balance": 3, "steps": 10**9},
            {"age": 18.0, "balance": -5, "steps": 777},
        ],
    ),
)


def rounded(value):
    """The double nearest to a fraction."""
    return Fraction(float(value))


def root(value):
    """The double nearest to a square root: enough bits by integers, and a bit that says whether
    something is left.
    """
    shift = 2 * 160
    scaled = value.numerator * (1 << shift) // value.denominator
    low = isqrt(scaled)
    exact = low * low == scaled and value.numerator * (1 << shift) % value.denominator == 0
    return rounded(Fraction(2 * low + (not exact), 2 << (shift // 2)))


def encode(attributes, answers):
    entries = []
    for attribute in attributes:
        answer = answers[attribute["name"]]
        if attribute["kind"] == "category":
            entries += [Fraction(level == answer) for level in attribute["levels"]]
        else:
            low, high = (Fraction(float(end)) for end in attribute["range"])
            inside = min(max(Fraction(float(answer)), low), high)
            entries.append(rounded(rounded(inside - low) / rounded(high - low)))
    entries.append(Fraction(1))
    total = Fraction(0)
    for entry in entries:
        total = rounded(total + rounded(entry * entry))
    factor = rounded(MARGIN / root(total))
    return b"".join(struct.pack("<f", float(entry * factor)) for entry in entries)


def decode(attributes, data):
    """Shares of the last entry, in doubles; numbers to six digits of their range."""
    entries = [value for (value,) in struct.iter_unpack("<f", data)]
    shares = iter([entry / entries[-1] for entry in entries])
    answers = {}
    for attribute in attributes:
        if attribute["kind"] == "category":
            chosen = [level for level in attribute["levels"] if next(shares) == 1]
            answers[attribute["name"]] = chosen[0]
        else:
            low, high = map(float, attribute["range"])
            six = 5 - floor(log10(high - low))
            digits = min(six, 0) if attribute.get("whole") else six
            value = round(low + next(shares) * (high - low), digits)
            answers[attribute["name"]] = min(max(value, low), high) + 0.0
    return answers


def plain(value):
    """Whole numbers without a fraction, as in the canonical form."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return (
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53
        else value
    )


def vectors():
    random = Random(5)
    studies = []
    for document, people in STUDIES:
        canonical = json.dumps(
            plain(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        cases = []
        for answers in people:
            data = encode(document["attributes"], answers)
            report = {
                "version": 1,
                "study": digest,
                "id": f"{random.getrandbits(128):032x}",
                "epsilon": random.choice([400_000, 1_000_000, 2_000_000]),
                "label": random.randrange(len(document["label"]["classes"])),
                "features": base64.b64encode(data).decode(),
                "token": random.choice(["", f"{random.getrandbits(128):032x}"]),
            }
            cases.append(
                {
                    "answers": answers,
                    "features_hex": data.hex(),
                    "decoded": decode(document["attributes"], data),
                    "report": report,
                    "report_bytes": json.dumps(report, separators=(",", ":")),
                }
            )
        studies.append(
            {
                "canonical": canonical,
                "hash": digest,
                "menu_millionths": [400_000, 1_000_000, 2_000_000],
                "cases": cases,
            }
        )
    return {
        "about": "e = (clamp(v, low, high) - low)/(high - low) + 0, levels one-hot, a "
        "constant 1 at the end; "
        "s = sum of e*e from left to right; x = float32(e * ((1 - 2^-20)/sqrt(s))), all in "
        "IEEE doubles. "
        "features_hex: little-endian float32. hash: sha256 of the canonical text in UTF-8.",
        "studies": studies,
    }


def text():
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
