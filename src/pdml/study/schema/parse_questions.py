"""What makes tables of a document the questions of a study: [encoder], [[attributes]] and [[maps]],
every mistake of them told at once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pdml.encoding import maps as mapped
from pdml.encoding.encoder import LATEST, Attribute, Category, Encoder, Menu, Number
from pdml.errors import InvalidInput
from pdml.study.schema import fields
from pdml.study.schema.fields import (
    MOST_ATTRIBUTES,
    MOST_DIRECTIONS,
    MOST_FEATURES,
    MOST_LEVELS,
    MOST_MAPS,
    MOST_SPELLINGS,
)
from pdml.study.schema.lookalikes import Lookalikes
from pdml.study.schema.parse_menus import read_menu
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import ABSENT, Findings, called
from pdml.tables import MISSING

_OWN = {"number": "range", "category": "levels"}  # what a kind of attribute needs
_GAPS = {"number": "typical", "category": "level"}  # what missing means to it
_LATER = ("typical", "spread", "missing", "epsilon", "bins")  # keys that version 1 does not know


def read_encoder(f: Findings, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The encoder, None after a mistake, and how the form puts each question."""
    version, spellings = _version(f, tables.get("encoder", ABSENT))
    attributes, wording = _attributes(f, tables.get("attributes", ABSENT), version)
    maps = _maps(f, tables.get("maps", ABSENT), version, attributes)
    encoder = None
    if attributes:
        try:
            encoder = Encoder(
                attributes=attributes, version=version, missing_values=spellings, maps=maps
            )
        except InvalidInput as error:  # two levels whose features would have one name
            f.add(("attributes",), str(error))
    if encoder is not None and (width := encoder.n_features + 1) > MOST_FEATURES:
        most = f"attributes must have at most {MOST_FEATURES:,} features together"
        f.add(("attributes",), f"{most}, got {width:,}")
        encoder = None
    return {"encoder": encoder, "wording": wording}


def _version(f: Findings, value: object) -> tuple[int, tuple[str, ...]]:
    """How answers become features, and what stands for no answer in tables."""
    at: Path = ("encoder",)
    table = f.table(at, value, *fields.of("encoder"))
    if value is ABSENT:
        return 1, ()
    version = LATEST
    if "version" in table:
        version = f.whole_number((*at, "version"), table["version"], 1, LATEST) or LATEST
    spellings: list[str] = []
    given = table.get("missing_values", [])
    path = (*at, "missing_values")
    if version == 1 and "missing_values" in table:
        f.add(path, _of_later(path))
    elif not isinstance(given, (list, tuple)) or len(given) > MOST_SPELLINGS:
        f.wrong(path, f"be a list of at most {MOST_SPELLINGS} texts", given)
    else:
        for i, item in enumerate(given):
            if item != "":  # an empty cell, which stands for no answer anyway
                item = f.text((*path, i), item, 100)
            if item in spellings:
                f.wrong((*path, i), "differ from the others", item, "it stands there twice")
            spellings.append(item)
    return version, tuple(spellings)


def _of_later(path: Path) -> str:
    return (
        f"{called(path)} needs version {LATEST} of the encoder: write [encoder] with version = "
        f"{LATEST}"
    )


def _attributes(
    f: Findings, value: object, version: int
) -> tuple[tuple[Attribute, ...], dict[str, tuple[str, str]]]:
    found: list[Attribute] = []
    wording: dict[str, tuple[str, str]] = {}
    names: set[str] = set()
    seen = Lookalikes()
    why = "there is nothing to predict from"
    for at, item in f.tables("attributes", value, most=MOST_ATTRIBUTES, why=why):
        numbers = ("whole", "typical", "spread", "bins") if item.get("kind") != "category" else ()
        optional = ("label", "help", "missing", "epsilon", *numbers)
        table = f.table(at, item, ("name", "kind", *_own_keys(item)), optional)
        if "kind" in table and table["kind"] not in tuple(_OWN):
            f.wrong((*at, "kind"), "be 'number' or 'category'", table["kind"])
        worded = [key for key in ("label", "help") if key in table]
        texts = {key: f.text((*at, key), table[key], 500) for key in worded}
        name = f.text((*at, "name"), table["name"], 100) if "name" in table else ""
        if name in names:
            f.wrong((*at, "name"), "differ from the names of the other attributes", name)
        elif name:
            f.distinct((*at, "name"), name, seen)
        for key in (key for key in _LATER if key in table and version == 1):
            f.add((*at, key), _of_later((*at, key)))
            del table[key]
        attribute = _attribute(f, at, name or "unnamed", table)
        if name and name not in names and attribute is not None:
            found.append(attribute)
            if any(texts.values()):
                wording[name] = (texts.get("label", ""), texts.get("help", ""))
        names.add(name)
        names.discard("")
    return tuple(found), wording


def _own_keys(item: Mapping[str, Any]) -> tuple[str, ...]:
    """The key that this kind of attribute needs; while the kind is wrong, those that are there are
    not judged.
    """
    kind = item.get("kind")
    if isinstance(kind, str) and kind in _OWN:
        return (_OWN[kind],)
    return tuple({"range", "levels"} & set(item))


def _attribute(f: Findings, at: Path, name: str, table: Mapping[str, Any]) -> Attribute | None:
    before, kind = len(f.mistakes), table.get("kind")
    if kind not in tuple(_OWN) or _OWN[kind] not in table:
        return None
    missing, sensitive = table.get("missing", ""), "epsilon" in table
    gap = "level" if sensitive else _GAPS[kind]
    if missing not in ("", gap):
        why = f"that is how a {kind} goes without an answer; left out, everybody answers"
        f.wrong((*at, "missing"), f"be {gap!r}", missing, why)
        missing = ""
    menu = _epsilon(f, at, table)
    if kind == "category":
        levels = f.texts(
            (*at, "levels"),
            table["levels"],
            least=2 if sensitive and not missing else 1,
            most=MOST_LEVELS,
            refused=MISSING,
        )
        if not levels or len(f.mistakes) > before:
            return None
        return _made(f, at, Category, name=name, levels=levels, missing=missing, epsilon=menu)
    whole = f.truth((*at, "whole"), table.get("whole", False))
    ends = _range(f, (*at, "range"), table["range"])
    if ends and whole and not all(end.is_integer() for end in ends):
        why = "the attribute is whole"
        f.wrong((*at, "range"), "begin and end with whole numbers", table["range"], why)
    typical, spread = _scale(f, at, table, ends) if ends else (None, None)
    bins = _bins(f, at, table, ends) if ends else ()
    if ends is None or len(f.mistakes) > before:
        return None
    return Number(
        name=name,
        low=ends[0],
        high=ends[1],
        whole=whole,
        typical=typical,
        spread=spread,
        missing=missing,
        bins=bins,
        epsilon=menu,
    )


def _epsilon(f: Findings, at: Path, table: Mapping[str, Any]) -> Menu | None:
    """How private a sensitive answer may be; None after a mistake, too."""
    if "epsilon" not in table:
        return None
    before = len(f.mistakes)
    menu, default, weak = read_menu(f, (*at, "epsilon"), table["epsilon"])
    good = len(f.mistakes) == before and bool(menu) and not math.isnan(default)
    return Menu(menu=menu, default=default, accept_weak=weak) if good else None


def _bins(
    f: Findings, at: Path, table: Mapping[str, Any], ends: tuple[float, float]
) -> tuple[float, ...]:
    """Where the bins of a sensitive number meet."""
    path, given = (*at, "bins"), table.get("bins", ABSENT)
    if ("epsilon" in table) != (given is not ABSENT):
        what = "needs epsilon beside it" if "bins" in table else "needs bins beside epsilon"
        f.add(at, f"{called(at)} {what}: a number that chance changes is reported as a bin")
        return ()
    if given is ABSENT:
        return ()
    if "typical" in table:
        f.add((*at, "typical"), f"{called(at)} must leave typical and spread out beside bins")
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) < MOST_LEVELS:
        f.wrong(path, "be a list of numbers", given, "bins meet there")
        return ()
    edges = [f.number((*path, i), each) for i, each in enumerate(given)]
    found = tuple(each for each in edges if each is not None)
    low, high = ends
    if len(found) == len(given) and not (
        all(low < each < high for each in found) and list(found) == sorted(set(found))
    ):
        f.wrong(path, f"ascend inside the range [{low:g}, {high:g}]", given)
    return found


def _made(f: Findings, at: Path, kind: type[Category], **settings: Any) -> Category | None:
    try:
        return kind(**settings)
    except InvalidInput as error:  # a level that is called as no answer is
        f.add((*at, "levels"), str(error))
        return None


def _scale(
    f: Findings, at: Path, table: Mapping[str, Any], ends: tuple[float, float]
) -> tuple[float | None, float | None]:
    """typical and spread, both or neither."""
    given = {key: f.number((*at, key), table[key]) for key in ("typical", "spread") if key in table}
    if len(given) == 1:
        (alone,) = given
        other = "spread" if alone == "typical" else "typical"
        path = (*at, alone)
        f.add(path, f"{called(path)} must stand beside {other}: most people lie within both")
        return None, None
    typical, spread = given.get("typical"), given.get("spread")
    low, high = ends
    if typical is not None and not low <= typical <= high:
        f.wrong((*at, "typical"), f"lie in the range [{low:g}, {high:g}]", table["typical"])
    if spread is not None and not 1e-300 < spread <= high - low:
        why = "most people lie within typical ± spread"
        must = f"be positive and at most the width of the range ({high - low:g})"
        f.wrong((*at, "spread"), must, table["spread"], why)
    return typical, spread


def _range(f: Findings, path: Path, value: object) -> tuple[float, float] | None:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        f.wrong(path, "be [low, high]", value)
        return None
    low, high = (f.number((*path, i), end) for i, end in enumerate(value))
    if low is None or high is None:
        return None
    if not low < high:
        why = "answers outside are moved to its ends"
        f.wrong(path, "run from a smaller to a larger number", value, why)
        return None
    if not 1e-300 < high - low < math.inf:
        f.wrong(path, "have a width that a computer can divide by", value)
        return None
    return low, high


def _maps(
    f: Findings, value: object, version: int, attributes: Sequence[Attribute]
) -> tuple[mapped.FeatureMap, ...]:
    """Each map by itself, so that every mistake has its line."""
    found: list[mapped.FeatureMap] = []
    if value is not ABSENT and version == 1:
        f.add(("maps",), _of_later(("maps",)))
        return ()
    for at, item in f.tables("maps", value, most=MOST_MAPS, why="leave it out"):
        table = f.table(at, item, *fields.of("maps"))
        if table.get("keep") is False:
            why = "people read their answers back from what they send"
            f.wrong((*at, "keep"), "be true in a study", False, why)
        if "map" not in table:
            continue
        try:
            one = mapped.from_dict(table)
            if attributes:  # a mistake in them is told already
                alone = Encoder(attributes=tuple(attributes), version=LATEST, maps=(one,))
                one.uses(alone.expansion.inputs)  # refuses a feature that is none
                _count_directions(f, at, one, alone)
            found.append(one)
        except InvalidInput as error:
            f.add(at, f"{called(at)}: {error}")
        except (ValueError, OverflowError):  # thousands of digits
            f.add(at, f"{called(at)} holds a number that nobody can read")
    return tuple(found)


def _count_directions(f: Findings, at: Path, one: mapped.FeatureMap, encoder: Encoder) -> None:
    """A device draws each entry of a direction by a hash."""
    if isinstance(one, mapped.Fourier):
        drawn = (one.count + 1) // 2 * len(one.uses(encoder.expansion.inputs))
        if drawn > MOST_DIRECTIONS:
            f.add(
                at,
                f"{called(at)} must have at most {2 * MOST_DIRECTIONS:,} waves times columns, got "
                f"{2 * drawn:,}: every device draws their directions",
            )
