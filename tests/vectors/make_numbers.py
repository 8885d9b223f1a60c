"""Write numbers.json: which texts are answers to a question for a number, and which number.

    python tests/vectors/make_numbers.py

Nothing of the package is imported. A text is taken apart letter by letter and becomes a rational,
which is rounded once to a double; it is an answer if that lies in the range. Digits may be Arabic,
and so may the decimal sign. For whole numbers it is refused, and so is a point or a comma, whatever follows it: 34,000 means a thousand times more to some people
than to others.
"""

import json
from fractions import Fraction
from pathlib import Path

PATH = Path(__file__).with_name("numbers.json")

ATTRIBUTES = (
    {"kind": "number", "name": "age", "range": [18, 100], "whole": True},
    {"kind": "number", "name": "age", "range": [18, 100]},
    {"kind": "number", "name": "balance", "range": [-5, 5], "whole": True},
    {"kind": "number", "name": "balance", "range": [-0.5, 0.5]},
    {"kind": "number", "name": "huge", "range": [0, 9007199254740992], "whole": True},
)
LINES = """\
34 34.5 34,5 34. 34.0 34,000 +34 034 18 17 17.9 100 100.0 100.1 101
34.00000000000000000001 34.000000000001 99.99999999999999999999 33.9999999999999999999999
0 -0 -0.0 +0 .5 ,5 -.5 -3 -3.5 5 -5 -6 0.5 0.50 -0.5 0.51 0.1
9007199254740991 9007199254740992 9007199254740993 4503599627370495.5
. , - + 1e2 1E2 0x20 1_0 34.5.5 34,5,5 1,000.5 --3 +-3 NaN nan inf Infinity
thirty 34y ½ １８ −3 1/2 34%
١٨ ٩٩ ۳۴ 3٤ ٣٤٫٥ 34٫5 ٣٤.٠ -٣ ٣٤٬٠٠٠ ٣٤،٥ ٫٥
"""
DIGITS, POINTS = "0123456789٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹", ".,٫"
TEXTS = (*LINES.split(), "", "3 4", "34\n", "1" * 400, "0." + "0" * 400 + "1")


def read(text):
    """The rational that a text of digits with at most one point or comma is, or None."""
    sign, rest = -1 if text.startswith("-") else 1, text[1:] if text[:1] in list("-+") else text
    value, scale, digits, points = Fraction(0), Fraction(1), 0, 0
    for letter in rest:
        if letter in POINTS:
            points += 1
        elif letter in DIGITS:
            digits += 1
            value = 10 * value + DIGITS.index(letter) % 10
            scale *= 10 if points else 1
        else:
            return None
    return sign * value / scale if digits and points <= 1 else None


def answer(text, attribute):
    value = read(text)
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    low, high = attribute["range"]
    if (attribute.get("whole") and set(text) & set(POINTS)) or not low <= number <= high:
        return None
    return number + 0.0


def text():
    about = "answer: the number, or null if the text is refused. Texts are not trimmed."
    rows = []
    for attribute in ATTRIBUTES:
        cases = [{"text": one, "answer": answer(one, attribute)} for one in TEXTS]
        rows.append({"attribute": attribute, "cases": cases})
    return json.dumps({"about": about, "attributes": rows}, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
