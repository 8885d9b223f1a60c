"""Names are nouns for things and verbs for functions, and no module name occurs twice."""

import io
import keyword
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "pdml"
FILES = sorted(PACKAGE.rglob("*.py"))
WORDS = {
    "told",
    "said",
    "found",
    "known",
    "each",
    "held",
    "given",
    "asked",
    "heard",
    "spelt",
    "taught",
    "mine",
    "own",
    "one",
    "settled",
    "shown",
    "seen",
    "made",
    "meant",
    "drawn",
    "everybody",
    "nobody",
    "somebody",
}


def identifiers(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    names = (token.string for token in tokens if token.type == tokenize.NAME)
    return [name for name in names if not keyword.iskeyword(name)]


def is_vague(name: str) -> bool:
    """Whether a participle or pronoun stands in a name for what it names."""
    return bool(WORDS & set(name.lower().strip("_").split("_")))


def test_names_say_what_they_name() -> None:
    assert is_vague("_told") and is_vague("own_server") and not is_vague("statement")
    names = [name for file in FILES for name in identifiers(file.read_text(encoding="utf-8"))]
    vague = Counter(filter(is_vague, names))
    assert 1000 * vague.total() < len(names), vague.most_common(20)


def test_no_module_name_occurs_twice() -> None:
    stems = Counter(file.stem for file in FILES if not file.stem.startswith("__"))
    assert [stem for stem, times in stems.items() if times > 1] == []


def test_no_folder_is_a_heap() -> None:
    sizes = Counter(file.parent for file in FILES if file.name != "__init__.py")
    assert max(sizes.values()) <= 17, sizes.most_common(3)
