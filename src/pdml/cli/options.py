"""Options in one line each, and those that several commands share."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml._types import IntArray, Matrix
    from pdml.numerics.admm.graph import Graph
    from pdml.planning.sizes import Sizes


def option(
    help: str, metavar: str | None = None, *names: str, panel: str | None = None, **how: Any
) -> Any:
    """An option with a value; what it is called follows from its parameter unless it is named."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **how)


def argument(help: str, metavar: str, **how: Any) -> Any:
    """A positional argument."""
    return typer.Argument(metavar=metavar, help=help, **how)


def flag(name: str, help: str, panel: str | None = None) -> Any:
    """An option without a value; it has no opposite, so that its name is given."""
    return typer.Option(name, help=help, rich_help_panel=panel)


def seconds(help: str, least: float = 0.1, panel: str | None = None) -> Any:
    """A number of seconds of at least ``least``."""
    return option(help, min=least, callback=_finite, panel=panel)


def _finite(value: float) -> float:
    """No lower bound refuses NaN, which is below none; and nobody waits for ever."""
    if not isfinite(value):
        raise typer.BadParameter(f"{value} is not a number of seconds.")
    return value


def spread_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command of which a parameter may be a dataclass of options that several commands share."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += inspect.signature(groups[parameter.name]).parameters.values()
        else:
            parameters.append(parameter)

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    options = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def pick_options(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of ``names`` that were given: no default of theirs is None."""
    return {name: values[name] for name in names if values[name] is not None}


def pick_explicit(context: typer.Context, names: Iterable[str]) -> dict[str, Any]:
    """Those of ``names`` that somebody has given, though they have defaults."""
    sources = {name: context.get_parameter_source(name) for name in names}
    explicit = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    return {name: context.params[name] for name in explicit}


def refuse_options(unfit: Mapping[str, Any], why: str) -> None:
    """Refuse the first option that was given where it has no meaning."""
    if unfit:
        raise InvalidInput(f"{format_option(next(iter(unfit)))} must be left out{why}")


def format_option(name: str) -> str:
    """A parameter as people type it."""
    return "--" + name.replace("_", "-")


def group(help: str, epilog: str | None = None) -> typer.Typer:
    """A command of commands. Help is plain text: rich's takes longer to load than all the rest."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=help, epilog=epilog)


PRIVACY, PLAN, FILES = "Privacy and servers", "The plan", "What is written"
_planned, _written = partial(option, panel=PLAN), partial(option, panel=FILES)

Json = Annotated[bool, flag("--json", "Print one JSON object instead of sentences.")]
TablesJson = Annotated[bool, flag("--json", "Print one JSON object instead of tables.")]
Force = Annotated[bool, flag("--force", "Overwrite an existing file.")]
Jobs = Annotated[int, option("Processes; 0: one per core.", min=0)]
StudyFile = Annotated[Path, argument("The study's file, study.toml.", "STUDY")]
NodeFolder = Annotated[Path, argument("The node's folder.", "FOLDER")]

# A consortium that does not exist yet

_LINKS = "Links of a random topology.  [default: 1.3 per server]"
_TOPOLOGY = "random, ring, complete, star, grid or small_world."
_RECORDS = "Records per server: one number for all, or one each."
_WIDTH = "Columns after encoding, without the constant one.  [required without --like]"
Links = Annotated[int | None, option(_LINKS, panel=PRIVACY)]
Topology = Annotated[str, option(_TOPOLOGY, panel=PRIVACY)]
NormBound = Annotated[float, option("Longer records are clipped to this length.", panel=PRIVACY)]
Records = Annotated[str, option(_RECORDS, "M or M,M,...")]
Servers = Annotated[int, option("How many servers train together.")]
Width = Annotated[int, option(_WIDTH, None, "--features", "--questions")]
PublicLabel = Annotated[str, option("Their column to predict.", "COLUMN")]

# What the others may learn

_FEATURES = "The most all others, or --colluding of them, may learn of features; inf: no limit."
_COLLUDING = "How many other servers may put together what they see.  [default: all others]"
FeaturesEpsilon = Annotated[float, option(_FEATURES, panel=PRIVACY)]
Delta = Annotated[float, option("But for this chance.", panel=PRIVACY)]
Colluding = Annotated[int | None, option(_COLLUDING, show_default=False, panel=PRIVACY)]

# A training's settings, whose letters are the paper's

PENALTY = "How strongly servers pull together (beta)."
REGULARIZATION = "Keeps the model small (a)."
BOUND = "Bound of the objective's noise (R); 0: none."
KINDS = "truncated_gaussian, uniform_box, uniform_ball or none."
SCALE = "Noise on what servers send (V); 0: none."
DECAY = "How that noise fades (rho), between 0 and 1."
_KINDS = f"{KINDS}  [default: truncated_gaussian]"
Number = float | None


@dataclass(frozen=True)
class PlanOptions:
    """The settings of a plan that is made from them alone."""

    rounds: Annotated[int | None, _planned("Rounds of training (T).  [default: 40]")] = None
    penalty: Annotated[Number, _planned(f"{PENALTY}  [default: 0.1]")] = None
    regularization: Annotated[Number, _planned(f"{REGULARIZATION}  [default: 0.01]")] = None
    objective_bound: Annotated[Number, _planned(f"{BOUND}  [default: 1]")] = None
    objective_noise: Annotated[str | None, _planned(_KINDS)] = None
    noise_scale: Annotated[Number, _planned(f"{SCALE}  [default: 0.3]")] = None
    noise_decay: Annotated[Number, _planned(f"{DECAY}  [default: 0.95]")] = None

    def settings(self) -> dict[str, Any]:
        """Those that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


NO_PLAN = PlanOptions()
SETTINGS = tuple(vars(NO_PLAN))

# Where a training's files go

Out = Annotated[Path, _written("Folder to write to.", "DIR")]
ModelName = Annotated[Path, _written("The model's name in it.", "FILE")]
ReportName = Annotated[Path, _written("The report's name in it.", "FILE")]
ForceAll = Annotated[bool, flag("--force", "Overwrite existing files.", FILES)]


class Grouped(TyperCommand):
    """A command whose help shows the panels of its options as headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments, then every panel in the order of its first option."""
        rows = [
            (_panel(param), record)
            for param in self.get_params(ctx)
            if (record := param.get_help_record(ctx)) is not None
        ]
        order = list(dict.fromkeys(["Arguments", *(panel for panel, _ in rows)]))
        rows.sort(key=lambda entry: order.index(entry[0]))
        for panel, entries in groupby(rows, key=lambda entry: entry[0]):
            with formatter.section(panel):
                formatter.write_dl([record for _, record in entries])


def _panel(param: Any) -> str:
    if isinstance(param, TyperArgument):
        return "Arguments"
    return getattr(param, "rich_help_panel", None) or "Options"


@dataclass(frozen=True)
class ConsortiumSetup:
    """What options say, checked."""

    graph: "Graph"
    sizes: "Sizes"
    public: "tuple[Matrix, IntArray] | None"


def read_consortium(
    *,
    records: str,
    servers: int,
    features: int,
    epsilon: float,
    norm_bound: float,
    topology: str,
    links: int | None,
    seed: int,
    like: Path | None,
    label: str,
    classes: int = 2,
    prevalence: tuple[float, float] | None = None,
) -> ConsortiumSetup:
    """The public records say how many features and classes there are, and, unless ``records`` does,
    how many records: three quarters, as one quarter is held out."""
    from pdml.mechanisms.randomness import TOPOLOGY, Simulated
    from pdml.numerics.admm.graph import build
    from pdml.planning.sizes import Sizes

    graph = build(topology, servers, Simulated(seed).stream(TOPOLOGY), links)
    public, width, default_records = None, features + 1, ""
    need_label(like, label)
    if like is not None:
        from pdml.simulation.table_training import public_records

        *arrays, classes = public_records(like, label, norm_bound=norm_bound)
        public, width = (arrays[0], arrays[1]), int(arrays[0].shape[1])
        default_records = str(max(1, (len(arrays[1]) - len(arrays[1]) // 4) // servers))
    if width < 2:
        raise InvalidInput(
            f"--features must be the number of columns after encoding, at least 1, got {features}"
        )
    if features and features + 1 != width:
        raise InvalidInput(
            f"--features must be {width - 1}, as many as --like has after encoding, got {features}"
        )
    sizes = Sizes(
        records=parse_record_counts(records or default_records, servers),
        width=width,
        epsilon=epsilon,
        classes=classes,
        norm_bound=norm_bound,
        prevalence=prevalence,
    )
    return ConsortiumSetup(graph, sizes, public)


def need_label(like: Path | None, label: str) -> None:
    """Refuse public records without a word on what to predict."""
    if like is not None and not label:
        raise InvalidInput(
            "--like needs --label COLUMN: the column that public records are to predict"
        )


def parse_record_counts(text: str, servers: int) -> tuple[int, ...]:
    """Records of each server, as --records says it."""
    if not text:
        raise InvalidInput(
            "--records must say how many records each server has, got nothing (or --like, to "
            "count public ones)"
        )
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"--records must be whole numbers separated by commas, got {text!r}"
        ) from None
    if len(values) not in (1, servers):
        raise InvalidInput(
            f"--records must be one number or one per server ({servers} of them), got {len(values)}"
        )
    return values * servers if len(values) == 1 else values
