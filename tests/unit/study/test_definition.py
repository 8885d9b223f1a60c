"""The study as a value: canonical form, hash, files, and what follows from it."""

import hashlib
import json
import pickle
import re
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from example_study import TEXT
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import studies

import pdml
from pdml.errors import InvalidInput, StudyError
from pdml.planning.training_plan import TrainingPlan
from pdml.study import ServerEntry, Study
from pdml.study.schema.template import plain, render
from pdml.study.schema.toml_lines import MOST_BYTES

VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "encoding.json").read_text(encoding="utf-8")
)
STUDY = Study.from_text(TEXT, "study.toml")


def test_the_file_s_fields() -> None:
    assert pdml.Study is Study
    assert (STUDY.id, STUDY.classes, STUDY.menu, STUDY.default_epsilon) == (
        "hiv-2026",
        ("no", "yes"),
        (0.4, 1.0, 2.0),
        1.0,
    )
    assert STUDY.epsilon_micro == (400_000, 1_000_000, 2_000_000)
    assert STUDY.width == 5 and [a.name for a in STUDY.attributes] == ["age", "sex"]
    assert STUDY.opens is not None and STUDY.opens.isoformat() == "2026-03-01T07:00:00+00:00"
    assert STUDY.servers[2] == ServerEntry("carol", "http://127.0.0.1:8000")
    assert STUDY.edges == (("alice", "bob"), ("bob", "carol"))
    assert STUDY.neighbours("bob") == ("alice", "carol") and STUDY.neighbours("carol") == ("bob",)
    assert STUDY.graph().edges == ((0, 1), (1, 2))
    assert (
        STUDY.budget is not None
        and STUDY.budget.labels_epsilon == 0.1
        and STUDY.budget.labels_delta == 1e-6
    )
    assert STUDY.plan == TrainingPlan(rounds=60, noise_scale=(1.0, 2.5, 3.0))
    assert STUDY.wording["sex"].label == "Your sex"
    with pytest.raises(
        InvalidInput, match="no server 'dave': its servers are 'alice', 'bob', 'carol'"
    ):
        STUDY.server("dave")


@pytest.mark.parametrize("kind, links", [("ring", 4), ("complete", 6)])
def test_topologies_by_name(kind: str, links: int) -> None:
    servers = "".join(
        f'[[servers]]\nname = "s{i}"\nurl = "https://s{i}.example"\n' for i in range(4)
    )
    text = TEXT.split("[[servers]]")[0] + servers + f'[topology]\nkind = "{kind}"\n'
    study = Study.from_text(text)
    assert len(study.edges) == links
    pairs = ", ".join(f'["{b}", "{a}"]' for a, b in reversed(study.edges))
    spelt = Study.from_text(text.replace(f'kind = "{kind}"', f"edges = [{pairs}]"))
    assert spelt.hash == study.hash


# The hash


def shuffled(text: str, order: list[int], junk: str) -> str:
    """The same document: keys of each table in another order, comments and blank lines in
    between.
    """
    blocks = [block.strip().split("\n") for block in re.split(r"\n(?=\[)", text)]
    out = []
    for block in blocks:
        pairs = sorted(block[1:], key=lambda line: order[crc32(line.encode()) % len(order)])
        out.append(
            f"{junk}\n".join([block[0], *(line.replace(" = ", "=", 1) for line in pairs if line)])
        )
    return f"\n{junk}\n".join(out)


@given(
    st.permutations(range(7)),
    st.sampled_from(["", "# a comment", "   ", "\t# [study]", "\r"]),
    st.booleans(),
)
def test_the_hash_ignores_layout(order: list[int], junk: str, floats: bool) -> None:
    text = shuffled(TEXT, order, junk)
    if floats:
        text = (
            text.replace("[18, 100]", "[18.0, 1e2]")
            .replace("08:00:00+01:00", "07:00:00Z")
            .replace("1e-6", "0.000001")
        )
    assert Study.from_text(text).hash == STUDY.hash


def test_tables_may_come_in_any_order() -> None:
    blocks = re.split(r"\n(?=\[(?!\[))", TEXT)
    assert Study.from_text("\n".join(reversed(blocks))).hash == STUDY.hash


@pytest.mark.parametrize(
    "old, new",
    [
        ("[18, 100]", "[18, 101]"),
        ('["no", "yes"]', '["yes", "no"]'),
        ("0.4", "0.5"),
        ("default = 1.0", "default = 2.0"),
        ('"female", "male"', '"male", "female"'),
        ("https://bob.example", "https://bob.example:444"),
        ('["carol", "bob"]', '["carol", "alice"]'),
        ("epsilon = 0.1", "epsilon = 0.2"),
        ("rounds = 60", "rounds = 61"),
        ("closes = 2026-06-01T00:00:00Z", "closes = 2026-06-01T00:00:01Z"),
        ("min_records = 200", "min_records = 201"),
        ("Your sex", "your sex"),
        ("A survey.", "A survey"),
    ],
)
def test_the_hash_sees_every_change(old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    assert Study.from_text(TEXT.replace(old, new)).hash != STUDY.hash


def test_the_hash_is_sha256_of_the_canonical_json() -> None:
    data = STUDY.canonical()
    assert hashlib.sha256(data).hexdigest() == STUDY.hash
    again = json.dumps(
        json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()
    assert again == data and b": " not in data
    assert STUDY.hash == "8fb5fc6f70e431bddcc895f3cd509a3c903ec09e261a7622002a70c2145c532b"


@pytest.mark.parametrize(
    "vector", VECTORS["studies"], ids=lambda vector: json.loads(vector["canonical"])["study"]["id"]
)
def test_the_shared_vectors_hash(vector: dict[str, Any]) -> None:
    study = Study.from_canonical(vector["canonical"].encode())
    assert study.hash == vector["hash"] and list(study.epsilon_micro) == vector["menu_millionths"]
    keys = vector["memory_keys"]
    assert {token: study.memory_key(token) for token in keys} == keys


@given(studies())
@settings(max_examples=60)
def test_every_form_gives_the_same_study(study: Study) -> None:
    for other in (
        Study.from_canonical(study.canonical()),
        Study.from_text(render(study)),
        pickle.loads(pickle.dumps(study)),
    ):
        assert (
            other == study and other.canonical() == study.canonical() and hash(other) == hash(study)
        )
    assert json.loads(study.canonical())["label"]["epsilon"]["menu"] == pytest.approx(
        study.menu, rel=0
    )
    assert [round(epsilon * 1e6) for epsilon in study.menu] == list(
        study.epsilon_micro
    )  # what a browser computes


# What is refused


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["study", "label", "id", "servers", "plan", "x"]), inner, max_size=4
            )
        ),
    ).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))
)
def test_any_canonical_bytes_are_a_study_or_a_study_error(data: bytes) -> None:
    with pytest.raises(StudyError):
        Study.from_canonical(data)


def swapped(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = swapped(value[path[0]], path[1:], new)
    return copy


def paths(value: Any) -> list[tuple[Any, ...]]:
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [()] + [(key, *rest) for key, item in pairs for rest in paths(item)]


DOCUMENT = json.loads(STUDY.canonical())
JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    1e400,
    10**400,
    1 << 20_000,
    0.5,
    "",
    " x",
    "x" * 6000,
    "\x00",
    "\ud800",
    [],
    [[]],
    {},
    {"": 1},
    ["a", "a"],
]


SECOND = DOCUMENT | {
    "encoder": {"version": 2, "missing_values": ["?"]},
    "attributes": [
        DOCUMENT["attributes"][0] | {"average": 45, "spread": 15, "missing": "average"},
        DOCUMENT["attributes"][1] | {"missing": "level"},
    ],
    "maps": [
        {"map": "squares", "columns": ["age"], "keep": True},
        {"map": "products", "pairs": [["age", "sex=male"]], "keep": True},
        {"map": "bins", "edges": [0.5], "keep": True},
        {"map": "fourier", "count": 3, "scale": 0.7, "seed": 1, "keep": True},
    ],
}
TRANSLATED = DOCUMENT | {
    "study": DOCUMENT["study"] | {"language": "en"},
    "consent": {"text": "I agree.", "version": "1"},
    "languages": [
        {
            "code": "de",
            "title": "Wer?",
            "description": "Eine Umfrage.",
            "question": "Krank?",
            "classes": ["nein", "ja"],
            "attributes": [
                {"name": "age", "label": "Alter"},
                {"name": "sex", "label": "Geschlecht", "levels": ["w", "m", "d"]},
            ],
            "consent": {"text": "Ja."},
        }
    ],
}
PLACES = [(one, path) for one in (DOCUMENT, SECOND, TRANSLATED) for path in paths(one)]


@given(st.sampled_from(PLACES), st.sampled_from(JUNK))
@settings(max_examples=600)
def test_any_value_anywhere_is_a_study_or_a_study_error(
    place: tuple[dict[str, Any], tuple[Any, ...]], junk: Any
) -> None:
    """Nothing but StudyError comes out, whatever stands in whichever place."""
    try:
        study = Study.from_document(swapped(*place, junk))
    except StudyError as error:
        assert error.mistakes and all(line == 0 and text for line, text in error.mistakes)
    else:
        assert Study.from_canonical(study.canonical()) == study


def test_a_map_of_a_feature_that_is_none_is_refused_where_it_stands() -> None:
    other = swapped(SECOND, ("maps", 1, "pairs", 0, 0), "height")
    with pytest.raises(StudyError, match=r"maps\[2\]: .*got 'height'"):
        Study.from_document(other)


def test_errors_travel_between_processes() -> None:
    error = StudyError("a.toml", [(3, "x must be y")])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.mistakes) == (str(error), ((3, "x must be y"),)) and "line 3" in str(
        again
    )


def test_canonical_form_has_one_spelling() -> None:
    with pytest.raises(StudyError, match="canonical form"):
        Study.from_canonical(STUDY.canonical() + b" ")
    with pytest.raises(StudyError, match="must be JSON"):
        Study.from_canonical(b"{")


def test_studies_made_in_python_obey_the_same_rules() -> None:
    given = {
        name: getattr(STUDY, name)
        for name in (
            "id",
            "title",
            "question",
            "classes",
            "menu",
            "default_epsilon",
            "encoder",
            "servers",
            "edges",
        )
    }
    assert Study(**given).width == 5
    with pytest.raises(
        StudyError, match=r"2 mistakes: study.id must .*; label.epsilon.default must be on the menu"
    ):
        Study(**{**given, "id": "A B", "default_epsilon": 3.0})
    with pytest.raises(InvalidInput, match="declared types"):
        Study(**{**given, "encoder": None})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    with pytest.raises(InvalidInput, match=r"cannot read .*no such file"):
        Study.load(path)
    with pytest.raises(InvalidInput, match=r"cannot read .*folder"):
        Study.load(tmp_path)
    path.write_bytes(b'[study]\ntitle = "\xff"\n')
    with pytest.raises(StudyError, match=r"line 2: .*UTF-8"):
        Study.load(path)
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(StudyError, match="at most 4,194,304 bytes"):
        Study.load(path)
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert Study.load(path).hash == STUDY.hash


@pytest.mark.parametrize(
    "text, result",
    [
        ("[study]\nid = \n", r"line 2: this is not TOML: invalid value \(column 6\)"),
        ("[study]\nid = 'a'\nid = 'b'\n", "line 3: this is not TOML"),
        ("[study]\n\nx = '''\n", r"line 3: this is not TOML: .*\(at the end\)"),
        ("x = " + "[" * 5000, "not TOML|nobody can read"),
        ("x = " + "9" * 5000, "nobody can read"),
    ],
)
def test_text_that_is_not_toml(text: str, result: str) -> None:
    with pytest.raises(StudyError, match=result):
        Study.from_text(text)


@given(st.text(max_size=80) | st.text("[]{}=\"'.,#\n ab1", max_size=80))
def test_any_text_is_a_study_error(text: str) -> None:
    with pytest.raises(StudyError) as caught:
        Study.from_text(text)
    assert all(0 <= line <= text.count("\n") + 1 for line, _ in caught.value.mistakes)


@given(studies())
def test_the_plain_text_gives_the_study_back_in_one_spelling(study: Study) -> None:
    """A result holds it: a function of the study alone, without comments."""
    text = plain(study)
    assert Study.from_text(text) == study
    assert plain(Study.from_text(text)) == text
    assert not any(line.startswith("#") for line in text.splitlines())
