"""`pdml verify`: is a result what it says it is?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pdml.cli.options import Json, argument, flag, option
from pdml.cli.render import console
from pdml.errors import plain

if TYPE_CHECKING:
    from pdml.consortium.result_folder import Verification
    from pdml.consortium.signed_evaluation import PooledEvaluation

_EVALUATION = "What a member released of this model (`pdml node evaluate`); once for each member."

_ALLOW = (
    "Accept a model of sums whose last digits are not those that this machine computes, and the "
    "page beside it."
)


def verify(
    result: Annotated[Path, argument("The folder of a result.", "RESULT", show_default=False)],
    study: Annotated[
        Path | None, option("The study you agreed on, to compare with.", "FILE")
    ] = None,
    evaluation: Annotated[list[Path] | None, option(_EVALUATION, "FILE")] = None,
    allow_unchecked: Annotated[bool, flag("--allow-unchecked", _ALLOW)] = False,
    as_json: Json = False,
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

    \b
    Example:
      pdml verify result --study study.toml
      pdml verify result --evaluation alice.json --evaluation bob.json
    """
    from pdml.consortium.result_folder import verify_result
    from pdml.consortium.signed_evaluation import verify_evaluations
    from pdml.study import Study

    wanted = Study.load(study).hash if study is not None else ""
    verification = verify_result(result, study=wanted, allow_unchecked=allow_unchecked)
    checked = verify_evaluations(result, evaluation) if evaluation and verification.ok else None
    summary = verification.to_dict() | (
        {} if checked is None else {"evaluation": checked.to_dict()}
    )
    console.print_result(as_json, summary, lambda: _show(verification, wanted, checked))
    verification.check()


def _show(verification: "Verification", wanted: str, checked: "PooledEvaluation | None") -> None:
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
        from pdml.pages.evaluation_text import Assessment

        training_tables.show_evaluation(Assessment(evaluation=checked.evaluation))
        console.print_text("", *map(plain, checked.sentences()), whole=True)
