"""`pdml relay`: what nodes meet at. It lets each speak in its own name only, and reads nothing."""

from pathlib import Path

from pdml.cli.options import JSON, STUDY_HERE, argument, flag, group, option
from pdml.cli.render import console

relay = group(
    "Run the relay through which nodes talk; it cannot read what they say.",
    "Needs the extras: pip install 'pdml[node,relay]'. Any nats-server of a recent "
    "version runs what `config` writes.",
)


@relay.command()
def config(
    file: Path = STUDY_HERE,
    out: Path = option(Path("relay"), "The relay's folder.", "DIR"),
    address: str = option("", "Where nodes reach it.  [default: the study's]", "HOST:PORT"),
    listen: str = option("", "Where it listens.  [default: the address's port]", "HOST:PORT"),
    certificate: Path | None = option(
        None, "A certificate (PEM) to use.  [default: one is made]", "FILE"
    ),
    key: Path | None = option(None, "Its private key (PEM).", "FILE"),
    revision: bool = flag("--revision", "The study is in use: name what this revision replaces."),
    as_json: bool = JSON,
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
    summary = {"address": setup.relay.address, "fingerprint": pin, "config": setup.config}
    console.print_answer(
        as_json,
        summary | {"study": study.id, "hash": study.hash},
        f"The relay of {study.id}: {setup.config}, certificate key {pin}",
        *named,
    )


@relay.command()
def run(
    folder: Path = argument(
        Path("relay"), "The relay's folder, made by `pdml relay config`.", "DIR"
    ),
) -> None:
    """Run the relay in this terminal; a service manager does the rest.

    \b
    Example:
      pdml relay run relay
    """
    from pdml.node.daemon.relay_server import become

    become(folder)
