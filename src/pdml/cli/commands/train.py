"""`pdml train`: two commands under one name. What is to be trained says which: a study.toml, or a
table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

from pdml.cli.commands.train_study import train_study
from pdml.cli.commands.train_table import train_table
from pdml.cli.options import Grouped
from pdml.errors import InvalidInput

TABLE, STUDY = "people.csv", "study.toml"
_KINDS = {TABLE: "a table", STUDY: "a study"}


class ByArgument(TyperGroup):
    """A group that chooses by its argument, and then is the chosen command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the command that the arguments are for; without any, the group's help."""
        options = {name: _options(command) for name, command in self.commands.items()}
        source = _positional(args, options[TABLE] | options[STUDY])
        if not source and (not args or {"--help", "-h"} & set(args)):
            return super().make_context(info_name, args[:1], parent, **extra)
        name, other = (STUDY, TABLE) if source.endswith(".toml") else (TABLE, STUDY)
        for option in (argument.split("=")[0] for argument in args):
            if option in options[other] and option not in options[name]:
                raise InvalidInput(
                    f"{option} belongs to {_KINDS[other]} (pdml train {other} --help), and "
                    f"{source or 'this'} is {_KINDS[name]}"
                )
        return self.commands[name].make_context(info_name, args, parent, **extra)


def _options(command: Any) -> dict[str, TyperOption]:
    """By every name they have."""
    options = [param for param in command.params if isinstance(param, TyperOption)]
    return {name: option for option in options for name in option.opts}


def _positional(args: Sequence[str], options: Mapping[str, TyperOption]) -> str:
    """The first argument that is neither an option nor an option's value."""
    rest = iter(args)
    for argument in rest:
        if not argument.startswith("-") or argument == "-":
            return argument
        if argument in options and not options[argument].is_flag:
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
