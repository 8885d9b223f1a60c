"""Every rule: the mistake is found, on its line, and all of them at once."""

import re
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from example_study import TEXT

from pdml.errors import StudyError
from pdml.mechanisms import objective_noise
from pdml.numerics.admm import losses
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.messages import Report


def mistakes(text: str) -> list[tuple[int, str]]:
    with pytest.raises(StudyError) as caught:
        Study.from_text(text, "study.toml")
    assert str(caught.value).startswith("study.toml is not a valid study: ")
    return list(caught.value.mistakes)


# What is replaced, by what, the line of the mistake, and how its sentence begins (or what it says).
WRONG = [
    ('id = "hiv-2026"', 'id = "HIV 2026"', 2, "study.id must be 1 to 63 lower-case letters"),
    ('id = "hiv-2026"', "", 1, "study.id is missing"),
    ("title =", "titel =", 3, "study.titel is unknown: did you mean 'title'?"),
    ('"Who is at risk?"', "3", 3, "study.title must be text in quotes, got 3"),
    (
        '"Who is at risk?"',
        '" x"',
        3,
        "study.title must be text that neither is empty nor begins or ends with spaces",
    ),
    ('"Who is at risk?"', f'"{"x" * 201}"', 3, "study.title must have at most 200 characters"),
    ('"Who is at risk?"', '"a\\u202eb"', 3, "study.title must be free of control characters"),
    ('"A survey."', '"a\\u0000b"', 4, "study.description must be free of control characters"),
    (
        "2026-03-01T08:00:00+01:00",
        "2026-03-01T08:00:00",
        5,
        "study.opens must be a time with its zone",
    ),
    ("2026-03-01T08:00:00+01:00", "2026-03-01", 5, "study.opens must be a time with its zone"),
    (
        "2026-03-01T08:00:00+01:00",
        "0001-01-01T00:00:00+10:00",
        5,
        "study.opens must be a time within the calendar",
    ),
    (
        "2026-06-01T00:00:00Z",
        "2025-06-01T00:00:00Z",
        6,
        "study.closes must be later than opens, got '2025-06-01 00:00:00+00:00'",
    ),
    (
        "min_records = 200",
        "min_records = 0",
        7,
        "study.min_records must be a whole number from 1 to",
    ),
    ("min_records = 200", "min_records = 2.5", 7, "study.min_records must be a whole number"),
    ("min_records = 200", "min_records = true", 7, "study.min_records must be a whole number"),
    ("question = ", "qestion = ", 10, "label.qestion is unknown: did you mean 'question'?"),
    ('["no", "yes"]', '["no"]', 11, "label.classes must be a list of 2 to 100 texts"),
    ('["no", "yes"]', '["no", "no"]', 11, "label.classes[2] must differ from the others, got 'no'"),
    ('["no", "yes"]', '["no", 1]', 11, "label.classes[2] must be text in quotes, got 1"),
    (
        "[0.4, 1.0, 2.0]",
        "[1.0, 0.4, 2.0]",
        12,
        "label.epsilon.menu[2] must be larger than the one before it, got 0.4",
    ),
    (
        "[0.4, 1.0, 2.0]",
        "[0.4, 1.0, 1]",
        12,
        "label.epsilon.menu[3] must differ from the others on the menu, got 1",
    ),
    (
        "[0.4, 1.0, 2.0]",
        "[0.001, 1.0]",
        12,
        "label.epsilon.menu[1] must lie in [0.01, 20], got 0.001",
    ),
    ("[0.4, 1.0, 2.0]", "[1.0, 21]", 12, "label.epsilon.menu[2] must lie in [0.01, 20], got 21"),
    (
        "[0.4, 1.0, 2.0]",
        "[1.0, 1.0000001]",
        12,
        "label.epsilon.menu[2] must have at most six decimals",
    ),
    ("[0.4, 1.0, 2.0]", "[1.0, nan]", 12, "label.epsilon.menu[2] must be a finite number, got nan"),
    ("[0.4, 1.0, 2.0]", "[]", 12, "label.epsilon.menu must be a list of 1 to 10 epsilons"),
    (
        "[0.4, 1.0, 2.0]",
        "[0.4, 1.0, 2.944439]",
        12,
        "label.epsilon.menu[3] must be at most 2.944438, got 2.944439: above it",
    ),
    (
        "default = 1.0",
        "default = 1.0, accept_weak = 1",
        12,
        "label.epsilon.accept_weak must be true or false, got 1",
    ),
    (
        "default = 1.0",
        "default = 1.0, accept_weak = true",
        12,
        "label.epsilon.accept_weak must be left out, got True: no epsilon",
    ),
    (
        "default = 1.0",
        "default = 3",
        12,
        "label.epsilon.default must be on the menu (0.4, 1, 2), got 3",
    ),
    (
        "{ menu = [0.4, 1.0, 2.0], default = 1.0 }",
        "1.0",
        12,
        "label.epsilon must be a table, got 1.0",
    ),
    (
        'kind = "number"',
        'kind = "numbr"',
        16,
        "attributes[1].kind must be 'number' or 'category', got 'numbr'",
    ),
    (
        "[18, 100]",
        "[100, 18]",
        17,
        "attributes[1].range must run from a smaller to a larger number, got [100, 18]",
    ),
    ("[18, 100]", "[18, 18]", 17, "attributes[1].range must run from a smaller to a larger number"),
    (
        "[18, 100]",
        "[-1e308, 1e308]",
        17,
        "attributes[1].range must have a width that a computer can divide by",
    ),
    (
        "[18, 100]",
        "[0, 5e-324]",
        17,
        "attributes[1].range must have a width that a computer can divide by",
    ),
    ("[18, 100]", "[18, inf]", 17, "attributes[1].range[2] must be a finite number, got inf"),
    (
        "[18, 100]",
        "[18.5, 100]\nwhole = true",
        17,
        "attributes[1].range must begin and end with whole numbers, got [18.5, 100]",
    ),
    (
        "[18, 100]",
        '[18, 100]\nwhole = "yes"',
        18,
        "attributes[1].whole must be true or false, got 'yes'",
    ),
    (
        'levels = ["female", "male", "other"]',
        'levels = ["a"]\nwhole = true',
        23,
        "attributes[2].whole is unknown",
    ),
    ("[18, 100]", "18", 17, "attributes[1].range must be [low, high], got 18"),
    ("range = [18, 100]", "", 14, "attributes[1].range is missing"),
    ("range = [18, 100]", 'levels = ["a"]', 17, "attributes[1].levels is unknown"),
    (
        'name = "sex"',
        'name = "age"',
        20,
        "attributes[2].name must differ from the names of the other attributes, got 'age'",
    ),
    (
        '"female", "male"',
        '"male", "male"',
        22,
        "attributes[2].levels[2] must differ from the others, got 'male'",
    ),
    (
        '"female", "male"',
        '"female", "NA"',
        22,
        "attributes[2].levels[2] must be another text, got 'NA': in a table it stands",
    ),
    (
        'name = "bob"',
        'name = "alice"',
        29,
        "servers[2].name must differ from the names of the other servers",
    ),
    ('name = "bob"', 'name = "Bob"', 29, "servers[2].name must be 1 to 63 lower-case"),
    (
        "https://alice.example",
        "http://alice.example",
        27,
        "servers[1].url must begin with https://",
    ),
    (
        "https://alice.example",
        "http://localhost.evil.example",
        27,
        "servers[1].url must begin with https://",
    ),
    (
        "https://alice.example",
        "ftp://alice.example",
        27,
        "servers[1].url must be an address such as",
    ),
    (
        "https://alice.example",
        "https://u:p@alice.example",
        27,
        "servers[1].url must be an address such as",
    ),
    (
        "https://alice.example",
        "https://alice.example:99999",
        27,
        "servers[1].url must be an address such as",
    ),
    (
        "https://alice.example",
        "https://alice.example?a",
        27,
        "servers[1].url must be an address such as",
    ),
    ("https://alice.example", "https://[::1", 27, "servers[1].url must be an address such as"),
    (
        "https://alice.example",
        "https://bob.example/",
        30,
        "servers[2].url must differ from the other servers' in host or port, not in its path",
    ),
    *(
        (
            "https://alice.example",
            same,
            30,
            "servers[2].url must differ from the other servers' in host or port",
        )
        for same in (
            "https://bob.example:443",
            "https://BOB.example/other",
            "https://bob.example./",
        )
    ),
    (
        '["carol", "bob"]',
        '["carol", "bobb"]',
        36,
        "topology.edges[2][2] must be the name of a server, got 'bobb': did you mean 'bob'?",
    ),
    (
        '["carol", "bob"]',
        '["carol", "carol"]',
        36,
        "topology.edges[2] must link two different servers",
    ),
    (
        '["carol", "bob"]',
        '["alice", "bob"]',
        36,
        "topology.edges[2] must link servers that are not linked yet",
    ),
    (
        ', ["carol", "bob"]',
        "",
        36,
        "topology.edges must connect all servers, but 'carol' cannot be reached from 'alice'",
    ),
    ('["carol", "bob"]', '["carol"]', 36, "topology.edges[2] must be a pair of names of servers"),
    (
        'edges = [["bob", "alice"], ["carol", "bob"]]',
        'kind = "star"',
        36,
        "topology.kind must be 'ring' or 'complete', got 'star'",
    ),
    (
        'edges = [["bob", "alice"], ["carol", "bob"]]',
        "",
        35,
        "topology must have either edges or a kind",
    ),
    (
        "features = { epsilon = 1.0",
        "features = { epsilon = -1.0",
        39,
        "budget.features.epsilon must be positive, got -1.0",
    ),
    (
        "features = { epsilon = 1.0",
        "features = { epsilon = inf",
        39,
        "budget.features.epsilon must be a finite number",
    ),
    ("delta = 1e-6", "delta = 1.0", 39, "budget.features.delta must be at most 0.001"),
    ("delta = 1e-6", "delta = 0.0", 39, "budget.features.delta must be positive"),
    (
        "labels = { epsilon = 0.1 }",
        "labels = { delta = 1e-6 }",
        40,
        "budget.labels.epsilon is missing",
    ),
    ("rounds = 60", "rounds = 60.5", 43, "plan.rounds must be a whole number"),
    ("rounds = 60", "round = 60", 43, "plan.round is unknown: did you mean 'rounds'?"),
    ("[1, 2.5, 3]", '[1, "x", 3]', 44, "plan.noise_scale[2] must be a finite number, got 'x'"),
    ("[plan]", "[plans]", 42, "plans is unknown: did you mean 'plan'?"),
    ("[topology]", "[[topology]]", 35, "topology must be a table"),
]


@pytest.mark.parametrize(
    "old, new, line, output",
    WRONG,
    ids=[f"{row[3].split(' ')[0]}-{i}" for i, row in enumerate(WRONG)],
)
def test_one_mistake_is_told_with_its_line(old: str, new: str, line: int, output: str) -> None:
    assert TEXT.count(old) >= 1
    found = mistakes(TEXT.replace(old, new, 1))
    assert [at for at, text in found if text.startswith(output)] == [line]
    # A server's name is referred to, and a key of the other kind of attribute leaves its own
    # missing; nothing else doubles.
    assert len(found) == 1 or output.startswith(
        ("servers[2].name", "attributes[1].levels is unknown")
    )


def test_all_mistakes_are_told_at_once_in_the_order_of_lines() -> None:
    text = TEXT
    rows = [
        row
        for row in WRONG
        if row[0]
        in (
            'id = "hiv-2026"',
            '["no", "yes"]',
            "default = 1.0",
            "[18, 100]",
            '"female", "male"',
            "rounds = 60",
        )
    ]
    chosen = {row[0]: row for row in reversed(rows) if row[1]}
    for old, new, _, _ in chosen.values():
        text = text.replace(old, new, 1)
    found = mistakes(text)
    assert [line for line, _ in found] == sorted(line for line, _ in found)
    for _, _, line, output in chosen.values():
        assert any(at == line and said.startswith(output) for at, said in found)
    assert len(found) == len(chosen)


def test_an_empty_file_lacks_every_table() -> None:
    assert [text for _, text in mistakes("")] == [
        f"{name} is missing" for name in ("study", "label", "attributes", "servers", "topology")
    ]


def test_servers_that_are_cut_off_are_named() -> None:
    servers = "".join(
        f'[[servers]]\nname = "s{i}"\nurl = "https://s{i}.example"\n' for i in range(5)
    )
    text = (
        TEXT.split("[[servers]]")[0]
        + servers
        + '[topology]\nedges = [["s0", "s3"], ["s1", "s2"]]\n'
    )
    ((_, output),) = mistakes(text)
    assert (
        output == "topology.edges must connect all servers, but 's1', 's2', 's4' cannot be "
        "reached from 's0'"
    )


def test_one_server_is_refused() -> None:
    text = (
        TEXT.split("[[servers]]")[0]
        + '[[servers]]\nname = "a"\nurl = "https://a.example"\n[topology]\nkind = "ring"\n'
    )
    assert [output for _, output in mistakes(text)] == [
        "servers must be 2 to 1,000 tables, got 1: one server alone has nobody to hide from"
    ]


def test_too_many_features_and_features_of_one_name_are_refused() -> None:
    wide = ", ".join(f'"{i}"' for i in range(999))
    many = "".join(
        f'[[attributes]]\nname = "a{i}"\nkind = "category"\nlevels = [{wide}]\n' for i in range(11)
    )
    head, tail = TEXT.split("[[attributes]]", 1)[0], "[[servers]]" + TEXT.split("[[servers]]", 1)[1]
    assert any(
        "at most 10,000 features together, got 10,990" in output
        for _, output in mistakes(head + many + tail)
    )
    twins = (
        '[[attributes]]\nname = "a"\nkind = "category"\nlevels = '
        '["b=c"]\n[[attributes]]\nname = "a=b"\nkind = "category"\nlevels = ["c"]\n'
    )
    assert any("'a=b=c' twice" in output for _, output in mistakes(head + twins + tail))


def test_a_thousand_mistakes_are_found_quickly_and_the_sentence_stays_short() -> None:
    pairs = ", ".join(f'["x{i}", "y{i}"]' for i in range(500))
    with pytest.raises(StudyError) as caught:
        Study.from_text(
            TEXT.replace('edges = [["bob", "alice"], ["carol", "bob"]]', f"edges = [{pairs}]")
        )
    assert len(caught.value.mistakes) == 1000
    assert "1000 mistakes" in str(caught.value) and "and 980 more" in str(caught.value)


PLANS = [
    ("rounds = 60", "rounds = 0", 43, "plan.rounds must be a whole number from 1 to 20,000, got 0"),
    ("rounds = 60", "noise_decay = 2", 43, "plan.noise_decay must be a number in (0, 1)"),
    ("rounds = 60", 'loss = "hinge"', 43, "plan.loss must be one of"),
    ("rounds = 60", "penalty = 0", 43, "plan.penalty must be a number in (0, 1e+09]"),
    ("[1, 2.5, 3]", "[1, 2]", 44, "plan.noise_scale must be one number or one per server (3 of"),
    ("[1, 2.5, 3]", "[1, -2, 3]", 44, "plan.noise_scale must be a number in [0,"),
]


@pytest.mark.parametrize(("old", "new", "line", "output"), PLANS, ids=[new for _, new, *_ in PLANS])
def test_a_setting_outside_the_plan_s_domain_is_told_with_its_line(old, new, line, output) -> None:
    with pytest.raises(StudyError) as caught:
        Study.from_text(TEXT.replace(old, new))
    ((found, sentence),) = caught.value.mistakes
    assert (found, output in sentence) == (line, True), sentence


def test_every_setting_s_mistake_is_told() -> None:
    plan = {"rounds": "x", "penalty": -1, "noise_decay": 3, "loss": 5, "tolerance": [0, 1, 1]}
    with pytest.raises(StudyError) as caught:
        Study.from_document(Study.from_text(TEXT).to_dict() | {"plan": plan})
    assert len(caught.value.mistakes) == len(plan)


def test_a_loss_for_two_classes_is_refused_for_three() -> None:
    document = Study.from_text(TEXT).to_dict() | {"plan": {"loss": "square"}}
    assert Study.from_document(document).plan == TrainingPlan(loss="square")
    document["label"]["classes"] = ["a", "b", "c"]
    with pytest.raises(StudyError, match=r"plan\.loss must be 'logistic' for 3 classes"):
        Study.from_document(document)


def test_settings_enter_the_hash_if_they_are_written_or_differ_from_their_default() -> None:
    """A default that is written out is another text, and was another hash before plans were typed;
    one that is not written leaves no trace, so that a later setting changes no study.
    """
    study = replace(Study.from_text(TEXT), plan=None)
    plain, written = (
        Study.from_document(study.to_dict() | {"plan": plan})
        for plan in ({"rounds": 7}, {"rounds": 7, "loss": "logistic"})
    )
    assert plain.plan == written.plan == TrainingPlan(rounds=7)
    assert plain.to_dict()["plan"] == {"rounds": 7} and plain.hash != written.hash
    assert written.to_dict()["plan"] == {"rounds": 7, "loss": "logistic"}
    assert replace(study, plan=TrainingPlan(rounds=7)) == plain
    assert replace(written, plan=TrainingPlan()).to_dict()["plan"] == {
        "rounds": 40,
        "loss": "logistic",
    }
    assert Study.from_canonical(replace(study, plan=TrainingPlan()).canonical()).plan is not None
    assert replace(study, plan_settings=("rounds",)).plan_settings == ()


def test_the_documentation_s_example_is_a_study_and_names_the_fields_of_a_report() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guide/study.md").read_text(encoding="utf-8")
    example, maps = re.findall(r"```toml\n(.*?)```", page, flags=re.S)
    assert Study.from_text(example).id == "hiv-2026"
    assert len(Study.from_text(example + maps).encoder.maps) == 5
    formats = Path(__file__).parents[3] / "docs" / "reference/formats.md"
    for field in Report.__struct_fields__:
        assert f"| `{field}` |" in formats.read_text(encoding="utf-8"), field


@pytest.mark.parametrize(
    ("min_records", "delta", "most"),
    [
        (50, 0.5, "0.001"),
        (50, 1.1e-3, "0.001"),
        (10_000, 2e-4, "0.0001"),
        (2_000_000, None, "5e-07"),
    ],
)
def test_delta_stays_below_one_in_the_number_of_people(
    min_records: int, delta: float | None, most: str
) -> None:
    """A mechanism that shows one of n people's records, by lot, is (0, 1/n)-private."""
    document = Study.from_text(TEXT).to_dict()
    document["study"]["min_records"] = min_records
    document["budget"] = {"features": {"epsilon": 1.0} | ({"delta": delta} if delta else {})}
    with pytest.raises(StudyError, match=f"features.delta must be at most {most}, got"):
        Study.from_document(document)
    document["budget"]["features"]["delta"] = float(most)
    Study.from_document(document)


@pytest.fixture
def own_objects(monkeypatch):
    """A loss and an objective noise that a researcher has registered in this process alone."""
    monkeypatch.setattr(losses, "BINARY", copy(losses.BINARY))
    monkeypatch.setattr(objective_noise, "FAMILIES", copy(objective_noise.FAMILIES))
    family = replace(objective_noise.UNIFORM_BOX, name="mine")
    return {"loss": replace(losses.LOGISTIC, name="mine"), "objective_noise": family}


@pytest.mark.parametrize("name", ["loss", "objective_noise"])
def test_a_study_s_plan_is_made_of_what_every_server_has(own_objects, name) -> None:
    plan = TrainingPlan(**{name: own_objects[name]})
    study = Study.from_text(TEXT)
    for own in (plan, TrainingPlan.from_dict({name: "mine"})):
        with pytest.raises(StudyError, match=rf"plan\.{name} must be a built-in one between"):
            replace(study, plan=own, plan_settings=(name,))
    document = study.to_dict() | {"plan": {name: "mine"}}
    with pytest.raises(StudyError, match=rf"plan\.{name} must be a built-in one between"):
        Study.from_document(document)
