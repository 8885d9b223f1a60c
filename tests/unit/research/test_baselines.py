"""The comparison of rivals: a row each, claims that hold and can fail, and files."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pdml.research.baselines import (
    ALL,
    ALONE,
    BASELINES,
    EQUAL,
    FLOOR,
    HALF,
    LOCAL_MODELS,
    NO_TRUST,
    PLAIN,
    PLANNED,
    SINGLE,
    Baseline,
    Score,
)
from pdml.research.baselines.task import Guarantee
from pdml.research.paper import Reproduction, baselines, write


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices this small are slower on several threads."""
    with threadpool_limits(1):
        yield


def silent(done: int, of: int) -> None:
    pass


@pytest.fixture(scope="module")
def results(data_dir: Path) -> list[Score]:
    return baselines.measure(("banana", "twonorm"), seeds=2, processes=1, progress=silent)


@pytest.fixture(scope="module")
def outcome(results: list[Score]) -> Reproduction:
    return baselines.reproduction(results)


def test_every_rival_has_a_row_for_every_set(outcome: Reproduction) -> None:
    assert len(outcome.rows) == 2 * len(BASELINES)
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert len(outcome.summary) == 1 + len(BASELINES)


def test_accuracy_is_sane_where_the_answer_is_known(results: list[Score]) -> None:
    """Twonorm's Bayes rule is linear and right in 97.7%; banana has 55% in its larger class."""
    means = {(r.rival, r.name): float(r.accuracies.mean()) for r in results}
    assert means[PLAIN, "twonorm"] == pytest.approx(97.7, abs=0.6)
    assert means[FLOOR, "banana"] == pytest.approx(55, abs=4)
    assert min(means[name, "twonorm"] for name in (PLANNED, HALF, SINGLE, LOCAL_MODELS)) > 95


def test_the_planners_choice_is_told(results: list[Score]) -> None:
    chosen = {r.rival: r.setting for r in results if r.name == "twonorm"}
    assert all(
        chosen[name].startswith("sums, noise of Q ")
        for name in (PLANNED, HALF, SINGLE, LOCAL_MODELS)
    )


def test_claims_hold_on_twonorm(results: list[Score]) -> None:
    clear = [r for r in results if r.name == "twonorm"]
    for claim in (
        baselines.within_budget(results),
        baselines.joining_is_safe(clear),
        baselines.local_model_is_safe(clear),
        baselines.behind_curators(clear),
    ):
        assert claim.holds, claim


def moved(results: list[Score], by: float, *rivals: str) -> list[Score]:
    return [replace(r, accuracies=r.accuracies + by) if r.rival in rivals else r for r in results]


def test_claims_can_fail(results: list[Score]) -> None:
    loud = [
        replace(r, guarantee=Guarantee(label_collector=1.0, label_others=1.0, features_others=1.5))
        for r in results
    ]
    assert not baselines.within_budget(loud).holds
    worse = moved(results, -50, PLANNED)
    assert not baselines.ahead_of_equals(worse).holds and baselines.behind_curators(worse).holds
    assert not baselines.behind_curators(moved(results, 50, PLANNED)).holds
    for name in (PLANNED, HALF, SINGLE):  # each coalition counts
        assert not baselines.joining_is_safe(moved(results, -20, name)).holds
    assert not baselines.local_model_is_safe(moved(results, -20, LOCAL_MODELS)).holds
    for name in ALONE:  # and the better way to be alone
        assert not baselines.local_model_is_safe(moved(results, 20, name)).holds
    assert not baselines.joining_is_safe(moved(results, 20, ALONE[0])).holds


def test_nothing_is_gained_where_nothing_can_be_learnt(results: list[Score]) -> None:
    """A set on which even the model without privacy is no better than the larger class."""
    hopeless = [replace(r, name="hopeless") for r in results if r.name == "twonorm"]
    hopeless = moved(moved(hopeless, -60, PLAIN), -90, PLANNED)
    assert "hopeless" not in baselines.joining_is_safe(results + hopeless).measured
    assert "hopeless" in baselines.local_model_is_safe(results + hopeless).measured


def test_a_house_within_two_standard_errors_is_safe() -> None:
    def safe(leads: list[float]) -> bool:
        proved = Guarantee(label_collector=1.0, label_others=1.0, features_others=1.0)
        given = {LOCAL_MODELS: 70 + np.array(leads)} | dict.fromkeys(
            ALONE, np.full(len(leads), 70.0)
        )
        return baselines.local_model_is_safe(
            [Score(name, NO_TRUST, "a set", "", found, proved) for name, found in given.items()]
        ).holds

    assert safe([-2.0, 1.5, -2.2, 1.0])  # below on average, by luck
    assert not safe([-1.0, -1.2, -0.9, -1.1])


@pytest.mark.parametrize(
    "rival", [rival for rival in BASELINES.values() if rival.protects], ids=lambda rival: rival.name
)
def test_a_protection_that_is_lost_is_over_the_budget(
    results: list[Score], rival: Baseline
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
    promised = {rival.name: rival.protects for rival in BASELINES.values()}
    assert {promised[name] for name in (*EQUAL, PLANNED)} == {ALL}
    assert all(
        ("label_collector" in rival.protects) == (rival.trusts == NO_TRUST)
        for rival in BASELINES.values()
    )


def test_a_lead_within_two_standard_errors_is_none(results: list[Score]) -> None:
    def led(leads: list[float]) -> bool:
        given = {PLANNED: 70 + np.array(leads)} | dict.fromkeys(EQUAL, np.full(len(leads), 70.0))
        return baselines.ahead_of_equals(
            [replace(r, accuracies=given[r.rival]) for r in results if r.rival in given]
        ).holds

    assert led([1.0, 1.2, 0.9, 1.1])
    assert not led([2.0, -1.5, 2.2, -1.0])  # ahead on average, by luck


@pytest.mark.slow
def test_results_do_not_depend_on_processes(data_dir: Path) -> None:
    one, two = (
        baselines.measure(("banana",), seeds=2, processes=n, progress=silent) for n in (1, 2)
    )
    assert [r.accuracies.tolist() for r in one] == [r.accuracies.tolist() for r in two]


def test_files_are_written(outcome: Reproduction, tmp_path: Path) -> None:
    paths = write(outcome, tmp_path)
    table = list(csv.DictReader(paths["csv"].read_text().splitlines()))
    assert {row["rival"] for row in table} == {rival.name for rival in BASELINES.values()}
    words = paths["svg"].read_text()
    assert all(rival.name in words for rival in BASELINES.values() if rival.name != FLOOR)
    assert "always the larger class" in words
    assert paths["png"].stat().st_size > 10_000
