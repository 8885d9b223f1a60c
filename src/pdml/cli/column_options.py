"""What --range, --levels, --missing, --map and --encoder say about the columns; and a command line
that says it."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.cli.options import COLUMNS, format_option, join_words, member, option, split_words
from pdml.errors import InvalidInput, MissingValueError, UndeclaredColumns

if TYPE_CHECKING:
    from pdml.encoding.encoder import Attribute, Category, Number
    from pdml.encoding.maps import FeatureMap

RANGE = "COLUMN=LOW:HIGH[:AVERAGE:SPREAD][:whole]"
_FORM = f"{RANGE}, for example age=18:100 or age=18:100:45:20:whole"


_column = partial(option, panel=COLUMNS)
_MAP = (
    "Further features: squares, splines, bins:count=5, products:A*B, fourier:count=20,scale=0.7; "
    "repeat."
)
_LEVELS = "Levels of a category, one with a comma in double quotes; repeat."
_RANGE = "Range of a number, and within what most people lie; repeat."
_MISSING_VALUES = "What stands for a missing value, besides an empty cell."
Texts = list[str] | None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The options about columns, as they were typed."""

    ranges: Texts = member(_column(None, _RANGE, RANGE, "--range"))
    levels: Texts = member(_column(None, _LEVELS, "COLUMN=A,B,..."))
    encoder: Path | None = member(
        _column(None, "All this as JSON, as in a model's encoder.", "FILE")
    )
    ignore: Texts = member(_column(None, "A column that is no feature; repeat.", "COLUMN"))
    missing: Texts = member(
        _column(None, "A column in which values may be missing; repeat.", "COLUMN")
    )
    missing_values: str = member(_column("", _MISSING_VALUES, "A,B,..."))
    maps: Texts = member(_column(None, _MAP, "MAP", "--map"))

    def settings(self) -> dict[str, Any]:
        """As arguments of `train_table` and of `encoder_for`."""
        from pdml.encoding.declarations import by_name, read_encoder

        read = read_encoder(self.encoder) if self.encoder else None
        declared: list[Attribute] = [
            *map(_range, self.ranges or ()),
            *map(_levels, self.levels or ()),
        ]
        markers = tuple(split_words(self.missing_values))
        return {
            "attributes": tuple(by_name((*(read.attributes if read else ()), *declared)).values()),
            "missing": tuple(self.missing or ()),
            "missing_values": (*(read.missing_values if read else ()), *markers),
            "maps": (*(read.maps if read else ()), *map(_map, self.maps or ())),
        }

    def to_arguments(self) -> list[str]:
        """The options again, as words of a command line."""
        names = {"ranges": "--range", "maps": "--map"}
        return [
            word
            for name, values in vars(self).items()
            for value in (values if isinstance(values, list) else [values] if values else [])
            for word in (names.get(name) or format_option(name), str(value))
        ]


NO_COLUMNS = Columns()


@contextmanager
def suggest_options(command: Sequence[str]) -> Iterator[None]:
    """Tell in options what is not declared: the whole ``command``, with what is to be filled in."""
    try:
        yield
    except UndeclaredColumns as error:
        wanted = [word for name in error.columns for word in _wanted(name, error)]
        raise InvalidInput(
            f"{error.which}, or ignore what is no feature (--ignore): for example "
            f"{format_command(command)} {' '.join(wanted)}. LOW, HIGH, AVERAGE and SPREAD are what "
            "you know without looking at anybody: most people lie within AVERAGE ± SPREAD. Or let "
            "--from-data take them from the data, which no noise protects"
        ) from None
    except MissingValueError as error:
        marker_option = f" --missing-values {shlex.quote(error.cell)}" if error.cell else ""
        suggestion = f"--missing {shlex.quote(error.column)}{marker_option}"
        raise MissingValueError(
            f"{str(error).split(': missing')[0]}: {suggestion} says that this stands for no "
            "answer, "
            "which is then one more level of a category, or a feature of its own beside a number",
            column=error.column,
            cell=error.cell,
        ) from None


def format_command(command: Sequence[str]) -> str:
    """A command as a shell takes it."""
    return shlex.join(command)


def format_declaration(attribute: "Attribute") -> list[str]:
    """A declaration as options."""
    from pdml.encoding.attributes import Category, exact_text

    gaps = ["--missing", attribute.name] if attribute.missing else []
    if isinstance(attribute, Category):
        return ["--levels", f"{attribute.name}={join_words(attribute.levels)}", *gaps]
    values = [attribute.low, attribute.high]
    if attribute.average is not None:
        values += attribute.scale
    parts = [exact_text(value) for value in values] + (["whole"] if attribute.whole else [])
    return ["--range", f"{attribute.name}={':'.join(parts)}", *gaps]


def parse_number(name: str, text: str) -> "Number":
    """LOW:HIGH, then AVERAGE:SPREAD if they are known, then whole where fractions are no answers; a
    ValueError if it is none of this."""
    from pdml.encoding.encoder import Number

    parts = text.split(":")
    whole = parts[-1] == "whole"
    values = [float(part) for part in parts[: len(parts) - whole]]
    if len(values) not in (2, 4):
        raise ValueError(text)
    plain = Number(name=name, low=values[0], high=values[1], whole=whole)
    return replace(plain, average=values[2], spread=values[3]) if len(values) > 2 else plain


def _wanted(name: str, error: UndeclaredColumns) -> list[str]:
    form = "LOW:HIGH:AVERAGE:SPREAD" if name in error.numbers else "A,B,..."
    option = "--range" if name in error.numbers else "--levels"
    return [option, shlex.quote(f"{name}={form}")]


def _split(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not (name.strip() and equals and rest.strip()):
        raise InvalidInput(f"{option} must look like {form}, got {text!r}")
    return name.strip(), rest


def _range(text: str) -> "Number":
    name, rest = _split("--range", text, _FORM)
    try:
        return parse_number(name, rest)
    except InvalidInput:
        raise
    except ValueError:
        raise InvalidInput(f"--range must look like {_FORM}, got {text!r}") from None


def _levels(text: str) -> "Category":
    from pdml.encoding.encoder import Category

    name, rest = _split("--levels", text, "COLUMN=A,B,C, for example sex=female,male")
    return Category(name=name, levels=tuple(split_words(rest)))


def _map(text: str) -> "FeatureMap":
    """KIND, or KIND:PART,PART,...: a part is a column, a pair of columns A*B, or SETTING=VALUE."""
    from pdml.encoding import maps

    kind, _, rest = text.partition(":")
    fields: dict[str, Any] = {"map": kind}
    for part in (part.strip() for part in rest.split(",") if part.strip()):
        name, equals, value = part.partition("=")
        first, star, second = part.partition("*")
        if equals and name in ("count", "scale", "seed"):
            try:
                fields[name] = float(value) if name == "scale" else int(value)
            except ValueError:
                raise InvalidInput(f"--map must have numbers as settings, got {part!r}") from None
        elif star:
            fields.setdefault("pairs", []).append((first.strip(), second.strip()))
        else:
            fields.setdefault("columns", []).append(part)
    return maps.from_dict(fields)
