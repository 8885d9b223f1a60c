"""Questions in a terminal: asked again until the answer will do."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.study.findings import Findings

    Check = Callable[[Findings, str], Any]


def ask(prompt: str, check: "Check", default: str | None = None) -> str:
    """Ask until the answer passes ``check``; if the input ends, nobody is there to be asked."""
    from pdml.study.findings import Findings

    def proved(text: str) -> str:
        findings = Findings()
        check(findings, text.strip())
        if findings.mistakes:
            raise typer.BadParameter(findings.mistakes[0][1])
        return text.strip()

    try:
        return str(typer.prompt(prompt, default=default, value_proc=proved, err=True))
    except typer.Abort:
        typer.echo(err=True)  # the question stands on a line of its own
        way_out = "answer in a terminal, or say it by options (--help lists them)"
        raise InvalidInput(f"nobody answered {prompt!r}: {way_out}") from None
