"""`pdml train study.toml --engine flare`: a job between organisations, watched from the operator's desk."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.cli.train_study import Choices
    from pdml.node.contract import Contract
    from pdml.release.consortium import Outcome


def train(contract: "Contract", choices: "Choices") -> "Outcome":
    """Submit, follow, fetch; an interrupt stops the job at every node."""
    try:
        from pdml.node.flare.session import connect, open_desk
    except ImportError:
        raise InvalidInput("--engine flare needs NVIDIA FLARE: pip install 'pdml[flare]'") from None
    from pdml.release.consortium import Outcome, Part

    if choices.admin is None:
        raise InvalidInput("--admin must be given: the folder `admin` that `pdml node provision` made")
    if choices.folders or choices.seed is not None:
        raise InvalidInput("--data and --seed belong to --engine local: nodes have their own data and draw their own noise")
    site = open_desk(choices.admin)
    if site.study().hash != contract.study:
        raise InvalidInput(f"the kit {choices.admin} was made for another study than this file: provision again, or use its own study")
    limits = {"start_timeout": choices.start_timeout, "round_timeout": choices.round_timeout}
    longest = choices.start_timeout * 2 + choices.round_timeout * contract.plan.rounds
    with connect(site, timeout=min(60.0, choices.start_timeout)) as desk:
        desk.wait_for(contract.servers, choices.start_timeout)
        with _nodes(contract) as follow:
            number = desk.submit(contract, resume=choices.resume, **limits)
            try:
                status = desk.follow(number, follow, timeout=longest)
            except BaseException:
                if desk.abort(number):
                    _say(f"job {contract.job} is stopped at every node; to go on: --job {contract.job} --resume")
                else:
                    _say(f"job {contract.job} could not be stopped: the relay does not answer; nodes that hear nothing give up")
                raise
        reports = desk.result(number, contract, status)
    sources = {report.source for report in reports.values()}
    return Outcome(
        contract=contract,
        own_nodes=True,
        source=sources.pop() if len(sources) == 1 else "simulated",  # one node that protects nobody is enough
        parts=tuple(
            Part(
                server=name,
                records=report.records,
                released=report.vector,
                apart=report.apart,
                label_epsilon=report.label_epsilon,
                events=contract.events(name, records=report.records, epsilon=report.epsilon),
                earlier=report.spent_before,
                labels=report.labels,
            )
            for name, report in reports.items()
        ),
    )


def _say(sentence: str) -> None:
    import sys

    print(f"pdml: {sentence}", file=sys.stderr)


@contextmanager
def _nodes(contract: "Contract") -> Iterator[Callable[[Mapping[str, int]], None]]:
    """Every node's round: a bar each on a terminal, a line now and then elsewhere."""
    import sys
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    rounds = contract.plan.rounds
    err = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if err.is_terminal and not err.is_dumb_terminal:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("rounds"))
        with Progress(*columns, console=err, transient=True) as bars:
            tasks = {name: bars.add_task(name, total=rounds) for name in contract.servers}

            def draw(told: Mapping[str, int]) -> None:
                for name in tasks.keys() & told.keys():
                    bars.update(tasks[name], completed=told[name])

            yield draw
        return
    spoken = 0.0

    def log(told: Mapping[str, int]) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > 5:
            spoken = time.monotonic()
            print(", ".join(f"{name}: round {t} of {rounds}" for name, t in told.items()), file=sys.stderr, flush=True)

    yield log
