"""`pdml collect`: run one server's collection service, invite people, look after what came in, hand it to training."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.collect.store import Store
    from pdml.study import Study

collect = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Collect reports for one server of a study, and hand them to training.",
    epilog="A collection lives in one database: a file, or a PostgreSQL database by its address.",
)

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's file, study.toml.")]
Server = Annotated[str, typer.Option(metavar="NAME", help="Which of the study's servers this is.", show_default=False)]
Database = Annotated[
    str,
    typer.Option(
        metavar="FILE|URL",
        envvar="PDML_COLLECT_DB",
        help="SQLite file, or postgresql://...  [default: STUDY_ID-NAME.db]",
        show_default=False,
        show_envvar=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


@collect.command()
def serve(
    study: StudyFile,
    server: Server = "",
    db: Database = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8700,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS certificate chain (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key (PEM).")] = None,
    insecure_http: Annotated[bool, typer.Option("--insecure-http", help="Plain HTTP off this machine: only behind TLS.")] = False,
    open_to_all: Annotated[bool, typer.Option("--open", help="Take reports without an invitation.")] = False,
    operator_token: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Token of the operator's page; made if missing.  [default: beside the database]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take reports over HTTP until stopped.

    A report is acknowledged once it is on disk, and counted once. Only
    invited people can send one, unless --open says otherwise.

    \b
    Example:
      pdml collect serve study.toml --server alice --open
    """
    from pdml.cli import Stopped, collect_operator, screen

    try:
        from pdml.collect import app, service_log
        from pdml.collect.server import check_transport
        from pdml.collect.server import serve as run
    except ModuleNotFoundError as missing:
        raise InvalidInput(f"collecting needs the package {missing.name}: pip install 'pdml[collect]'") from None
    from pdml.collect.stores import shown
    from pdml.contribute.page import render

    secure = check_transport(host, cert=cert, key=key, insecure_http=insecure_http)
    with _opened(study, server, db, create=True, asking=True) as (contract, name, database, store):
        page = render(contract)
        token_file, token_hash = collect_operator.token(operator_token, database)
        application = app.create(
            contract,
            name,
            store,
            page=page.html,
            page_headers=page.headers,
            operator=collect_operator.page(contract),
            operator_token_hash=token_hash,
            require_tokens=not open_to_all,
            secure=secure or contract.server(name).url.startswith("https:"),
        )
        told = {"server": name, "study": contract.hash, "page": page.sha256, "database": shown(database), "operator_token": str(token_file)}

        def ready(url: str) -> None:
            if as_json:
                screen.print_json({"url": url, **told})
            else:
                print(f"Collecting for {contract.title!r} at {url} as {name}, into {told['database']}.")
                print(f"The operator's page is {url}/operator, its token in {token_file}.")
                print(f"The page for contributors has SHA-256 {page.sha256}.", flush=True)

        service_log.to_stderr()
        with suppress(Stopped):  # asked to: everything acknowledged is stored
            run(application, host=host, port=port, cert=cert, key=key, on_ready=ready)


@collect.command()
def invite(
    study: StudyFile,
    count: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many people.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV to write: token, link.")],
    server: Server = "",
    db: Database = "",
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
    with _opened(study, server, db, create=True, asking=True) as (contract, name, _, store):
        base = contract.server(name).url.rstrip("/")

        def write(path: Path) -> None:
            """The file first, hidden; then the database; then the file's name: nobody gets a link that leads nowhere."""
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
def status(study: StudyFile, server: Server = "", db: Database = "", as_json: AsJson = False) -> None:
    """Tell what the collection holds.

    \b
    Example:
      pdml collect status study.toml --server alice
    """
    from pdml.cli import collect_words, screen

    with _opened(study, server, db, create=False) as (contract, name, _, store):
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
        raise InvalidInput(f"report must be the 32 lower-case hex digits of a receipt's id, got {report!r}")
    with _opened(study, server, db, create=False) as (_, name, _, store):
        new = store.withdraw(bytes.fromhex(report))
        if as_json:
            screen.print_json({"server": name, "report": report, "withdrawn": True, "before": not new})
        else:
            print(f"Report {report} is withdrawn." if new else f"Report {report} was withdrawn before.")


@collect.command()
def close(
    study: StudyFile,
    server: Server = "",
    db: Database = "",
    reopen: Annotated[bool, typer.Option("--reopen", help="Take reports again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take no more reports, at once, also in a running service.

    \b
    Example:
      pdml collect close study.toml --server alice
    """
    from pdml.cli import screen

    with _opened(study, server, db, create=False) as (_, name, _, store):
        store.set_open(reopen)
        state = "open" if reopen else "closed"
        if as_json:
            screen.print_json({"server": name, "state": state})
        else:
            print(f"The collection of {name} is {state}.")


@collect.command()
def export(
    study: StudyFile,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the data set; must not exist.")],
    server: Server = "",
    db: Database = "",
    force_small: Annotated[bool, typer.Option("--force-small", help="Also with fewer reports than the study's min_records.")] = False,
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

    with _opened(study, server, db, create=False, asking=True) as (contract, name, _, store):
        least = 1 if force_small else contract.min_records
        with screen.working(f"Exporting the reports of {name}"):
            manifest = write(store, out, hour=int(time.time() // 3600), min_records=least)
        if as_json:
            screen.print_json({"server": name, "folder": str(out), "records": manifest.records, "digest": manifest.digest})
        else:
            print(f"{manifest.records:,} reports are frozen in {out}, with digest {manifest.digest}.")


# What the commands share


@contextmanager
def _opened(
    study: Path,
    server: str,
    db: str,
    *,
    create: bool,
    asking: bool = False,
) -> "Iterator[tuple[Study, str, str, Store]]":
    """The study, the server's name, the database's and the open store; ``asking`` people, or
    freezing their answers for good, needs a study that somebody could train under."""
    from pdml.collect.rules import identity
    from pdml.collect.stores import open_store
    from pdml.study import Study

    contract = Study.load(study)
    if asking:
        from pdml.train import trainable

        trainable.check(contract)
    if not server and len(contract.servers) > 1:
        raise InvalidInput(f"the study has several servers: say which with --server {contract.servers[0].name}")
    name = server or contract.servers[0].name
    who = identity(contract, name)
    database = db or f"{contract.id}-{name}.db"
    store = open_store(database, who, create=create)
    try:
        yield contract, name, database, store
    finally:
        store.close()
