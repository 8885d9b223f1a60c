"""Names are nouns for things and verbs for functions, and no module name occurs twice."""

import builtins
import io
import keyword
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "src" / "pdml"
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


# Labels of the paper's formulas and figures, which comments cite
PAPER_LABELS = {
    "classifier_converge",
    "com_risks",
    "consensus_obs",
    "effects_M",
    "effects_epsilon",
    "effects_rho",
    "eq_p",
    "gammai_update",
    "loss_assumption",
    "modified_objective",
    "per_obj",
    "randomized_M",
    "wi_perturb",
    "wi_update",
}


def is_comment(token: tokenize.TokenInfo) -> bool:
    return token.type == tokenize.COMMENT or (
        token.type == tokenize.STRING and token.string.startswith('"""')
    )


def test_comments_speak_of_names_that_there_are() -> None:
    """Whatever stands in `backticks` is a name or a string of the code, or of the browser's."""
    script = "".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.js"))
    names = {*re.findall(r"\w+", script), *dir(builtins), *PAPER_LABELS}
    names |= {part for file in FILES for part in (*file.parts, file.stem)}
    quoted = []
    for file in FILES:
        for token in tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline):
            if is_comment(token):
                found = re.findall(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)", token.string)
                quoted += [(file.name, token.start[0], name) for name in found]
            elif token.type in (tokenize.NAME, tokenize.STRING):
                names |= set(re.findall(r"\w+", token.string))
    assert len(quoted) > 500 and "no_such_name" not in names
    assert [use for use in quoted if not names.issuperset(filter(None, use[2].split(".")))] == []


# Words for people: what must not be said, and what is said instead.
BANNED = {
    r"\bcoins?\b|\btoss(ed|es)?\b|chance (decide|has decided|made of)|after chance": (
        "randomised response"
    ),
    r"\bhouses?\b": "local model",
    r"\bown server|server that receives it|server they report to|organisation they report to": (
        "your organisation, to participants; the collecting organisation, to others"
    ),
    r"\bmade[- ]up\b": "simulated data sets",
    r"always sa(y|id)|says? the largest class": "the majority-class baseline",
    r"keep (it|them|this page) inside|\bkept inside": "do not publish",
    r"\bhold(s|ing)? the truth": "80% interval",
    r"\bshrunk\b": "clipped",
    r"\brehears(e|es|ed|al|als|ing)\b": "utility forecast",
    r"\bremed(y|ies)\b": "suggestions",
    r"assessment of the impact": "DPIA (Art. 35 GDPR)",
}
WRITTEN = [
    file
    for file in sorted(PACKAGE.rglob("*"))
    if file.suffix in {".py", ".html", ".js", ".json", ".j2"}
]
TERMS = {  # where they are terms: adversaries of the ledger, shrinkage of estimates
    r"\bown server": {"accounting", "pages/verifier/ledger.js", "research/paper/table1.py"},
    r"\bshrunk\b": {"numerics/sums/fit.py"},
}


def is_term(phrase: str, file: Path) -> bool:
    path = file.relative_to(PACKAGE).as_posix()
    return any(
        path.startswith(place)
        for pattern, places in TERMS.items()
        if re.search(pattern, phrase)
        for place in places
    )


def wording(text: str) -> list[str]:
    """Lines of a file with its names as words."""
    return text.replace("_", " ").splitlines()


@pytest.mark.parametrize("pattern", BANNED)
def test_the_package_speaks_the_words_of_the_field(pattern: str) -> None:
    """Names, comments and docstrings as well as what people read."""
    assert wording("_toss_coin = 1") == [" toss coin = 1"]
    lines = [
        f"{file.relative_to(PACKAGE)}: {line.strip()[:100]}"
        for file in WRITTEN
        for line in wording(file.read_text(encoding="utf-8"))
        for match in re.finditer(pattern, line, re.IGNORECASE)
        if not is_term(match[0], file)
    ]
    assert lines == [], f"say instead: {BANNED[pattern]}"


# The same in the docs, and words that the code no longer has.
STATISTICS = r"\bshrunk\b"  # coefficients are, rows are clipped
BANNED_IN_DOCS = {pattern: words for pattern, words in BANNED.items() if pattern != STATISTICS} | {
    r"\brows?( [a-z]+){0,6} shrunk\b": "clipped",
    r"\bcontracts?\b": "study, or job terms",
    r"\bcarriers?\b": "transport",
    r"\bdesks?\b": "control database",
    r"\bwish(es)?\b": "operator's command",
    r"\boffices?\b": "node",
    r"\brooms\b|\b(party's|new|same) room\b": "package",
    r"\bholdings\b": "training data",
    r"\bnothing is set\b": "defaults: what they are",
    r"\bby another way than\b": "verify the fingerprint out of band",
    r"\bone exchange of totals\b|\btotals that tell\b": "sufficient statistics; sums",
    r"\bledger('s)? lines?\b|\blines? of the ledger\b|\bfeatures lines?\b": "row of the ledger",
    r"\bat home\b": "on its own machine",
}
ROOT = PACKAGE.parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.py")])
ALLOWED = {  # a quotation, or another meaning of the word
    "CODE_OF_CONDUCT.md",
    "compatibility.md",  # formats by their names in the code
}


def written(page: Path) -> str:
    """What a page says: no blocks and spans of code, no links' targets; of examples the prose."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        text = "\n".join(re.findall(r"^# (.*)$", text, flags=re.M))
    text = re.sub(r"^ *```.*?```|`[^`]*`|^    [^\n]*|\]\([^)]*\)", "", text, flags=re.M | re.S)
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_docs_speak_the_words_of_the_field(page: Path) -> None:
    assert re.search(r"\brooms?\b", "a party's room") and "`desk`" not in written(page)
    text = "" if page.name in ALLOWED else written(page)
    wrong = {
        text[max(0, match.start() - 40) : match.end() + 30]: instead
        for pattern, instead in BANNED_IN_DOCS.items()
        for match in re.finditer(pattern, text, flags=re.IGNORECASE)
    }
    assert wrong == {}
