"""For those who have to answer for a training: `pdml privacy`, `pdml statement`, `pdml verify`."""

from collections.abc import Callable
from datetime import date
from functools import partial
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.cli import options, outputs
from pdml.cli.options import JSON, argument, flag, option
from pdml.cli.render import console
from pdml.errors import InvalidInput, plain

if TYPE_CHECKING:
    from pdml.consortium.result_folder import Verification
    from pdml.consortium.signed_evaluation import PooledEvaluation
    from pdml.planning.forecast.privacy_forecast import PrivacyForecast
    from pdml.statement import PrivacyStatement

_LABEL_EPSILON = "Privacy of each label on its device; inf is none.  [default: 1]"
_SMALLEST = "Smallest epsilon anybody chose.  [default: --epsilon]"
_METHOD = "rounds or sums, one exchange."
_PLANNED = "The plan that pdml train would choose for this"
_DEGREE = "Links of the server that has fewest.  [default: 1]"
_TOPOLOGY = "random, ring, complete, star, grid or small_world.  [default: random]"
_LABEL_NOISE = "Noise on sums of labels (sigma of Q); 0: none.  [default: 1.1]"
_SQUARE_NOISE = "Noise on sums of squares (sigma of S); 0: none.  [default: 1.9]"
_FEATURES_EPSILON = (
    "Budget: epsilon of features against other servers.  [default without a plan: 1]"
)
_COLLUDING = "Mask sums against so many other servers; a budget's too.  [default: all others]"
_CAP = "Count reports up to this epsilon, in sums.  [default: every epsilon in full]"
_OF_SUMS = ["method", "label_noise", "square_noise", "colluding", "epsilon_cap"]
_SIZES = ["records", "servers", "degree", "features", "classes", "norm_bound", "delta"]
_SIZES += ["epsilon", "smallest_epsilon"]
_BUDGET = ("features_epsilon", "features_delta", "labels_epsilon", "labels_delta")
Number = float | None
Count = int | None


@options.spread_options
def privacy(
    model: Path | None = argument(None, "A model.json: tell what it has spent.", "MODEL"),
    records: Count = option(None, "Records of the server that has fewest."),
    servers: Count = option(None, "How many servers.  [default: 10]"),
    degree: Count = option(None, _DEGREE, panel=options.PLAN),
    topology: str | None = option(None, _TOPOLOGY),
    links: Count = options.LINKS,
    features: Count = option(None, "Numbers per record, with the constant 1.  [default: 10]"),
    classes: Count = option(None, "Classes of the label.  [default: 2]"),
    epsilon: Number = option(None, _LABEL_EPSILON),
    smallest_epsilon: Number = option(None, _SMALLEST),
    plan: options.PlanOptions = options.NO_PLAN,
    method: str | None = option(None, _METHOD, panel=options.PLAN),
    label_noise: Number = option(None, _LABEL_NOISE, panel=options.PLAN),
    square_noise: Number = option(None, _SQUARE_NOISE, panel=options.PLAN),
    colluding: Count = option(None, _COLLUDING, panel=options.PLAN),
    epsilon_cap: Number = option(None, _CAP, panel=options.PLAN),
    norm_bound: Number = option(None, "Longest a record may be.  [default: 1]"),
    delta: Number = option(None, "Chance for which nothing is promised.  [default: 1e-06]"),
    features_epsilon: Number = option(None, _FEATURES_EPSILON),
    features_delta: Number = option(None, "Its delta.  [default: --delta]"),
    labels_epsilon: Number = option(None, "Budget: epsilon of labels against other servers."),
    labels_delta: Number = option(None, "Its delta.  [default: --delta]"),
    as_json: bool = options.TABLES_JSON,
) -> None:
    """Tell who can learn what: from a model, or from settings before any training.

    The table says how sure each party can become of one person's label or features, starting from
    50%: against other servers but for a chance of delta, and why. Where sums are masked, it says so
    for one other server, half of them, all, and as many as the plan speaks of; --json has every
    number of them. With a budget, also whether it is kept, and the last round that stays within it.

    Without settings of a plan it is the plan that `pdml train` chooses with the same options; with
    one of them it is the plan that they make, the others being their defaults.

    \b
    Example, before a training that chooses its own plan:
      pdml privacy --records 450 --servers 10 --features 9
    Example, before a training by a plan of one's own:
      pdml privacy --records 4500 --servers 10 --degree 2 --epsilon 1 --rounds 60 \\
          --features-epsilon 1 --features-delta 1e-6
    Example, before one exchange of sums of which at most five other servers collude:
      pdml privacy --records 4500 --servers 10 --method sums --colluding 5
    Example, after it:
      pdml privacy model.json
    """
    arguments = locals()
    sizes = options.pick_options(arguments, _SIZES)
    limits = options.pick_options(arguments, _BUDGET)
    shape = options.pick_options(arguments, ("topology", "links"))
    settings = plan.settings() | options.pick_options(arguments, _OF_SUMS)
    if model is not None:
        options.refuse_options(
            sizes | shape | settings | limits, " with a model, which says itself what was spent"
        )
        _show_stored(model, as_json)
        return
    if records is None:
        raise InvalidInput(
            "give either a model or the settings of a training, which need at least --records"
        )
    has_plan = settings.keys() - {"colluding"} or degree is not None
    if has_plan and limits and features_epsilon is None and labels_epsilon is None:
        raise InvalidInput(
            "a budget needs --features-epsilon or --labels-epsilon, got only a delta"
        )
    from dataclasses import replace

    from pdml.accounting import Budget
    from pdml.planning.forecast.privacy_forecast import PrivacyForecast
    from pdml.planning.training_plan import TrainingPlan

    if not has_plan:
        console.print_result(as_json, *_choose(sizes, limits, colluding, topology, links))
        return
    options.refuse_options(shape, " beside a plan: the number of links (--degree) says it")
    planned = PrivacyForecast(plan=TrainingPlan(**settings), **sizes)
    if limits:
        chance = {"features_delta": planned.delta, "labels_delta": planned.delta}
        planned = replace(planned, budget=Budget(**chance | limits, colluding=colluding))
    console.print_result(as_json, planned.to_dict(), lambda: _show_planned(planned))


def _choose(
    sizes: dict[str, Any],
    limits: dict[str, float],
    colluding: int | None,
    topology: str | None,
    links: int | None,
) -> tuple[dict[str, Any], Callable[[], None]]:
    """What a training by the planner's plan would spend: as JSON, and as tables."""
    from pdml.accounting import Budget
    from pdml.mechanisms.randomness import TOPOLOGY, Simulated
    from pdml.numerics.admm.graph import build
    from pdml.planning.forecast.privacy_forecast import PrivacyForecast

    servers, delta = sizes.pop("servers", 10), sizes.get("delta", 1e-6)
    _ = PrivacyForecast(servers=servers, **sizes)  # what lies outside its domain is refused
    graph = build(topology or "random", servers, Simulated(0).public(TOPOLOGY), links)
    chance = {"features_epsilon": 1.0, "features_delta": delta, "labels_delta": delta}
    budget = Budget(**chance | limits, colluding=colluding)
    planned = PrivacyForecast.planned(graph, budget, **sizes)
    return planned.to_dict(), lambda: _show_planned(planned, _PLANNED)


def _show_stored(path: Path, as_json: bool) -> None:
    from pdml.model.model import load_model

    model = load_model(path)
    lines = model.overview()
    privacy_facts = {"source": "not said", "counted": "not said"} | model.privacy

    def show() -> None:
        console.print_privacy(lines)
        console.print_reasons(lines)
        console.print_text(
            "", f"Noise: {privacy_facts['source']}.", f"Counted: {privacy_facts['counted']}."
        )

    console.print_result(as_json, {"model": path} | model.privacy, show)


def _show_planned(planned: "PrivacyForecast", whose: str = "") -> None:
    from pdml.accounting.kinds import Method

    plan, lines = planned.plan, planned.ledger.overview(planned.plan.colluding)
    sums = plan.method == Method.SUMS
    if whose:
        how = "one exchange of sums" if sums else f"{plan.rounds} rounds"
        console.print_text(f"{whose}: {how}.")
    console.print_privacy(
        lines, "After one exchange." if sums else f"After all {plan.rounds} rounds."
    )
    console.print_reasons(lines)
    if not sums:
        _by_round(planned)
    console.print_text(
        "",
        *_budgeted(planned),
        "For the server with the fewest records and links, and the person protected least; "
        "nothing was trained.",
    )


def _by_round(planned: "PrivacyForecast") -> None:
    from pdml.formatting import numbers

    rounds, safe = planned.plan.rounds, planned.last_safe_round
    columns = ("round", "epsilon of features", "epsilon of labels")
    rows = [
        (str(t), *map(numbers.epsilon, planned.spent[t - 1])) for t in _milestones(rounds, safe)
    ]
    table = console.Grid(columns, rows, words=0)
    console.print_table("What is spent against all other servers together, round by round?", table)


def _budgeted(planned: "PrivacyForecast") -> list[str]:
    from pdml.accounting.budget import MOST_ROUNDS
    from pdml.accounting.kinds import Data, Method

    budget, rounds, safe = planned.budget, planned.plan.rounds, planned.last_safe_round
    if budget is None or safe is None:
        return []
    limits = [
        ("features", *budget.limit(Data.FEATURES)),
        ("labels", *budget.limit(Data.LABEL)),
    ]
    allowed = " and ".join(
        f"epsilon {eps:g} (delta {d:g}) for {what}" for what, eps, d in limits if not isinf(eps)
    )
    allowed += f" against {budget.whom}"
    later = " or later" if safe >= MOST_ROUNDS else ""
    if planned.plan.method == Method.SUMS:
        kept = "is within it" if planned.within else "would be refused"
        verdict = f"one exchange of sums {kept}"
    elif safe == 0:
        verdict = "not even the first round is safe, and a training would be refused"
    elif planned.within:
        verdict = f"the last safe round is {safe:,}{later}, so {rounds} rounds are within it"
    else:
        refused = f"a training of {rounds} rounds would be refused"
        verdict = f"the last safe round is {safe}, and {refused}"
    return [f"Budget {allowed}: {verdict}."]


def _milestones(rounds: int, safe: int | None) -> list[int]:
    """1, 2, 5, 10, 20, ... and the rounds that matter."""
    steps = {lead * 10**power for power in range(7) for lead in (1, 2, 5)}
    return sorted(t for t in steps | {rounds, safe or 0, (safe or 0) + 1} if 1 <= t <= rounds)


_RESULT = "A model.json, or the folder of a result; without it, what the study plans and allows."
_FORMAT = "Only html, markdown or registry.  [default: all three]"
_OF_RESULT = "With RESULT: what a member released of its model; once for each member."


def statement(
    study: Path = options.STUDY_FILE,
    result: Path | None = argument(None, _RESULT, "RESULT"),
    evaluation: list[Path] | None = option(None, _OF_RESULT, "FILE"),
    form: str = option("", _FORMAT, "FORMAT", "--format"),
    trainings: int = option(1, "Without RESULT: how many trainings by the study's plan to count."),
    published: str = option("", "When the model was published, for the registry.", "YYYY-MM-DD"),
    out: Path = options.OUT,
    force: bool = options.FORCE_ALL,
    as_json: bool = options.JSON,
) -> None:
    """Write the privacy statement and DPIA of a study or of one of its trainings.

    DPIA: the data protection impact assessment of Art. 35 GDPR. For data protection officers,
    lawyers and security officers: one self-contained page in the order in which NIST SP 800-226
    asks, with the DPIA and an appendix of formulas; the same as Markdown; and a draft entry for the
    Differential Privacy Deployments Registry. Every number comes from the study or from the ledger.
    What only the controller can say is left blank, and listed.

    The folder of a result is verified first; a model.json is taken as it is.

    \b
    Example, before anybody is asked:
      pdml statement study.toml --out statement
    Example, after a training:
      pdml statement study.toml result --published 2026-07-01 --out statement
    """
    from pdml.files import atomic_write
    from pdml.statement import file_names
    from pdml.statement import statement as state
    from pdml.study import Study

    files = {kind: out / name for kind, name in file_names(form).items()}
    outputs.check(list(files.values()), force=force)
    privacy_statement = state(
        Study.load(study),
        result,
        evaluations=evaluation or (),
        trainings=trainings,
        published=_date(published),
    )
    outputs.commit(
        {
            path: partial(atomic_write, data=privacy_statement.text(kind))
            for kind, path in files.items()
        }
    )
    summary = privacy_statement.to_dict() | {"files": files}
    console.print_result(as_json, summary, lambda: _show_statement(privacy_statement, files))


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInput(
            f"published must be a date such as 2026-07-01, got {text!r}", setting="published"
        ) from None


def _show_statement(privacy_statement: "PrivacyStatement", files: dict[str, Path]) -> None:
    page = privacy_statement.document
    console.print_text((page.title, "bold"), *([(page.warning, "red")] if page.warning else []))
    blanks = [f"- {what}" for what in privacy_statement.missing]
    console.print_text("", *page.summary, "", "To be filled in by the controller:", *blanks)
    console.print_files(files)


_OF_MEMBER = "What a member released of this model (`pdml node evaluate`); once for each member."

_ALLOW = (
    "Accept a model of sums whose last digits are not those that this machine computes, and the "
    "page beside it."
)


_PAGE = "Write a page on which anybody checks a result in a browser, without this program."


def verify(
    result: Path | None = argument(None, "The folder of a result.", "RESULT"),
    study: Path | None = option(None, "The study you agreed on, to compare with.", "FILE"),
    evaluation: list[Path] | None = option(None, _OF_MEMBER, "FILE"),
    allow_unchecked: bool = flag("--allow-unchecked", _ALLOW),
    page: Path | None = option(None, _PAGE, "FILE"),
    force: bool = options.FORCE,
    as_json: bool = JSON,
) -> None:
    """Check a result from its folder alone: signatures, what was sent and heard,
    what was spent, the model, the page.

    Whoever said different things to different servers is named, if one of them
    has shown the signatures. A refused result ends with exit code 1.

    Model and page are made again and compared to the byte. Another machine may
    compute another last digit of a model of sums: such a result is refused here,
    unless --allow-unchecked accepts these digits and the page.

    The folder cannot prove that its study is yours: compare the hash that is
    printed, or give your own copy with --study.

    With --evaluation also what members have released of the model's quality:
    signatures, counts, and that nobody says to have spent more of its records
    than the study allows.

    With --page alone nothing is checked here: one HTML file is written, a second
    program that checks signatures, hashes, ledger and model in a browser, without
    a network. It cannot draw report.html again, and says so.

    \b
    Example:
      pdml verify result --study study.toml
      pdml verify result --evaluation alice.json --evaluation bob.json
      pdml verify --page verify.html
    """
    if page is not None:
        if result or study or evaluation or allow_unchecked:
            raise InvalidInput("--page only writes a page: give it without a result to check")
        _write_page(page, force=force, as_json=as_json)
        return
    if result is None:
        raise InvalidInput("give the folder of a result, or --page to write a page that checks one")
    from pdml.consortium.result_folder import verify_result
    from pdml.consortium.signed_evaluation import verify_evaluations
    from pdml.study import Study

    wanted = Study.load(study).hash if study is not None else ""
    verification = verify_result(result, study=wanted, allow_unchecked=allow_unchecked)
    checked = verify_evaluations(result, evaluation) if evaluation and verification.ok else None
    summary = verification.to_dict() | (
        {} if checked is None else {"evaluation": checked.to_dict()}
    )
    console.print_result(
        as_json, summary, lambda: _show_verification(verification, wanted, checked)
    )
    verification.check()


def _write_page(page: Path, *, force: bool, as_json: bool) -> None:
    from pdml.files import atomic_write
    from pdml.pages.verifier_page import verifier_page

    outputs.check([page], force=force)
    outputs.commit({page: partial(atomic_write, data=verifier_page())})
    sentence = f"wrote {page}: open it in a browser, and drop the folder of a result on it"
    console.print_answer(as_json, {"page": page}, sentence)


def _show_verification(
    verification: "Verification", wanted: str, checked: "PooledEvaluation | None"
) -> None:
    from pdml.formatting import numbers

    lines = []
    if verification.study:
        owner = "yours" if verification.study == wanted else "not yours"
        whose = owner if wanted else "is this the one you agreed on?"
        lines.append(f"study {verification.study_id}, hash {verification.study}: {whose}")
    lines += [f"- {plain(problem.sentence)}" for problem in verification.problems]
    if verification.ok:
        rounds = numbers.count(verification.rounds, "round")
        lines.append(
            f"job {verification.job}, {rounds}, signed by {', '.join(verification.servers)}"
        )
        lines += ["Verified:", *(f"- {sentence}" for sentence in verification.checked)]
        lines += ["Not checked:", *(f"- {sentence}" for sentence in verification.not_checked)]
    console.print_text(*lines, whole=True)
    if checked is not None:
        from pdml.cli.render import training_tables

        training_tables.show_evaluation(checked.evaluation)
        console.print_text("", *map(plain, checked.sentences()), whole=True)
