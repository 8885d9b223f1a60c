"""`pdml collect`: run one server's collection service, invite people, look after what came in, hand
it to training."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml.cli import outputs
from pdml.cli.options import (
    FORCE,
    JSON,
    STUDY_FILE,
    flag,
    group,
    member,
    option,
    seconds,
    spread_options,
)
from pdml.cli.render import console

if TYPE_CHECKING:
    from pdml.collector.collection import Collection, CollectionStatus
    from pdml.collector.http.serving import Ready
    from pdml.study import Study

collect = group(
    "Collect reports for one server of a study, and hand them to training.",
    "A collection lives in one database, a file or a PostgreSQL database by its "
    "address, and in a folder of keys.",
)

_DB = "SQLite file, or postgresql://...  [default: STUDY_ID-NAME.db]"
_KEYS = "The reports' keys.  [default: beside the file, or STUDY_ID-NAME.keys]"
_TOKEN = "Token of the operator's page; made if missing.  [default: beside the database]"
_TEST = "Try a study out that does not tell people who asks, and for what."
_PLAIN = "Plain HTTP off this machine: only behind TLS."
_BAD_TOKENS = "Unknown invitations an address may try in a minute."
_PROXY = "A proxy whose X-Forwarded-For is believed; repeat."
_HIDDEN: dict[str, Any] = {"show_envvar": False}


@dataclass(frozen=True)
class CollectionOptions:
    """Which collection a command is about."""

    server: str = member(option("", "Which of the study's servers this is.", "NAME"))
    db: str = member(option("", _DB, "FILE|URL", envvar="PDML_COLLECT_DB", **_HIDDEN))
    keys: Path | None = member(option(None, _KEYS, "FOLDER", envvar="PDML_COLLECT_KEYS", **_HIDDEN))

    def open(self, study: Path, *, create: bool = False) -> "Collection":
        from pdml.collector.collection import Collection
        from pdml.study import Study

        return Collection(
            Study.load(study), self.server, database=self.db, keys=self.keys, create=create
        )


@dataclass(frozen=True)
class ServiceOptions:
    """How a service listens, and whom it lets in: `pdml.collector.http.serving.Settings`."""

    host: str = member(option("127.0.0.1", "Address to listen on."))
    port: int = member(option(8700, "Port; 0: any free one.", min=0, max=65535))
    cert: Path | None = member(option(None, "TLS certificate chain (PEM).", "FILE"))
    key: Path | None = member(option(None, "Its private key (PEM).", "FILE"))
    insecure_http: bool = member(flag("--insecure-http", _PLAIN))
    open_to_all: bool = member(flag("--open", "Take reports without an invitation."))
    bad_tokens: int = member(option(20, _BAD_TOKENS, min=1, max=1_000_000))
    operator_token: Path | None = member(option(None, _TOKEN, "FILE"))
    proxies: list[str] | None = member(option(None, _PROXY, "ADDRESS", "--proxy"))
    test: bool = member(flag("--test", _TEST))


@dataclass(frozen=True)
class LimitOptions:
    """`pdml.collector.http.guard.ConnectionLimits`."""

    connections: int = member(option(2000, "Connections at once, in all.", min=1))
    per_address: int = member(option(128, "Of one address; behind --proxy: requests.", min=1))
    head: float = member(seconds(30.0, "Seconds for a request's head.", "--head-timeout"))
    body: float = member(seconds(30.0, "Seconds for its body.", "--body-timeout"))
    write: float = member(seconds(30.0, "Seconds to take an answer.", "--write-timeout"))


@collect.command()
@spread_options
def serve(
    *,
    study: Path = STUDY_FILE,
    choice: CollectionOptions,
    service: ServiceOptions,
    limits: LimitOptions,
    as_json: bool = JSON,
) -> None:
    """Take reports over HTTP until stopped.

    A report is acknowledged once it is on disk, and counted once. Only
    invited people can send one, unless --open says otherwise. People are
    asked only by a study that says who asks, what becomes of answers and
    what they agree to; with --test another one can be tried out, and its
    page says so.

    \b
    Example:
      pdml collect serve study.toml --server alice --open --test
    """
    from pdml.cli import StopSignal
    from pdml.collector.http.guard import ConnectionLimits
    from pdml.collector.http.serving import Settings, serve_study
    from pdml.device.page import render
    from pdml.pages import operator_page
    from pdml.study import Study
    from pdml.study.study_summary import weaknesses

    definition = Study.load(study)
    page = render(definition)

    def announce(ready: "Ready") -> None:
        for sentence in weaknesses(definition.epsilon_micro):
            typer.echo(f"warning: {sentence}", err=True)
        values = {"url": ready.url, "server": ready.server, "study": definition.hash}
        values |= {"page": page.sha256, "database": ready.database}
        console.print_answer(
            as_json,
            values | {"operator_token": ready.operator_token},
            f"Collecting for {definition.title!r} at {ready.url} as {ready.server}, into "
            f"{ready.database}.",
            f"The operator's page is {ready.url}/operator, its token in {ready.operator_token}.",
            f"The page for contributors has SHA-256 {page.sha256}.",
        )

    listen = vars(service) | {"proxies": service.proxies or ()}
    settings = Settings(**listen, limits=ConnectionLimits(**vars(limits)))
    with suppress(StopSignal):  # asked to: everything acknowledged is stored
        serve_study(
            definition,
            choice.server,
            page=page.html,
            page_headers=page.headers,
            operator=partial(operator_page.render, definition),
            database=choice.db,
            keys=choice.keys,
            settings=settings,
            on_ready=announce,
        )


@collect.command()
@spread_options
def invite(
    *,
    study: Path = STUDY_FILE,
    count: int = option(..., "How many people.", min=1, max=10_000_000),
    out: Path = option(..., "CSV to write: token, link.", "FILE"),
    choice: CollectionOptions,
    force: bool = FORCE,
    as_json: bool = JSON,
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
    outputs.check([out], force=force)
    with choice.open(study, create=True) as collection:
        # hidden until the database knows them: nobody gets a link that leads nowhere
        outputs.commit({out: partial(collection.invite, count)})
    console.print_answer(
        as_json,
        {"server": collection.server, "invitations": count, "file": out},
        f"{count:,} invitations to {collection.url} are in {out}: each works once.",
    )


@collect.command()
@spread_options
def status(*, study: Path = STUDY_FILE, choice: CollectionOptions, as_json: bool = JSON) -> None:
    """Tell what the collection holds.

    \b
    Example:
      pdml collect status study.toml --server alice
    """
    with choice.open(study) as collection:
        snapshot = collection.status()
    console.print_result(as_json, snapshot.to_dict(), lambda: _show(snapshot))


def _show(status: "CollectionStatus") -> None:
    totals, by = status.totals, {"epsilon": status.by_epsilon}
    for heading, counts in (by | {"reported answer": status.by_reported_class}).items():
        rows = [(name, f"{count:,}") for name, count in counts.items()]
        console.print_table(f"Reports by {heading}", console.Grid((heading, "reports"), rows))
    console.print_text(
        "",
        f"The collection of {status.server} is {totals.state}: {totals.reports:,} reports, of "
        f"{status.study.min_records:,} that training needs.",
        f"Withdrawn: {totals.withdrawn:,}. Invitations used: {totals.invitations_used:,} "
        f"of {totals.invitations:,}.",
        f"Refused because their id was taken: {totals.conflicts:,}.",
    )
    _show_retention(status)
    if status.erased_at:
        console.print_text(f"All reports were erased in the hour {status.erased_at}.")
    if status.frozen_at:
        exported = f", exported with digest {totals.digest}" if totals.digest else ""
        console.print_text(f"Frozen at {status.frozen_at}{exported}.")


def _show_retention(status: "CollectionStatus") -> None:
    if status.clock_jump is not None:
        console.print_text(f"Warning: {status.clock_jump}.")
    elif status.retention:
        console.print_text(
            f"Reports are kept until {status.retention}, and erased by the first command or "
            "running service after it."
        )


@collect.command()
@spread_options
def delete(
    *,
    study: Path = STUDY_FILE,
    report: str = option(..., "The report's id, from its receipt.", "ID"),
    choice: CollectionOptions,
    as_json: bool = JSON,
) -> None:
    """Withdraw a report, as long as the collection is not frozen.

    Everything but its id is erased; the id stays, so that sending the
    report again does not bring it back.

    \b
    Example:
      pdml collect delete study.toml --server alice \\
          --report 0123456789abcdef0123456789abcdef
    """
    with choice.open(study) as collection:
        new = collection.withdraw(report)
    summary = {"server": collection.server, "report": report, "withdrawn": True, "before": not new}
    done = "is withdrawn" if new else "was withdrawn before"
    console.print_answer(as_json, summary, f"Report {report} {done}.")


@collect.command()
@spread_options
def purge(
    *,
    study: Path = STUDY_FILE,
    choice: CollectionOptions,
    early: bool = flag("--early", "Also before the study's retention ends."),
    due: bool = flag("--due", "Before it ends, say so and succeed: for timers."),
    as_json: bool = JSON,
) -> None:
    """Erase all reports at the end of their retention.

    Each is erased as if it had been withdrawn, also in a frozen collection,
    and nothing more is taken. A running service does it by itself when the
    time has come, and so does every command that opens the collection. A
    date more than a week after the last use must be confirmed first: see
    `pdml collect clock`. --early needs no date.
    Data sets that were exported before are copies: delete them yourself.

    \b
    Example:
      pdml collect purge study.toml --server alice
    """
    with choice.open(study) as collection:
        collection.purge(early=early, due=due)
        status = collection.status()
    if status.clock_jump is not None and not status.erased_at:
        typer.echo(f"warning: {status.clock_jump}", err=True)
    summary = {"server": status.server, "state": status.totals.state, "erased_at": status.erased_at}
    exported = f" Delete the data set with digest {status.totals.digest}, too."
    done = f"All reports of {status.server} were erased in the hour {status.erased_at}."
    kept = f"Nothing was erased: the reports of {status.server} are kept until"
    kept += f" {status.retention}." if status.retention else " somebody erases them."
    console.print_answer(
        as_json,
        summary | {"digest": status.totals.digest or None},
        done + (exported if status.totals.digest else "") if status.erased_at else kept,
    )


@collect.command()
@spread_options
def clock(
    *,
    study: Path = STUDY_FILE,
    choice: CollectionOptions,
    confirm: bool = flag("--confirm", "The machine's date is right: erase by it what is due."),
    as_json: bool = JSON,
) -> None:
    """Tell whether the machine's date is believed, or confirm it.

    Reports are erased at the end of their retention. A wrong date must not
    do that: one that is more than a week after the latest time at which the
    collection was used erases nothing until it is confirmed here.

    \b
    Example:
      pdml collect clock study.toml --server alice
      pdml collect clock study.toml --server alice --confirm
    """
    with choice.open(study) as collection:
        if confirm:
            collection.confirm_clock()
        status = collection.status()
    values = {name: status.to_dict()[name] for name in ("server", "state", "reports", "retention")}
    values |= {"now": status.now, "latest_hour": status.latest_hour or None}
    jump = None if status.clock_jump is None else str(status.clock_jump)
    console.print_result(
        as_json, values | {"clock_jump": jump}, lambda: _show_clock(status, confirm)
    )


def _show_clock(status: "CollectionStatus", confirm: bool) -> None:
    console.print_text(
        f"The clock says {status.now}" + (", which is confirmed." if confirm else ".")
    )
    if status.latest_hour:
        console.print_text(
            f"The latest hour of use that {status.server} has noted is {status.latest_hour}."
        )
    if status.erased_at:
        console.print_text(f"All reports were erased in the hour {status.erased_at}.")
    elif status.retention:
        _show_retention(status)
    else:
        console.print_text("The study has no retention: no date erases anything.")


@collect.command()
@spread_options
def close(
    *,
    study: Path = STUDY_FILE,
    choice: CollectionOptions,
    reopen: bool = flag("--reopen", "Take reports again."),
    as_json: bool = JSON,
) -> None:
    """Take no more reports, at once, also in a running service.

    \b
    Example:
      pdml collect close study.toml --server alice
    """
    with choice.open(study) as collection:
        collection.set_open(reopen)
        times = _outside_times(collection.study, collection.now) if reopen else ""
    state = "open" if reopen else "closed"
    summary = {"server": collection.server, "state": state, "outside_study_times": times}
    sentence = f"The collection of {collection.server} is {state}."
    console.print_answer(as_json, summary, sentence, *([times] if times else []))


def _outside_times(study: "Study", now: datetime) -> str:
    """Why an open collection takes no reports by the study's own times; empty if it does."""
    if study.opens is not None and now < study.opens:
        return f"But no report is taken yet: the study opens at {study.opens:%Y-%m-%d %H:%M} UTC."
    if study.closes is not None and now >= study.closes:
        return (
            f"But no report is taken: the study closed at {study.closes:%Y-%m-%d %H:%M} UTC, which "
            "people were told."
        )
    return ""


@collect.command()
@spread_options
def export(
    *,
    study: Path = STUDY_FILE,
    out: Path = option(..., "Where to write the data set; must not exist.", "FOLDER"),
    choice: CollectionOptions,
    force_small: bool = flag(
        "--force-small", "Also with fewer reports than the study's min_records."
    ),
    as_json: bool = JSON,
) -> None:
    """Freeze the collection for good, and write its data set for training.

    Afterwards nothing can be added or withdrawn. Exporting again gives the
    same bytes, and the digest to compare them by.

    \b
    Example:
      pdml collect export study.toml --server alice --out alice-data
    """
    with (
        choice.open(study) as collection,
        console.working(f"Exporting the reports of {collection.server}"),
    ):
        manifest = collection.export(out, force_small=force_small)
    summary = {"server": collection.server, "folder": out}
    console.print_answer(
        as_json,
        summary | {"records": manifest.records, "digest": manifest.digest},
        f"{manifest.records:,} reports are frozen in {out}, with digest {manifest.digest}.",
    )
