"""What people are asked: [encoder], [[attributes]], [[maps]] and menus of ε."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pdml.encoding import maps as mapped
from pdml.encoding.encoder import VERSION, Attribute, Category, Encoder, Menu, Number
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import MILLION, WEAK_ABOVE, is_weak, micro
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import (
    ABSENT,
    Key,
    Lookalikes,
    ValidationErrors,
    as_fields,
    declared_keys,
    format_path,
    key,
    limited_text,
    names_of,
    plain,
    read_table,
)
from pdml.tables import MISSING

# below, a label weighs hundreds of times one that is sent as it is; above, nothing is randomised
EPSILONS = (0.01, 20.0)
MOST_CHOICES = 10
MOST_LEVELS = 1_000
MOST_ATTRIBUTES = 1_000
MOST_FEATURES = 10_000  # a report of 53 kB
MOST_MAPS = 20
MOST_DIRECTIONS = 20_000  # numbers that a device draws for waves: a second in a slow browser
MOST_SPELLINGS = 20


class AttributeKind(StrEnum):
    """What an answer is."""

    NUMBER = "number"
    CATEGORY = "category"


class Gap(StrEnum):
    """What no answer counts as."""

    AVERAGE = "average"
    LEVEL = "level"


_GAPS = {AttributeKind.NUMBER: Gap.AVERAGE, AttributeKind.CATEGORY: Gap.LEVEL}


@dataclass(frozen=True)
class Wording:
    """How a form puts an attribute to people; empty where the attribute's name does."""

    label: str = key("How the form puts it.", limited_text(500), default="")
    help: str = key("What the form says below it.", limited_text(500), default="")


# Menus of ε


def read_epsilons(errors: ValidationErrors, path: Path, value: object) -> tuple[float, ...]:
    """The ε of a menu, ascending."""
    low, high = EPSILONS
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MOST_CHOICES:
        must = f"be a list of 1 to {MOST_CHOICES} epsilons"
        errors.reject(path, must, value, "people choose from it")
        return ()
    good: list[float] = []
    for i, item in enumerate(value):
        at, epsilon = (*path, i), errors.number((*path, i), item)
        if epsilon is None:
            continue
        if not low <= epsilon <= high:
            why = "above it nothing is randomised"
            why = "below it a label is all but noise" if epsilon < low else why
            errors.reject(at, f"lie in [{low:g}, {high:g}]", item, why)
        elif round(epsilon * 1e6) / 1e6 != epsilon:
            errors.reject(at, "have at most six decimals", item, "devices compute with millionths")
        elif epsilon in good:
            errors.reject(at, "differ from the others on the menu", item, "it stands there twice")
        else:
            if good and epsilon < max(good):
                why = "the menu is read from most to least private"
                errors.reject(at, "be larger than the one before it", item, why)
            good.append(epsilon)
    return tuple(good)


def read_menu(
    errors: ValidationErrors, at: Path, value: object, keys: Mapping[str, Key]
) -> dict[str, Any]:
    """A menu of ε, the suggested one, and whether weak ones are accepted."""
    table = read_table(errors, at, value, keys)
    menu, default = table.get("menu", ()), table.get("default")
    accepted = table.get("accept_weak", False)
    weak = [(i, epsilon) for i, epsilon in enumerate(menu) if is_weak(micro(epsilon))]
    limit = WEAK_ABOVE / MILLION
    for i, epsilon in [] if accepted else weak:
        why = "above it a report can make people over 95% sure, and accept_weak = true must say so"
        errors.reject((*at, "menu", i), f"be at most {limit}", epsilon, why)
    if accepted and menu and not weak:
        why = f"no epsilon on the menu is above {limit}"
        errors.reject((*at, "accept_weak"), "be left out", True, why)
    if default is not None and menu and default not in menu:
        choices = ", ".join(f"{choice:g}" for choice in menu)
        got = value["default"] if isinstance(value, Mapping) else default
        errors.reject((*at, "default"), f"be on the menu ({choices})", got)
    return table


# Keys


def _read_range(errors: ValidationErrors, path: Path, value: object) -> tuple[float, float] | None:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        errors.reject(path, "be [low, high]", value)
        return None
    low, high = (errors.number((*path, i), end) for i, end in enumerate(value))
    if low is None or high is None:
        return None
    if not low < high:
        why = "answers outside are moved to its ends"
        errors.reject(path, "run from a smaller to a larger number", value, why)
        return None
    if not 1e-300 < high - low < math.inf:
        errors.reject(path, "have a width that a computer can divide by", value)
        return None
    return low, high


ENCODER = {
    "version": Key(help="1, as it is where it is left out."),
    "missing_values": Key(
        help="What stands for no answer in tables, such as `NA` or `?`. An empty cell and a null "
        "always do."
    ),
}
ATTRIBUTES = {
    "name": Key(help="Also the column's name in tables.", read=limited_text(100), required=True),
    "kind": Key(help="`number` or `category`.", required=True),
    "range": Key(
        help="Of a number, which needs it: [low, high]. Answers outside are moved to the ends; "
        "form and client refuse them.",
        read=_read_range,
        only=AttributeKind.NUMBER,
        required=True,
    ),
    "whole": Key(
        help="Of a number: `true` refuses fractions, in form, client and tables alike. Both ends "
        "of the range must be whole.",
        read=ValidationErrors.truth,
        only=AttributeKind.NUMBER,
    ),
    "average": Key(
        help="Of a number: the average that you expect; by default the middle of the range.",
        read=ValidationErrors.number,
        only=AttributeKind.NUMBER,
    ),
    "spread": Key(
        help="Of a number: most people lie within average ± spread; by default a sixth of the "
        "range's width. What lies more than three spreads away looks like three.",
        read=ValidationErrors.number,
        only=AttributeKind.NUMBER,
    ),
    "levels": Key(
        help=f"Of a category, which needs it: 1 to {MOST_LEVELS:,} texts. Others cannot be given.",
        only=AttributeKind.CATEGORY,
        required=True,
    ),
    "missing": Key(
        help="People may leave the question out: `level` of a category, no answer is one more "
        "level; `average` of a number, it counts as the average, and one more feature says that "
        "there was no answer. Left out, everybody answers."
    ),
    "epsilon": Key(
        help="The answer is sensitive: devices randomise it and never report the answer itself. A "
        "table as that of the label."
    ),
    "bins": Key(
        help="Of a sensitive number, which needs them: where its bins meet, ascending and inside "
        "the range. A report tells a bin, not the number.",
        only=AttributeKind.NUMBER,
    ),
    **declared_keys(Wording),
}
MAPS = {
    "map": Key(help="`squares`, `products`, `bins` or `fourier`.", required=True),
    "columns": Key(
        help="Names of the features that it is made of; by default all numbers. Not of products."
    ),
    "pairs": Key(help='Of products, which need it: pairs of features, such as `["age", "bmi"]`.'),
    "count": Key(
        help="Of bins: how many (by default 5). Of fourier: how many waves (by default 20)."
    ),
    "edges": Key(help="Of bins, instead of count: where they meet, in spreads from the average."),
    "scale": Key(
        help="Of fourier: what lies closer than so many spreads looks alike; by default 0.7."
    ),
    "seed": Key(help="Of fourier: a whole number that fixes the directions; by default 0."),
    "keep": Key(help="`true`: the features themselves stay, so that people can read them back."),
}


# Reading


def read_questions(
    errors: ValidationErrors, tables: Mapping[str, Any], menu: Mapping[str, Key]
) -> dict[str, Any]:
    """The encoder, None after a mistake, and how the form puts each question."""
    spellings = _read_missing_values(errors, tables.get("encoder", ABSENT))
    attributes, wording = _read_attributes(errors, tables.get("attributes", ABSENT), menu)
    maps = _read_maps(errors, tables.get("maps", ABSENT), attributes)
    encoder = None
    if attributes:
        try:
            encoder = Encoder(attributes=attributes, missing_values=spellings, maps=maps)
        except InvalidInput as error:  # two levels whose features would have one name
            errors.add(("attributes",), str(error))
    if encoder is not None and (width := encoder.n_features + 1) > MOST_FEATURES:
        most = f"attributes must have at most {MOST_FEATURES:,} features together"
        errors.add(("attributes",), f"{most}, got {width:,}")
        encoder = None
    return {"encoder": encoder, "wording": wording}


def write_questions(encoder: Encoder, wording: Mapping[str, Wording]) -> dict[str, Any]:
    """The tables that `read_questions` reads."""
    rest = encoder.to_dict()
    attributes, maps = rest.pop("attributes"), rest.pop("maps", [])
    for attribute in attributes:
        attribute |= plain(wording.get(attribute["name"], Wording()))
    tables = {"encoder": rest, "attributes": attributes, "maps": maps}
    return {name: table for name, table in tables.items() if table}


def _read_missing_values(errors: ValidationErrors, value: object) -> tuple[str, ...]:
    """What stands for no answer in tables; another version of the encoder is refused."""
    at: Path = ("encoder",)
    table = read_table(errors, at, value, ENCODER)
    if value is ABSENT:
        return ()
    if "version" in table:
        errors.whole_number((*at, "version"), table["version"], 1, VERSION)
    spellings: list[str] = []
    texts = table.get("missing_values", [])
    path = (*at, "missing_values")
    if not isinstance(texts, (list, tuple)) or len(texts) > MOST_SPELLINGS:
        errors.reject(path, f"be a list of at most {MOST_SPELLINGS} texts", texts)
    else:
        for i, item in enumerate(texts):
            if item != "":  # an empty cell, which stands for no answer anyway
                item = errors.text((*path, i), item, 100)
            if item in spellings:
                errors.reject((*path, i), "differ from the others", item, "it stands there twice")
            spellings.append(item)
    return tuple(spellings)


def _read_attributes(
    errors: ValidationErrors, value: object, menu: Mapping[str, Key]
) -> tuple[tuple[Attribute, ...], dict[str, Wording]]:
    attributes: list[Attribute] = []
    wording: dict[str, Wording] = {}
    names: set[str] = set()
    lookalikes = Lookalikes()
    why = "there is nothing to predict from"
    for at, item in errors.tables("attributes", value, most=MOST_ATTRIBUTES, why=why):
        keys = _keys_of(item)
        table = read_table(errors, at, item, keys)
        if "kind" in table and table["kind"] not in list(AttributeKind):
            errors.reject((*at, "kind"), "be 'number' or 'category'", table["kind"])
        name = table.get("name", "")
        if name in names:
            errors.reject((*at, "name"), "differ from the names of the other attributes", name)
        elif name:
            errors.distinct((*at, "name"), name, lookalikes)
        attribute = _read_attribute(errors, at, item, {**table, "name": name or "unnamed"}, menu)
        if name and name not in names and attribute is not None:
            attributes.append(attribute)
            texts = Wording(**as_fields(Wording, table))
            if texts != Wording():
                wording[name] = texts
        names |= {name} - {""}
    return tuple(attributes), wording


def _keys_of(item: Mapping[str, Any]) -> dict[str, Key]:
    """The keys of this kind of attribute; of a wrong kind, those of either that are there."""
    kind = item.get("kind")
    good = isinstance(kind, str) and kind in list(AttributeKind)
    return {
        name: entry
        for name, entry in ATTRIBUTES.items()
        if not entry.only or (entry.only == kind if good else not entry.required or name in item)
    }


def _read_attribute(
    errors: ValidationErrors,
    at: Path,
    raw: Mapping[str, Any],
    table: Mapping[str, Any],
    menu_keys: Mapping[str, Key],
) -> Attribute | None:
    """The attribute, if nothing of its table is a mistake; ``raw`` is what the file says."""
    before, kind = len(errors.mistakes), table.get("kind", "")
    if kind not in list(AttributeKind):
        return None
    required = (name for name, entry in ATTRIBUTES.items() if entry.only == kind and entry.required)
    if any(name not in table for name in required):
        return None
    missing, sensitive = table.get("missing", ""), "epsilon" in table
    gap = Gap.LEVEL if sensitive else _GAPS[AttributeKind(kind)]
    if missing not in ("", gap):
        why = f"that is how a {kind} goes without an answer; left out, everybody answers"
        errors.reject((*at, "missing"), f"be {str(gap)!r}", missing, why)
        missing = ""
    menu = _read_sensitive(errors, at, table, menu_keys)
    if kind == AttributeKind.CATEGORY:
        path, least = (*at, "levels"), 2 if sensitive and not missing else 1
        limits: dict[str, Any] = {"least": least, "most": MOST_LEVELS, "refused": MISSING}
        levels = errors.texts(path, table["levels"], **limits)
        if not levels or len(errors.mistakes) > before:
            return None
        try:
            return Category(name=table["name"], levels=levels, missing=missing, epsilon=menu)
        except InvalidInput as error:  # a level that is called as no answer is
            errors.add((*at, "levels"), str(error))
            return None
    whole, ends = table.get("whole", False), table["range"]
    if ends is None:
        return None
    if whole and not all(end.is_integer() for end in ends):
        why = "the attribute is whole"
        errors.reject((*at, "range"), "begin and end with whole numbers", raw["range"], why)
    average, spread = _read_scale(errors, at, raw, table, ends)
    bins = _read_bins(errors, at, table, ends)
    unread = any(table.get(name, 0.0) is None for name in ("average", "spread"))
    if unread or len(errors.mistakes) > before:
        return None
    return Number(
        name=table["name"],
        low=ends[0],
        high=ends[1],
        whole=whole,
        average=average,
        spread=spread,
        missing=missing,
        bins=bins,
        epsilon=menu,
    )


def _read_sensitive(
    errors: ValidationErrors, at: Path, table: Mapping[str, Any], keys: Mapping[str, Key]
) -> Menu | None:
    """How private a sensitive answer may be; None after a mistake, too."""
    if "epsilon" not in table:
        return None
    before = len(errors.mistakes)
    values = read_menu(errors, (*at, "epsilon"), table["epsilon"], keys)
    return Menu(**values) if len(errors.mistakes) == before else None


def _read_bins(
    errors: ValidationErrors, at: Path, table: Mapping[str, Any], ends: tuple[float, float]
) -> tuple[float, ...]:
    path, values = (*at, "bins"), table.get("bins", ABSENT)
    if ("epsilon" in table) != (values is not ABSENT):
        what = "needs epsilon beside it" if "bins" in table else "needs bins beside epsilon"
        why = "a number that chance changes is reported as a bin"
        errors.add(at, f"{format_path(at)} {what}: {why}")
        return ()
    if values is ABSENT:
        return ()
    if "average" in table:
        what = f"{format_path(at)} must leave average and spread out beside bins"
        errors.add((*at, "average"), what)
    if not isinstance(values, (list, tuple)) or not 1 <= len(values) < MOST_LEVELS:
        errors.reject(path, "be a list of numbers", values, "bins meet there")
        return ()
    edges = [errors.number((*path, i), edge) for i, edge in enumerate(values)]
    bounds = tuple(edge for edge in edges if edge is not None)
    low, high = ends
    if len(bounds) == len(values) and not (
        all(low < edge < high for edge in bounds) and list(bounds) == sorted(set(bounds))
    ):
        errors.reject(path, f"ascend inside the range [{low:g}, {high:g}]", values)
    return bounds


def _read_scale(
    errors: ValidationErrors,
    at: Path,
    raw: Mapping[str, Any],
    table: Mapping[str, Any],
    ends: tuple[float, float],
) -> tuple[float | None, float | None]:
    """average and spread, both or neither."""
    values = {name: table[name] for name in ("average", "spread") if name in table}
    if len(values) == 1:
        (alone,) = values
        other = "spread" if alone == "average" else "average"
        path = (*at, alone)
        why = "most people lie within both"
        errors.add(path, f"{format_path(path)} must stand beside {other}: {why}")
        return None, None
    average, spread = values.get("average"), values.get("spread")
    low, high = ends
    if average is not None and not low <= average <= high:
        errors.reject((*at, "average"), f"lie in the range [{low:g}, {high:g}]", raw["average"])
    if spread is not None and not 1e-300 < spread <= high - low:
        why = "most people lie within average ± spread"
        must = f"be positive and at most the width of the range ({high - low:g})"
        errors.reject((*at, "spread"), must, raw["spread"], why)
    return average, spread


def _read_maps(
    errors: ValidationErrors, value: object, attributes: Sequence[Attribute]
) -> tuple[mapped.FeatureMap, ...]:
    """Each map by itself, so that every mistake has its line."""
    maps: list[mapped.FeatureMap] = []
    for at, item in errors.tables("maps", value, most=MOST_MAPS, why="leave it out"):
        table = errors.table(at, item, *names_of(MAPS))
        if table.get("keep") is False:
            why = "people read their answers back from what they send"
            errors.reject((*at, "keep"), "be true in a study", False, why)
        if "map" not in table:
            continue
        try:
            feature_map = mapped.from_dict(table)
            if attributes:  # a mistake in them is reported already
                alone = Encoder(attributes=tuple(attributes), maps=(feature_map,))
                feature_map.uses(alone.expansion.inputs)  # refuses a feature that is none
                _count_directions(errors, at, feature_map, alone)
            maps.append(feature_map)
        except InvalidInput as error:
            errors.add(at, f"{format_path(at)}: {error}")
        except (ValueError, OverflowError):  # thousands of digits
            errors.add(at, f"{format_path(at)} holds a number that nobody can read")
    return tuple(maps)


def _count_directions(
    errors: ValidationErrors, at: Path, feature_map: mapped.FeatureMap, encoder: Encoder
) -> None:
    """A device draws each entry of a direction by a hash."""
    if isinstance(feature_map, mapped.Fourier):
        directions = (feature_map.count + 1) // 2 * len(feature_map.uses(encoder.expansion.inputs))
        if directions > MOST_DIRECTIONS:
            most = f"must have at most {2 * MOST_DIRECTIONS:,} waves times columns"
            why = "every device draws their directions"
            errors.add(at, f"{format_path(at)} {most}, got {2 * directions:,}: {why}")
