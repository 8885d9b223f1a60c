"""A survey as one page: shares with their intervals, as pictures and in a table."""

from dataclasses import dataclass
from itertools import groupby

from pdml._version import __version__
from pdml.formatting import numbers
from pdml.pages.charts.plots import Whisker, whisker_figure
from pdml.pages.charts.svg import Figure
from pdml.pages.render import document
from pdml.study.survey_result import NOTE, Survey, SurveyRow

TOO_FEW = "too few to say"


@dataclass(frozen=True)
class _Page:
    """What the template asks for."""

    survey: Survey

    note = NOTE
    version = f"pdml {__version__}"

    @property
    def rows(self) -> list[tuple[SurveyRow, str, str]]:
        """Each row with its share and interval in words."""
        return [(row, *share_text(row)) for row in self.survey.rows]

    def figures(self) -> list[Figure]:
        """One for each answer of each question."""
        by_answer = groupby(
            sorted(self.survey.rows, key=lambda row: (row.question, row.answer)),
            key=lambda row: (row.question, row.answer),
        )
        figures = (
            _figure(number, *key, [row for row in rows if row.prevalence.enough])
            for number, (key, rows) in enumerate(by_answer)
        )
        return [figure for figure in figures if figure is not None]


def _figure(number: int, question: str, answer: str, rows: list[SurveyRow]) -> Figure | None:
    if not rows:
        return None
    whiskers = [
        Whisker(
            name=row.group,
            value=100 * row.prevalence.share,
            low=100 * row.prevalence.low,
            high=100 * row.prevalence.high,
        )
        for row in rows
    ]
    words = "; ".join(f"{row.group}: {' '.join(share_text(row))}" for row in rows)
    return whisker_figure(
        whiskers,
        x=f"% {answer}",
        names=250.0,
        name=f"share-{number}",
        heading=question,
        caption=f"The share of people whose answer is {answer}, with 95% intervals.",
        words=f"{words}.",
    )


def share_text(row: SurveyRow) -> tuple[str, str]:
    """The share and its interval, or that too few people say something."""
    prevalence = row.prevalence
    if not prevalence.enough:
        return TOO_FEW, ""
    ends = f"{numbers.percent(prevalence.low)} to {numbers.percent(prevalence.high)}"
    return numbers.percent(prevalence.share), ends


def survey_page(survey: Survey) -> str:
    """The page of a survey.

    Parameters
    ----------
    survey : Survey
        As `pdml.study.survey_result.estimate_survey` gives it.

    Returns
    -------
    str
        HTML without scripts.
    """
    return document("survey.html", _Page(survey))
