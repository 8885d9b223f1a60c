"""The statement: every number is the study's or the ledger's, and every sentence true of its
setting.
"""

import json
import math
import os
import re
from dataclasses import asdict, replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from example_study import ASKING
from federation import freeze, study_of
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from markupsafe import escape

from pdml import Budget, TrainingPlan, train_study
from pdml.cli.render import study_tables
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.errors import DataError, InvalidInput, NotVerified
from pdml.formatting import numbers
from pdml.formatting.markup import escape_markdown as escaped
from pdml.model.model import load_model
from pdml.statement import statement
from pdml.study import Study, Wording

VECTORS = Path(__file__).parents[2] / "vectors"
RESULT = VECTORS / "result-1"
NAMES = ("alice", "bob", "carol", "dave", "erin")
SUMS = TrainingPlan(method="sums", label_noise=12.0, square_noise=16.0)
MASKED = replace(SUMS, colluding=2)
ROUNDS = TrainingPlan(rounds=3, noise_scale=0.5)


SIZES = {
    "classes": ("no", "yes", "unsure"),
    "menu": (0.5, 1.0, 1.2),
    "min_records": 200,
    "budget": Budget(features_epsilon=3.0, features_delta=1e-5, labels_epsilon=0.4),
}


def planned(plan=MASKED, **changes):
    """Three classes: without the tables of randomised response a ledger is made at once."""
    return study_of(NAMES, plan=plan, **SIZES | changes)


def asking(plan=MASKED, *, menu=(0.5, 2.0), suggested=0.5, levels=("a", "b", "c"), **changes):
    """Two answers that devices randomise, one that they do not."""
    status = Category(name="status", levels=levels, epsilon=Menu(menu=menu, default=suggested))
    income = Number(
        name="income", low=0, high=9, bins=(4.0,), epsilon=Menu(menu=(0.8,), default=0.8)
    )
    asked = (Number(name="age", low=18, high=100), status, income)
    encoder = Encoder(attributes=asked)
    return planned(plan, **{"encoder": encoder} | changes)


BASE, IN_ROUNDS = planned(), planned(ROUNDS)
RANDOMISED = asking()
UNKNOWN = replace(  # to whoever receives the reports
    RANDOMISED, encoder=replace(RANDOMISED.encoder, attributes=RANDOMISED.attributes[1:])
)

TITLE = "Privacy statement and DPIA (Art. 35 GDPR)"
SHORT = f"{TITLE}: Who is at risk?"  # the title, below which the summary stands
COMPARED, MUCH, TRUST = "What is compared", "How much, against whom", "Whom people must trust"
OUTSIDE, CHANCE = "What is outside the guarantee", "Where randomness comes from"
TELLS, GATHERED = "What else could tell", "How data are gathered and kept"
ADDS, WORTH, CHECK = "How spending adds up", "What it is worth", "How anybody can check it"
RIGHTS = "What people are told, and may ask for"
PROCESSING, RISKS = "The processing", "Risks, measures and residual risk"
COIN, EXCHANGE, IN_TIME = (
    "Randomised response of the sensitive answer",
    "One exchange of sums",
    "Training in rounds",
)
COINS, PROTECTED = "Randomised response of other answers", "What is protected"
TOGETHER = "Over several trainings"
FIGURES = {SHORT, MUCH, TRUST, ADDS, RISKS}
HEARD = {MUCH, GATHERED, COINS, WORTH}  # how loud a randomised answer is


def said_in(text):
    """The sections of a statement by their headings."""
    head, *parts = re.split(r"^##? (.*)$", text, flags=re.M)
    assert len(parts[::2]) == len(set(parts[::2]))
    return {"": head} | dict(zip(parts[::2], parts[1::2], strict=True))


def changed(before, after):
    """The headings below which two statements differ."""
    first, second = said_in(before.markdown), said_in(after.markdown)
    return {name for name in {*first, *second} if first.get(name) != second.get(name)}


def limits(**changes):
    return planned(budget=replace(BASE.budget, **changes))


INPUTS = {
    "the menu's largest epsilon": (
        BASE,
        planned(menu=(0.5, 1.0, 1.5)),
        FIGURES | {GATHERED, COIN},
    ),
    "the menu's smallest epsilon": (  # sums are counted by the largest
        BASE,
        planned(menu=(0.25, 1.0, 1.2)),
        {MUCH, RISKS, GATHERED, COIN, WORTH},
    ),
    "epsilon of the budget for features": (
        BASE,
        limits(features_epsilon=0.4),
        {MUCH, ADDS, RISKS, TOGETHER},
    ),
    "delta of the budget for features": (
        BASE,
        limits(features_delta=1e-9),
        FIGURES | {TOGETHER},
    ),
    "epsilon of the budget for labels": (
        BASE,
        limits(labels_epsilon=0.3),
        {MUCH, ADDS, RISKS, TOGETHER},
    ),
    "delta of the budget for labels": (BASE, limits(labels_delta=1e-9), FIGURES | {TOGETHER}),
    "colluding in the budget": (BASE, limits(colluding=1), FIGURES | {TOGETHER}),
    "no budget": (BASE, planned(budget=None), FIGURES | {TOGETHER}),
    "colluding in the plan": (
        BASE,
        planned(replace(MASKED, colluding=3)),
        FIGURES | {CHANCE, EXCHANGE},
    ),
    "no masks": (BASE, planned(SUMS), FIGURES | {CHANCE, EXCHANGE}),
    "noise of sums": (
        BASE,
        planned(replace(MASKED, label_noise=11.0)),
        FIGURES | {CHANCE, EXCHANGE},
    ),
    "method": (BASE, IN_ROUNDS, FIGURES | {CHANCE, TELLS, EXCHANGE, IN_TIME}),
    "rounds": (
        IN_ROUNDS,
        planned(replace(ROUNDS, rounds=4)),
        FIGURES | {CHANCE, IN_TIME},
    ),
    "noise of rounds": (
        IN_ROUNDS,
        planned(replace(ROUNDS, noise_scale=0.6)),
        FIGURES | {CHANCE, IN_TIME},
    ),
    "records": (IN_ROUNDS, planned(ROUNDS, min_records=300), FIGURES | {COMPARED}),
    "classes": (
        IN_ROUNDS,
        planned(ROUNDS, classes=("no", "yes", "unsure", "other")),
        FIGURES | {"What is protected", GATHERED, COIN, WORTH},
    ),
    "an answer's largest epsilon": (
        RANDOMISED,
        asking(menu=(0.5, 2.5)),
        FIGURES | {GATHERED, COINS},
    ),
    "an answer's smallest epsilon": (RANDOMISED, asking(menu=(0.25, 0.5, 2.0)), HEARD),
    "an answer's suggested epsilon": (RANDOMISED, asking(suggested=2.0), {MUCH}),
    "an answer's levels": (  # all together are counted as two
        RANDOMISED,
        asking(levels=("a", "b")),
        HEARD | FIGURES - {SHORT},
    ),
    "how an answer is asked for": (
        RANDOMISED,
        replace(RANDOMISED, wording={"status": Wording(label="Your status")}),
        (FIGURES | {PROTECTED, PROCESSING, GATHERED, COINS}) - {SHORT},
    ),
    "noise, and randomised answers": (
        RANDOMISED,
        asking(replace(MASKED, square_noise=11.0)),
        FIGURES | {CHANCE, EXCHANGE},
    ),
    "an answer that is sent as it was given": (
        UNKNOWN,
        RANDOMISED,
        FIGURES | {PROTECTED, OUTSIDE, GATHERED, "Necessity and proportion"},
    ),
    "a plan for each job": (
        BASE,
        planned(None),
        FIGURES | {CHANCE, EXCHANGE},
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_of_a_study_changes_the_statement_where_it_belongs(name):
    before, after, where = INPUTS[name]
    assert changed(statement(before), statement(after)) == where | {CHECK}


def test_the_number_of_servers_changes_it():
    two = study_of(("alice", "bob"), plan=SUMS, **SIZES)
    three = study_of(("alice", "bob", "carol"), plan=SUMS, **SIZES)
    outcome = changed(statement(two), statement(three))
    assert outcome == {TRUST, PROCESSING, EXCHANGE, CHECK}
    assert "the other organisation |" in statement(two).markdown
    of = "of the 4 other organisations"
    few = planned(budget=replace(BASE.budget, colluding=3))  # as many as the budget assumes, too
    for named in (f"any one {of}", f"any 2 {of} together", f"any 3 {of} together"):
        assert f"| {named} |" in statement(few).markdown
    assert "| all other organisations together |" in statement(few).markdown


def test_the_number_of_trainings_changes_it():
    once, twice = statement(BASE), statement(BASE, trainings=2)
    assert changed(once, twice) == FIGURES | {TOGETHER}
    assert once.facts.row("features", "other servers").epsilon < (
        twice.facts.row("features", "other servers").epsilon
    )
    allowed = once.facts.allowed
    assert 2 < allowed < 32 and f"the budget allows {allowed} such trainings" in once.markdown
    assert statement(BASE, trainings=allowed).facts.within
    assert not statement(BASE, trainings=allowed + 1).facts.within


# What was spent


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Models of studies, by one trust domain with noise of the system's entropy: paths by name."""
    folder, made = tmp_path_factory.mktemp("trained"), {}
    kinds = {
        "sums": (SUMS, ("no", "yes"), None),
        "masked": (MASKED, ("no", "yes", "unsure"), None),
        "rounds": (ROUNDS, ("no", "yes", "unsure"), None),
        "simulated": (ROUNDS, ("no", "yes", "unsure"), 1),
    }
    study = asking(menu=(1.0,), suggested=1.0, budget=Budget(features_epsilon=99.0))
    data = {each: freeze(study, each, folder / f"r-{each}", records=200) for each in NAMES}
    train_study(study, data, job="randomised").model.save(folder / "randomised.json")
    made["randomised"] = (study, folder / "randomised.json")
    for name, (plan, classes, seed) in kinds.items():
        study = study_of(NAMES, plan=plan, menu=(1.0,), classes=classes)
        data = {each: freeze(study, each, folder / f"{name}-{each}") for each in NAMES}
        train_study(study, data, random_state=seed, job=name).model.save(folder / f"{name}.json")
        made[name] = (study, folder / f"{name}.json")
    return made


def altered(path, target, **changes):
    """The same model with other words: keys are paths such as ``provenance.leaks``."""
    outcome = json.loads(path.read_text())
    for key, value in changes.items():
        *way, last = key.split("__")
        place = outcome
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
    target.write_text(json.dumps(outcome))
    return target


STORED = RESULT / "model.json"
SPENT = {
    "epsilon of features": ({"privacy__rows__4__epsilon": 1.25}, {SHORT, MUCH, TRUST, RISKS}),
    "certainty of labels": ({"privacy__rows__1__certainty": 0.6}, {SHORT, MUCH, TRUST, RISKS}),
    "delta of features": ({"privacy__rows__4__delta": 1e-9}, {SHORT, MUCH, TRUST, RISKS}),
    "why": ({"privacy__rows__4__reason": "because"}, {MUCH, RISKS}),
    "leaks": ({"provenance__leaks": ["ranges were taken from records"]}, {OUTSIDE}),
    "records": ({"provenance__records_per_server": [40, 50, 60, 80]}, {SHORT, COMPARED}),
    "earlier trainings": ({"provenance__earlier_releases": [2, 2, 2, 5]}, {ADDS}),
    "what is counted": ({"privacy__counted": "this job alone"}, {SHORT, ADDS}),
    "job": ({"provenance__job": "third"}, {SHORT, CHECK}),
    "rounds": ({"plan__rounds": 4}, {CHANCE, IN_TIME}),
    "who randomised labels": (
        {"provenance__labels_randomised_by": ["operator", "", "", ""]},
        {OUTSIDE},
    ),
    "devices": (
        {"provenance__labels_randomised_by": ["devices"] * 4},
        {TRUST, OUTSIDE, CHANCE, GATHERED, RISKS, "What people are told, and may ask for"},
    ),
    "secure noise": (
        {"privacy__source": "secure", "provenance__noise_source": "secure"},
        {SHORT, MUCH, CHANCE, TELLS, RISKS},
    ),
    "one trust domain": (
        {"provenance__parties": "one trust domain held every organisation's records"},
        {TRUST, RISKS, CHECK, "Necessity and proportion"},
    ),
}


@pytest.mark.parametrize("name", SPENT)
def test_every_input_of_a_ledger_changes_the_statement_where_it_belongs(name, tmp_path):
    changes, where = SPENT[name]
    study = Study.load(RESULT / "study.toml")
    after = statement(study, altered(STORED, tmp_path / "model.json", **changes))
    assert changed(statement(study, STORED), after) == where


def test_coalitions_are_those_of_the_ledger(trained, tmp_path):
    study, path = trained["masked"]
    before = statement(study, path)
    every = load_model(path).coalitions()
    assert len(every) == 2 * 4 and len(before.facts.coalitions) == 2 * 3
    assert set(before.facts.coalitions) <= set(every)
    half = next(i for i, line in enumerate(every) if (line.data, line.colluding) == ("label", 2))
    other = altered(path, tmp_path / "m.json", **{f"privacy__coalitions__{half}__epsilon": 0.77})
    assert changed(before, statement(study, other)) == {TRUST}
    row = r"\| any 2 of the 4 other organisations together \| 0\.770 \|"
    assert re.search(row, statement(study, other).markdown)


def test_randomised_answers_are_those_of_the_ledger(trained, tmp_path):
    """A line of one answer, of all together, and of a coalition; a file without them is none."""
    study, path = trained["randomised"]
    before, model = statement(study, path), load_model(path)
    assert set(before.facts.rows) == set(model.ledger_rows())
    assert len(before.facts.rows) == 5 * 3 and len(before.facts.coalitions) == 5 * 3
    for data, where in (
        ("answer: status", {MUCH, RISKS}),  # that of all others has a table of its own, below
        ("label and randomised answers", {SHORT, MUCH, RISKS}),
    ):
        rows = [(line.data, line.adversary) for line in model.ledger_rows()]
        k = rows.index((data, "other servers"))
        change = {f"privacy__rows__{k}__epsilon": 0.6543}
        after = statement(study, altered(path, tmp_path / "m.json", **change))
        assert changed(before, after) == where
        assert "0.654" in after.markdown and "0.654" in after.html
        details = after.registry["deployment"]["privacy_loss"]["privacy_parameters_details"]
        assert "0.654" in details
    every = model.coalitions()
    half = next(
        i for i, line in enumerate(every) if (line.data, line.colluding) == ("answer: income", 2)
    )
    other = altered(path, tmp_path / "m.json", **{f"privacy__coalitions__{half}__epsilon": 0.6543})
    assert changed(before, statement(study, other)) == {TRUST}
    lines = json.loads(path.read_text())["privacy"]["rows"]
    fewer = altered(path, tmp_path / "m.json", privacy__rows=lines[:6])
    with pytest.raises(DataError, match=r"a ledger of 15 rows.*answer: status"):
        statement(study, fewer)


def test_answers_that_an_operator_randomised_have_no_protection_from_it(trained, tmp_path):
    study, path = trained["randomised"]
    by = {"provenance__labels_randomised_by": ["operator"] * len(NAMES)}
    outcome = statement(study, altered(path, tmp_path / "m.json", **by)).markdown
    assert "randomised on the device" not in said_in(outcome)[GATHERED]
    assert "as they were given, but for those that devices randomise" not in outcome


def test_what_randomised_response_promises_without_a_plan():
    """The largest ε of each menu, and their sum."""
    outcome = statement(replace(UNKNOWN, plan=None, budget=None))
    assert [card.big for card in outcome.document.cards] == [
        *["ε ≤ 1.20"] * 2,  # the label
        *["ε ≤ 4.00"] * 2,  # 1.2, 2 and 0.8: nothing is sent as it was given
        *["ε ≤ 4.00"] * 2,
    ]
    some = statement(replace(RANDOMISED, plan=None, budget=None))
    assert [card.big for card in some.document.cards][2:4] == ["no protection", "no limit"]
    limited = statement(asking(None)).facts
    assert limited.ceiling("answer: status") == (2.0, 0.0)
    close = Budget(features_epsilon=0.3)
    assert statement(asking(None, budget=close)).facts.ceiling("answer: status")[0] == 0.3
    assert statement(asking(None, budget=close)).facts.ceiling("features")[0] == 0.3


def test_a_plan_and_its_training_say_the_same(trained):
    """With as many records as the study allows, what was planned is what was spent."""
    study, path = trained["sums"]
    spent = statement(study, path).facts
    same = replace(study, min_records=60)
    plan = statement(replace(same, budget=Budget(features_epsilon=1e6))).facts
    for line in spent.rows:
        assert plan.row(line.data, line.adversary).epsilon == pytest.approx(line.epsilon)


def test_a_run_with_simulated_noise_protects_nobody_and_says_so(trained):
    study, path = trained["simulated"]
    outcome = statement(study, path)
    for form in (outcome.html, outcome.markdown):
        assert form.count("protects nobody") >= 3
    assert outcome.document.warning and outcome.to_dict()["protects_nobody"] is True
    loss = outcome.registry["deployment"]["privacy_loss"]
    assert "privacy_parameters" not in loss and "protects nobody" in str(loss)
    for name in ("sums", "masked", "rounds"):
        study, path = trained[name]
        real = statement(study, path)
        assert "protects nobody" not in real.markdown and not real.document.warning
        line = real.facts.row("features", "other servers")
        loss = real.registry["deployment"]["privacy_loss"]
        assert loss["privacy_parameters"] == {"epsilon": line.epsilon, "delta": line.delta}


def test_one_trust_domain_and_own_nodes_are_told_apart(trained):
    study, path = trained["rounds"]
    alone = statement(study, path)
    assert "one trust domain held every organisation's records" in alone.markdown
    assert "The relay between organisations" not in alone.markdown
    assert alone.registry["deployment"]["deployment_model"]["model_name"] == "Central"
    between = statement(Study.load(RESULT / "study.toml"), RESULT)
    assert "The relay between organisations" in between.markdown
    assert between.registry["deployment"]["deployment_model"]["model_name"] == "Federated"


def test_what_a_model_expects_of_itself_is_told(trained):
    study, path = trained["sums"]
    middle = load_model(path).expected.accuracy.middle
    assert f"about {100 * middle:.1f}%" in said_in(statement(study, path).markdown)[WORTH]
    study, path = trained["rounds"]
    assert "does not tell how good the model is" in said_in(statement(study, path).markdown)[WORTH]


def test_the_folder_of_a_result_is_verified_and_a_file_is_not(tmp_path):
    study = Study.load(RESULT / "study.toml")
    assert "was verified for this statement" in statement(study, RESULT).markdown
    assert "nothing was verified" in statement(study, STORED).markdown
    for file in RESULT.rglob("*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(RESULT)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
    altered(STORED, tmp_path / "model.json", privacy__rows__4__epsilon=0.1)
    with pytest.raises(NotVerified, match=r"model\.json is not what the statements give"):
        statement(study, tmp_path)


def test_what_cannot_be_stated_is_refused(tmp_path):
    study = Study.load(RESULT / "study.toml")
    with pytest.raises(InvalidInput, match="trained under a study"):
        statement(study, VECTORS / "formats" / "model-1.json")
    with pytest.raises(InvalidInput, match="another study, or another revision"):
        statement(BASE, STORED)
    with pytest.raises(InvalidInput, match="trainings must be left out with a result, got 2"):
        statement(study, STORED, trainings=2)
    with pytest.raises(InvalidInput, match="it leaves the plan to each job"):
        statement(planned(None), trainings=2)
    with pytest.raises(InvalidInput, match="trainings must be a whole number >= 1"):
        statement(BASE, trainings=0)
    wrong = {
        "provenance__records_per_server": [1, 2],
        "provenance__labels_randomised_by": ["me"] * 4,
        "provenance__noise_source": "dice",
        "provenance__servers": 7,
        "privacy__rows": [],
    }
    for key, value in wrong.items():
        with pytest.raises(DataError, match=r"model\.json"):
            statement(study, altered(STORED, tmp_path / "model.json", **{key: value}))
    local = altered(STORED, tmp_path / "local_model.json", local="alice")
    with pytest.raises(InvalidInput, match="the local model of alice"):
        statement(study, local)


# Every sentence, at every setting

SETTINGS = {
    "masked": BASE,
    "sums": planned(SUMS),
    "rounds": IN_ROUNDS,
    "two classes": study_of(NAMES, plan=SUMS, menu=(1.0,), budget=Budget(features_epsilon=9.0)),
    "without noise": planned(replace(ROUNDS, noise_scale=0.0, objective_noise="none")),
    "without a budget": planned(budget=None),
    "without a plan": planned(None),
    "without either": planned(None, budget=None),
    "labels limited alone": planned(budget=Budget(labels_epsilon=0.1)),
    "a weak level": planned(menu=(1.0, 5.0), accept_weak=True),
    "randomised answers": RANDOMISED,
    "every answer randomised": UNKNOWN,
    "randomised answers, without a plan": asking(None),
    "every answer randomised, without either": replace(UNKNOWN, plan=None, budget=None),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_sentences_belong_to_their_setting(name):
    study = SETTINGS[name]
    outcome = statement(study)
    text, plan = " ".join(outcome.markdown.split()), study.plan
    words = text.partition("# Appendix")[0]
    masked = plan is not None and plan.colluding is not None
    assert ("ChaCha20" in text) is masked
    assert ("Every coalition of other organisations learns the same" in text) is (
        plan is not None and not masked
    )
    assert ("each solve certifies" in text) is (plan is not None and plan.method == "rounds")
    assert ("The study sets no budget" in text) is (study.budget is None)
    assert ("refuses to train under" in text) is bool(outcome.facts.untrainable)
    assert ("would exceed the study's budget" in text) is (
        plan is not None and not outcome.facts.within and not outcome.facts.untrainable
    )
    assert ("protects you hardly at all" in text) is (study.menu[-1] > 3)
    assert "protects nobody" not in text.replace("such a training protects nobody", "")
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b| ,|\.\.|\(\)", words)


def test_a_budget_against_few_is_none_against_all():
    """Without a plan the budget is all there is, and the menu of labels."""
    budget = Budget(features_epsilon=1.0, labels_epsilon=0.5)
    for colluding, features, label in ((None, 1.0, 0.5), (4, 1.0, 0.5), (3, None, 1.2)):
        facts = statement(planned(None, budget=replace(budget, colluding=colluding))).facts
        assert (facts.ceiling("features") or (None,))[0] == features
        assert facts.ceiling("label")[0] == label
    outcome = statement(planned(None, budget=replace(budget, colluding=3)))
    assert [card.big for card in outcome.document.cards] == [
        "ε ≤ 1.20",
        "ε ≤ 0.500",  # against any 3
        "ε ≤ 1.20",
        "no protection",
        "ε ≤ 1.00",
        "no limit",
    ]
    assert "privacy_parameters" not in outcome.registry["deployment"]["privacy_loss"]


def test_rows_of_risks_do_not_take_a_budget_against_one_for_one_against_all():
    """Item 13: with colluding = 1 the limit of features holds against one other organisation."""
    budget = Budget(features_epsilon=2.0, labels_epsilon=0.5)

    def rows(plan, colluding):
        outcome = statement(planned(plan, budget=replace(budget, colluding=colluding)))
        found = said_in(outcome.markdown)[RISKS].splitlines()
        return outcome, {line.split(" | ")[0].strip("| "): line for line in found if " | " in line}

    several = "Several trainings together tell what one does not"
    others = "The same learn what somebody answered, the sensitive answer included"
    for plan in (None, MASKED):
        outcome, one = rows(plan, 1)
        _, all_ = rows(plan, None)
        assert (
            "ε of at most 2" in one[several]
            and "against any one of the other servers" in one[several]
        )
        assert "against all other servers together" in all_[several]
        assumed = one["More organisations collude than was assumed"]
        assert "a budget against any one of the 4 others" in assumed
        if plan is None:
            assert "against any one of them: ε of at most 2, with δ" in one[others]
            assert "against all of them together: no limit" in one[others]
            assert "| ε of at most 2" in all_[others]
        else:  # by the ledger, against all others whatever the budget assumes
            few = outcome.facts.row("features", "other servers", 1)
            line = outcome.facts.row("features", "other servers")
            assert few.epsilon < line.epsilon
            assert f"against any one of them: ε = {numbers.epsilon(few.epsilon)}" in one[others]
            together = f"against all of them together: ε = {numbers.epsilon(line.epsilon)}"
            assert together in one[others]
        assert "what the other organisations may learn, any one of them" in outcome.markdown
        assert "labels: δ(0.5) ≤ 10⁻⁶, against any one of the other servers" in outcome.markdown
        assert "1 of the 4 other organisations together" not in outcome.markdown


@pytest.mark.parametrize("plan", [None, MASKED, SUMS], ids=["no plan", "masked", "sums"])
@pytest.mark.parametrize("colluding", [None, 1, 3])
@pytest.mark.parametrize("base", [RANDOMISED, UNKNOWN, BASE], ids=["some", "all", "none"])
def test_no_row_contradicts_another(base, colluding, plan):
    """A part of a record is never less protected than the record, nor fewer others learn more; and
    as many as the budget assumes to collude have a row of their own, before all others'.
    """
    budget = Budget(features_epsilon=1.0, labels_epsilon=2.0, colluding=colluding)
    outcome = statement(replace(base, plan=plan, budget=budget))
    facts, cards = outcome.facts, outcome.document.cards
    few = f"any {colluding} of" if colluding != 1 else "any one of"
    rows = [(card.name.split(", against ")[1].split(",")[0], card) for card in cards]
    whom = list(dict.fromkeys(who for who, _ in rows))
    assert [who.startswith(few) for who in whom] == [False, *[True] * bool(colluding), False]
    assert len({card.name for card in cards}) == len(cards)

    def figure(data, k):
        line = facts.row(data, "other servers", k)
        return (line.epsilon if line else (facts.ceiling(data, k) or (math.inf,))[0]) * (1 - 1e-9)

    for k in dict.fromkeys((colluding, None)):
        record = figure("features", k)
        for data in facts.kinds:
            assert figure(data, k) <= record * (1 + 1e-8)
            assert figure(data, colluding) <= figure(data, None)
    if plan is None:
        assert figure("label", colluding) <= 1.0
    assert (
        "| The sensitive answer | 2 |" not in outcome.markdown
    )  # of a record that 1 is the limit of


def test_a_budget_says_how_sure_it_lets_them_be_as_study_show_does():
    """The same figure in both places: twice δ, since a limit is one point of a profile."""
    budget = Budget(features_epsilon=1.0, features_delta=1e-6)
    outcome = said_in(statement(planned(None, budget=budget)).markdown)[MUCH]
    assert "at most 84.5% sure after, but for a chance of 2 × 10⁻⁶ (twice δ)" in outcome
    shown = study_tables.features_sentence(planned(None, budget=budget))
    assert "at most 84.5% sure, but for a chance of 2e-06 (twice delta)" in shown


def test_a_plan_past_a_budget_against_one_says_whose_learning_is_limited():
    small = Budget(features_epsilon=0.01, labels_epsilon=0.01, colluding=1)
    said = statement(planned(MASKED, budget=small)).markdown
    if "refuses to train under" not in said:
        assert "any one of the other servers learns no more than the budget says" in said
    assert "others never learn more" not in said


def test_without_noise_nothing_is_promised_against_others():
    outcome = statement(SETTINGS["without noise"])
    rows = said_in(outcome.markdown)[MUCH]
    whole = "All answers together, the sensitive one included"
    assert re.search(rf"{whole} \| all other organisations.* \| no protection \| – ", rows)
    assert "privacy_parameters" in outcome.registry["deployment"]["privacy_loss"]  # the budget's
    free = statement(replace(SETTINGS["without noise"], budget=None))
    assert "privacy_parameters" not in free.registry["deployment"]["privacy_loss"]


class Page(HTMLParser):
    """What stands in a page: text, tables and what it points to."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.pointed, self.rows, self.heads = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, given):
        outcome = dict(given)
        self.ids += [outcome["id"]] if "id" in outcome else []
        names = (outcome.get("aria-labelledby"), outcome.get("href", "").removeprefix("#"))
        self.pointed += [name for name in names if name and not name.startswith("data:")]
        if tag == "tr":
            self.rows.append(0)
        elif tag in ("td", "th"):
            self.rows[-1] += 1
        elif tag in ("h1", "h2"):
            self.heads.append(tag)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_page_is_whole_and_loads_nothing(name):
    outcome = statement(SETTINGS[name])
    page = Page(outcome.html)
    assert "<script" not in outcome.html and "default-src 'none'" in outcome.html
    assert not re.search(r'(src|href)="(?!data:,|#)', outcome.html)
    assert len(page.ids) == len(set(page.ids)) and set(page.pointed) <= set(page.ids)
    assert outcome.html.count('class="blank"') == 1 + len(outcome.document.blanks)
    for sentence in (*outcome.document.summary, *(card.small for card in outcome.document.cards)):
        assert sentence.replace("'", "&#39;") in outcome.html


def test_templates_hold_no_number():
    folder = Path(statement.__globals__["__file__"]).parents[1] / "pages" / "templates"
    text = (folder / "statement.html").read_text()
    shown = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", " ", text, flags=re.S)
    assert not re.findall(r"\d", shown)


def test_every_number_in_words_is_the_studys_or_the_ledgers():
    """What studies that differ in every input have in common is the name of something."""
    ages = {"age": (18, 90), "weight": (30.5, 250), "height": (101, 222), "siblings": (9, 29)}

    def of(plan, servers, classes, questions, menu, records, budget):
        asked = tuple(
            Number(name=name, low=low, high=high)
            for name, (low, high) in list(ages.items())[questions]
        )
        changes = {"classes": classes, "menu": menu, "default_epsilon": menu[0]}
        changes |= {"min_records": records, "budget": budget, "encoder": Encoder(attributes=asked)}
        return study_of(servers, plan=plan, **changes)

    different = (
        of(
            MASKED, NAMES, tuple("abcdefg"), slice(1), (0.7, 0.9), 777, Budget(features_epsilon=3.3)
        ),
        of(
            ROUNDS,
            ("x", "y"),
            tuple("abc"),
            slice(1, 4),
            (1.5,),
            5_555,
            Budget(labels_epsilon=0.37),
        ),
        of(SUMS, tuple("abcdefghijkl"), tuple("abcdef"), slice(2, 4), (0.04, 2.2), 91, None),
    )

    def found(study):
        text = statement(study).markdown.partition("# Appendix")[0].replace(study.hash, "")
        text = re.sub(r"Art\. .*?GDPR", "", text)
        text = re.sub(r"http://127\.0\.0\.1:\d+", "", text)
        return set(re.findall(r"\d+(?:[.,-]\d+)*%?", text))

    names = {"800-226", "25519", "20", "2", "1", "0", "10"}  # standards, ciphers, 2ε, 1 training
    assert set.intersection(*map(found, different)) <= names


texts = st.text("a|*_<>&`#[]\\-~'\"{}%:\u00e9\u202f", min_size=1, max_size=9).map(str.strip)


@given(title=texts.filter(bool), question=texts.filter(bool), level=texts.filter(bool), more=texts)
def test_what_a_study_says_is_text_that_nobody_obeys(title, question, level, more):
    ages = Category(name="x" + level, levels=(level + "a", "other"))
    study = planned(None, title=title, question=question, description=more)
    outcome = statement(replace(study, encoder=Encoder(attributes=(ages,))))
    assert escape(title) in outcome.html and f"# {escaped(f'{TITLE}: {title}')}" in outcome.markdown
    tables = re.findall(r"(?:^\|.*\|$\n?)+", outcome.markdown, flags=re.M)
    for table in tables:
        cells = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in table.splitlines()}
        assert len(cells) == 1, table
    assert yaml.safe_load(outcome.registry_text) == outcome.registry


# What only the organiser can say


@pytest.mark.parametrize(
    ("table", "where", "filled"),
    [
        ("organiser", {PROCESSING}, 2),
        ("notice", {PROCESSING, RIGHTS}, 4),  # the registry asks for the purpose, too
        ("consent", {RIGHTS}, 1),
    ],
)
def test_what_people_are_told_fills_its_blanks(table, where, filled):
    outcome = getattr(ASKING, table)
    before, after = statement(BASE), statement(replace(BASE, **{table: outcome}))
    assert changed(before, after) == where | {CHECK}
    assert len(after.missing) == len(before.missing) - filled
    stated = set(asdict(outcome)) - {"who_sees", "link", "text", "retention"}
    stated |= {"text"} if table == "consent" else set()
    for name in stated:  # nothing of it is kept from whoever reads the statement
        assert getattr(outcome, name) in after.markdown and getattr(outcome, name) in after.html
        other = replace(outcome, **{name: "2030-01"})
        assert "2030-01" in statement(replace(BASE, **{table: other})).markdown


def test_the_end_of_retention_is_told():
    assert "2036-01-01 00:00 UTC" in statement(ASKING).markdown


def test_the_languages_of_a_study_are_told():
    assert "in these languages: nl" in statement(replace(BASE, language="nl")).markdown


def test_languages_have_their_place():
    before, after = statement(BASE), statement(replace(BASE, language="nl"))
    assert changed(before, after) == {PROCESSING, CHECK}
    assert "languages: nl" in after.html and len(after.missing) == len(before.missing) - 1


# The registry


@pytest.mark.parametrize("name", SETTINGS)
def test_the_entry_is_one_and_reads_back_as_json_and_as_yaml(name):
    outcome = statement(SETTINGS[name], published=date(2026, 7, 1))
    assert (
        json.loads(outcome.registry_text)
        == outcome.registry
        == yaml.safe_load(outcome.registry_text)
    )
    basic = outcome.registry["deployment"]["basic"]
    assert basic["publication_date"] == "2026-07-01"
    assert statement(SETTINGS[name]).registry["deployment"]["basic"]["publication_date"] == (
        "1900-01-01"
    )
    assert basic["intended_use"].startswith("To be filled in by the controller")


def test_the_entry_says_what_the_budget_allows_or_the_ledger_has_spent():
    def parameters(study):
        return statement(study).registry["deployment"]["privacy_loss"].get("privacy_parameters")

    assert parameters(BASE) == {"epsilon": 3.0, "delta": 1e-5}
    line = statement(planned(budget=None)).facts.row("features", "other servers")
    assert parameters(planned(budget=None)) == {"epsilon": line.epsilon, "delta": line.delta}
    # a budget against one other server says nothing of all of them: the plan does
    against_all = statement(limits(colluding=1)).facts.row("features", "other servers")
    assert parameters(limits(colluding=1))["epsilon"] == against_all.epsilon
    assert parameters(planned(None, budget=None)) is None


@pytest.mark.parametrize("name", SETTINGS)
def test_the_registrys_own_schema_accepts_the_entry(name):
    """Its schema is a file of another project, and not kept here: see docs/guide/statement.md."""
    path = os.environ.get("PDML_REGISTRY_SCHEMA")
    if not path:
        pytest.skip(
            "needs schemas/deployments-schema.yaml of opendp/deployments-registry-data: set "
            "PDML_REGISTRY_SCHEMA to it"
        )
    schema = yaml.safe_load(Path(path).read_text())
    check = Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)
    outcome = yaml.safe_load(statement(SETTINGS[name]).registry_text)
    assert [error.message for error in check.iter_errors(outcome)] == []
    assert [*check.iter_errors(outcome | {"surprise": 1})]
