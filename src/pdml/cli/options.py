"""Options in one line each, and those that several commands share."""

from collections.abc import Iterable, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from pdml.errors import InvalidInput


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
Width = Annotated[int, option(_WIDTH)]
PublicLabel = Annotated[str, option("Their column to predict.", "COLUMN")]

# What the others may learn

_FEATURES = "The most all others, or --colluding of them, may learn of features; inf: no limit."
_COLLUDING = "How many other servers may put together what they see.  [default: all others]"
FeaturesEpsilon = Annotated[float, option(_FEATURES, panel=PRIVACY)]
Delta = Annotated[float, option("But for this chance.", panel=PRIVACY)]
Colluding = Annotated[int | None, option(_COLLUDING, show_default=False, panel=PRIVACY)]

# A training's settings, whose letters are the paper's

SETTINGS = ["rounds", "penalty", "regularization", "objective_bound", "objective_noise"]
SETTINGS += ["noise_scale", "noise_decay"]
PENALTY = "How strongly servers pull together (beta)."
REGULARIZATION = "Keeps the model small (a)."
BOUND = "Bound of the objective's noise (R); 0: none."
KINDS = "truncated_gaussian, uniform_box, uniform_ball or none."
SCALE = "Noise on what servers send (V); 0: none."
DECAY = "How that noise fades (rho), between 0 and 1."
_KINDS = f"{KINDS}  [default: truncated_gaussian]"
Rounds = Annotated[int | None, _planned("Rounds of training (T).  [default: 40]")]
Penalty = Annotated[float | None, _planned(f"{PENALTY}  [default: 0.1]")]
Regularization = Annotated[float | None, _planned(f"{REGULARIZATION}  [default: 0.01]")]
ObjectiveBound = Annotated[float | None, _planned(f"{BOUND}  [default: 1]")]
ObjectiveNoise = Annotated[str | None, _planned(_KINDS)]
NoiseScale = Annotated[float | None, _planned(f"{SCALE}  [default: 0.3]")]
NoiseDecay = Annotated[float | None, _planned(f"{DECAY}  [default: 0.95]")]

# Where a training's files go

Out = Annotated[Path, _written("Folder to write to.", "DIR")]
ModelName = Annotated[Path, _written("The model's name in it.", "FILE")]
ReportName = Annotated[Path, _written("The report's name in it.", "FILE")]
ForceAll = Annotated[bool, flag("--force", "Overwrite existing files.", FILES)]
