"""`pdml node`: one organisation's part in a training between organisations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.cli.node_offers import accept, offers, refuse, stop
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.node.home import Home

node = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take part in a training between organisations.",
    epilog="Needs the extra: pip install 'pdml[node]'. FOLDER is what `pdml node init` "
    "made on this machine.",
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The node's folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]
Accept = Annotated[
    str,
    typer.Option(
        metavar="ask|study",
        help="Ask an operator about each offer, or accept the study's own plan.",
    ),
]


@node.command()
def init(
    folder: Folder,
    name: Annotated[str, typer.Option(metavar="NAME", help="The server's name in the study.")] = "",
    accept: Accept = "ask",
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="New keys for a folder that exists: the old ones are lost or known."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a node's keys, on the machine where it will run, and print its public card.

    The card goes to whoever keeps the study file; nothing else leaves the folder.

    \b
    Example:
      pdml node init alice --name alice
    """
    from pdml.cli import screen

    with needs_node():
        from pdml.node.home import Home
    if renew:
        home = Home.open(folder)
        if name not in ("", home.name):
            raise InvalidInput(f"{folder} is the folder of {home.name}, not of {name}")
        home.renew_keys()
    else:
        if not name:
            raise typer.BadParameter("it is the server's name in the study", param_hint="--name")
        home = Home.create(folder, name, accept=accept)
    card, path = home.card(), home.path(f"{home.name}.card")
    if as_json:
        told = {
            "name": home.name,
            "folder": str(home.folder),
            "card": str(path),
            "fingerprint": card.fingerprint,
        }
        screen.print_json(
            {**told, "signing_key": card.signing_key, "sealing_key": card.sealing_key}
        )
        return
    typer.echo(card.text(), nl=False)
    typer.echo(
        f"\nThis card is {path}: send it to whoever keeps the study, and compare "
        f"{card.fingerprint} on the telephone."
    )


@node.command()
def join(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(metavar="STUDY", help="A study.toml that pins everybody's keys.")
    ] = Path("study.toml"),
    before: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="An earlier revision that this folder has not seen; repeat, oldest first.",
        ),
    ] = None,
    accept: Annotated[
        str, typer.Option(metavar="ask|study", help="The rule for offers.  [default: as it is]")
    ] = "",
    as_json: Json = False,
) -> None:
    """Adopt the study, or its next revision, in which nothing but keys and relay may differ.

    \b
    Example:
      pdml node join alice study.toml --accept study
    """
    from pdml.cli import screen
    from pdml.study import Study
    from pdml.study.contract import read_text

    home, text = _home(folder), read_text(file)
    study = Study.from_text(text, str(file))
    home.join(study, text, before=tuple(Study.load(path) for path in before or ()))
    if accept:
        home = home.save(accept=accept)
    if as_json:
        screen.print_json(
            {"name": home.name, "study": study.id, "hash": study.hash, "accept": home.config.accept}
        )
        return
    typer.echo(f"{home.name} is in the study {study.id}.")
    typer.echo(f"hash {study.hash}")
    typer.echo(
        "Compare the hash with the other organisations: whoever has another one has "
        "another contract."
    )


@node.command()
def data(
    folder: Folder,
    from_collect: Annotated[
        Path | None,
        typer.Option(
            "--from-collect", metavar="FOLDER", help="A data set that `pdml collect export` made."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Or a table: .csv, .csv.gz or .parquet."),
    ] = None,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The table's label column.")] = "",
    epsilon: Annotated[
        float | None, typer.Option(help="The labels' epsilon, from the study's menu.")
    ] = None,
    epsilon_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Or each label's own.")
    ] = "",
    randomised: Annotated[
        bool, typer.Option("--randomised", help="The labels were randomised on people's devices.")
    ] = False,
    randomise: Annotated[
        bool,
        typer.Option(
            "--randomise", help="They are true: randomise them now. This organisation saw them."
        ),
    ] = False,
    other_people: Annotated[
        bool,
        typer.Option(
            "--other-people",
            help="Nobody in these records is in a data set that this node has trained on.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Give a node the records it trains on.

    They are copied into the folder, readable by its owner alone, and checked against the study. A
    budget belongs to a data set, so after a training another one is taken only with --other-people.

    \b
    Example:
      pdml node data alice --from-collect frozen/alice
    Example, for a table with labels that people randomised with epsilon 1:
      pdml node data alice --csv people.csv --label diagnosis --epsilon 1 --randomised
    """
    from pdml.accounting.provenance import note
    from pdml.cli import node_data, screen

    home = _home(folder)
    if (from_collect is None) == (table is None):
        raise InvalidInput("give one of --from-collect FOLDER and --csv FILE")
    if from_collect is not None:
        if label or epsilon is not None or epsilon_column or randomised or randomise:
            raise InvalidInput(
                "--label, --epsilon, --epsilon-column, --randomised and --randomise belong to --csv"
            )
        held = node_data.copy(home, from_collect, other_people=other_people)
    else:
        assert table is not None
        if randomised == randomise:
            raise InvalidInput(
                "say whether the labels are --randomised already or are to be --randomise'd now"
            )
        held = node_data.from_table(
            home,
            table,
            label=label,
            epsilon=epsilon,
            epsilon_column=epsilon_column,
            randomise=randomise,
            other_people=other_people,
        )
    facts = {
        "server": home.name,
        "records": held.server.records,
        "dataset": held.dataset,
        "smallest_epsilon": held.server.epsilon,
        "randomised_by": held.randomised_by,
    }
    if as_json:
        screen.print_json(facts)
        return
    records = f"{held.server.records:,} records (data set {held.dataset[:12]})"
    typer.echo(f"{home.name} trains on {records}.")
    if said := note(home.name, held.randomised_by):
        typer.echo(said)


@node.command()
def run(
    folder: Folder,
    relay: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Another way to the relay, a leaf node, say.  [default: the study's address]",
        ),
    ] = "",
    metrics: Annotated[
        str,
        typer.Option(
            metavar="127.0.0.1:PORT", help="Figures for Prometheus, on this machine only."
        ),
    ] = "",
    simulated_noise: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", min=0, help="For tests: repeatable noise, which protects nobody."
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say more on stderr.")] = False,
) -> None:
    """Run a node: one connection to the relay, and nothing listens here. It goes on until it is
    stopped.

    A job that was begun goes on when the node is started again.

    \b
    Example:
      pdml node run alice
    """
    with needs_node():
        from pdml.node.running import run as serve
    serve(folder, relay=relay, metrics=metrics, simulated_noise=simulated_noise, verbose=verbose)


@node.command()
def status(folder: Folder, as_json: Json = False) -> None:
    """Say what a node is doing, and what its data sets have given away so far: the journal's word.

    \b
    Example:
      pdml node status alice
    """
    from pdml.cli import node_status, screen

    found = node_status.look(_home(folder))
    if as_json:
        screen.print_json(found.to_dict())
    else:
        node_status.tell(found)


@node.command()
def result(
    folder: Folder,
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job that is done.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the result.")] = Path(
        "result"
    ),
    as_json: Json = False,
) -> None:
    """Assemble the model and its page from everybody's statements: the same bytes at every member.

    \b
    Example:
      pdml node result alice first --out result
    """
    from pdml.cli import train_nodes

    train_nodes.write(_home(folder), job, out, as_json=as_json)


for command in (offers, accept, refuse, stop):
    node.command()(command)


def _home(folder: Path) -> "Home":
    with needs_node():
        from pdml.node.home import Home
    return Home.open(folder)


@contextmanager
def needs_node() -> Iterator[None]:
    """Around an import: without the extra, one sentence."""
    try:
        yield
    except ImportError as error:
        raise InvalidInput(
            f"training between organisations needs more packages ({error.name}): pip "
            "install 'pdml[node]'"
        ) from None
