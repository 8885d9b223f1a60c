"""`pdml collect serve`: the service itself."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from pdml.cli.collect_options import AsJson, Database, Keys, Server, StudyFile, opened
from pdml.cli.seconds import finite
from pdml.errors import InvalidInput


def serve(
    study: StudyFile,
    server: Server = "",
    db: Database = "",
    keys: Keys = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8700,
    cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS certificate chain (PEM).")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key (PEM).")] = None,
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Plain HTTP off this machine: only behind TLS.")
    ] = False,
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Take reports without an invitation.")
    ] = False,
    bad_tokens: Annotated[
        int,
        typer.Option(
            min=1, max=1_000_000, help="Unknown invitations an address may try in a minute."
        ),
    ] = 20,
    operator_token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Token of the operator's page; made if missing.  [default: beside the database]",
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A proxy whose X-Forwarded-For is believed; repeat."),
    ] = None,
    connections: Annotated[int, typer.Option(min=1, help="Connections at once, in all.")] = 2000,
    per_address: Annotated[
        int, typer.Option(min=1, help="Of one address; behind --proxy: requests.")
    ] = 128,
    head_timeout: Annotated[
        float, typer.Option(min=0.1, callback=finite, help="Seconds for a request's head.")
    ] = 30.0,
    body_timeout: Annotated[
        float, typer.Option(min=0.1, callback=finite, help="Seconds for its body.")
    ] = 30.0,
    write_timeout: Annotated[
        float, typer.Option(min=0.1, callback=finite, help="Seconds to take an answer.")
    ] = 30.0,
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
        from pdml.collect.attempts import Attempts
        from pdml.collect.connection import Limits
        from pdml.collect.guard import Guard
        from pdml.collect.proxies import Proxies
        from pdml.collect.server import check_transport
        from pdml.collect.server import serve as run
    except ModuleNotFoundError as missing:
        raise InvalidInput(
            f"collecting needs the package {missing.name}: pip install 'pdml[collect]'"
        ) from None
    from pdml.collect.stores import shown
    from pdml.contribute.page import render
    from pdml.contribute.words import weakness
    from pdml.mechanisms.label_flip import is_weak

    tls = check_transport(host, cert=cert, key=key, insecure_http=insecure_http)
    limits = Limits(
        head=head_timeout,
        body=body_timeout,
        write=write_timeout,
        connections=connections,
        per_address=per_address,
    )
    guard = Guard(limits, Proxies(proxy or ()))
    with opened(study, server, db, keys, create=True, asking=True) as (
        contract,
        name,
        database,
        store,
    ):
        page = render(contract)
        for micro_epsilon in filter(is_weak, contract.epsilon_micro):
            typer.echo(f"warning: {weakness(micro_epsilon)}", err=True)
        secure = tls or contract.server(name).url.startswith("https:")
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
            secure=secure,
            proxied=bool(proxy) or insecure_http or secure != tls,
            guard=guard,
            attempts=Attempts(bad_tokens),
        )
        told = {
            "server": name,
            "study": contract.hash,
            "page": page.sha256,
            "database": shown(database),
            "operator_token": str(token_file),
        }

        def ready(url: str) -> None:
            if as_json:
                screen.print_json({"url": url, **told})
            else:
                print(
                    f"Collecting for {contract.title!r} at {url} as {name}, into "
                    f"{told['database']}."
                )
                print(f"The operator's page is {url}/operator, its token in {token_file}.")
                print(f"The page for contributors has SHA-256 {page.sha256}.", flush=True)

        service_log.to_stderr()
        with suppress(Stopped):  # asked to: everything acknowledged is stored
            run(
                application,
                host=host,
                port=port,
                guard=guard,
                cert=cert,
                key=key,
                secure=secure,
                on_ready=ready,
            )
