"""The examples run as they stand, and what their words say is what they find."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
_spec = importlib.util.spec_from_file_location("site_examples", ROOT / "docs/_site/examples.py")
examples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(examples)


@pytest.fixture
def shown(request):
    """An example after its run, by the name of the test."""
    return examples.run(ROOT / "examples" / f"{request.node.name.removeprefix('test_')}.py")


def has_page_and_figure(shown, name):
    assert list(shown.figures) == [f"{name}.svg"] and b"<svg" in shown.figures[f"{name}.svg"]
    assert f"({name}.svg)" in shown.page and "```text\n" in shown.page
    assert shown.page.startswith("# ") and "# %%" not in shown.page


def test_own_table(shown):
    has_page_and_figure(shown, "own_table")
    result = shown.names
    line = result["fitted"].privacy_.row("features", "other servers")
    assert line.epsilon <= 1 and result["fitted"].leaks_ == []
    means = np.mean(result["right"], axis=1)
    assert result["majority"] + 0.1 < means[1] < result["unprotected"]
    assert means[0] < means[1] < means[2]
    assert result["fitted"].doubts_ == [] and len(result["tight"].doubts_) == 2
    assert (
        "PrivacyUtilityWarning: The model may" in shown.page
        and "Joining is not expected" in shown.page
    )
    better = result["tight"].score(result["x_test"], result["y_test"])
    assert better > result["majority"] + 0.05  # than the warning dares to say
    assert set(result["model"].predict(result["model"].features(result["x_test"]))) == {
        "benign",
        "malignant",
    }


def test_what_epsilon_means(shown):
    has_page_and_figure(shown, "what_epsilon_means")
    result = shown.names
    # Four deviations of a share of 20,000: seven points are wrong together with a chance of 5e-4,
    # and the seed is fixed.
    assert np.abs(result["believed"] - result["most"](result["asked"])).max() < 4 * 0.5 / np.sqrt(
        20_000
    )
    guessed, limit = np.array(result["guessed"]), result["most"](np.array(result["spent"]))
    assert (guessed < limit).all() and guessed[-1] > guessed[0] + 0.1


def test_consortium(shown):
    has_page_and_figure(shown, "consortium")
    result = shown.names
    shared = {name: np.mean(found) for name, found in result["shared"].items()}
    assert min(shared["5 of them"], shared["1 of them"]) > np.mean(result["alone"]) + 0.01
    assert shared["all others"] < min(shared["5 of them"], shared["1 of them"])
    assert np.mean(result["own"]["all others"]) > np.mean(result["alone"])
    for name, k in (("5 of them", 5), ("1 of them", 1)):
        promised = result["coalitions"][name]
        assert promised[k - 1] <= 1 < promised[k] and np.isfinite(promised).all()
        assert promised == sorted(promised)
    assert max(result["coalitions"]["all others"]) <= 1


def test_different_epsilons(shown):
    has_page_and_figure(shown, "different_epsilons")
    result = shown.names
    own, chosen = result["own"], result["chosen"]
    np.testing.assert_allclose(own.label_receiving_server, chosen)
    assert (own.label_other_servers < chosen).all() and own.features_other_servers.max() <= 1
    means = result["mixed"].mean(axis=1)
    assert means[:3].min() > means[0] - 0.02  # up to half careful: hardly noticed
    assert means[-1] > result["careful"].mean() - 0.03  # a few who dare do no harm: the cap


def test_every_example_is_tested_and_on_the_site():
    site = (ROOT / "mkdocs.yml").read_text()
    for script in examples.scripts():
        assert f"test_{script.stem}" in globals() and f"examples/{script.stem}.md" in site
        links = re.findall(r"\]\(\.\./([^)#]+)\)", script.read_text())
        assert links and all((ROOT / "docs" / link).exists() for link in links)
