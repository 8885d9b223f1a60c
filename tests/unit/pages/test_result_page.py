"""The page of a result: whole, readable by everybody, and about nothing but what was signed."""

import re
from pathlib import Path

import pytest
from results import SHORT, Studied

from pdml.node.job.job_result import assemble
from pdml.pages.result_page import result_page

STORED = Path(__file__).parents[2] / "vectors" / "result-1" / "report.html"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made = Studied(tmp_path_factory.mktemp("page"), plan=SHORT)
    made.run()
    drawn = result_page(assemble(made.study, made.job_terms, made.tell()))
    made.close()
    return drawn


def test_it_loads_and_runs_nothing(page):
    assert "<script" not in page and "default-src 'none'" in page
    assert not re.search(r'(src|href)="(?!data:,|#)', page)


def test_every_name_that_is_pointed_to_is_there_once(page):
    ids = re.findall(r' id="([^"]+)"', page)
    pointed = re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and set(pointed) <= set(ids)
    assert page.count('role="img"') == 4 == page.count("<figure>")


def test_it_says_what_was_agreed_and_what_is_only_claimed(page):
    assert "How many records it has, where its labels were randomised" in page
    assert "job-1" in page and "Simulation." in page and "study hash" in page
    assert "Made on" not in page


def test_earlier_jobs_are_mentioned():
    """In the stored result every data set had been used before."""
    assert STORED.read_text().count("data set was used before") == 4
