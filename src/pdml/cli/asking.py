"""Questions in a terminal: asked again until the answer will do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.study.findings import Findings

    Check = Callable[[Findings, str], Any]


def ask(prompt: str, check: "Check", default: str | None = None) -> str:
    """Ask until the answer passes ``check``."""
    from pdml.study.findings import Findings

    def proved(text: str) -> str:
        findings = Findings()
        check(findings, text.strip())
        if findings.mistakes:
            raise typer.BadParameter(findings.mistakes[0][1])
        return text.strip()

    with somebody(prompt):
        return str(typer.prompt(prompt, default=default, value_proc=proved, err=True))


@contextmanager
def somebody(prompt: str) -> Iterator[None]:
    """Around one question: if the input ends, it is named."""
    try:
        yield
    except typer.Abort:
        typer.echo(err=True)  # the question stands on a line of its own
        way_out = "answer in a terminal, or say it by options (--help lists them)"
        raise InvalidInput(f"nobody answered {prompt!r}: {way_out}") from None
