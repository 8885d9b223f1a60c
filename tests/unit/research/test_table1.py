"""Table I: its cells, bars and claims on small shares of the real thing, and the noises and
preprocessings it is made with.
"""

import csv
from dataclasses import replace
from math import inf, isinf, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from pdml.errors import InvalidInput
from pdml.mechanisms.objective_noise import SIGMAS
from pdml.numerics.admm import labels
from pdml.planning.search.planner import Sizes, ledger
from pdml.planning.training_plan import TrainingPlan
from pdml.research.datasets import raetsch
from pdml.research.paper import (
    experiment,
    table1,
    table1_cells,
    write,
)
from pdml.research.paper.table1_cells import COLUMNS, PAPER, Cell, measure, prove_privacy, trainings


def quiet(done: int, total: int) -> None:
    """No progress bar."""


@pytest.fixture(scope="module")
def cells(data_dir: Path) -> tuple[Cell, ...]:
    """The three smallest trainings; their claims are those of the whole table."""
    return measure(("german", "banana", "splice"), seeds=3, processes=1, progress=quiet)


# The paper's figures


@pytest.mark.parametrize("name", raetsch.NAMES)
def test_the_printed_figures_are_fractions_of_the_test_sets(name: str) -> None:
    """A misprint here, or a wrong test size, would give a figure that no number of right answers
    rounds to.
    """
    size = raetsch.TEST_SIZES[name]
    for printed in PAPER[name]:
        right = round(printed * size / 100)
        assert any(
            abs(100 * k / size - printed) < 0.00501 for k in (right - 1, right, right + 1)
        ), (name, printed)


# Preprocessing

records = st.lists(
    st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=2, max_size=6
).map(np.array)


@given(x=records, other=st.floats(-50, 50), name=st.sampled_from(raetsch.NAMES))
def test_our_rows_do_not_depend_on_other_records(x: np.ndarray, other: float, name: str) -> None:
    changed = x.copy()
    changed[1:] = other
    np.testing.assert_array_equal(
        table1_cells.to_declared(x, name)[0], table1_cells.to_declared(changed, name)[0]
    )


def test_their_rows_do_depend_on_other_records() -> None:
    """Why they stand in no ledger."""
    x = np.array([[1.0, 0.5], [1.0, 1.0]])
    assert not np.array_equal(
        table1_cells.to_largest(x, "")[0], table1_cells.to_largest(x * [[1], [8]], "")[0]
    )


@given(
    x=records.filter(lambda x: bool((np.abs(x).max(axis=0) > 1e-3).all())),
    way=st.sampled_from(table1_cells.PREPROCESSINGS),
)
def test_rows_keep_the_bound_their_ledger_counts_with(
    x: np.ndarray, way: table1_cells.Preprocessing
) -> None:
    made = way.apply(x, "twonorm")
    assert np.linalg.norm(made, axis=1).max() <= way.norm_bound * (1 + 1e-15)
    assert np.ptp(made[:, -1]) < 1e-12  # the constant


def test_the_codes_of_splice_are_centred() -> None:
    low, high = table1_cells.to_declared(np.array([[1.0], [4.0]]), "splice")[:, 0]
    assert low == pytest.approx(-high)


# Noise within R

some_sizes = st.builds(
    lambda m, d, e, b: Sizes(records=(m, m + 1), width=d, epsilon=e, norm_bound=b),
    st.integers(20, 10_000),
    st.integers(1, 200),
    st.sampled_from([0.4, 1.0]),
    st.sampled_from([1.0, sqrt(2)]),
)


@given(sizes=some_sizes, bound=st.floats(0.1, 50))
def test_calibrated_noise_keeps_both_of_the_papers_bounds(sizes: Sizes, bound: float) -> None:
    kind, reach = table1_cells.objective_noise("calibrated", bound, sizes)
    assert kind == "truncated_gaussian"
    assert reach * sqrt(sizes.width) <= bound * (1 + 1e-12)  # |η|_∞ <= reach, so |η|_2 <= √d·reach
    assert reach <= SIGMAS * table1_cells.least_deviation(sizes)


@pytest.mark.parametrize("epsilon", [0.4, 1.0])
def test_calibrated_noise_leaves_others_its_share_and_half_of_it_does_not(epsilon: float) -> None:
    joined = experiment.graph()
    sizes = Sizes(records=(350,) * joined.n, width=3, epsilon=epsilon, norm_bound=1.0)
    kind, reach = table1_cells.objective_noise("calibrated", 1e6, sizes)
    plan = TrainingPlan(rounds=2, objective_noise=kind, objective_bound=reach, noise_scale=0.0)
    share = prove_privacy(plan, sizes, joined).label_others / epsilon
    assert share == pytest.approx(table1_cells.SHARE, rel=0.01)
    assert (
        prove_privacy(replace(plan, objective_bound=reach / 2), sizes, joined).label_others
        > 1.2 * share * epsilon
    )


@pytest.mark.parametrize(
    ("noise", "kind"),
    [("box", "uniform_box"), ("ball", "uniform_ball"), ("gaussian", "truncated_gaussian")],
)
def test_other_noises_fill_the_bound(noise: str, kind: str) -> None:
    assert table1_cells.objective_noise(noise, 9.0, Sizes(records=(10,), width=2, epsilon=1.0)) == (
        kind,
        9.0,
    )


def test_a_noise_nobody_knows_is_refused() -> None:
    with pytest.raises(
        InvalidInput,
        match="noise must be one of 'box', 'ball', 'gaussian', 'calibrated', got 'cube'",
    ):
        table1_cells.objective_noise("cube", 1.0, Sizes(records=(10,), width=2, epsilon=1.0))


# What a cell is trained with, and what it proves


@pytest.mark.parametrize("way", table1_cells.PREPROCESSINGS, ids=lambda way: way.name)
def test_each_column_is_trained_with_every_noise(way: table1_cells.Preprocessing) -> None:
    planned = trainings("image", way)
    assert [(column.name, noise) for column, noise, _, _ in planned] == [
        (column.name, noise)
        for column in COLUMNS
        for noise in (table1_cells.NOISES if column.bound else ("none",))
    ]
    for column, _, plan, sizes in planned:
        assert sum(sizes.records) == 2086 - 626 and sizes.width == 19
        assert plan.regularization / experiment.SERVERS == pytest.approx(way.ridge)
        assert plan.objective().active == (plan.noise_scale != 0) == (column.bound > 0)
        assert plan.objective_bound <= column.bound


def test_what_a_column_proves() -> None:
    joined = experiment.graph()
    for column, noise, plan, sizes in trainings("ringnorm", table1_cells.THEIRS):
        privacy = prove_privacy(plan, sizes, joined)
        assert privacy.label_receiving_server == column.epsilon
        assert privacy.label_others <= column.epsilon
        assert privacy.label_others == max(
            ledger(plan, sizes, joined).row("label", "other servers", i).epsilon
            for i in range(joined.n)
        )
        if column.bound == 0:
            assert privacy.label_others == pytest.approx(
                column.epsilon, rel=1e-5
            )  # the flip alone, at δ = 10^-6
            assert isinf(privacy.features_others) and privacy.eta_delta == 1
        if noise == "ball":  # the share of one ball outside the other
            shift = joined.n * float(labels.kappa(column.epsilon)) * sqrt(2) / min(sizes.records)
            assert privacy.eta_delta == pytest.approx(
                betainc(0.5, 11, (shift / (2 * column.bound)) ** 2), rel=1e-6
            )


def test_only_releases_make_the_model(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterate noise a thousand times louder than any classifier must drown it; an average of
    un-noised iterates would survive.
    """
    monkeypatch.setattr(
        table1_cells,
        "COMMON",
        replace(table1_cells.COMMON, rounds=3, noise_scale=1e3, noise_decay=0.999),
    )
    accuracies = np.array(table1_cells._measure_seed(("twonorm", 1, 0)))
    noisy = np.array([column.bound > 0 for column, *_ in trainings("twonorm", table1_cells.OURS)])
    assert (
        np.ptp(accuracies[noisy]) < 2
    )  # the same θ in every training of a seed: labels and η no longer matter
    assert accuracies[~noisy].min() > 90 > accuracies[noisy].max() + 5


# The table


def test_the_claims_hold(cells: tuple[Cell, ...]) -> None:
    found = table1.claims(cells)
    assert len(found) == 10
    assert [claim.text for claim in found if not claim.holds] == []


@pytest.mark.parametrize(("bound", "claim"), [(0, 0), (1, 2), (9, 4)])
def test_a_bar_fails_when_one_cell_falls_below_it(
    cells: tuple[Cell, ...], bound: float, claim: int
) -> None:
    fallen = next(
        k
        for k, cell in enumerate(cells)
        if cell.column.bound == bound and cell.noise in ("none", table1.BEST)
    )
    low = replace(cells[fallen], accuracies=(cells[fallen].paper - 9.0, cells[fallen].paper - 8.9))
    found = table1.claims((*cells[:fallen], low, *cells[fallen + 1 :]))
    assert [k for k, one in enumerate(found) if not one.holds and k < 6] == [claim]


def test_the_bars() -> None:
    some = Cell(
        set="german",
        column=COLUMNS[1],
        preprocessing="ours",
        noise="none",
        paper=60.0,
        accuracies=(57.0, 59.0),
        plan=TrainingPlan(),
        privacy=table1_cells.Privacy(
            label_receiving_server=1.0, label_others=1.0, features_others=inf, eta_delta=1.0
        ),
    )
    assert some.mean == 58 and some.sd == pytest.approx(sqrt(2))
    assert some.meets_bar  # within two standard deviations
    assert not replace(some, column=COLUMNS[4]).meets_bar  # R = 9: at or above
    assert not replace(some, paper=61.0).meets_bar


def test_the_table_is_written_and_complete(cells: tuple[Cell, ...], tmp_path: Path) -> None:
    outcome = table1.reproduction(cells)
    paths = write(outcome, tmp_path)
    with paths["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * (3 + 4 * len(table1_cells.NOISES))
    assert {(row["set"], row["column"]) for row in rows} == {
        (name, column.name) for name in ("german", "banana", "splice") for column in COLUMNS
    }
    for row in rows:
        assert float(row["paper"]) in PAPER[row["set"]]
        assert 0 < float(row["mean"]) < 100 and int(row["seeds"]) == 3
        assert float(row["label_epsilon_other_servers"]) <= float(row["label_epsilon_own_server"])
        assert float(row["eta_half_width"]) <= float(row["bound"])
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    assert b"Banana" in paths["svg"].read_bytes()
    assert outcome.to_dict()["claims"][0]["holds"] is True
    again = write(table1.reproduction(cells), tmp_path / "again")
    assert {kind: path.read_bytes() for kind, path in again.items()} == {
        kind: path.read_bytes() for kind, path in paths.items()
    }


def test_the_terminal_table_is_eighty_wide(cells: tuple[Cell, ...]) -> None:
    table = table1.summary(cells)
    assert len(table) == 1 + 3 * (1 + 2 * len(table1_cells.NOISES))
    assert {len(row) for row in table} == {8}
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    assert 2 + sum(widths) + 2 * 7 <= 80
    german = [row for row in table if row[0] in ("german", "t box", "t ball")][:3]
    assert german[0][1] == "75.0" and german[1][1] and not german[2][1]  # R = 0 once


def test_the_same_seeds_give_the_same_table_in_any_number_of_processes(
    cells: tuple[Cell, ...],
) -> None:
    again = measure(("banana",), seeds=2, processes=2, progress=quiet)
    first = [
        replace(cell, accuracies=cell.accuracies[:2]) for cell in cells if cell.set == "banana"
    ]
    assert list(again) == first


def test_wrong_input_is_refused() -> None:
    with pytest.raises(
        InvalidInput,
        match="seeds must be a whole number >= 2, got 1: a standard deviation needs two runs",
    ):
        measure(("german",), seeds=1, processes=1, progress=quiet)
    with pytest.raises(InvalidInput, match="set must be one of 'german'"):
        measure(("iris",), seeds=2, processes=1, progress=quiet)
