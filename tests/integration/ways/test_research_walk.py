"""A researcher: what the theorems promise, what attacks reach, and the paper's figures again."""

import csv
import json
from pathlib import Path

import pytest
from walking import Walk


def test_bounds_of_a_training(walk: Walk) -> None:
    sizes = ("--records", 20_000, "--servers", 5, "--features", 19, "--regularization", 1)
    shown = walk.pdml("bound", *sizes, "--plot", "bound.png")
    assert "Corollary 1, sharper, promises" in shown
    assert (walk.folder / "bound.png").stat().st_size > 10_000
    assert "--force" in walk.pdml("bound", *sizes, "--plot", "bound.png", code=1)
    assert "star, 15 links" in walk.pdml("bound", "--suggest-topology", "--servers", 16)


def test_an_attack_stays_below_its_claim(walk: Walk) -> None:
    """Seed 1 of the attacks is the default: the same samples each time."""
    report = json.loads(walk.pdml("audit", "--attack", "label_flips", "--json"))
    assert report["passed"] and report["findings"]
    for finding in report["findings"]:
        assert finding["measured_lower_bound"] <= finding["claim"]
    assert "'label_flips'" in walk.pdml("audit", "--attack", "flips", code=1)


def test_a_figure_of_the_paper(walk: Walk, data_dir: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = walk.pdml("reproduce", "fig3a", "--seeds", 2, "--out", "figures")
    figures = walk.folder / "figures"
    assert "fig3a.png" in shown
    assert (figures / "fig3a.png").stat().st_size > 10_000
    rows = list(csv.DictReader((figures / "fig3a.csv").read_text().splitlines()))
    distances = [float(row["distance_mean"]) for row in rows if row["curve"] == "Phase 1 only"]
    assert distances[-1] < distances[0] / 100  # servers come to agree
