"""`pdml contribute`: one person's report from this device, or a table of people as many devices to
try a study out.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pdml.cli.contribute_answers import Said
    from pdml.contribute.client import Preview
    from pdml.contribute.delivery import Service
    from pdml.contribute.memo import Memory
    from pdml.messages import Receipt
    from pdml.study import Study


def contribute(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (study.toml).")],
    server: Annotated[
        str,
        typer.Option(
            metavar="NAME or URL", help="Who receives it: a server of the study, or an address."
        ),
    ] = "",
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answers as a JSON object; what is missing is asked."),
    ] = None,
    answer: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="One answer; may be repeated.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy of the label, from the study's menu.  [default: asked]"),
    ] = None,
    label: Annotated[
        str,
        typer.Option(
            help="The true answer. Better left out: it is asked, and no shell remembers it."
        ),
    ] = "",
    token: Annotated[str, typer.Option(help="An invitation, or the link that holds it.")] = "",
    record: Annotated[
        str,
        typer.Option(metavar="NAME", help="Whose record, where several people share this device."),
    ] = "",
    memory: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar="PDML_STATE_DIR",
            help="Where draws are kept.  [default: ~/.local/state/pdml]",
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Trust this authority's certificates (PEM) instead of the system's.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send without asking.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of people, each played as a device of its own."),
    ] = None,
    label_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="With --csv: the true answers.")
    ] = "",
    epsilon_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="With --csv: each person's epsilon.")
    ] = "",
    tokens: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --csv: invitations, one per line.")
    ] = None,
    outbox: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --csv: where reports wait.  [default: beside the table]"
        ),
    ] = None,
    clamp: Annotated[
        bool, typer.Option("--clamp", help="With --csv: move numbers into their declared ranges.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Answer a study from this device: chance decides here what is reported.

    That may or may not be the true answer, and what is stored here says no
    more about it than the report does. Chance decides once for each record:
    running the command again repeats its decision, and a report that has
    left goes out again as it is, which counts once.

    \b
    Example:
      pdml contribute study.toml --server alice
    Example, a thousand devices to try a study out:
      pdml contribute study.toml --server http://127.0.0.1:8000 \\
          --csv people.csv --label-column diagnosis
    """
    from pdml.cli import contribute_answers, contribute_crowd
    from pdml.study import Study

    contract = Study.load(study)
    address = _address(contract, server)
    if csv is not None:
        alone = {
            "--answers": answers,
            "--answer": answer,
            "--label": label,
            "--token": token,
            "--record": record,
        }
        if given := [name for name, value in alone.items() if value]:
            raise InvalidInput(
                f"{given[0]} must be left out beside --csv: the table holds everybody's answers"
            )
        contribute_crowd.send(
            contract,
            address,
            ca,
            csv,
            label_column,
            epsilon_column,
            epsilon,
            tokens,
            outbox,
            clamp=clamp,
            as_json=as_json,
        )
        return
    many = {
        "--label-column": label_column,
        "--epsilon-column": epsilon_column,
        "--tokens": tokens,
        "--outbox": outbox,
        "--clamp": clamp,
    }
    if given := [name for name, value in many.items() if value]:
        raise InvalidInput(f"{given[0]} needs --csv: it is about a table of people")
    if as_json and not yes:
        raise InvalidInput("--json needs --yes: there is nobody to ask")
    said = contribute_answers.given(contract, answers, answer or [], epsilon, label, token)
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    _one(contract, address, ca, said, record, memory or home / "pdml", yes=yes, as_json=as_json)


def _address(study: "Study", server: str) -> str:
    if "://" in server:
        return server
    if not server and len(study.servers) > 1:
        names = ", ".join(one.name for one in study.servers)
        raise InvalidInput(
            f"--server must say who receives the report: one of {names}, or an address"
        )
    return study.server(server).url if server else study.servers[0].url


def _one(
    study: "Study",
    address: str,
    ca: Path | None,
    said: "Said",
    record: str,
    folder: Path,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    from pdml.cli import screen
    from pdml.contribute import client
    from pdml.contribute.delivery import Service
    from pdml.contribute.memo import Memory

    memory = Memory(folder)
    with Service(address, ca=ca) as service:
        data = _prepared(study, memory, service, said, record, as_json=as_json)
        if not as_json:
            _show(study, client.preview(study, data), service.url)
            if not yes and not _agreed():
                typer.echo("Nothing was sent. Chance does not decide again.", err=True)
                raise typer.Exit(1)
        with screen.working("Sending"):
            receipt = client.submit(memory, service, data, record=record)
    if as_json:
        import json

        import msgspec

        screen.print_json({"report": json.loads(data), "receipt": msgspec.to_builtins(receipt)})
    else:
        _thank(receipt)


def _agreed() -> bool:
    try:
        return typer.confirm("Send this?", err=True)
    except typer.Abort:  # the input has ended: silence is no consent
        typer.echo(err=True)
        return False


def _prepared(
    study: "Study",
    memory: "Memory",
    service: "Service",
    said: "Said",
    record: str,
    *,
    as_json: bool,
) -> bytes:
    """What has left before, as it is; else a new report, if the service would take one."""
    from pdml.cli import contribute_answers as asking
    from pdml.contribute import client

    known = memory.recall(study.hash, record)
    if known is not None and known.sent:
        _tell("A report of this record has left before. The same one is sent again.", as_json)
        return known.sent.encode("ascii")
    service.require_study(study.hash)
    service.require_admission(study.hash, said.token)
    answers = asking.complete(study, said.answers)
    if known is not None:
        settled = f"epsilon {known.epsilon / 1e6:g}, and {study.classes[known.label]!r} is reported"
        _tell(f"Chance has decided for this record before: {settled}.", as_json)
        _tell("The secret question is not asked again.", as_json)
        return client.prepare(study, memory, answers, None, None, record=record, token=said.token)
    micro_epsilon = asking.epsilon_of(study, said.micro_epsilon)
    label = asking.label_of(study, said.label)
    chosen = (label, micro_epsilon)
    return client.prepare(study, memory, answers, *chosen, record=record, token=said.token)


def _show(study: "Study", seen: "Preview", address: str) -> None:
    from pdml.contribute import words

    kept = words.share(words.kept(seen.report.epsilon, len(study.classes)))
    facts: Mapping[str, str] = {
        **{
            name: f"{value:g}" if isinstance(value, float) else value
            for name, value in seen.answers.items()
        },
        study.question: f"{seen.label}  (after chance, which lets a true answer stand with {kept})",
        "epsilon": f"{seen.epsilon:g}",
        "report number": seen.report.id,
    }
    width = max(map(len, facts))
    typer.echo(f"\nThe report to {address}, read back from its bytes:\n")
    for name, value in facts.items():
        typer.echo(f"  {name:<{width}}  {value}")
    typer.echo(f"\nThe exact bytes:\n{seen.bytes.decode('ascii')}\n")


def _thank(receipt: "Receipt") -> None:
    typer.echo(f"Stored by {receipt.server}, in the hour {receipt.hour}.")
    typer.echo(f"Receipt: report {receipt.id}, sha256 {receipt.digest}")


def _tell(sentence: str, as_json: bool) -> None:
    if not as_json:
        typer.echo(sentence, err=True)
