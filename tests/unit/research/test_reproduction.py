"""What all experiments share: outcomes and their files, jobs in parallel, and the paper's
setting.
"""

import json
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pdml.errors import InvalidInput
from pdml.mechanisms.randomness import Simulated
from pdml.research.paper import MODULES, Claim, Reproduction, drawing, experiment, run, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def silent(done: int, of: int) -> None:
    pass


def picture() -> "Figure":
    with drawing.plots("x", "ε grows", [("round", "ε")]) as (figure, (axes,)):
        drawing.band(
            axes, np.arange(3), np.array([[1.0, 2, 3], [1, 3, 5]]), drawing.SERIES[0], "both"
        )
        drawing.reference(axes, 1.0, "level")
        drawing.legend(figure)
        return figure


OUTCOME = Reproduction(
    name="x",
    title="A title with ε",
    caption="A caption with ρ",
    columns=("a", "b"),
    rows=((1, 0.5), (np.int64(2), np.float64(inf)), ("c", nan)),
    claims=(Claim(text="t", holds=False, measured="m"),),
    draw=picture,
)


def test_an_outcome_becomes_three_files_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    first = write(OUTCOME, tmp_path / "deep" / "one")
    again = write(OUTCOME, tmp_path / "two")
    assert {kind: path.name for kind, path in first.items()} == {
        "csv": "x.csv",
        "png": "x.png",
        "svg": "x.svg",
    }
    for kind in first:
        assert first[kind].read_bytes() == again[kind].read_bytes()
    assert first["csv"].read_text() == "a,b\n1,0.5\n2,inf\nc,nan\n"
    svg = first["svg"].read_text()
    assert "A caption with ρ" in svg and "ε grows" in svg  # text stays text


def test_an_outcome_is_json_without_infinities() -> None:
    found = json.loads(json.dumps(OUTCOME.to_dict(), allow_nan=False))
    assert found["rows"] == [{"a": 1, "b": 0.5}, {"a": 2, "b": "inf"}, {"a": "c", "b": "nan"}]
    assert found["claims"] == [{"text": "t", "holds": False, "measured": "m"}]


def test_every_name_has_a_function() -> None:
    from importlib import import_module

    for name, module in MODULES.items():
        assert callable(getattr(import_module(f"pdml.research.paper.{module}"), name))


def test_an_unknown_experiment_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="name must be one of 'table1'"):
        run("fig9", seeds=2, processes=1, progress=silent)


def test_the_setting_is_the_papers() -> None:
    graph = experiment.graph()
    assert (graph.n, len(graph.edges)) == (10, 13)
    rng = np.random.default_rng(0)
    x, y = experiment.shuffled(3 * rng.standard_normal((105, 4)), np.arange(105) % 2, 1)
    wide = experiment.bounded(x)
    assert wide.shape == (105, 5)
    assert np.linalg.norm(wide, axis=1).max() <= 1
    servers = experiment.members(wide, y, graph, inf, Simulated(0))
    assert {server.spec.records for server in servers} == {10, 11}
    assert (np.concatenate([server.codes[:, 0] for server in servers]) == 2 * y - 1).all()
    assert experiment.accuracy(np.zeros(5), wide, np.zeros(105, dtype=np.int64)) == 100.0


def test_labels_are_flipped_with_their_epsilon() -> None:
    """At ε = 1 a share of 0.269: 20,000 labels, five standard deviations, once in a million."""
    y = np.zeros(20_000, dtype=np.int64)
    servers = experiment.members(
        np.full((20_000, 1), 0.5), y, experiment.graph(), 1.0, Simulated(3)
    )
    codes = np.concatenate([server.codes[:, 0] for server in servers])
    assert abs((codes > 0).mean() - 1 / (1 + np.e)) < 5 * np.sqrt(0.197 / 20_000)
    np.testing.assert_allclose(np.abs(codes), 1 / np.tanh(0.5))


def test_labels_at_the_end_of_lines_never_cover_each_other() -> None:
    with drawing.plots("x", "t", [("x", "y")]) as (_, (axes,)):
        axes.plot([0, 1], [0, 1])
        drawing.end_labels(axes, 1.0, [(0.5, "b"), (0.5, "a"), (0.51, "c")], gap=0.1)
        heights = sorted(float(text.xy[1]) for text in axes.texts)  # type: ignore[attr-defined]
    assert np.diff(heights).min() >= 0.1 - 1e-9


def test_shades_go_from_light_to_dark() -> None:
    lightness = [sum(int(colour[k : k + 2], 16) for k in (1, 3, 5)) for colour in drawing.shades(5)]
    assert lightness == sorted(lightness, reverse=True) and len(set(lightness)) == 5
