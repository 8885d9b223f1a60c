"""`pdml train`: two commands under one name. What is to be trained says which: a study.toml, or a
table."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup, TyperOption

from pdml.cli import options, outputs
from pdml.cli.column_options import NO_COLUMNS, Columns
from pdml.cli.commands.train_study import train_study
from pdml.cli.options import COLUMNS, PLAN, PRIVACY, Grouped, argument, flag, option
from pdml.cli.render import console
from pdml.errors import InvalidInput, PrivacyUtilityWarning

if TYPE_CHECKING:
    from pdml.training.result import TrainingResult

_LIMITS = ("features_epsilon", "delta", "colluding")
_ACCURACY = "Accuracy"
_column, _private = partial(option, panel=COLUMNS), partial(option, panel=PRIVACY)
_letter = partial(option, panel=PLAN)
_FROM_DATA = "Take the undeclared ones from the data: a leak."
_FEATURES = (
    "The most all others, or --colluding of them, may learn of features; inf: no limit.  "
    "[default: 1]"
)
_SERVERS = "Among how many servers the records are distributed.  [default: 10]"
_SEED = (
    "Makes the run repeatable: who knows it can subtract the noise. Without one the plan is still "
    "the same in every run."
)
_SAVED = "Plan, links and budget that `pdml plan --out` wrote."


@options.spread_options
def train_table(
    data: Path = argument(..., "Records (.csv, .csv.gz or .parquet).", "DATA"),
    label: str = _column("", "The column to predict.", "COLUMN"),
    columns: Columns = NO_COLUMNS,
    from_data: bool = flag("--from-data", _FROM_DATA, COLUMNS),
    classes: str = _column("", "Classes of the label, in order.", "A,B,..."),
    epsilon: float = _private(1.0, "Privacy of each label: smaller is more private, inf is none."),
    epsilon_column: str = _private("", "Each person's own epsilon.", "COLUMN"),
    features_epsilon: float | None = _private(None, _FEATURES),
    delta: float | None = _private(None, "But for this chance.  [default: 1e-06]"),
    colluding: int | None = options.COLLUDING,
    norm_bound: float = options.NORM_BOUND,
    servers: int | None = _private(None, _SERVERS),
    server_column: str = _private("", "Which server each record belongs to.", "COLUMN"),
    topology: str = options.TOPOLOGY,
    links: int | None = options.LINKS,
    engine: str = _private("local", "local (one process) or ray (a cluster)."),
    seed: int | None = _private(None, _SEED, min=0),
    plan: Path | None = option(None, _SAVED, "FILE", panel=PLAN),
    method: str | None = _letter(None, "rounds or sums."),
    rounds: int | None = _letter(None, "Rounds of training (T)."),
    penalty: float | None = _letter(None, options.PENALTY),
    regularization: float | None = _letter(None, options.REGULARIZATION),
    objective_bound: float | None = _letter(None, options.BOUND),
    objective_noise: str | None = _letter(None, options.KINDS),
    noise_scale: float | None = _letter(None, options.SCALE),
    noise_decay: float | None = _letter(None, options.DECAY),
    test: Path | None = option(
        None, "Records to measure the accuracy on.", "FILE", panel=_ACCURACY
    ),
    test_fraction: float = option(0.0, "Or hold back this share of DATA for it.", panel=_ACCURACY),
    diagnostics: bool = flag("--diagnostics", "Show unprotected figures too.", _ACCURACY),
    out: Path = options.OUT,
    model: Path = options.MODEL_NAME,
    report: Path = options.REPORT_NAME,
    force: bool = options.FORCE_ALL,
    as_json: bool = options.TABLES_JSON,
) -> None:
    """Train a model from a table, with simulated people and servers.

    Every label is randomised before the training sees it; the servers then train together and add
    noise to what they send, so much that all others together (or --colluding of them) learn no
    more of a person's features than --features-epsilon. How they train is planned from sizes
    alone; settings of the plan that are given take the place of what was planned. Writes model.json
    and report.html, which hold noisy releases and public settings, and what was taken from the data
    (--from-data, classes that are not declared), which they name; accuracies on records are shown
    here only, unless --diagnostics asks for them on the page.

    Ranges, levels and classes are declared, not looked up: a maximum or a rare level in the data
    is somebody's. With age=18:100:45:20 ages from 18 to 100 are accepted, and most people are
    expected to be 45 ± 20; the nearer to the truth, the better the model. In a terminal the
    command asks for what is not declared.

    \b
    Example:
      pdml train people.csv --label diagnosis --range age=18:100:45:20 \\
          --levels sex=female,male --test-fraction 0.2
    Example, with cells that say ? or nothing:
      pdml train people.csv --label diagnosis --range age=18:100:45:20 \\
          --levels job=office,farm --missing job --missing-values '?'
    Example, for data that needs no protection:
      pdml train people.csv --label diagnosis --from-data
    """
    arguments = locals()
    plan_options = options.pick_options(arguments, (*options.SETTINGS, "method"))
    limits = options.pick_options(arguments, _LIMITS)
    server_options = options.pick_options(arguments, ("links", "servers"))
    if not label:
        raise typer.BadParameter("it names the column to predict", param_hint="--label")
    from pdml.cli import column_options, dialogue
    from pdml.pages.table_pages import table_page
    from pdml.pages.training_page import write
    from pdml.planning.plan_file import SavedPlan
    from pdml.planning.resolve_plan import AUTO
    from pdml.simulation import table_training

    files = {"report": out / report, "model": out / model}
    outputs.check(list(files.values()), force=force)
    if plan is None:
        plan_settings: dict[str, Any] = {"n_servers": servers, **limits}
        plan_settings["topology"] = topology if links is None else (topology, links)
        plan_settings["plan"] = plan_options or AUTO
    else:
        fixed = plan_options | limits | server_options
        options.refuse_options(fixed, " beside --plan: the file settles it")
        plan_settings = SavedPlan.load(plan).settings()

    def train(settings: dict[str, Any]) -> "TrainingResult":
        with console.progress("Training") as on_progress, warnings.catch_warnings():
            # what a fit warns of is said in words, on the screen and on the page
            warnings.simplefilter("ignore", PrivacyUtilityWarning)
            return table_training.train_table(
                data,
                label,
                from_data=from_data,
                classes=options.split_words(classes),
                ignore=columns.ignore or (),
                epsilon_column=epsilon_column,
                server_column=server_column,
                test=test,
                test_fraction=test_fraction,
                epsilon=epsilon,
                norm_bound=norm_bound,
                engine=engine,
                diagnostics=diagnostics,
                on_round=on_progress,
                random_state=seed,
                **settings,
                **plan_settings,
            )

    command = ["pdml", "train", str(data), "--label", label]
    trained, answered = dialogue.declare_columns(columns, command, train, ask=not as_json)
    if answered:
        words = [word for a in answered for word in column_options.format_declaration(a)]
        same = column_options.format_command([*command, *columns.to_arguments(), *words])
        console.print_text(f"The same without questions: {same}")
    page = partial(write, page=table_page(trained))
    outputs.commit({files["report"]: page, files["model"]: trained.model.save})
    summary = trained.summary() | {"files": files}
    console.print_result(as_json, summary, lambda: _show(trained, files))


def _weakness(trained: "TrainingResult") -> Iterator[str]:
    """As `pdml study check` says it of a menu; of no randomisation at all the table does."""
    from pdml.mechanisms.label_flip import is_weak
    from pdml.study.study_summary import weakness

    reports = trained.ledger.reports
    chosen = [] if reports is None else reports.epsilons[reports.epsilons < inf].tolist()
    micro = round(1e6 * max(chosen, default=0.0))
    if is_weak(micro):
        column = trained.epsilon_column
        yield f"--epsilon{f'-column {column}' if column else ''}: {weakness(micro)}."


def _show(trained: "TrainingResult", files: dict[str, Path]) -> None:
    from pdml.cli.render import training_tables

    training_tables.show_accuracy(trained)
    leaks = (*trained.model.provenance["leaks"], *trained.page_leaks)
    remarks_below = [f"Leak: {sentence}." for sentence in leaks]
    training_tables.show_training(trained, *remarks_below, *_weakness(trained))
    console.print_files(files)


TABLE, STUDY = "people.csv", "study.toml"
_KINDS = {TABLE: "a table", STUDY: "a study"}


class ByArgument(TyperGroup):
    """A group that chooses by its argument, and then is the chosen command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the command that the arguments are for; without any, the group's help."""
        options = {name: _options_of(command) for name, command in self.commands.items()}
        source = _positional(args, options[TABLE] | options[STUDY])
        if not source and (not args or {"--help", "-h"} & set(args)):
            return super().make_context(info_name, args[:1], parent, **extra)
        name, other = (STUDY, TABLE) if source.endswith(".toml") else (TABLE, STUDY)
        for word in (text.split("=")[0] for text in args):
            if word in options[other] and word not in options[name]:
                raise InvalidInput(
                    f"{word} belongs to {_KINDS[other]} (pdml train {other} --help), and "
                    f"{source or 'this'} is {_KINDS[name]}"
                )
        return self.commands[name].make_context(info_name, args, parent, **extra)


def _options_of(command: Any) -> dict[str, TyperOption]:
    """By every name they have."""
    options = [param for param in command.params if isinstance(param, TyperOption)]
    return {name: option for option in options for name in option.opts}


def _positional(args: Sequence[str], options: Mapping[str, TyperOption]) -> str:
    """The first argument that is neither an option nor an option's value."""
    rest = iter(args)
    for word in rest:
        if not word.startswith("-") or word == "-":
            return word
        if word in options and not options[word].is_flag:
            next(rest, "")
    return ""


train = typer.Typer(
    cls=ByArgument,
    no_args_is_help=True,
    rich_markup_mode=None,
    subcommand_metavar="DATA ...",
    help="""Train a model: from a table, with simulated people and servers, or for a study.

    What comes first says which, and each has its own options; both know --json.

    \b
    Example, from a table of people's records (.csv, .csv.gz or .parquet):
      pdml train people.csv --label diagnosis --range age=18:100 \\
          --levels sex=female,male --test-fraction 0.2
      pdml train people.csv --help
    Example, for a study, whose records are at the organisations:
      pdml train study.toml --engine nodes --node alice --job first
      pdml train study.toml --help
    """,
)
train.command(TABLE, cls=Grouped)(train_table)
train.command(STUDY, cls=Grouped)(train_study)
