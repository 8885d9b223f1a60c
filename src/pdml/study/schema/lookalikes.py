"""Texts that look alike, and texts that nobody can see: a form shows letters, not code points.

Two texts look alike if they agree after compatibility forms (NFKC) and case are folded, letters
that no screen shows are left out, and letters of other alphabets stand for their Latin twins: an
excerpt of the confusables of Unicode Technical Standard 39, which no library here carries.

Not caught: likeness within one alphabet (l, I and 1; O and 0; rn and m), accents, other alphabets
than Cyrillic, Greek and Armenian beside Latin, and what a font alone makes alike.
"""

import unicodedata

from pdml.errors import is_hidden

# Hangul fillers, an empty Braille cell, a note without a head: letters and symbols without ink
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159")
_TWINS = {  # of one alphabet and case, no two have the same twin: its own words stay apart
    "АВЕЅІЈКМНОРСТУХԚԜ": "ABESIJKMHOPCTYXQW",  # Cyrillic
    "аеѕіјорсухһԁԛԝѵӏ": "aesijopcyxhdqwvl",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ": "ABEZHIKMNOPTYX",  # Greek
    "αγικνορυχ": "ayikvopux",
    "ՍՕ": "UO",  # Armenian
    "զհոսցօ": "qhnugo",
    "ıɑɡ": "iag",  # Latin
    "‐‑‒–—―−": "-------",
    "‘’ʼ′“”″": "''''\"\"\"",
}
_LATIN = str.maketrans("".join(_TWINS), "".join(_TWINS.values()))


def is_visible(text: str) -> bool:
    """Whether a screen shows anything of it."""
    return any(_ink(letter).strip() for letter in text)


class Lookalikes:
    """Texts of one list, by what people see of them."""

    def __init__(self) -> None:
        self._by_form: dict[str, str] = {}

    def add(self, text: str) -> str:
        """Take one more text; the one before it that looks alike, or "" if none does."""
        forms = _forms(text)
        twin = next((self._by_form[form] for form in forms if form in self._by_form), "")
        self._by_form |= dict.fromkeys(forms, twin or text)
        return twin


def _forms(text: str) -> tuple[str, str]:
    """What is seen of a text: in its own letters, and in their Latin twins."""
    ink = "".join(map(_ink, unicodedata.normalize("NFKC", text)))
    return _folded(ink), _folded(ink.translate(_LATIN))


def _ink(letter: str) -> str:
    if letter in _BLANK:
        return " "
    joins = letter in "\u200c\u200d\u034f\u17b4\u17b5" or is_hidden(letter)
    return "" if joins or unicodedata.name(letter, "").startswith("VARIATION SEL") else letter


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())
