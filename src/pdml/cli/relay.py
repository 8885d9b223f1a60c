"""`pdml relay`: what nodes meet at. It lets each speak in its own name only, and reads nothing."""

from pathlib import Path
from typing import Annotated

import typer

from pdml.cli.node import needs_node

relay = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run the relay through which nodes talk; it cannot read what they say.",
    epilog="Needs the extras: pip install 'pdml[node,relay]'. Any nats-server of a recent "
    "version runs what `config` writes.",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


@relay.command()
def config(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="A study.toml.")] = Path(
        "study.toml"
    ),
    out: Annotated[Path, typer.Option(metavar="DIR", help="The relay's folder.")] = Path("relay"),
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where nodes reach it.  [default: the study's]")
    ] = "",
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where it listens.  [default: the address's port]"),
    ] = "",
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A certificate (PEM) to use.  [default: one is made]"),
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key (PEM).")] = None,
    revision: Annotated[
        bool,
        typer.Option("--revision", help="The study is in use: name what this revision replaces."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the relay's configuration and certificate, and the relay into the study.

    Run it again whenever the study changes, and to renew a certificate that was made here: its key
    stays.

    \b
    Example:
      pdml relay config study.toml --out relay --address relay.example:4222
    """
    from pdml.cli import screen
    from pdml.errors import InvalidInput
    from pdml.files import atomic_write
    from pdml.study import Relay, Study, edit
    from pdml.study.contract import read_text

    with needs_node():
        from pdml.node import relay as making
    text = read_text(file)
    study = Study.from_text(text, str(file))
    if not address and study.relay is None:
        raise InvalidInput(f"{file} names no relay: give --address HOST:PORT")
    place = address or (study.relay.address if study.relay else "")
    edit.set_relay(
        text, Relay(place), revision=True, source=str(file)
    )  # refuses a bad address before anything is made
    found = making.prepare(out, place, certificate=certificate, key=key)
    changed = edit.set_relay(text, found, revision=revision, source=str(file))
    study = Study.from_text(changed, str(file))
    path = making.configure(study, out, listen=listen)
    if changed != text:
        atomic_write(file, changed)
    if as_json:
        told = {"address": found.address, "fingerprint": found.fingerprint, "config": str(path)}
        screen.print_json({**told, "study": study.id, "hash": study.hash})
        return
    typer.echo(f"The relay of {study.id}: {path}, certificate key {found.fingerprint}")
    if changed != text:
        typer.echo(f"{file} names it now; its hash is {study.hash}")


@relay.command()
def run(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The relay's folder, made by `pdml relay config`.")
    ] = Path("relay"),
) -> None:
    """Run the relay in this terminal; a service manager does the rest.

    \b
    Example:
      pdml relay run relay
    """
    with needs_node():
        from pdml.node import relay as making
    making.become(folder)
