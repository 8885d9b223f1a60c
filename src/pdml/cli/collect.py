"""`pdml collect`: run one server's collection service, invite people, look after what came in, hand
it to training.
"""

from pathlib import Path
from typing import Annotated

import typer

from pdml.cli.collect_options import AsJson, Database, Keys, Server, StudyFile, opened
from pdml.cli.collect_serve import serve
from pdml.errors import InvalidInput

collect = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Collect reports for one server of a study, and hand them to training.",
    epilog="A collection lives in one database, a file or a PostgreSQL database by its "
    "address, and in a folder of keys.",
)
collect.command()(serve)


@collect.command()
def invite(
    study: StudyFile,
    count: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many people.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV to write: token, link.")],
    server: Server = "",
    db: Database = "",
    keys: Keys = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make invitations: links that work once.

    The token stands behind the link's #, which browsers keep to themselves.
    The database keeps a hash, so that FILE is the only copy: it must reach
    the people and nobody else.

    \b
    Example:
      pdml collect invite study.toml --server alice --count 1000 \\
          --out tokens.csv
    """
    import os
    import secrets

    from pdml.cli import outputs, screen
    from pdml.collect.rules import hash_token

    outputs.check([out], force=force)
    with opened(study, server, db, keys, create=True, asking=True) as (contract, name, _, store):
        base = contract.server(name).url.rstrip("/")

        def write(path: Path) -> None:
            """The file first, hidden; then the database; then the file's name: nobody gets a link
            that leads nowhere.
            """
            tokens = [secrets.token_hex(16) for _ in range(count)]
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write("token,link\n")
                file.writelines(f"{token},{base}/#t={token}\n" for token in tokens)
                file.flush()
                os.fsync(file.fileno())
            store.invite(map(hash_token, tokens))

        outputs.commit({out: write})
        if as_json:
            screen.print_json({"server": name, "invitations": count, "file": str(out)})
        else:
            print(f"{count:,} invitations to {base} are in {out}: each works once.")


@collect.command()
def status(
    study: StudyFile,
    server: Server = "",
    db: Database = "",
    keys: Keys = None,
    as_json: AsJson = False,
) -> None:
    """Tell what the collection holds.

    \b
    Example:
      pdml collect status study.toml --server alice
    """
    from pdml.cli import collect_words, screen

    with opened(study, server, db, keys, create=False) as (contract, name, _, store):
        totals = store.totals()
        if as_json:
            screen.print_json(collect_words.plain(contract, name, totals))
        else:
            collect_words.show(contract, name, totals)


@collect.command()
def delete(
    study: StudyFile,
    report: Annotated[str, typer.Option(metavar="ID", help="The report's id, from its receipt.")],
    server: Server = "",
    db: Database = "",
    keys: Keys = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw a report, as long as the collection is not frozen.

    Everything but its id is erased; the id stays, so that sending the
    report again does not bring it back.

    \b
    Example:
      pdml collect delete study.toml --server alice \\
          --report 0123456789abcdef0123456789abcdef
    """
    import re

    from pdml.cli import screen

    if not re.fullmatch("[0-9a-f]{32}", report):
        raise InvalidInput(
            f"report must be the 32 lower-case hex digits of a receipt's id, got {report!r}"
        )
    with opened(study, server, db, keys, create=False) as (_, name, _, store):
        new = store.withdraw(bytes.fromhex(report))
        if as_json:
            screen.print_json(
                {"server": name, "report": report, "withdrawn": True, "before": not new}
            )
        else:
            print(
                f"Report {report} is withdrawn."
                if new
                else f"Report {report} was withdrawn before."
            )


@collect.command()
def close(
    study: StudyFile,
    server: Server = "",
    db: Database = "",
    keys: Keys = None,
    reopen: Annotated[bool, typer.Option("--reopen", help="Take reports again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take no more reports, at once, also in a running service.

    \b
    Example:
      pdml collect close study.toml --server alice
    """
    from pdml.cli import screen

    with opened(study, server, db, keys, create=False) as (_, name, _, store):
        store.set_open(reopen)
        state = "open" if reopen else "closed"
        if as_json:
            screen.print_json({"server": name, "state": state})
        else:
            print(f"The collection of {name} is {state}.")


@collect.command()
def export(
    study: StudyFile,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to write the data set; must not exist.")
    ],
    server: Server = "",
    db: Database = "",
    keys: Keys = None,
    force_small: Annotated[
        bool,
        typer.Option("--force-small", help="Also with fewer reports than the study's min_records."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Freeze the collection for good, and write its data set for training.

    Afterwards nothing can be added or withdrawn. Exporting again gives the
    same bytes, and the digest to compare them by.

    \b
    Example:
      pdml collect export study.toml --server alice --out alice-data
    """
    import time

    from pdml.cli import screen
    from pdml.collect.export import export as write

    with opened(study, server, db, keys, create=False, asking=True) as (contract, name, _, store):
        least = 1 if force_small else contract.min_records
        with screen.working(f"Exporting the reports of {name}"):
            manifest = write(store, out, hour=int(time.time() // 3600), min_records=least)
        if as_json:
            screen.print_json(
                {
                    "server": name,
                    "folder": str(out),
                    "records": manifest.records,
                    "digest": manifest.digest,
                }
            )
        else:
            print(
                f"{manifest.records:,} reports are frozen in {out}, with digest {manifest.digest}."
            )
