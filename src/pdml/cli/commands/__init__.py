"""The commands, gathered. Help is plain text: rich's takes longer to load than all the rest."""

import typer

from pdml.cli.commands.assurance import privacy, statement, verify
from pdml.cli.commands.bound import bound
from pdml.cli.commands.collect import collect
from pdml.cli.commands.contribute import contribute
from pdml.cli.commands.demo import demo
from pdml.cli.commands.models import evaluate, export, predict
from pdml.cli.commands.node import node
from pdml.cli.commands.plan import plan
from pdml.cli.commands.relay import relay
from pdml.cli.commands.research import audit, data, reproduce
from pdml.cli.commands.study import study
from pdml.cli.commands.survey import survey
from pdml.cli.commands.train import train
from pdml.cli.options import flag, option

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Exit codes: 0 done; 1 refused or failed, with one sentence on stderr; 2 not "
    "understood; 130 interrupted.",
)


def _version(value: bool) -> None:
    if value:
        import pdml

        typer.echo(f"pdml {pdml.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = option(
        False, "Print the version and stop.", None, "--version", callback=_version, is_eager=True
    ),
    traceback: bool = flag(
        "--traceback", "Show where an error came from (or set PDML_TRACEBACK=1)."
    ),
) -> None:
    """Train one model from sensitive answers, without a server that everybody must trust.

    People's sensitive answers are randomised on their own devices (local differential privacy);
    their other answers reach the collecting organisation as they are, unless the study lets devices
    randomise these, too. Organisations that do not trust each other then train one model together
    (federated learning).

    \b
    See it work:      pdml demo
    Your own table:   pdml train people.csv --label diagnosis --range age=18:100
    Use the model:    pdml predict model.json others.csv
    How good is it:   pdml evaluate model.json others.csv
    Who learns what:  pdml privacy model.json
    """


_GROUPS = {"train": train, "data": data, "study": study, "contribute": contribute}
_GROUPS |= {"collect": collect, "node": node, "relay": relay}
for command in (
    demo,
    predict,
    evaluate,
    export,
    privacy,
    audit,
    plan,
    survey,
    bound,
    reproduce,
    verify,
    statement,
):
    app.command()(command)
for name, group in _GROUPS.items():
    app.add_typer(group, name=name)
