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
from pdml.study.schema.validation import ABSENT, ValidationErrors, format_path
from pdml.tables import MISSING

_REQUIRED_KEY = {"number": "range", "category": "levels"}  # what a kind of attribute needs
_GAPS = {"number": "typical", "category": "level"}  # what missing means to it
_LATER = ("typical", "spread", "missing", "epsilon", "bins")  # keys that version 1 does not know


def read_encoder(f: ValidationErrors, tables: Mapping[str, Any]) -> dict[str, Any]:
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


def _version(f: ValidationErrors, value: object) -> tuple[int, tuple[str, ...]]:
    """How answers become features, and what stands for no answer in tables."""
    at: Path = ("encoder",)
    table = f.table(at, value, *fields.of("encoder"))
    if value is ABSENT:
        return 1, ()
    version = LATEST
    if "version" in table:
        version = f.whole_number((*at, "version"), table["version"], 1, LATEST) or LATEST
    spellings: list[str] = []
    texts = table.get("missing_values", [])
    path = (*at, "missing_values")
    if version == 1 and "missing_values" in table:
        f.add(path, _of_later(path))
    elif not isinstance(texts, (list, tuple)) or len(texts) > MOST_SPELLINGS:
        f.reject(path, f"be a list of at most {MOST_SPELLINGS} texts", texts)
    else:
        for i, item in enumerate(texts):
            if item != "":  # an empty cell, which stands for no answer anyway
                item = f.text((*path, i), item, 100)
            if item in spellings:
                f.reject((*path, i), "differ from the others", item, "it stands there twice")
            spellings.append(item)
    return version, tuple(spellings)


def _of_later(path: Path) -> str:
    return (
        f"{format_path(path)} needs version {LATEST} of the encoder: write [encoder] with version "
        "= "
        f"{LATEST}"
    )


def _attributes(
    f: ValidationErrors, value: object, version: int
) -> tuple[tuple[Attribute, ...], dict[str, tuple[str, str]]]:
    attributes: list[Attribute] = []
    wording: dict[str, tuple[str, str]] = {}
    names: set[str] = set()
    lookalikes = Lookalikes()
    why = "there is nothing to predict from"
    for at, item in f.tables("attributes", value, most=MOST_ATTRIBUTES, why=why):
        numbers = ("whole", "typical", "spread", "bins") if item.get("kind") != "category" else ()
        optional = ("label", "help", "missing", "epsilon", *numbers)
        table = f.table(at, item, ("name", "kind", *_required_keys(item)), optional)
        if "kind" in table and table["kind"] not in tuple(_REQUIRED_KEY):
            f.reject((*at, "kind"), "be 'number' or 'category'", table["kind"])
        worded = [key for key in ("label", "help") if key in table]
        texts = {key: f.text((*at, key), table[key], 500) for key in worded}
        name = f.text((*at, "name"), table["name"], 100) if "name" in table else ""
        if name in names:
            f.reject((*at, "name"), "differ from the names of the other attributes", name)
        elif name:
            f.distinct((*at, "name"), name, lookalikes)
        for key in (key for key in _LATER if key in table and version == 1):
            f.add((*at, key), _of_later((*at, key)))
            del table[key]
        attribute = _attribute(f, at, name or "unnamed", table)
        if name and name not in names and attribute is not None:
            attributes.append(attribute)
            if any(texts.values()):
                wording[name] = (texts.get("label", ""), texts.get("help", ""))
        names.add(name)
        names.discard("")
    return tuple(attributes), wording


def _required_keys(item: Mapping[str, Any]) -> tuple[str, ...]:
    """The key that this kind of attribute needs; while the kind is wrong, those that are there are
    not judged.
    """
    kind = item.get("kind")
    if isinstance(kind, str) and kind in _REQUIRED_KEY:
        return (_REQUIRED_KEY[kind],)
    return tuple({"range", "levels"} & set(item))


def _attribute(
    f: ValidationErrors, at: Path, name: str, table: Mapping[str, Any]
) -> Attribute | None:
    before, kind = len(f.mistakes), table.get("kind")
    if kind not in tuple(_REQUIRED_KEY) or _REQUIRED_KEY[kind] not in table:
        return None
    missing, sensitive = table.get("missing", ""), "epsilon" in table
    gap = "level" if sensitive else _GAPS[kind]
    if missing not in ("", gap):
        why = f"that is how a {kind} goes without an answer; left out, everybody answers"
        f.reject((*at, "missing"), f"be {gap!r}", missing, why)
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
        return _build_category(
            f, at, Category, name=name, levels=levels, missing=missing, epsilon=menu
        )
    whole = f.truth((*at, "whole"), table.get("whole", False))
    ends = _range(f, (*at, "range"), table["range"])
    if ends and whole and not all(end.is_integer() for end in ends):
        why = "the attribute is whole"
        f.reject((*at, "range"), "begin and end with whole numbers", table["range"], why)
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


def _epsilon(f: ValidationErrors, at: Path, table: Mapping[str, Any]) -> Menu | None:
    """How private a sensitive answer may be; None after a mistake, too."""
    if "epsilon" not in table:
        return None
    before = len(f.mistakes)
    menu, default, weak = read_menu(f, (*at, "epsilon"), table["epsilon"])
    good = len(f.mistakes) == before and bool(menu) and not math.isnan(default)
    return Menu(menu=menu, default=default, accept_weak=weak) if good else None


def _bins(
    f: ValidationErrors, at: Path, table: Mapping[str, Any], ends: tuple[float, float]
) -> tuple[float, ...]:
    """Where the bins of a sensitive number meet."""
    path, values = (*at, "bins"), table.get("bins", ABSENT)
    if ("epsilon" in table) != (values is not ABSENT):
        what = "needs epsilon beside it" if "bins" in table else "needs bins beside epsilon"
        f.add(at, f"{format_path(at)} {what}: a number that chance changes is reported as a bin")
        return ()
    if values is ABSENT:
        return ()
    if "typical" in table:
        f.add((*at, "typical"), f"{format_path(at)} must leave typical and spread out beside bins")
    if not isinstance(values, (list, tuple)) or not 1 <= len(values) < MOST_LEVELS:
        f.reject(path, "be a list of numbers", values, "bins meet there")
        return ()
    edges = [f.number((*path, i), edge) for i, edge in enumerate(values)]
    bounds = tuple(edge for edge in edges if edge is not None)
    low, high = ends
    if len(bounds) == len(values) and not (
        all(low < edge < high for edge in bounds) and list(bounds) == sorted(set(bounds))
    ):
        f.reject(path, f"ascend inside the range [{low:g}, {high:g}]", values)
    return bounds


def _build_category(
    f: ValidationErrors, at: Path, kind: type[Category], **settings: Any
) -> Category | None:
    try:
        return kind(**settings)
    except InvalidInput as error:  # a level that is called as no answer is
        f.add((*at, "levels"), str(error))
        return None


def _scale(
    f: ValidationErrors, at: Path, table: Mapping[str, Any], ends: tuple[float, float]
) -> tuple[float | None, float | None]:
    """typical and spread, both or neither."""
    values = {
        key: f.number((*at, key), table[key]) for key in ("typical", "spread") if key in table
    }
    if len(values) == 1:
        (alone,) = values
        other = "spread" if alone == "typical" else "typical"
        path = (*at, alone)
        f.add(path, f"{format_path(path)} must stand beside {other}: most people lie within both")
        return None, None
    typical, spread = values.get("typical"), values.get("spread")
    low, high = ends
    if typical is not None and not low <= typical <= high:
        f.reject((*at, "typical"), f"lie in the range [{low:g}, {high:g}]", table["typical"])
    if spread is not None and not 1e-300 < spread <= high - low:
        why = "most people lie within typical ± spread"
        must = f"be positive and at most the width of the range ({high - low:g})"
        f.reject((*at, "spread"), must, table["spread"], why)
    return typical, spread


def _range(f: ValidationErrors, path: Path, value: object) -> tuple[float, float] | None:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        f.reject(path, "be [low, high]", value)
        return None
    low, high = (f.number((*path, i), end) for i, end in enumerate(value))
    if low is None or high is None:
        return None
    if not low < high:
        why = "answers outside are moved to its ends"
        f.reject(path, "run from a smaller to a larger number", value, why)
        return None
    if not 1e-300 < high - low < math.inf:
        f.reject(path, "have a width that a computer can divide by", value)
        return None
    return low, high


def _maps(
    f: ValidationErrors, value: object, version: int, attributes: Sequence[Attribute]
) -> tuple[mapped.FeatureMap, ...]:
    """Each map by itself, so that every mistake has its line."""
    maps: list[mapped.FeatureMap] = []
    if value is not ABSENT and version == 1:
        f.add(("maps",), _of_later(("maps",)))
        return ()
    for at, item in f.tables("maps", value, most=MOST_MAPS, why="leave it out"):
        table = f.table(at, item, *fields.of("maps"))
        if table.get("keep") is False:
            why = "people read their answers back from what they send"
            f.reject((*at, "keep"), "be true in a study", False, why)
        if "map" not in table:
            continue
        try:
            feature_map = mapped.from_dict(table)
            if attributes:  # a mistake in them is told already
                alone = Encoder(attributes=tuple(attributes), version=LATEST, maps=(feature_map,))
                feature_map.uses(alone.expansion.inputs)  # refuses a feature that is none
                _count_directions(f, at, feature_map, alone)
            maps.append(feature_map)
        except InvalidInput as error:
            f.add(at, f"{format_path(at)}: {error}")
        except (ValueError, OverflowError):  # thousands of digits
            f.add(at, f"{format_path(at)} holds a number that nobody can read")
    return tuple(maps)


def _count_directions(
    f: ValidationErrors, at: Path, feature_map: mapped.FeatureMap, encoder: Encoder
) -> None:
    """A device draws each entry of a direction by a hash."""
    if isinstance(feature_map, mapped.Fourier):
        directions = (feature_map.count + 1) // 2 * len(feature_map.uses(encoder.expansion.inputs))
        if directions > MOST_DIRECTIONS:
            f.add(
                at,
                f"{format_path(at)} must have at most {2 * MOST_DIRECTIONS:,} waves times "
                "columns, got "
                f"{2 * directions:,}: every device draws their directions",
            )
