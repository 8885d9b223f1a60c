"""What --range, --levels and --encoder say about the columns, as attributes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pdml.errors import InvalidInput, Undeclared
from pdml.study.declared import by_name, read_attributes
from pdml.study.encoder import Attribute, Category, Number


def declarations(
    ranges: Sequence[str], levels: Sequence[str], file: Path | None
) -> dict[str, Attribute]:
    """Every declared attribute by name."""
    read = read_attributes(file) if file else ()
    return by_name((*read, *map(_range, ranges), *map(_levels, levels)))


@contextmanager
def in_options() -> Iterator[None]:
    """Tell in options what is not declared."""
    try:
        yield
    except Undeclared as error:
        texts = [name for name in error.columns if name not in error.numbers]
        ways = [
            f"--range {_argument(error.numbers[0])}=LOW:HIGH" if error.numbers else "",
            f"--levels {_argument(texts[0])}=A,B,..." if texts else "",
        ]
        raise InvalidInput(
            f"{error.which} ({' and '.join(filter(None, ways))}, or --ignore what is no feature), "
            "or let --from-data take them from the data, which no noise protects"
        ) from None


def number(name: str, text: str) -> Number:
    """LOW:HIGH, or LOW:HIGH:whole where fractions are no answers; a ValueError if it is neither."""
    low, high, *whole = text.split(":")
    if whole not in ([], ["whole"]):
        raise ValueError(text)
    return Number(name=name, low=float(low), high=float(high), whole=bool(whole))


def _argument(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f"'{name}'"


def _split(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not (name.strip() and equals and rest.strip()):
        raise InvalidInput(f"{option} must look like {form}, got {text!r}")
    return name.strip(), rest


def _range(text: str) -> Number:
    form = "COLUMN=LOW:HIGH, for example age=18:100 or age=18:100:whole"
    name, rest = _split("--range", text, form)
    try:
        return number(name, rest)
    except InvalidInput:
        raise
    except ValueError:
        raise InvalidInput(f"--range must look like {form}, got {text!r}") from None


def _levels(text: str) -> Category:
    name, rest = _split("--levels", text, "COLUMN=A,B,C, for example sex=female,male")
    return Category(name=name, levels=tuple(level.strip() for level in rest.split(",")))
