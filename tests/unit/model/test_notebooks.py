"""A model, a plan and a proposal in a notebook."""

import numpy as np
from estimators import make_classifier

from pdml import TrainingPlan
from pdml.model.model import Model


def fitted(**settings):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 20)) / 4
    return make_classifier(n_servers=3, random_state=0, **settings).fit(x, x[:, 3] > 0)


def test_a_model_shows_its_largest_coefficients_what_it_spent_and_its_leaks():
    model = fitted(plan=TrainingPlan(method="sums", label_noise=0.5, square_noise=0.5)).model_
    page = model._repr_html_()
    largest = np.argmax(np.abs(model.coefficients[0]))
    assert f"feature {largest + 1}</td>" in page and "The 12 largest coefficients of 20" in page
    assert "one exchange of sums" in page and "300 of 3 servers" in page
    assert "all other servers together" in page and "Leak: classes_ was taken" in page
    assert "this training alone" in page and "accuracy to expect" in page


def test_a_model_of_few_words_is_shown_as_well():
    bare = Model(
        classes=("<no>", "maybe", "yes"),
        coefficients=np.zeros((3, 2)),
        intercepts=np.zeros(3),
        norm_bound=1.0,
        fit_intercept=True,
        feature_names=("age", "<i>sex"),
        local="alice",
    )
    page = bare._repr_html_()
    assert "for alice alone: do not publish it" in page and "does not say what" in page
    assert '<th scope="col">&lt;no&gt;</th>' in page and "<i>" not in page


def test_plans_and_proposals():
    found = fitted(features_epsilon=4.0).proposal_
    page = found._repr_html_()
    assert "Proposed plan" in page and found.plan.method in page and "majority" in page
    assert f"{found.forecast.accuracy.middle:.1%}" in page
    assert f"{found.rows[0].spent:.3g}" in page
    plan = TrainingPlan(noise_scale=(0.5, 0.25), rounds=7)._repr_html_()
    assert "<td>0.5, 0.25</td>" in plan and "<td>noise scale</td>" in plan and "<td>7</td>" in plan
    assert "<td>0.5</td>" in TrainingPlan(noise_scale=(0.5, 0.5))._repr_html_()
