"""`pdml survey`: what one organisation's people answered, estimated from randomised answers."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pdml.cli import options, outputs
from pdml.cli.options import argument, option
from pdml.cli.render import console

if TYPE_CHECKING:
    from pdml.study.survey_result import Survey

_BY = "Groups: sex, age:30:50:70, or crossed sex*age:50; repeat.  [default: every category]"


def survey(
    study: Path = argument(..., "The study.toml that the answers were collected by.", "STUDY"),
    data: Path = argument(..., "A data set that `pdml collect export` wrote.", "DATA"),
    by: list[str] = option([], _BY, "GROUPING", "--by"),
    out: Path | None = option(None, "Also write the rows as CSV.", "FILE"),
    page: Path | None = option(None, "Also write a page to look at (.html).", "FILE"),
    force: bool = options.FORCE,
    as_json: bool = options.TABLES_JSON,
) -> None:
    """Estimate how many people have what they were asked about, overall and by group.

    Needs no training and sends nothing. The share of each randomised answer is estimated from the
    reports, with a 95% interval that counts the choice of people and the randomisation; where it
    would be wider than 50 points, too few people are there to say something. Keep the result inside
    your organisation: how many people a group has is protected by no noise.

    \b
    Example:
      pdml survey study.toml data/alice --by sex --by age:30:50 --page survey.html
    """
    from pdml.pages.survey_page import survey_page
    from pdml.study import Study
    from pdml.study.survey_result import estimate_survey

    files = [path for path in (out, page) if path is not None]
    outputs.check(files, force=force)
    result = estimate_survey(Study.load(study), data, by)
    if out is not None:
        outputs.commit({out: partial(_write_csv, survey=result)})
    if page is not None:
        outputs.commit({page: partial(_write_text, text=survey_page(result))})
    summary = result.to_dict() | {path.suffix.lstrip("."): path for path in files}
    console.print_result(as_json, summary, lambda: _show(result, files))


def _show(result: "Survey", files: list[Path]) -> None:
    from itertools import groupby

    from pdml.pages.survey_page import share_text
    from pdml.study.survey_result import NOTE

    by_answer = groupby(result.rows, key=lambda row: (row.question, row.answer))
    answers: dict[tuple[str, str], list[tuple[str, str, str, str]]] = {}
    for key, rows in by_answer:
        cells = [(row.group, f"{row.prevalence.people:,}", *share_text(row)) for row in rows]
        answers.setdefault(key, []).extend(cells)
    for (question, answer), cells in answers.items():
        columns = ("group", "people", f"answer {answer}", "95% interval")
        console.print_table(question, console.Grid(columns, cells))
    console.print_text("", NOTE)
    if files:
        console.print_files({path.suffix.lstrip("."): path for path in files})


def _write_csv(path: Path, survey: "Survey") -> None:
    from pdml.tables.table_files import write_predictions

    rows = [row.to_dict() for row in survey.rows]
    write_predictions(path, {name: [row[name] for row in rows] for name in rows[0]})


def _write_text(path: Path, text: str) -> None:
    from pdml.files import atomic_write

    atomic_write(path, text)
