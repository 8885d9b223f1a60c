"""`pdml bound`: bounds as tables, graphs compared, bounds held against trainings."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from running import run

from pdml.numerics.admm.graph import Graph
from pdml.research.bounds import Setting, corrected, longest_best, promised, sharper
from pdml.research.paper import bounds_check

ARGUMENTS = [
    "bound",
    "--records",
    "20000",
    "--servers",
    "5",
    "--features",
    "19",
    "--regularization",
    "1",
    "--topology",
    "ring",
]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def by_name(answer: dict) -> dict[tuple[str, str], dict]:
    return {(row["statement"], row["variant"]): row for row in answer["bounds"]}


def test_the_command_says_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output(capsys, *ARGUMENTS)
    setting = Setting(
        graph=Graph.ring(5),
        records=(20_000,),
        width=20,
        epsilon=1.0,
        radius=longest_best(5, 1.0),
        regularization=1.0,
    )
    tolerance = 0.01 * (1 + setting.kappa) / 20_000  # the plan's own: 1% of what one record can do
    setting = replace(setting, tolerance=tolerance)
    rows = by_name(answer)
    for room in (corrected, sharper):
        for name in ("corollary1", "corollary2", "theorem1", "theorem2"):
            expected = getattr(room, name)(setting)
            row = rows[expected.statement, expected.variant]
            assert row["total"] == pytest.approx(expected.total) and row["labels"] == pytest.approx(
                expected.labels
            )
            assert row["says_something"] == (expected.per_classifier < np.log(2))
    assert ("Theorem 1", "as printed") not in rows and ("Theorem 2", "as printed") in rows
    assert [row["holds"] for row in answer["conditions"]] == [False, False, True, None]
    assert answer["conditions"][-1]["reason"].startswith("cannot be checked here")


def test_tables_say_plainly_what_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *ARGUMENTS)
    words = " ".join(out.split())
    assert (code, err) == (0, "")
    assert "This bound says nothing here: the loss at w = 0 is 0.69" in words
    assert (
        "Theorem 1 as printed says nothing here" in words and "Lemma 5 is false as printed" in words
    )
    assert re.search(r"Cor\. 1\s+as printed\s.*\d\*", out) and re.search(
        r"Cor\. 1\s+sharper\s.*\d *\n", out
    )
    assert (
        re.search(r"one population\s+\?\s+cannot be checked here", out)
        and "of what it sends they prove nothing" in words
    )
    assert "Corollary 1, sharper, promises" in words and "its largest term is objective" in words


def test_two_servers_meet_the_paper_s_condition(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "bound",
        "--records",
        "2000",
        "--servers",
        "2",
        "--features",
        "5",
        "--regularization",
        "1",
    ]
    answer = output(capsys, *arguments, "--noise-decay", "0.3")
    assert by_name(answer)["Theorem 1", "as printed"]["total"] > 0
    assert (
        answer["conditions"][-1]["condition"] == "noise decay < C"
        and answer["conditions"][-1]["holds"]
    )
    slow = output(capsys, *arguments, "--noise-decay", "0.999")
    assert (
        slow["conditions"][-1]["holds"] is False
        and "noise_decay" in slow["conditions"][-1]["reason"]
    )


def test_a_short_radius_is_said_to_be_unproved(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output(capsys, *ARGUMENTS, "--radius", "0.1")
    (kept,) = [row for row in answer["conditions"] if row["condition"] == "|w*| <= W"]
    assert kept["holds"] is False


def test_public_records_bring_their_complexity(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((300, 2))
    rows = "\n".join(f"{a:.4f},{b:.4f},{int(a > b)}" for a, b in x)
    (tmp_path / "public.csv").write_text(f"a,b,ill\n{rows}\n")
    arguments = [
        "bound",
        "--like",
        str(tmp_path / "public.csv"),
        "--label",
        "ill",
        "--servers",
        "3",
        "--regularization",
        "1",
    ]
    answer = output(capsys, *arguments)
    drawn = answer["rademacher"]
    assert (
        drawn["low"] <= drawn["closed_form"]
        and drawn["value"] < 1.01 * drawn["closed_form"]
        and drawn["records"] == 300
    )
    code, out, _ = run(capsys, *arguments)
    assert code == 0 and "Rademacher complexity" in out


def test_graphs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output(capsys, "bound", "--suggest-topology", "--servers", "8")
    rounds = [row["rounds_per_digit"] for row in answer["graphs"]]
    assert rounds == sorted(rounds) and {"star", "complete", "hypercube", "ring"} <= {
        row["graph"] for row in answer["graphs"]
    }
    assert all(
        row["condition"] <= row["condition_best"] * (1 + 1e-9) <= 1 for row in answer["graphs"]
    )
    code, out, _ = run(capsys, "bound", "--suggest-topology", "--servers", "8")
    words = " ".join(out.split())
    assert code == 0 and "met by none of them" in words and "Fewest links" in words
    _, out, _ = run(capsys, "bound", "--suggest-topology", "--servers", "2")
    assert "can be met on: complete" in out and "1 link" in out
    _, out, _ = run(capsys, "bound", "--suggest-topology", "--servers", "36")
    assert "With its constants corrected it can be met on: complete." in " ".join(out.split())


def test_bounds_are_held_against_trainings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds_check, "CASES", bounds_check.CASES[:1])
    answer = output(capsys, "bound", "--check")
    assert answer["holds"] and len(answer["comparisons"]) == 4
    assert all(row["excess"] < row["sharper"] for row in answer["comparisons"])
    assert all(row["in_class"] and row["longest"] <= row["radius"] for row in answer["comparisons"])
    code, out, _ = run(capsys, "bound", "--check")
    assert code == 0 and "4 of 4 comparisons hold" in out and "longer than W" not in out


def test_classifiers_outside_the_class_are_marked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise far too loud for so few rounds: the mean over rounds is longer than W in Theorem 1, and
    only there.
    """
    case = bounds_check.BoundsCase(records=200, objective_bound=0.0, noise_scale=30.0, rounds=3)
    monkeypatch.setattr(bounds_check, "CASES", (case,))
    rows = output(capsys, "bound", "--check")["comparisons"]
    assert [row["in_class"] for row in rows] == [True, True, True, False]
    assert all(row["in_class"] == (row["longest"] <= row["radius"]) for row in rows)
    _, out, _ = run(capsys, "bound", "--check")
    assert "* A classifier is longer than W" in out and len(re.findall(r"\d\*", out)) == 1


def test_a_bound_that_fails_is_an_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds_check, "CASES", bounds_check.CASES[:1])
    monkeypatch.setattr(
        bounds_check.sharper,
        "corollary1",
        lambda setting: replace(sharper.corollary2(setting), labels=1e-9),
    )
    code, out, _ = run(capsys, "bound", "--check")
    assert code == 1 and "3 of 4 comparisons hold" in out


@pytest.mark.parametrize(
    ("name", "starts", "against"), [("b.png", b"\x89PNG", "records"), ("b.svg", b"<?xml", "bound")]
)
def test_plots(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, starts: bytes, against: str
) -> None:
    path = tmp_path / name
    code, out, _ = run(capsys, *ARGUMENTS, "--plot", str(path), "--against", against)
    assert code == 0 and str(path) in out.replace("\n", "") and path.read_bytes().startswith(starts)
    code, _, err = run(capsys, *ARGUMENTS, "--plot", str(path))
    assert code == 1 and "--force" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--features must"),
        (["--features", "3"], "--records must"),
        (["--features", "3", "--records", "x"], "--records must"),
        (["--features", "3", "--records", "5", "--epsilon", "0"], "--epsilon must"),
        (["--features", "3", "--records", "5", "--delta", "0"], "--delta must"),
        (["--features", "3", "--records", "5", "--radius", "-1"], "--radius must"),
        (["--features", "3", "--records", "5", "--noise-decay", "1"], "--noise-decay must"),
        (["--features", "3", "--records", "5", "--plot", "x.pdf"], "--plot must"),
        (["--features", "3", "--records", "5", "--against", "rounds"], "against must"),
        (["--features", "3", "--records", "5", "--servers", "100000"], "servers must"),
        (["--suggest-topology", "--servers", "1"], "n must"),
        (["--suggest-topology", "--servers", "1000"], "n must"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    code, out, err = run(capsys, "bound", *arguments)
    assert (
        (code, out) == (1, "")
        and re.fullmatch(r"pdml: [^\n]+\n", err)
        and "mistake in pdml" not in err
    ), err
    assert says in err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "bound", "--help")
    assert code == 0 and "pdml bound --records 20000" in out and "--suggest-topology" in out


@pytest.mark.parametrize("against", ["records", "bound"])
def test_no_words_stand_on_a_curve(
    against: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []

    class Kept(Figure):
        def savefig(self, *arguments: object, **options: object) -> None:
            self.draw_without_rendering()
            drawn.append(self)

    monkeypatch.setattr("matplotlib.figure.Figure", Kept)
    setting = Setting(graph=Graph.ring(5), records=(20000,) * 5, width=20, epsilon=1.0, radius=3.0)
    promised.draw(setting, against, tmp_path / "b.png", "png")
    (figure,) = drawn
    (axes,) = figure.axes
    words = [text for legend in figure.legends for text in legend.get_texts()]
    assert len(words) >= 5 and not axes.texts and axes.get_legend() is None
    assert all(text.get_window_extent().x0 >= axes.get_window_extent().x1 for text in words)
