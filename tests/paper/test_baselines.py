"""The comparison of rivals: a row each, claims that hold and can fail, and files."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pdml.paper import Reproduction, baselines, write
from pdml.paper.rivals.composition import Guarantee


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices this small are slower on several threads."""
    with threadpool_limits(1):
        yield


def silent(done: int, of: int) -> None:
    pass


@pytest.fixture(scope="module")
def results(data_dir: Path) -> list[baselines.Score]:
    return baselines.measure(("german", "twonorm", "adult"), seeds=2, processes=1, progress=silent)


@pytest.fixture(scope="module")
def outcome(results: list[baselines.Score]) -> Reproduction:
    return baselines.reproduction(results)


def test_every_rival_has_a_row_for_every_set(outcome: Reproduction) -> None:
    assert len(outcome.rows) == 3 * len(baselines.RIVALS)
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert len(outcome.summary) == 1 + len(baselines.RIVALS)


def test_accuracy_is_sane_where_the_answer_is_known(results: list[baselines.Score]) -> None:
    """Twonorm's Bayes rule is linear and right in 97.7%; german has 70% in its larger class."""
    means = {(r.rival, r.name): float(r.accuracies.mean()) for r in results}
    assert means["No privacy, pooled", "twonorm"] == pytest.approx(97.7, abs=0.6)
    assert means["Larger class", "german"] == pytest.approx(70, abs=4)
    assert means["PDML planned", "twonorm"] > 90


def test_claims_hold_on_three_sets(outcome: Reproduction) -> None:
    assert [claim.text for claim in outcome.claims if not claim.holds] == []


def test_claims_can_fail(results: list[baselines.Score]) -> None:
    loud = [
        replace(r, guarantee=Guarantee(label_collector=1.0, label_others=1.0, features_others=1.5))
        for r in results
    ]
    assert not baselines.within_budget(loud).holds
    worse = [
        replace(r, accuracies=r.accuracies - 50) if r.rival == baselines.PLANNED else r
        for r in results
    ]
    assert not baselines.ahead_of_equals(worse).holds and baselines.behind_curators(worse).holds
    better = [
        replace(r, accuracies=r.accuracies + 50) if r.rival == baselines.PLANNED else r
        for r in results
    ]
    assert not baselines.behind_curators(better).holds


@pytest.mark.parametrize(
    "rival", [rival for rival in baselines.RIVALS if rival.protects], ids=lambda rival: rival.name
)
def test_a_protection_that_is_lost_is_over_the_budget(
    results: list[baselines.Score], rival: baselines.Rival
) -> None:
    for column in rival.protects:
        lost = [
            replace(r, guarantee=replace(r.guarantee, **{column: inf}))
            if r.rival == rival.name
            else r
            for r in results
        ]
        assert not baselines.within_budget(lost).holds
    assert baselines.within_budget(results).holds


def test_what_counts_as_equal_promises_the_same() -> None:
    promised = {rival.name: rival.protects for rival in baselines.RIVALS}
    assert {promised[name] for name in (*baselines.EQUAL, baselines.PLANNED)} == {baselines.ALL}
    assert all(
        ("label_collector" in rival.protects) == (rival.trusts == baselines.NOBODY)
        for rival in baselines.RIVALS
    )


def test_a_lead_within_two_standard_errors_is_none(results: list[baselines.Score]) -> None:
    def led(leads: list[float]) -> bool:
        given = {baselines.PLANNED: 70 + np.array(leads)} | dict.fromkeys(
            baselines.EQUAL, np.full(len(leads), 70.0)
        )
        return baselines.ahead_of_equals(
            [replace(r, accuracies=given[r.rival]) for r in results if r.rival in given]
        ).holds

    assert led([1.0, 1.2, 0.9, 1.1])
    assert not led([2.0, -1.5, 2.2, -1.0])  # ahead on average, by luck


def test_results_do_not_depend_on_processes(data_dir: Path) -> None:
    one, two = (
        baselines.measure(("german",), seeds=2, processes=n, progress=silent) for n in (1, 2)
    )
    assert [r.accuracies.tolist() for r in one] == [r.accuracies.tolist() for r in two]


def test_files_are_written(outcome: Reproduction, tmp_path: Path) -> None:
    paths = write(outcome, tmp_path)
    table = list(csv.DictReader(paths["csv"].read_text().splitlines()))
    assert {row["rival"] for row in table} == {rival.name for rival in baselines.RIVALS}
    words = paths["svg"].read_text()
    assert all(rival.name in words for rival in baselines.RIVALS if rival.name != baselines.FLOOR)
    assert "always the larger class" in words
    assert paths["png"].stat().st_size > 10_000
