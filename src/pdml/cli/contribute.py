"""`pdml contribute`: one person's report from this device, or a table of people as many devices to try a study out."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pdml.contribute.client import Preview
    from pdml.messages import Receipt
    from pdml.study import Study


def contribute(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (study.toml).")],
    server: Annotated[str, typer.Option(metavar="NAME or URL", help="Who receives it: a server of the study, or an address.")] = "",
    answers: Annotated[Path | None, typer.Option(metavar="FILE", help="Answers as a JSON object; what is missing is asked.")] = None,
    answer: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="One answer; may be repeated.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy of the label, from the study's menu.  [default: asked]")] = None,
    label: Annotated[str, typer.Option(help="The true answer. Better left out: it is asked, and no shell remembers it.")] = "",
    token: Annotated[str, typer.Option(help="An invitation, or the link that holds it.")] = "",
    record: Annotated[str, typer.Option(metavar="NAME", help="Whose record, where several people share this device.")] = "",
    memory: Annotated[
        Path | None, typer.Option(metavar="FOLDER", envvar="PDML_STATE_DIR", help="Where draws are kept.  [default: ~/.local/state/pdml]")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trust this authority's certificates (PEM) instead of the system's.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send without asking.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="A table of people, each played as a device of its own.")] = None,
    label_column: Annotated[str, typer.Option(metavar="COLUMN", help="With --csv: the true answers.")] = "",
    epsilon_column: Annotated[str, typer.Option(metavar="COLUMN", help="With --csv: each person's epsilon.")] = "",
    tokens: Annotated[Path | None, typer.Option(metavar="FILE", help="With --csv: invitations, one per line.")] = None,
    outbox: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --csv: where reports wait.  [default: beside the table]")
    ] = None,
    clamp: Annotated[bool, typer.Option("--clamp", help="With --csv: move numbers into their declared ranges.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Answer a study from this device. The true answer never leaves it: chance decides here what is reported.

    Chance decides once for each record: running the command again sends the same report, which counts once.

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
        alone = {"--answers": answers, "--answer": answer, "--label": label, "--token": token, "--record": record}
        if given := [name for name, value in alone.items() if value]:
            raise InvalidInput(f"{given[0]} must be left out beside --csv: the table holds everybody's answers")
        contribute_crowd.send(
            contract, address, ca, csv, label_column, epsilon_column, epsilon, tokens, outbox, clamp=clamp, as_json=as_json
        )
        return
    many = {"--label-column": label_column, "--epsilon-column": epsilon_column, "--tokens": tokens, "--outbox": outbox, "--clamp": clamp}
    if given := [name for name, value in many.items() if value]:
        raise InvalidInput(f"{given[0]} needs --csv: it is about a table of people")
    if as_json and not yes:
        raise InvalidInput("--json needs --yes: there is nobody to ask")
    given_answers = contribute_answers.given(answers, answer or [])
    _one(contract, address, ca, given_answers, epsilon, label, token, record, memory, yes=yes, as_json=as_json)


def _address(study: "Study", server: str) -> str:
    if "://" in server:
        return server
    if not server and len(study.servers) > 1:
        names = ", ".join(one.name for one in study.servers)
        raise InvalidInput(f"--server must say who receives the report: one of {names}, or an address")
    return study.server(server).url if server else study.servers[0].url


def _one(
    study: "Study",
    address: str,
    ca: Path | None,
    given: dict[str, Any],
    epsilon: float | None,
    label: str,
    token: str,
    record: str,
    memory: Path | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    from pdml.cli import contribute_answers as said
    from pdml.cli import screen
    from pdml.contribute import client
    from pdml.contribute.delivery import Service
    from pdml.contribute.memo import Memory

    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    kept = Memory(memory or home / "pdml")
    with Service(address, ca=ca) as service:
        known = kept.recall(study.hash, record)
        if known is not None and known.sent:
            data = known.sent.encode("ascii")
            _tell("A report of this record has left this device already. It cannot be changed; the same one is sent again.", as_json)
        else:
            values = {one.name: given.pop(one.name) if one.name in given else said.ask(study, one) for one in study.attributes}
            if given:
                raise DataError(f"answers must be to the study's questions, got one to {next(iter(given))!r}")
            values = {one.name: said.value_of(one, values[one.name]) for one in study.attributes}
            client.require_in_range(study, values)
            if known is not None:
                _tell(f"Epsilon is {known.epsilon / 1e6:g}: it was settled when chance decided, and stays for this record.", as_json)
            micro_epsilon = known.epsilon if known is not None else said.epsilon_of(study, epsilon)
            position = said.label_of(study, label)
            data = client.prepare(study, kept, values, position, micro_epsilon, record=record, token=said.token_of(token))
        seen = client.preview(study, data)
        if not as_json:
            _show(study, seen, service.url)
            if not yes and not typer.confirm("Send this?", err=True):
                typer.echo("Nothing was sent. This device remembers the draw: asking again will show the same.", err=True)
                raise typer.Exit(1)
        with screen.working("Sending"):
            receipt = client.submit(kept, service, data, record=record)
    if as_json:
        import json

        import msgspec

        screen.print_json({"report": json.loads(data), "receipt": msgspec.to_builtins(receipt)})
    else:
        _thank(receipt)


def _show(study: "Study", seen: "Preview", address: str) -> None:
    from pdml.report import numbers

    facts: Mapping[str, str] = {
        **{name: f"{value:g}" if isinstance(value, float) else value for name, value in seen.answers.items()},
        study.question: f"{seen.label}  (after chance: {numbers.percent(seen.flip_probability)} of all reports at this level are not true)",
        "epsilon": f"{seen.epsilon:g}",
        "report number": seen.report.id,
    }
    width = max(map(len, facts))
    typer.echo(f"\nThis goes to {address}, and nothing else does:\n")
    for name, value in facts.items():
        typer.echo(f"  {name:<{width}}  {value}")
    typer.echo(f"\nThe exact bytes:\n{seen.bytes.decode('ascii')}\n")


def _thank(receipt: "Receipt") -> None:
    typer.echo(f"Stored by {receipt.server}, in the hour {receipt.hour}.")
    typer.echo(f"Receipt: report {receipt.id}, sha256 {receipt.digest}")


def _tell(sentence: str, as_json: bool) -> None:
    if not as_json:
        typer.echo(sentence, err=True)
