"""`pdml contribute`: one person's report from this device, or a table of people as many devices to
try a study out; and `pdml contribute withdraw`, which takes a report back."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from pdml.cli import options, outputs
from pdml.cli.options import JSON, STUDY_FILE, flag, member, option
from pdml.cli.render import console
from pdml.errors import InvalidInput, NotDelivered

if TYPE_CHECKING:
    from pdml.cli.dialogue import PresetAnswers
    from pdml.device.client import Contribution, Preview
    from pdml.device.simulated_participants import SubmittedTable
    from pdml.study.translations import Texts

_TRUTH = "The true answer. Better left out: it is asked, and no shell remembers it."
_MEMORY = "Where draws are kept.  [default: ~/.local/state/pdml]"
_LANGUAGE = "The study's texts in this language, if it has it.  [default: its own]"
_AGREE = "You have read the study's notice, and agree to what it asks."
_MENU = "Privacy of a sensitive answer, from its menu; may be repeated.  [default: suggested]"
_TO = "Who receives it: a server of the study, or an address."
_CA = "Trust this authority's certificates (PEM) instead of the system's."

MEMORIES = option(None, _MEMORY, "FOLDER", envvar="PDML_STATE_DIR")
AUTHORITY = option(None, _CA, "FILE")
RECORD = option("", "Whose record, where several people share this device.", "NAME")
INVITATION = option("", "An invitation, or the link that holds it.")


@dataclass(frozen=True)
class PersonOptions:
    """What one person answers, as far as it is said beforehand."""

    answers: Path | None = member(
        option(None, "Answers as a JSON object; what is missing is asked.", "FILE")
    )
    answer: list[str] | None = member(option(None, "One answer; may be repeated.", "NAME=VALUE"))
    epsilon_of: list[str] | None = member(option(None, _MENU, "NAME=VALUE"))
    label: str = member(option("", _TRUTH))
    token: str = member(INVITATION)
    record: str = member(RECORD)
    agree: bool = member(
        flag("--agree", "You have read the study's notice, and agree to what it asks.")
    )
    language: str = member(option("", _LANGUAGE, "CODE"))
    receipt: Path | None = member(option(None, "Where to save the receipt.", "FILE"))


@dataclass(frozen=True)
class TableOptions:
    """Who stands in a table of people, and what becomes of their reports."""

    label_column: str = member(option("", "With --csv: the true answers.", "COLUMN"))
    epsilon_column: str = member(option("", "With --csv: each person's epsilon.", "COLUMN"))
    tokens: Path | None = member(option(None, "With --csv: invitations, one per line.", "FILE"))
    outbox: Path | None = member(
        option(None, "With --csv: where reports wait.  [default: beside the table]", "FILE")
    )
    clamp: bool = member(flag("--clamp", "With --csv: move numbers into their declared ranges."))


NO_PERSON, NO_TABLE = PersonOptions(), TableOptions()
STUDY, WITHDRAW = "study.toml", "withdraw"


class ByWord(TyperGroup):
    """A group that is its command for answering, unless its first word says otherwise."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the command that the arguments are for; without any, the group's help."""
        if not args or args[0] in ("--help", "-h"):
            return super().make_context(info_name, args[:1], parent, **extra)
        name, rest = (WITHDRAW, args[1:]) if args[0] == WITHDRAW else (STUDY, args)
        command_path = f"{info_name} {WITHDRAW}" if name == WITHDRAW else info_name
        return self.commands[name].make_context(command_path, rest, parent, **extra)


contribute = typer.Typer(
    cls=ByWord,
    no_args_is_help=True,
    rich_markup_mode=None,
    subcommand_metavar="STUDY ...",
    help="""Answer a study from this device, or take a report back.

    \b
    Example:
      pdml contribute study.toml --server alice
      pdml contribute study.toml --help
    Example, to take a report back:
      pdml contribute withdraw study.toml --server alice
      pdml contribute withdraw --help
    """,
)


@contribute.command(STUDY)
@options.spread_options
def answer_study(
    study: Path = STUDY_FILE,
    server: str = option("", _TO, "NAME or URL"),
    epsilon: float | None = option(
        None, "Privacy of the label, from the study's menu.  [default: asked]"
    ),
    person: PersonOptions = NO_PERSON,
    memory: Path | None = MEMORIES,
    ca: Path | None = AUTHORITY,
    yes: bool = flag("--yes", "Send without dialogue."),
    csv: Path | None = option(
        None, "A table of people, each played as a device of its own.", "FILE"
    ),
    table: TableOptions = NO_TABLE,
    as_json: bool = JSON,
) -> None:
    """Answer a study from this device, which randomises sensitive answers.

    What is reported may or may not be the true answer, and what is stored
    here says no more about it than the report does. Each record is randomised
    once: running the command again repeats the outcome, and a report that has
    left goes out again as it is, which counts once.

    \b
    Example:
      pdml contribute study.toml --server alice
    Example, a thousand devices to try a study out:
      pdml contribute study.toml --server http://127.0.0.1:8000 \\
          --csv people.csv --label-column diagnosis
    """
    from pdml.cli import dialogue
    from pdml.device.client import Contribution
    from pdml.device.delivery import Delivery, address_of
    from pdml.device.memo import Memory, default_folder
    from pdml.device.simulated_participants import submit_table
    from pdml.study import Study

    definition = Study.load(study)
    address, receipt = address_of(definition, server), person.receipt
    options_of = table if csv is None else person
    unfit = {name: value for name, value in vars(options_of).items() if value}
    if csv is not None:
        options.refuse_options(unfit, " beside --csv: the table holds everybody's answers")
        with console.progress("Randomising and sending", unit="report") as progress:
            people = {"epsilon": epsilon, **vars(table)}
            played = submit_table(definition, address, csv, **people, ca=ca, progress=progress)
        console.print_result(as_json, played.to_dict(), lambda: _played(played))
        played.check()
        return
    if unfit:
        name = options.format_option(next(iter(unfit)))
        raise InvalidInput(f"{name} needs --csv: it is about a table of people")
    if as_json and not yes:
        raise InvalidInput("--json needs --yes: there is nobody to ask")
    if receipt is not None:
        outputs.check([receipt], force=False)
    preset = dialogue.read_preset(definition, person, epsilon)
    with Delivery(address, ca=ca) as service:
        kept = Memory(memory or default_folder())
        names = {"record": person.record, "token": preset.token}
        contribution = Contribution(study=definition, service=service, memory=kept, **names)
        _send_report(contribution, preset, receipt, yes=yes, as_json=as_json)


@contribute.command(WITHDRAW)
def withdraw(
    study: Path = STUDY_FILE,
    server: str = option("", "Who holds it: a server of the study, or an address.", "NAME or URL"),
    receipt: Path | None = option(
        None, "A saved receipt.  [default: what this device remembers]", "FILE"
    ),
    token: str = INVITATION,
    record: str = RECORD,
    memory: Path | None = MEMORIES,
    ca: Path | None = AUTHORITY,
    as_json: bool = JSON,
) -> None:
    """Take a report back, as long as the study's data are not complete.

    The service erases everything of it but its number, which stays refused. What only this device
    or the receipt knows shows that the report is yours. This device then forgets it too, but for
    that it was withdrawn: nothing is randomised again. Without a receipt a report with an
    invitation needs its --token.

    \b
    Example:
      pdml contribute withdraw study.toml --server alice
    Example, with a receipt from another device:
      pdml contribute withdraw study.toml --receipt receipt.json
    """
    import msgspec

    from pdml.device.receipt import withdraw as take_back
    from pdml.study import Study

    who = {"token": token, "record": record}
    done = take_back(Study.load(study), server, receipt=receipt, **who, memory=memory, ca=ca)
    erased = "had erased" if done.before else "has erased"
    console.print_answer(
        as_json,
        msgspec.to_builtins(done),
        f"{done.server} {erased} everything of report {done.id} but its number"
        f"{' before' if done.before else ''}.",
    )


def _played(played: "SubmittedTable") -> None:
    tally = played.tally
    before = f" ({tally.stored_before:,} had receipts already)" if tally.stored_before else ""
    stored = tally.stored + tally.stored_before
    console.print_text(f"{stored:,} of {played.rows:,} reports are stored{before}.", whole=True)
    console.print_text(*(f"  {code}: {count:,}" for code, count in tally.by_code().items()))
    files = played.files
    console.print_files({("not stored" if k == "failures" else k): files[k] for k in files})


def _send_report(
    contribution: "Contribution",
    preset: "PresetAnswers",
    file: Path | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    import json

    import msgspec

    from pdml.device.receipt import save

    preview = _prepare_report(contribution, preset, as_json=as_json)
    if not as_json:
        _show(contribution, preview, preset.texts)
        if not yes and not console.confirm("Send this?"):
            raise NotDelivered("Nothing was sent. Your answers are not randomised again.")
    with console.working("Sending"):
        receipt = contribution.send(preview)
    kept = contribution.receipt()
    if file is not None:
        save(file, kept)
    named = [kept.organiser, kept.address, kept.contact] if kept.organiser else []
    code = "whoever has this code can withdraw the report, until the study's data are complete"
    console.print_answer(
        as_json,
        {"report": json.loads(preview.bytes), "receipt": msgspec.to_builtins(receipt)},
        f"Stored by {receipt.server}, in the hour {receipt.hour}.",
        f"Receipt: report {receipt.id}, sha256 {receipt.digest}",
        *([f"Organiser: {', '.join(named)}"] if named else []),
        *([f"Withdrawal code {kept.code}: {code}"] if kept.code else []),
    )


def _prepare_report(
    contribution: "Contribution", preset: "PresetAnswers", *, as_json: bool
) -> "Preview":
    """What has left before, as it is; else a new report, if the service would take one."""
    from pdml.cli import dialogue

    def tell(sentence: str) -> None:
        if not as_json:
            typer.echo(sentence, err=True)

    study, memo = contribution.study, contribution.memo
    if memo is not None and memo.sent:
        tell("A report of this record has left before. The same one is sent again.")
        return contribution.prepare({})
    contribution.require_admission()
    agreed = dialogue.ask_consent(study, preset)
    if study.consent is not None and not agreed:
        raise NotDelivered("Nothing was asked, and nothing was sent.")
    epsilons = preset.epsilons if memo is not None else dialogue.ask_epsilons(study, preset)
    answers = dialogue.complete_answers(study, preset, skip_sensitive=memo is not None)
    if memo is not None:
        class_name = preset.texts.classes[memo.label]
        decision = f"epsilon {memo.epsilon / 1e6:g}, and {class_name!r} is reported"
        tell(f"This record was randomised before: {decision}.")
        tell("The secret question is not asked again.")
        return contribution.prepare(answers, agreed=agreed)
    micro_epsilon = dialogue.ask_epsilon(study, preset)
    true = dialogue.ask_label(preset)
    return contribution.prepare(answers, true, micro_epsilon, epsilons=epsilons, agreed=agreed)


def _show(contribution: "Contribution", preview: "Preview", texts: "Texts") -> None:
    from pdml.study import study_summary

    study = contribution.study
    kept = study_summary.share(
        study_summary.keep_probability(preview.report.epsilon, len(study.classes))
    )
    maps = "; ".join(map(study_summary.describe_map, study.encoder.maps))
    answers = {name: study_summary.answer_text(value) for name, value in preview.answers.items()}
    for name, epsilon in preview.answer_epsilons.items():
        answers[name] += f"  (randomised, epsilon {epsilon:g})"
    facts = {
        **answers,
        **({"made of these": maps} if maps else {}),
        texts.question: f"{texts.classes[preview.report.label]}  (randomised: the true answer "
        f"is kept with a chance of {kept})",
        "epsilon": f"{preview.epsilon:g}",
        "report number": preview.report.id,
        **(
            {"consent": f"version {preview.report.consent_version}"}
            if preview.report.consent
            else {}
        ),
    }
    width = max(map(len, facts))
    typer.echo(f"\nThe report to {contribution.service.url}, read back from its bytes:\n")
    for name, value in facts.items():
        typer.echo(f"  {name:<{width}}  {value}")
    typer.echo(f"\nThe exact bytes:\n{preview.bytes.decode('ascii')}\n")
