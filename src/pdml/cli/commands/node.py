"""`pdml node`: one organisation's part in a training between organisations."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdml.cli import outputs
from pdml.cli.options import FORCE, JSON, NODE_FOLDER, TABLES_JSON, argument, flag, group, option
from pdml.cli.render import console
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.node.storage.node_dir import NodeDirectory


node = group(
    "Take part in a training between organisations.",
    "Needs the extra: pip install 'pdml[node]'. FOLDER is what `pdml node init` "
    "made on this machine.",
)


_ACCEPT = "Ask an operator about each offer, or accept the study's own plan."
_RANDOMISE = "They are true: randomise them now. This organisation saw them."
_OTHERS = "Nobody in these records is in a data set that this node has trained on."
_BEFORE = "An earlier revision that this folder has not seen; repeat, oldest first."
_RELAY = "Another way to the relay, a leaf node, say.  [default: the study's address]"
_SIMULATED = "For tests: repeatable noise, which protects nobody."
OFFERED = argument(..., "The offer's digest or its first digits, or the job's name.", "OFFER")


def _home(folder: Path) -> "NodeDirectory":
    from pdml.node.storage.node_dir import NodeDirectory

    return NodeDirectory.open(folder)


@node.command()
def init(
    folder: Path = NODE_FOLDER,
    name: str = option("", "The server's name in the study.", "NAME"),
    accept: str = option("ask", _ACCEPT, "ask|study"),
    renew: bool = flag(
        "--renew", "New keys for a folder that exists: the old ones are lost or known."
    ),
    as_json: bool = JSON,
) -> None:
    """Make a node's keys, on the machine where it will run, and print its public card.

    The card goes to whoever keeps the study file; nothing else leaves the folder.

    \b
    Example:
      pdml node init alice --name alice
    """
    from pdml.node.storage.node_dir import NodeDirectory

    if not name and not renew:
        raise typer.BadParameter("it is the server's name in the study", param_hint="--name")
    home = (
        NodeDirectory.renew(folder, name)
        if renew
        else NodeDirectory.create(folder, name, accept=accept)
    )
    card, path = home.card(), home.path(f"{home.name}.card")
    summary = {"name": home.name, "folder": home.folder, "card": path}
    keys = {"signing_key": card.signing_key, "sealing_key": card.sealing_key}
    console.print_answer(
        as_json,
        summary | {"fingerprint": card.fingerprint} | keys,
        card.text(),
        f"This card is {path}: send it to whoever keeps the study, and compare "
        f"{card.fingerprint} on the telephone.",
    )


@node.command()
def join(
    folder: Path = NODE_FOLDER,
    file: Path = argument(Path("study.toml"), "A study.toml that pins everybody's keys.", "STUDY"),
    before: list[Path] | None = option(None, _BEFORE, "FILE"),
    accept: str = option("", "The rule for offers.  [default: as it is]", "ask|study"),
    as_json: bool = JSON,
) -> None:
    """Adopt the study, or its next revision, in which nothing but keys and relay may differ.

    \b
    Example:
      pdml node join alice study.toml --accept study
    """
    home = _home(folder).join_file(file, before=before or (), accept=accept)
    study = home.study()
    console.print_answer(
        as_json,
        {"name": home.name, "study": study.id, "hash": study.hash, "accept": home.config.accept},
        f"{home.name} is in the study {study.id}.",
        f"hash {study.hash}",
        "Compare the hash with the other organisations: whoever has another one has another study.",
    )


@node.command()
def data(
    folder: Path = NODE_FOLDER,
    from_collect: Path | None = option(
        None, "A data set that `pdml collect export` made.", "FOLDER"
    ),
    table: Path | None = option(None, "Or a table: .csv, .csv.gz or .parquet.", "FILE", "--csv"),
    label: str = option("", "The table's label column.", "COLUMN"),
    epsilon: float | None = option(None, "The labels' epsilon, from the study's menu."),
    epsilon_column: str = option("", "Or each label's own.", "COLUMN"),
    randomised: bool = flag("--randomised", "The labels were randomised on people's devices."),
    randomise: bool = flag("--randomise", _RANDOMISE),
    new_participants: bool = flag("--new-participants", _OTHERS),
    as_json: bool = JSON,
) -> None:
    """Give a node the records it trains on.

    They are copied into the folder, readable by its owner alone, and checked against the study. A
    budget belongs to a data set: after a training another is taken only with --new-participants.

    \b
    Example:
      pdml node data alice --from-collect frozen/alice
    Example, for a table with labels that people randomised with epsilon 1:
      pdml node data alice --csv people.csv --label diagnosis --epsilon 1 --randomised
    """
    from pdml.accounting.kinds import randomiser_note
    from pdml.node.job.training_data import import_frozen, import_table
    from pdml.tables import read_table

    home = _home(folder)
    of_table = label or epsilon is not None or epsilon_column or randomised or randomise
    if (from_collect is None) == (table is None):
        raise InvalidInput("give one of --from-collect FOLDER and --csv FILE")
    if from_collect is not None and of_table:
        raise InvalidInput(
            "--label, --epsilon, --epsilon-column, --randomised and --randomise belong to --csv"
        )
    if table is not None and randomised == randomise:
        raise InvalidInput(
            "say whether the labels are --randomised already or are to be --randomise'd now"
        )
    if from_collect is not None:
        training_data = import_frozen(home, from_collect, new_participants=new_participants)
    else:
        assert table is not None
        training_data = import_table(
            home,
            read_table(table),
            label=label,
            epsilon=epsilon,
            epsilon_column=epsilon_column,
            randomise=randomise,
            new_participants=new_participants,
        )
    records = training_data.server.spec.records
    who = randomiser_note(home.name, training_data.randomised_by)
    summary = {"server": home.name, "records": records, "dataset": training_data.dataset}
    summary |= {
        "smallest_epsilon": training_data.server.spec.epsilon,
        "randomised_by": training_data.randomised_by,
    }
    console.print_answer(
        as_json,
        summary,
        f"{home.name} trains on {records:,} records (data set {training_data.dataset[:12]}).",
        *([who] if who else []),
    )


@node.command()
def run(
    folder: Path = NODE_FOLDER,
    relay: str = option("", _RELAY, "HOST:PORT"),
    metrics: str = option("", "Figures for Prometheus, on this machine only.", "127.0.0.1:PORT"),
    simulated_noise: int | None = option(None, _SIMULATED, "SEED", min=0),
    verbose: bool = flag("--verbose", "Say more on stderr."),
) -> None:
    """Run a node: one connection to the relay, and nothing listens here. It goes on until it is
    stopped.

    A job that was begun goes on when the node is started again.

    \b
    Example:
      pdml node run alice
    """
    from pdml.node.daemon.daemon import run as serve

    serve(folder, relay=relay, metrics=metrics, simulated_noise=simulated_noise, verbose=verbose)


@node.command()
def status(
    folder: Path = NODE_FOLDER,
    study: bool = flag("--study", "What each member of the study has released, and has left."),
    as_json: bool = JSON,
) -> None:
    """Say what a node is doing, and what its data sets have given away so far: the journal's word.

    With --study, what each member of the study has released and has left, by the statements that
    all have signed at the end of jobs.

    \b
    Example:
      pdml node status alice
      pdml node status alice --study
    """
    from pdml.cli.render import node_tables
    from pdml.node.operator.status import read_consortium_status, read_status

    if study:
        members = read_consortium_status(_home(folder))
        console.print_result(as_json, members.to_dict(), lambda: node_tables.show_members(members))
        return
    node_status = read_status(_home(folder))
    console.print_result(
        as_json, node_status.to_dict(), lambda: node_tables.show_status(node_status)
    )


@node.command()
def result(
    folder: Path = NODE_FOLDER,
    job: str = argument(..., "A job that is done.", "JOB"),
    out: Path = option(Path("result"), "A new folder for the result.", "DIR"),
    as_json: bool = JSON,
) -> None:
    """Assemble the model and its page from everybody's statements: the same bytes at every member.

    \b
    Example:
      pdml node result alice first --out result
    """
    from pdml.cli.commands.train_study import write_job_result
    from pdml.consortium.job_client import load_job_result

    write_job_result(load_job_result(_home(folder), job), out, as_json=as_json)


@node.command()
def offers(
    folder: Path = NODE_FOLDER,
    offer: str = argument("", "One that waits: its terms and cost.", "OFFER"),
    as_json: bool = JSON,
) -> None:
    """List the jobs that members have offered, and what became of them.

    With OFFER, a digest or a job's name, the terms of one that waits and what it would cost.

    \b
    Example:
      pdml node offers alice
      pdml node offers alice first
    """
    from pdml.cli.render import node_tables
    from pdml.node.operator import offers as offer_commands

    home = _home(folder)
    if offer:
        terms = offer_commands.read_terms(home, offer_commands.find(home, offer))
        console.print_result(as_json, terms.to_dict(), lambda: node_tables.show_offer(terms))
        return
    attempts = offer_commands.offers(home)
    summary = {"offers": [attempt.to_dict() for attempt in attempts]}
    listed = [*map(node_tables.format_offer, attempts)]
    console.print_answer(as_json, summary, *(listed or ["No job was offered yet."]))


@node.command()
def accept(
    folder: Path = NODE_FOLDER,
    offer: str = OFFERED,
    yes: bool = flag("--yes", "Accept without a question: for scripts."),
    as_json: bool = JSON,
) -> None:
    """Show the terms of an offer that waits and what it costs, and accept it if you say yes.

    What is accepted is the offer that was shown, whatever else has its name.

    \b
    Example:
      pdml node accept alice first
      pdml node accept alice 3f2a91c04b7e05d1 --yes
    """
    from pdml.cli.render import node_tables
    from pdml.node.operator import offers as offer_commands

    home = _home(folder)
    terms = offer_commands.read_terms(home, offer_commands.find(home, offer))
    job, who, digest = terms.job_terms.job, terms.offer.offerer, terms.digest
    if not yes and (as_json or not sys.stdin.isatty()):
        raise InvalidInput(
            f"nobody can be asked here whether to accept {who}'s offer of job {job}: read its "
            f"terms with `pdml node offers {folder} {digest}`, then accept it with "
            f"`pdml node accept {folder} {digest} --yes`"
        )
    if not as_json:
        node_tables.show_offer(terms)
    if not yes and not console.confirm(f"Accept {who}'s offer of job {job} on these terms?"):
        console.print_answer(False, {}, f"job {job} is not accepted, and its offer waits on")
        raise typer.Exit(1)
    offer_commands.accept(home, digest)
    summary = terms.to_dict() | {"state": "accepted"}
    console.print_answer(
        as_json, summary, f"{who}'s offer of job {job} is accepted, digest {digest}"
    )


@node.command()
def refuse(
    folder: Path = NODE_FOLDER,
    offer: str = OFFERED,
    why: str = option("", "What the others are told.", "SENTENCE"),
    as_json: bool = JSON,
) -> None:
    """Refuse an offer that waits for an answer: no node then releases anything (more) for it.

    \b
    Example:
      pdml node refuse alice first --why "not before Monday"
    """
    from pdml.node.operator import offers as offer_commands

    attempt = offer_commands.refuse(_home(folder), offer, why)
    console.print_answer(
        as_json,
        attempt.to_dict() | {"state": "refused"},
        f"{attempt.offerer}'s offer of job {attempt.job} is refused, digest {attempt.digest}",
    )


@node.command()
def stop(folder: Path = NODE_FOLDER, as_json: bool = JSON) -> None:
    """Stop the job that this node is in, at every member; the journals let it go on later.

    The node itself goes on running: end it as it was started (Ctrl-C, or the service manager).

    \b
    Example:
      pdml node stop alice
    """
    from pdml.node.operator import offers as offer_commands

    job = offer_commands.stop(_home(folder))
    console.print_answer(
        as_json,
        {"job": job, "stopping": True},
        f"job {job} is being stopped at every member; to go on: pdml train --job {job} --resume",
    )


_UNRELEASED = "Nobody in these records is in a data set of which this node has released something."


@node.command()
def evaluate(
    folder: Path = NODE_FOLDER,
    model: Path = argument(..., "A result's model.json.", "MODEL"),
    data: Path = argument(..., "Records that were held back, with true labels.", "DATA"),
    label: str = option("", "The column of true labels.", "COLUMN"),
    job: str = option("", "A name for this evaluation; the same again releases nothing.", "NAME"),
    epsilon: float = option(1.0, "What it may tell about one record."),
    delta: float = option(1e-6, "But for this chance."),
    bins: int = option(5, "Bins of the model's confidence; 1: less noise in the accuracy."),
    new_participants: bool = flag("--new-participants", _UNRELEASED),
    out: Path = option(Path("evaluation.json"), "What is released, signed.", "FILE"),
    force: bool = FORCE,
    as_json: bool = TABLES_JSON,
) -> None:
    """Count how a released model does on this organisation's own records, once and with noise.

    The counts are debited in the node's journal, within the study's budget, before they are
    written; the node must not be running. What all members have written,
    `pdml node combine-evaluations` adds up.

    \b
    Example:
      pdml node evaluate alice result/model.json held-back.csv --label diagnosis \\
          --job checked --new-participants
    """
    for name, value in (("--label", label), ("--job", job)):
        if not value:
            raise typer.BadParameter("it must be given", param_hint=name)
    from pdml.consortium.signed_evaluation import evaluate_at_node
    from pdml.model.model import load_model

    outputs.check([out], force=force)
    done = evaluate_at_node(
        _home(folder),
        load_model(model),
        data,
        label=label,
        job=job,
        epsilon=epsilon,
        delta=delta,
        bins=bins,
        new_participants=new_participants,
    )
    outputs.commit({out: done.save})
    ledger = done.ledger(delta)
    summary = {**done.evaluation.to_dict(), "privacy": ledger.to_dict(), "file": out}

    def show() -> None:
        from pdml.cli.render import training_tables

        training_tables.show_evaluation(done.evaluation)
        counted = "Counted: every evaluation on these records, by this node's journal."
        console.print_privacy(ledger.rows(), counted)
        console.print_files({"released": out})

    console.print_result(as_json, summary, show)


@node.command()
def combine_evaluations(
    folder: Path = NODE_FOLDER,
    files: list[Path] = argument(..., "What members have released.", "EVALUATION..."),
    as_json: bool = TABLES_JSON,
) -> None:
    """Add up what members have released of one model, each file checked against its signature.

    \b
    Example:
      pdml node combine-evaluations alice alice.json bob.json carol.json
    """
    from pdml.consortium import signed_evaluation

    study = _home(folder).checked_study()
    evaluation = signed_evaluation.combine_evaluations(study, files).evaluation

    def show() -> None:
        from pdml.cli.render import training_tables

        training_tables.show_evaluation(evaluation)

    console.print_result(as_json, evaluation.to_dict() | {"files": files}, show)
