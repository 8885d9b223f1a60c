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
from math import ceil, floor, isqrt, log10
from pathlib import Path
from random import Random

PATH = Path(__file__).with_name("encoding.json")
MARGIN = Fraction(2**20 - 1, 2**20)
SIZE, CONSTANT, WIDTH = Fraction(1.5), Fraction(0.2), 6  # a range's width in spreads

SERVERS = [{"name": name, "url": f"https://{name}.example"} for name in ("alice", "bob", "carol")]
RING = [["alice", "bob"], ["alice", "carol"], ["bob", "carol"]]


def study(name, attributes, classes=("no", "yes"), more=None, **head):
    """A document in the layout of study.toml, everything that has a default written out."""
    return {
        **(more or {}),
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


def scaled(name, low, high, average, spread):
    return {**number(name, low, high), "average": average, "spread": spread}


def secret(attribute, *menu):
    """With an ε of its own."""
    weak = {"accept_weak": True} if menu[-1] > 2.9 else {}
    return {**attribute, "epsilon": {"menu": list(menu), "default": menu[0], **weak}}


def binned(name, low, high, *bins):
    return {**number(name, low, high), "bins": list(bins)}


NUMBERS = [
    scaled("age", 18, 100, 45, 15),
    {**scaled("income", 0, 1e7, 30000, 20000.5), "missing": "average"},
    number("bmi", 10, 60),
]


STATUS = secret(category("status", "single", "married", "divorced", "widowed"), 0.5, 1, 2)
INCOME = secret({**binned("income", 0, 200, 20, 50.5, 100), "missing": "level"}, 0.01, 2.5)
SMOKES = secret({**category("smokes", "no", "yes"), "missing": "level"}, 0.333333, 1, 5)
TALL = secret(binned("tall", -1e-3, 1e7, 170), 1.1)


# Of sensitive answers a case has what was drawn: [level, ε in millionths] of each.
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
        study(
            "agreed",
            [category("sex", "female", "male")],
            more={
                "organiser": {"name": "Klinik Süd", "address": "1 Weg", "contact": "a@b.example"},
                "notice": {
                    "purpose": "A test.",
                    "legal_basis": "Consent.",
                    "who_sees": "Nobody.",
                    "retention": "2036-01-01T00:00:00Z",
                },
                "consent": {"text": "Ja, ich will.\nWirklich.", "version": "1.0-de"},
            },
        ),
        [{"sex": "female"}, {"sex": "male"}],
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
    (
        study(
            "average",
            [
                *NUMBERS,
                {**whole("children", 0, 20), "average": 1, "spread": 1.3},
                {**category("sex", "female", "male"), "missing": "level"},
                category("one", "only"),
            ],
            more={"encoder": {"missing_values": ["NA", "?"]}},
        ),
        [
            person | {"one": "only"}
            for person in (
                {"age": 45, "income": 30000, "bmi": 35, "children": 1, "sex": "female"},
                {"age": 90, "income": None, "bmi": 10, "children": 2, "sex": None},
                {"age": 91, "income": 1e7, "bmi": 60, "children": 20, "sex": "male"},
                {"age": 18, "income": 0, "bmi": 22.5, "children": 0, "sex": "male"},
                {"age": -1e300, "income": 1e300, "bmi": 34.999, "children": 5, "sex": None},
                {"age": 46.125, "income": 90001.5, "bmi": 35.00001, "children": 4, "sex": "female"},
            )
        ],
    ),
    (
        study("levels", [category("sex", "female", "male", "other")]),
        [{"sex": "female"}, {"sex": "other"}],
    ),
    (
        study("still", [category("one", "only")]),
        [{"one": "only"}],
    ),
    (
        study(
            "mapped",
            [*NUMBERS, category("sex", "female", "male")],
            more={
                "maps": [
                    {"map": "squares", "keep": True},
                    {
                        "map": "products",
                        "pairs": [["age", "bmi"], ["age", "sex=male"], ["bmi", "bmi"]],
                        "keep": True,
                    },
                    {"map": "splines", "columns": ["bmi", "age"], "keep": True},
                    {"map": "bins", "columns": ["age"], "count": 7, "keep": True},
                    {
                        "map": "bins",
                        "columns": ["bmi", "income"],
                        "edges": [-1.5, 0, 0.1],
                        "keep": True,
                    },
                    {
                        "map": "fourier",
                        "columns": ["age", "bmi", "sex=male"],
                        "count": 9,
                        "scale": 0.7,
                        "seed": 11,
                        "keep": True,
                    },
                ]
            },
        ),
        [
            {"age": 45, "income": 30000, "bmi": 35, "sex": "female"},
            {"age": 63, "income": None, "bmi": 35, "sex": "male"},
            {"age": 18, "income": 0, "bmi": 60, "sex": "male"},
            {"age": 100, "income": 123456.789, "bmi": 36.25, "sex": "female"},
            {"age": 33.3, "income": 1e7, "bmi": 10, "sex": "male"},
        ],
    ),
    (
        study(
            "sensitive",
            [
                STATUS,
                scaled("age", 18, 100, 45, 15),
                INCOME,
                {**category("sex", "female", "male"), "missing": "level"},
                SMOKES,
            ],
            more={
                "maps": [
                    {"map": "squares", "keep": True},
                    {"map": "bins", "columns": ["age"], "count": 3, "keep": True},
                ]
            },
        ),
        [
            ({"age": 45, "sex": "male"}, [[0, 500_000], [0, 10_000], [0, 333_333]]),
            ({"age": 91, "sex": "female"}, [[3, 2_000_000], [4, 2_500_000], [2, 5_000_000]]),
            ({"age": 18, "sex": None}, [[1, 1_000_000], [2, 10_000], [1, 1_000_000]]),
        ],
    ),
    (
        study("all", [TALL, STATUS]),
        [({}, [[0, 1_100_000], [2, 1_000_000]]), ({}, [[1, 1_100_000], [3, 500_000]])],
    ),
    (
        study("wide", [secret(category("one", *map(str, range(60))), 0.01, 1)]),
        [({}, [[59, 10_000]]), ({}, [[0, 1_000_000]])],
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


TURN = Fraction(6.283185307179586)


def limited(entry):
    return min(max(entry, Fraction(-3)), Fraction(3))


def scale_of(attribute):
    if "average" in attribute:
        return Fraction(float(attribute["average"])), Fraction(float(attribute["spread"]))
    low, high = (Fraction(float(end)) for end in attribute["range"])
    middle = rounded(rounded(low / 2) + rounded(high / 2))
    return middle, rounded(rounded(high / WIDTH) - rounded(low / WIDTH))


def centred(chosen, count):
    share = rounded(Fraction(1, count))
    return [rounded(1 - share) if k == chosen else -share for k in range(count)]


def level_mass(count):
    return rounded(Fraction(count - 1, count * count))


def first_entries(attribute, answer):
    """[(name, entry, mass), ...] of one answer."""
    name = attribute["name"]
    if attribute["kind"] == "category":
        names = [f"{name}={level}" for level in attribute["levels"]]
        names += [f"{name}=prefer not to say"] if attribute.get("missing") else []
        levels = attribute["levels"]
        chosen = len(levels) if answer is None else levels.index(answer)
        entries = centred(chosen, len(names))
        return [(n, e, level_mass(len(names))) for n, e in zip(names, entries, strict=True)]
    average, spread = scale_of(attribute)
    low, high = (Fraction(float(end)) for end in attribute["range"])
    inside = average if answer is None else min(max(Fraction(float(answer)), low), high)
    found = [(name, limited(rounded(rounded(inside - average) / spread)), Fraction(1))]
    if attribute.get("missing"):
        mass = Fraction(0.1)
        found.append((f"{name}=prefer not to say", Fraction(answer is None), mass))
    return found


def wave(turns):
    """cos(2π t) by the polynomial."""
    u = rounded(rounded(turns - floor(turns)) - Fraction(1, 2))
    v, total, square = rounded(u * u), Fraction(0), rounded(TURN * TURN)
    for k in range(11, 0, -1):
        step = rounded(-square / ((2 * k - 1) * (2 * k)))
        total = rounded(rounded(rounded(1 + total) * v) * step)
    return rounded(-1 - total)


def direction(seed, k, j, scale):
    digest = hashlib.sha256(f"pdml-fourier {seed} {k} {j}".encode()).digest()
    words = sum(int.from_bytes(digest[i : i + 2], "big") for i in range(0, 32, 2))
    unit = rounded(rounded(75674 * TURN) * Fraction(scale))
    share = rounded(rounded(Fraction(words - 524280) / unit) * 65536)
    return Fraction(floor(rounded(share + Fraction(1, 2))), 65536)


def inside(e):
    return min(max(e, Fraction(-2)), Fraction(2))


def mapped(one, first, numbers):
    """[(entry, mass), ...] of a map."""
    by_name = {name: (entry, mass) for name, entry, mass in first}
    used = [by_name[name] for name in one.get("columns", numbers)]
    if one["map"] == "squares":
        half = root(Fraction(1, 2))
        return [
            (limited(rounded(rounded(rounded(e * e) - 1) * half)), Fraction(1)) for e, _ in used
        ]
    if one["map"] == "products":
        pairs = [(by_name[a], by_name[b]) for a, b in one["pairs"]]
        return [(limited(rounded(a * b)), rounded(m * n)) for (a, m), (b, n) in pairs]
    if one["map"] == "splines":
        hats = ((-2, 77, 48), (-1, 246, 105), (0, 378, 120), (1, 246, 105), (2, 77, 48))
        return [
            (
                rounded(max(rounded(1 - abs(rounded(inside(e) - knot))), 0) - Fraction(mean, 1024)),
                Fraction(mass, 1024),
            )
            for e, _ in used
            for knot, mean, mass in hats
        ]
    if one["map"] == "bins":
        n = one.get("count")
        equal = (rounded(2 * rounded(rounded(Fraction(2 * k, n)) - 1)) for k in range(1, n or 1))
        edges = [Fraction(float(edge)) for edge in one["edges"]] if "edges" in one else list(equal)
        count = len(edges) + 1
        return [
            (part, level_mass(count))
            for e, _ in used
            for part in centred(sum(edge <= e for edge in edges), count)
        ]
    waves = []
    for k in range((one["count"] + 1) // 2):
        turns = Fraction(0)
        for j, (e, _) in enumerate(used):
            turns = rounded(turns + rounded(e * direction(one["seed"], k, j, one["scale"])))
        waves += [wave(turns), wave(rounded(turns - Fraction(1, 4)))]
    return [(rounded(w * root(Fraction(2))), Fraction(1)) for w in waves[: one["count"]]]


def added(values):
    total = Fraction(0)
    for value in values:
        total = rounded(total + value)
    return total


def exponential(value):
    """e to a fraction, with far more bits than a code has."""
    total, term, j = Fraction(0), Fraction(1), 0
    while term > Fraction(1, 1 << 200):
        total, j = total + term, j + 1
        term = term * value / j
    return total


def weight(micro, count):
    """What de-biases a code: rounded down to a multiple of 2^-40."""
    odds = exponential(Fraction(micro, 10**6))
    return rounded(Fraction(floor((odds + count - 1) / (odds - 1) * 2**40), 2**40))


def sensitive(document):
    return [one for one in document["attributes"] if "epsilon" in one]


def count_of(attribute):
    own = len(attribute["bins"]) + 1 if "bins" in attribute else len(attribute["levels"])
    return own + ("missing" in attribute)


def codes(document, drawn, mass):
    """The entries of what was drawn, and how long the rest of the row may be."""
    found, left = [], Fraction(1)
    for one, (level, micro) in zip(sensitive(document), drawn, strict=True):
        count = count_of(one)
        share = rounded(1 - rounded(Fraction(1, count)))
        free = rounded(1 - rounded(CONSTANT * CONSTANT))
        length = rounded(MARGIN * root(rounded(free * rounded(share / mass))))
        smallest = round(Fraction(str(one["epsilon"]["menu"][0])) * 10**6)
        scale = rounded(length / rounded(weight(smallest, count) * root(share)))
        loud = weight(micro, count)
        found += [rounded(rounded(e * loud) * scale) for e in centred(level, count)]
        part = rounded(length / MARGIN)
        left = rounded(left - rounded(part * part))
    return found, rounded(MARGIN * root(left))


def row_factor(document, answers):
    """The entries of a row but for codes, what all of them are multiplied by, and the
    mass that says so.
    """
    attributes = [one for one in document["attributes"] if "epsilon" not in one]
    first = [each for one in attributes for each in first_entries(one, answers[one["name"]])]
    numbers = [one["name"] for one in attributes if one["kind"] == "number"]
    made = [each for one in document.get("maps", ()) for each in mapped(one, first, numbers)]
    entries = [entry for _, entry, _ in first] + [entry for entry, _ in made]
    counts = [count_of(one) for one in sensitive(document)]
    mass = added(
        [mass for *_, mass in first]
        + [mass for _, mass in made]
        + [level_mass(count) for count in counts for _ in range(count)]
    )
    return entries, rounded(SIZE / root(mass)) if mass else Fraction(1), mass


def encode(document, answers, drawn):
    entries, factor, mass = row_factor(document, answers)
    row = [rounded(entry * factor) for entry in entries] + [CONSTANT]
    norm = root(added([rounded(entry * entry) for entry in row]))
    coded, room = codes(document, drawn, mass)
    clipped = rounded(room / max(norm, room))
    *clear, constant = (rounded(entry * clipped) for entry in row)
    return b"".join(struct.pack("<f", float(entry)) for entry in (*clear, *coded, constant))


def decode(document, data, answers):
    """What can be read back of a row: in shares of its last entry, the constant; codes
    apart.
    """
    entries = [value for (value,) in struct.iter_unpack("<f", data)]
    _, factor, _ = row_factor(document, answers)
    unit = float(CONSTANT) / float(factor)
    entries = iter([entry / entries[-1] * unit for entry in entries])
    found = {}
    for attribute in document["attributes"]:
        if "epsilon" in attribute:
            continue
        name, missing = attribute["name"], "missing" in attribute
        if attribute["kind"] == "category":
            part = [next(entries) for _ in range(len(attribute["levels"]) + missing)]
            found[name] = (attribute["levels"] + [None])[part.index(max(part))]
            continue
        off, silent = next(entries), next(entries) if missing else 0
        found[name] = None if silent > 0.5 else number_behind(attribute, off)
    return found


def number_behind(attribute, off):
    """To six digits of what can be told; three spreads away may be farther."""
    average, spread = map(float, scale_of(attribute))
    low, high = map(float, attribute["range"])
    least, most = low, high
    if "average" in attribute:
        least, most = max(low, average - 3 * spread), min(high, average + 3 * spread)
    six = 5 - floor(log10(most - least))
    digits = min(six, 0) if attribute.get("whole") else six
    if off > 3 - 1e-6 and most < high:
        return (
            f"{ceil(most - 1e-6) if attribute.get('whole') else round(most, digits):.15g} or more"
        )
    if off < -3 + 1e-6 and least > low:
        return f"{floor(least + 1e-6) if attribute.get('whole') else round(least, digits):.15g} or less"
    return min(max(round(average + off * spread, digits), least), most) + 0.0


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


def agreed(document):
    """What a report carries of a person's consent."""
    if "consent" not in document:
        return {"consent": "", "consent_version": ""}
    digest = hashlib.sha256(document["consent"]["text"].encode()).hexdigest()
    return {"consent": digest, "consent_version": document["consent"]["version"]}


def unkeyed(canonical):
    """The hash of a study without what revisions change."""
    document = json.loads(canonical)
    document.pop("relay", None)
    document["study"].pop("replaces", None)
    document["servers"] = [
        {key: one[key] for key in ("name", "url")} for one in document["servers"]
    ]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def memory_key(key, token):
    """One person's: another invitation is another."""
    person = hashlib.sha256(f"pdml person {key} {token}".encode()).hexdigest()[:32]
    return f"{key} {person}" if token else key


def vectors():
    random = Random(5)
    studies = []
    for document, people in STUDIES:
        canonical = json.dumps(
            plain(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        key = unkeyed(canonical)
        cases = []
        for person in people:
            answers, drawn = person if isinstance(person, tuple) else (person, [])
            data = encode(document, answers, drawn)
            report = {
                "version": 1,
                "study": digest,
                "id": f"{random.getrandbits(128):032x}",
                "nonce": f"{random.getrandbits(128):032x}",
                "epsilon": random.choice([400_000, 1_000_000, 2_000_000]),
                "label": random.randrange(len(document["label"]["classes"])),
                "features": base64.b64encode(data).decode(),
                "token": random.choice(["", f"{random.getrandbits(128):032x}"]),
                **agreed(document),
            }
            cases.append(
                {
                    "answers": answers,
                    **({"drawn": drawn} if drawn else {}),
                    "features_hex": data.hex(),
                    "decoded": decode(document, data, answers),
                    "report": report,
                    "report_bytes": json.dumps(report, separators=(",", ":")),
                }
            )
        studies.append(
            {
                "canonical": canonical,
                "hash": digest,
                "memory_keys": {token: memory_key(key, token) for token in ("", "ab" * 16, digest)},
                "menu_millionths": [400_000, 1_000_000, 2_000_000],
                "cases": cases,
            }
        )
    return {
        "about": "e = clip((v - average)/spread, 3) and levels less 1/L, then maps; "
        "x = float32((e*1.5/sqrt(mass), 0.2) clipped to a norm of 1 - 2^-20 at most), all in "
        "IEEE doubles. "
        "drawn: level and epsilon in millionths of each sensitive answer, whose code stands before "
        "the constant. "
        "features_hex: little-endian float32. hash: sha256 of the canonical text in UTF-8. "
        "memory_keys: by invitation, under which a device remembers its person; '' for nobody's.",
        "studies": studies,
    }


def text():
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
