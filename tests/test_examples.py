"""The examples run as they stand, and what their words say is what they find."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
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
    told = shown.names
    line = told["fitted"].privacy_.row("features", "other servers")
    assert line.epsilon <= 1 and told["fitted"].leaks_ == []
    means = np.mean(told["right"], axis=1)
    assert told["majority"] + 0.1 < means[1] < told["unprotected"]
    assert means[0] < means[1] < means[2]
    assert told["fitted"].doubts_ == [] and len(told["tight"].doubts_) == 2
    assert "PrivacyUtilityWarning: Joining is not expected to pay" in shown.page
    better = told["tight"].score(told["x_test"], told["y_test"])
    assert better > told["majority"] + 0.05  # than the warning dares to say
    assert set(told["model"].predict(told["model"].features(told["x_test"]))) == {
        "benign",
        "malignant",
    }


def test_what_epsilon_means(shown):
    has_page_and_figure(shown, "what_epsilon_means")
    told = shown.names
    # Four deviations of a share of 20,000: seven points are wrong together with a chance of 5e-4,
    # and the seed is fixed.
    assert np.abs(told["believed"] - told["most"](told["asked"])).max() < 4 * 0.5 / np.sqrt(20_000)
    guessed, limit = np.array(told["guessed"]), told["most"](np.array(told["spent"]))
    assert (guessed < limit).all() and guessed[-1] > guessed[0] + 0.1


def test_consortium(shown):
    has_page_and_figure(shown, "consortium")
    told = shown.names
    shared = {name: np.mean(found) for name, found in told["shared"].items()}
    assert min(shared["5 of them"], shared["1 of them"]) > np.mean(told["alone"]) + 0.02
    assert shared["all others"] < min(shared["5 of them"], shared["1 of them"])
    assert np.mean(told["own"]["all others"]) > np.mean(told["alone"])
    for name, k in (("5 of them", 5), ("1 of them", 1)):
        promised = told["coalitions"][name]
        assert promised[k - 1] <= 1 < promised[k] and np.isfinite(promised).all()
        assert promised == sorted(promised)
    assert max(told["coalitions"]["all others"]) <= 1


def test_different_epsilons(shown):
    has_page_and_figure(shown, "different_epsilons")
    told = shown.names
    own, chosen = told["own"], told["chosen"]
    np.testing.assert_allclose(own.label_receiving_server, chosen)
    assert (own.label_other_servers < chosen).all() and own.features_other_servers.max() <= 1
    means = told["mixed"].mean(axis=1)
    assert means[:3].min() > means[0] - 0.02  # up to half careful: hardly noticed
    assert means[-1] < told["careful"].mean() - 0.03  # a few who dare make it worse


def test_every_example_is_tested_and_on_the_site():
    site = (ROOT / "mkdocs.yml").read_text()
    for script in examples.scripts():
        assert f"test_{script.stem}" in globals() and f"examples/{script.stem}.md" in site
        links = re.findall(r"\]\(\.\./([^)#]+)\)", script.read_text())
        assert links and all((ROOT / "docs" / link).exists() for link in links)
