"""Lines of keys: by hand, and for any document in any layout."""

import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.study.schema.toml_lines import Path, lines

TEXT = '''\
# comment = 1
title = "a # b" # [x]
"quoted key" . inner = \'\'\'
two
lines\'\'\'   # and on

[a.b]  # a table
x = [
  1,   # one ]
  [2,
   "]"], { y = 3, z = [ 4 ] },
]
t = 1979-05-27 07:32:00Z
s = """
  \\"""
""""
[[list]]
v = 1
[[list]]
v.w = 2
[list.deep]
u = \'[[\'
[[list.deep.more]]
k = 1
'''


def test_by_hand() -> None:
    found = lines(TEXT)
    expected: dict[Path, int] = {
        ("title",): 2,
        ("quoted key",): 3,
        ("quoted key", "inner"): 3,
        ("a",): 7,
        ("a", "b"): 7,
        ("a", "b", "x"): 8,
        ("a", "b", "x", 0): 9,
        ("a", "b", "x", 1): 10,
        ("a", "b", "x", 1, 0): 10,
        ("a", "b", "x", 1, 1): 11,
        ("a", "b", "x", 2): 11,
        ("a", "b", "x", 2, "y"): 11,
        ("a", "b", "x", 2, "z"): 11,
        ("a", "b", "x", 2, "z", 0): 11,
        ("a", "b", "t"): 13,
        ("a", "b", "s"): 14,
        ("list",): 17,
        ("list", 0): 17,
        ("list", 0, "v"): 18,
        ("list", 1): 19,
        ("list", 1, "v"): 20,
        ("list", 1, "v", "w"): 20,
        ("list", 1, "deep"): 21,
        ("list", 1, "deep", "u"): 22,
        ("list", 1, "deep", "more"): 23,
        ("list", 1, "deep", "more", 0): 23,
        ("list", 1, "deep", "more", 0, "k"): 24,
    }
    assert found == expected


def paths(value: Any, path: Path = ()) -> set[Path]:
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return {path} - {()} | {found for key, item in pairs for found in paths(item, (*path, key))}


gaps = st.sampled_from(["", " ", "\n", ' # ] } , = [[x]] "\n', "\n\n  ", "\r\n"])
spaces = st.sampled_from(["", " ", "\t "])
ends = st.sampled_from(["\n", "\r\n", ' # \' """ [\n', "\n\n# = \n"])
keys = st.sampled_from(["a", "b", "c", "d-1", "3", '"q.r"', "'x y'", '"\\u00e9\\""', '""'])
scalars = st.sampled_from(
    [
        "1",
        "-2.5e3",
        "true",
        "1979-05-27 07:32:00",
        "07:32:00",
        '"x]#,"',
        "'}='",
        '"""a\n"b" ""c\\\n  """',
        "'''\n'x'\n''''",
        '"\\\\"',
        "inf",
        '""',
        "''",
    ]
)


@st.composite
def values(draw: st.DrawFn, depth: int = 0) -> str:
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "inline"])) if depth < 3 else "scalar"
    if kind == "scalar":
        return draw(scalars)
    if kind == "array":
        items = draw(st.lists(values(depth + 1), max_size=3))
        inner = "".join(f"{draw(gaps)}{item}{draw(gaps)}," for item in items)
        return f"[{inner[:-1] if inner and draw(st.booleans()) else inner}{draw(gaps)}]"
    names = draw(st.lists(keys, max_size=3, unique=True))
    return (
        "{"
        + ",".join(
            f"{draw(spaces)}{name}{draw(spaces)}={draw(spaces)}{draw(values(depth + 1))}{draw(spaces)}"
            for name in names
        )
        + "}"
    )


@st.composite
def documents(draw: st.DrawFn) -> str:
    text = ""
    for _ in range(draw(st.integers(1, 6))):
        header = ".".join(
            f"{draw(spaces)}{key}{draw(spaces)}"
            for key in draw(st.lists(keys, min_size=1, max_size=3))
        )
        kind = draw(st.sampled_from(["", "[]", "[[]]", "[[]]"]))
        text += (
            f"{draw(spaces)}{kind[: len(kind) // 2]}{header}{kind[len(kind) // 2 :]}{draw(ends)}"
            if kind
            else ""
        )
        for name in draw(st.lists(keys, max_size=3, unique=True)):
            dotted = (
                f"{name}{draw(spaces)}.{draw(spaces)}{draw(keys)}" if draw(st.booleans()) else name
            )
            text += (
                f"{draw(spaces)}{dotted}{draw(spaces)}={draw(spaces)}{draw(values())}{draw(ends)}"
            )
    return text


@given(documents())
@settings(max_examples=300)
def test_exactly_the_paths_of_the_document_are_found_and_their_keys_stand_there(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a key defined twice
    found = lines(text)
    assert set(found) == paths(document)
    rows = text.split("\n")
    for path, line in found.items():
        if isinstance(path[-1], str) and path[-1] in ("a", "b", "c", "d-1", "3", "q.r", "x y"):
            assert path[-1] in rows[line - 1]
