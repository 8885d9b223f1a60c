"""Options in one line each, and those that several commands share."""

import csv
import inspect
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand

from pdml import _validate
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml._types import IntArray, Matrix
    from pdml.numerics.admm.graph import Graph
    from pdml.planning.sizes import Sizes


def option(
    default: Any,
    help: str,
    metavar: str | None = None,
    *names: str,
    panel: str | None = None,
    **how: Any,
) -> Any:
    """An option with a value; what it is called follows from its parameter unless it is named."""
    return typer.Option(default, *names, metavar=metavar, help=help, rich_help_panel=panel, **how)


def argument(default: Any, help: str, metavar: str, **how: Any) -> Any:
    """A positional argument; ``...`` as default: it must be given."""
    return typer.Argument(default, metavar=metavar, help=help, **how)


def flag(name: str, help: str, panel: str | None = None, default: bool | None = False) -> Any:
    """An option without a value; it has no opposite, so that its name is given."""
    return typer.Option(default, name, help=help, rich_help_panel=panel)


def seconds(
    default: float, help: str, *names: str, least: float = 0.1, panel: str | None = None
) -> Any:
    """A number of seconds of at least ``least``."""
    return option(default, help, None, *names, min=least, callback=_finite, panel=panel)


def _finite(value: float) -> float:
    """No lower bound refuses NaN, which is below none; and nobody waits for ever."""
    if not isfinite(value):
        raise typer.BadParameter(f"{value} is not a number of seconds.")
    return value


def member(spec: Any) -> Any:
    """An option as a field of a dataclass, which `spread_options` takes apart."""
    return field(default=spec.default, metadata={"option": spec})


def spread_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command of which a parameter may be a dataclass of options that several commands share."""
    parameters: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            entries = fields(parameter.annotation)
            parameters |= {entry.name: (entry.type, entry.metadata["option"]) for entry in entries}
        else:
            parameters[name] = (parameter.annotation, parameter.default)

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{entry.name: values.pop(entry.name) for entry in fields(group)})
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    kind = inspect.Parameter.KEYWORD_ONLY
    spread = [
        inspect.Parameter(name, kind, annotation=annotation, default=default)
        for name, (annotation, default) in parameters.items()
    ]
    run.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    run.__annotations__ = {name: annotation for name, (annotation, _) in parameters.items()}
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


def split_words(text: str) -> list[str]:
    """Words between commas, as CSV has them: one that holds a comma stands in double quotes."""
    try:
        rows = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error:
        must = "words between commas must have both their quotes, as in 'A,\"B, C\"'"
        raise InvalidInput(f"{must}, got {text!r}") from None
    return [word.strip() for row in rows for word in row]


def join_words(words: Iterable[str]) -> str:
    """What `split_words` reads again."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(words)
    return line.getvalue()


def format_option(name: str) -> str:
    """A parameter as people type it."""
    return "--" + name.replace("_", "-")


def group(help: str, epilog: str | None = None) -> typer.Typer:
    """A command of commands. Help is plain text: rich's takes longer to load than all the rest."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=help, epilog=epilog)


PRIVACY, PLAN, FILES = "Privacy and servers", "The plan", "What is written"
COLUMNS = "The columns"
_planned, _written = partial(option, panel=PLAN), partial(option, panel=FILES)

JSON = flag("--json", "Print one JSON object instead of sentences.")
TABLES_JSON = flag("--json", "Print one JSON object instead of tables.")
FORCE = flag("--force", "Overwrite an existing file.")
JOBS = option(0, "Processes; 0: one per core.", min=0)
STUDY_FILE = argument(..., "The study's file, study.toml.", "STUDY")
STUDY_HERE = argument(Path("study.toml"), "The study's file, study.toml.", "STUDY")
NODE_FOLDER = argument(..., "The node's folder.", "FOLDER")

# Who trains together, and on what

LINKS = option(None, "Links of a random topology.  [default: 1.3 per server]", panel=PRIVACY)
TOPOLOGY = option("random", "random, ring, complete, star, grid or small_world.", panel=PRIVACY)
_WIDTH = "Columns after encoding, without the constant one.  [required without --like]"
NORM_BOUND = option(1.0, "Longer records are clipped to this length.", panel=PRIVACY)

# What the others may learn

_FEATURES = "The most all others, or --colluding of them, may learn of features; inf: no limit."
_COLLUDING = "How many other servers may put together what they see.  [default: all others]"
FEATURES_EPSILON = option(1.0, _FEATURES, panel=PRIVACY)
DELTA = option(1e-06, "But for this chance.", panel=PRIVACY)
COLLUDING = option(None, _COLLUDING, panel=PRIVACY)

# A training's settings, whose letters are the paper's

PENALTY = "How strongly servers pull together (beta)."
REGULARIZATION = "Keeps the model small (a)."
BOUND = "Bound of the objective's noise (R); 0: none."
KINDS = "truncated_gaussian, uniform_box, uniform_ball or none."
SCALE = "Noise on what servers send (V); 0: none."
DECAY = "How that noise fades (rho), between 0 and 1."
Number = float | None


@dataclass(frozen=True)
class PlanOptions:
    """The settings of a plan that is made from them alone."""

    rounds: int | None = member(_planned(None, "Rounds of training (T).  [default: 40]"))
    penalty: Number = member(_planned(None, f"{PENALTY}  [default: 0.1]"))
    regularization: Number = member(_planned(None, f"{REGULARIZATION}  [default: 0.01]"))
    objective_bound: Number = member(_planned(None, f"{BOUND}  [default: 1]"))
    objective_noise: str | None = member(_planned(None, f"{KINDS}  [default: truncated_gaussian]"))
    noise_scale: Number = member(_planned(None, f"{SCALE}  [default: 0.3]"))
    noise_decay: Number = member(_planned(None, f"{DECAY}  [default: 0.95]"))

    def settings(self) -> dict[str, Any]:
        """Those that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


NO_PLAN = PlanOptions()
SETTINGS = tuple(vars(NO_PLAN))

# Where a training's files go

OUT = _written(Path("."), "Folder to write to.", "DIR")
MODEL_NAME = _written(Path("model.json"), "The model's name in it.", "FILE")
REPORT_NAME = _written(Path("report.html"), "The report's name in it.", "FILE")
FORCE_ALL = flag("--force", "Overwrite existing files.", FILES)


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


class ConsortiumSetup(NamedTuple):
    """What `ConsortiumOptions` say, checked."""

    graph: "Graph"
    sizes: "Sizes"
    public: "tuple[Matrix, IntArray] | None"


@dataclass(frozen=True)
class ConsortiumOptions:
    """A consortium that does not exist yet."""

    records: str = member(
        option("", "Records per server: one number for all, or one each.", "M or M,M,...")
    )
    servers: int = member(option(10, "How many servers train together."))
    features: int = member(option(0, _WIDTH, None, "--features", "--questions"))
    norm_bound: float = member(NORM_BOUND)
    topology: str = member(TOPOLOGY)
    links: int | None = member(LINKS)
    like: Path | None = member(
        option(None, "Public records of the same shape: their number, width and more.", "FILE")
    )
    label: str = member(option("", "Their column to predict.", "COLUMN"))
    seed: int = member(option(0, "Draws a random topology, and whatever else is random.", min=0))

    def read(
        self,
        epsilon: float,
        classes: int = 2,
        prevalence: tuple[float, float] | None = None,
    ) -> ConsortiumSetup:
        """The public records say how many features and classes there are, and, unless --records
        does, how many records: three quarters, as one quarter is held out."""
        from pdml.mechanisms.randomness import TOPOLOGY, Simulated
        from pdml.numerics.admm.graph import build
        from pdml.planning.sizes import Sizes

        source = Simulated(self.seed).stream(TOPOLOGY)
        graph = build(self.topology, self.servers, source, self.links)
        public, width, default_records = None, self.features + 1, ""
        need_label(self.like, self.label)
        if self.like is not None:
            from pdml.simulation.table_training import public_records

            rows, codes, classes = public_records(self.like, self.label, norm_bound=self.norm_bound)
            public, width = (rows, codes), int(rows.shape[1])
            default_records = str(max(1, (len(codes) - len(codes) // 4) // self.servers))
        wanted = "the number of columns after encoding, at least 1"
        if width < 2 or self.features not in (0, width - 1):
            if width > 1:
                wanted = f"{width - 1}, as many as --like has after encoding"
            raise InvalidInput(f"--features must be {wanted}, got {self.features}")
        counts = parse_record_counts(self.records or default_records)
        sizes = Sizes(
            records=_validate.by_server("records", counts, self.servers),
            width=width,
            epsilon=epsilon,
            classes=classes,
            norm_bound=self.norm_bound,
            prevalence=prevalence,
        )
        return ConsortiumSetup(graph, sizes, public)


NO_CONSORTIUM = ConsortiumOptions()


def need_label(like: Path | None, label: str) -> None:
    """Refuse public records without a word on what to predict."""
    if like is not None and not label:
        raise InvalidInput(
            "--like needs --label COLUMN: the column that public records are to predict"
        )


def parse_record_counts(text: str) -> tuple[int, ...]:
    """Records of each server, or of all alike, as --records says it."""
    if not text:
        raise InvalidInput(
            "--records must say how many records each server has, got nothing (or --like, to "
            "count public ones)"
        )
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"--records must be whole numbers separated by commas, got {text!r}"
        ) from None
