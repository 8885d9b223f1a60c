"""How hard a text is to read, by two published formulas.

English: the Flesch-Kincaid grade level (Kincaid et al. 1975), 0.39 w + 11.8 s - 15.59, with w words
per sentence and s syllables per word. German: the first Wiener Sachtextformel (Bamberger and
Vanecek 1984), 0.1935 M + 0.1672 w + 0.1297 I - 0.0327 E - 0.875, with the percentages M of words of
three syllables or more, I of more than six letters, E of one syllable. Both are years of school.
"""

import re
from collections.abc import Callable


def sentences(text: str) -> list[list[str]]:
    """Words by sentence; a sentence ends with a point, or a question or exclamation mark."""
    parts = (
        re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", part) for part in re.split(r"[.!?…]", text)
    )
    return [words for words in parts if words]


def english_syllables(word: str) -> int:
    """Groups of vowels, without a silent e at the end: "state" and "stated" have 1 and 2."""
    plain = re.sub(r"[^a-z]", "", word.lower())
    silent = r"(?<=[^aeiouyl])e$|(?<=[^aeiouytd])ed$|(?<=[^aeiouycgsxz])es$"
    return max(1, len(re.findall(r"[aeiouy]+", re.sub(silent, "", plain))))


def german_syllables(word: str) -> int:
    """Groups of vowels: "Studie" and "Meldung" have 2."""
    diphthongs = r"ie|ei|ai|au|äu|eu|aa|ee|oo|[aeiouyäöü]"
    return max(1, len(re.findall(diphthongs, word.lower())))


def _per_word(text: str, syllables: Callable[[str], int]) -> tuple[float, list[tuple[str, int]]]:
    found = sentences(text)
    words = [(word, syllables(word)) for sentence in found for word in sentence]
    return len(words) / len(found), words


def flesch_kincaid(text: str) -> float:
    """The American school year that suffices to read an English text."""
    length, words = _per_word(text, english_syllables)
    return 0.39 * length + 11.8 * sum(count for _, count in words) / len(words) - 15.59


def wiener_sachtextformel(text: str) -> float:
    """The school year that suffices to read a German text, from 4 (easy) to 15 (hard)."""
    length, words = _per_word(text, german_syllables)

    def percent(is_one: Callable[[str, int], bool]) -> float:
        return 100 * sum(is_one(*word) for word in words) / len(words)

    many = percent(lambda _, count: count >= 3)
    long = percent(lambda word, _: len(word) > 6)
    single = percent(lambda _, count: count == 1)
    return 0.1935 * many + 0.1672 * length + 0.1297 * long - 0.0327 * single - 0.875
