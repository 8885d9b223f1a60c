"""Options under headings, in plain text: rich's help takes longer to load than all the rest."""

from itertools import groupby
from typing import Any

from typer.core import TyperArgument, TyperCommand


class Grouped(TyperCommand):
    """A command whose help shows the panels of its options as headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments, then every panel in the order of its first option."""
        rows = [
            (_panel(param), record)
            for param in self.get_params(ctx)
            if (record := param.get_help_record(ctx)) is not None
        ]
        order = list(dict.fromkeys(["Arguments", *(panel for panel, _ in rows)]))
        rows.sort(key=lambda entry: order.index(entry[0]))
        for panel, entries in groupby(rows, key=lambda entry: entry[0]):
            with formatter.section(panel):
                formatter.write_dl([record for _, record in entries])


def _panel(param: Any) -> str:
    if isinstance(param, TyperArgument):
        return "Arguments"
    return getattr(param, "rich_help_panel", None) or "Options"
