"""`pdml node`: one organisation's part in a training between organisations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.node.flare.site import Site

node = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take part in a training between organisations, over NVIDIA FLARE.",
    epilog="Needs the extra: pip install 'pdml[flare]'. A kit is a folder that `pdml node provision` made.",
)

Kit = Annotated[Path, typer.Argument(metavar="KIT", help="A kit: the folder of one organisation, of the relay or of the admin.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


@node.command()
def provision(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="A study.toml.")] = Path("study.toml"),
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the kits.")] = Path("kits"),
    relay: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where all nodes reach the relay.  [default: a free port, if all are on this machine]")
    ] = "",
    as_json: Json = False,
) -> None:
    """Make a startup kit for every server of a study, for the relay and for the admin.

    Each kit holds private keys: hand it to its organisation alone.

    \b
    Example:
      pdml node provision study.toml --out kits --relay relay.example:8002
    """
    from pdml.cli import screen
    from pdml.study import Study

    study = Study.load(file)
    with _needs_flare():
        from pdml.node.flare.provision import provision as make
    kits = make(study, out, relay=relay)
    if as_json:
        screen.print_json({"study": study.id, "hash": study.hash, "kits": {name: str(path) for name, path in kits.items()}})
        return
    typer.echo(f"Kits of {study.id} (hash {study.hash}):")
    screen.list_files(screen.console(), kits)
    typer.echo(f"\n{out / 'authority'} can make further certificates: keep it where nobody else reads it.")


@node.command()
def data(
    kit: Kit,
    from_collect: Annotated[
        Path | None, typer.Option("--from-collect", metavar="FOLDER", help="A data set that `pdml collect export` made.")
    ] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Or a table: .csv, .csv.gz or .parquet.")] = None,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The table's label column.")] = "",
    epsilon: Annotated[float | None, typer.Option(help="The labels' epsilon, from the study's menu.")] = None,
    epsilon_column: Annotated[str, typer.Option(metavar="COLUMN", help="Or each label's own.")] = "",
    randomised: Annotated[bool, typer.Option("--randomised", help="The labels were randomised on people's devices.")] = False,
    randomise: Annotated[bool, typer.Option("--randomise", help="They are true: randomise them now. This organisation saw them.")] = False,
    other_people: Annotated[
        bool, typer.Option("--other-people", help="Nobody in these records is in a data set that this node has trained on.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Give a node the records it trains on.

    They are copied into the kit, readable by its owner alone, and checked against the study. A budget belongs to a data set, so
    after a training another one is taken only with --other-people.

    \b
    Example:
      pdml node data kits/alice --from-collect frozen/alice
    Example, for a table with labels that people randomised with epsilon 1:
      pdml node data kits/alice --csv people.csv --label diagnosis --epsilon 1 --randomised
    """
    from pdml.accounting.provenance import note
    from pdml.cli import node_data, screen

    site = _site(kit)
    site.must_be("node")
    if (from_collect is None) == (table is None):
        raise InvalidInput("give one of --from-collect FOLDER and --csv FILE")
    if from_collect is not None:
        if label or epsilon is not None or epsilon_column or randomised or randomise:
            raise InvalidInput("--label, --epsilon, --epsilon-column, --randomised and --randomise belong to --csv")
        held = node_data.copy(site, from_collect, other_people=other_people)
    else:
        assert table is not None
        if randomised == randomise:
            raise InvalidInput("say whether the labels are --randomised already or are to be --randomise'd now")
        held = node_data.from_table(
            site, table, label=label, epsilon=epsilon, epsilon_column=epsilon_column, randomise=randomise, other_people=other_people
        )
    facts = {
        "server": site.name,
        "records": held.server.records,
        "dataset": held.dataset,
        "smallest_epsilon": held.server.epsilon,
        "labels_randomised": held.labels,
    }
    if as_json:
        screen.print_json(facts)
        return
    records = f"{held.server.records:,} records (data set {held.dataset[:12]})"
    typer.echo(f"{site.name} trains on {records}.")
    if said := note(site.name, held.labels):
        typer.echo(said)


@node.command()
def start(
    kit: Kit,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay in this terminal, for a service manager.")] = False,
    simulated_noise: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="For tests: repeatable noise, which protects nobody.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a node or the relay; it waits for jobs until it is stopped.

    \b
    Example:
      pdml node start kits/alice
    """
    from pdml.cli import screen

    site = _site(kit)
    with _needs_flare():
        from pdml.node.flare import process
    if foreground:
        process.replace_with(site, simulated_noise=simulated_noise)
    pid = process.start(site, simulated_noise=simulated_noise)
    if as_json:
        screen.print_json({"name": site.name, "pid": pid, "log": str(site.path(process.LOG))})
    else:
        typer.echo(f"{site.name} runs as process {pid}; its log is {site.path(process.LOG)}")


@node.command()
def stop(kit: Kit, as_json: Json = False) -> None:
    """Stop a node or the relay, and the job it is in: the journal lets it go on later.

    \b
    Example:
      pdml node stop kits/alice
    """
    from pdml.cli import screen

    site = _site(kit)
    with _needs_flare():
        from pdml.node.flare import process
    stopped = process.stop(site)
    if as_json:
        screen.print_json({"name": site.name, "stopped": stopped})
    else:
        typer.echo(f"{site.name} is stopped" if stopped else f"{site.name} was not running")


@node.command()
def status(kit: Kit, as_json: Json = False) -> None:
    """Say what a node is doing, and what its data sets have given away so far.

    \b
    Example:
      pdml node status kits/alice
    """
    from pdml.cli import node_status, screen

    site = _site(kit)
    with _needs_flare():
        from pdml.node.flare import process
    found = node_status.look(site, process.running(site))
    if as_json:
        screen.print_json(found.to_dict())
    else:
        node_status.tell(found)


def _site(kit: Path) -> "Site":
    from pdml.node.flare.site import Site

    return Site.open(kit)


@contextmanager
def _needs_flare() -> Iterator[None]:
    """Around an import: without the extra, one sentence."""
    try:
        yield
    except ImportError:
        raise InvalidInput("training between organisations needs NVIDIA FLARE: pip install 'pdml[flare]'") from None
