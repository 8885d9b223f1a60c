"""`pdml relay`: what nodes meet at. It lets each speak in its own name only, and reads nothing."""

from pathlib import Path
from typing import Annotated

from pdml.cli.options import Json, StudyFile, argument, flag, group, option
from pdml.cli.render import console

relay = group(
    "Run the relay through which nodes talk; it cannot read what they say.",
    "Needs the extras: pip install 'pdml[node,relay]'. Any nats-server of a recent "
    "version runs what `config` writes.",
)


@relay.command()
def config(
    file: StudyFile = Path("study.toml"),
    out: Annotated[Path, option("The relay's folder.", "DIR")] = Path("relay"),
    address: Annotated[
        str, option("Where nodes reach it.  [default: the study's]", "HOST:PORT")
    ] = "",
    listen: Annotated[
        str, option("Where it listens.  [default: the address's port]", "HOST:PORT")
    ] = "",
    certificate: Annotated[
        Path | None, option("A certificate (PEM) to use.  [default: one is made]", "FILE")
    ] = None,
    key: Annotated[Path | None, option("Its private key (PEM).", "FILE")] = None,
    revision: Annotated[
        bool, flag("--revision", "The study is in use: name what this revision replaces.")
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
    from pdml.node.daemon.relay_server import set_up

    setup = set_up(
        file,
        out,
        address=address,
        listen=listen,
        certificate=certificate,
        key=key,
        revision=revision,
    )
    study, pin = setup.study, setup.relay.fingerprint
    named = [f"{file} names it now; its hash is {study.hash}"] if setup.changed else []
    summary = {"address": setup.relay.address, "fingerprint": pin, "config": str(setup.config)}
    console.print_answer(
        as_json,
        summary | {"study": study.id, "hash": study.hash},
        f"The relay of {study.id}: {setup.config}, certificate key {pin}",
        *named,
    )


@relay.command()
def run(
    folder: Annotated[
        Path, argument("The relay's folder, made by `pdml relay config`.", "DIR")
    ] = Path("relay"),
) -> None:
    """Run the relay in this terminal; a service manager does the rest.

    \b
    Example:
      pdml relay run relay
    """
    from pdml.node.daemon.relay_server import become

    become(folder)
