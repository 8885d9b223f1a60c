"""A server's spec: which ε decide, and what is no spec at all."""

import ast
from dataclasses import dataclass, field, fields, replace
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdml
from pdml.errors import InvalidInput
from pdml.numerics.admm.graph import Graph
from pdml.numerics.coded_rows import Block
from pdml.planning import server_spec
from pdml.planning.server_spec import RowSpec, ServerSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan

SPEC = ServerSpec(server=1, n_servers=3, degree=2, records=40, epsilons=(1.0,), width=6)
PLAN = TrainingPlan(rounds=3, noise_scale=0.5)

epsilons = st.lists(st.floats(0.05, 20) | st.just(inf), min_size=1, max_size=6)


@given(epsilons)
def test_the_smallest_epsilon_fixes_the_sensitivity_and_the_largest_the_flip(used):
    spec = replace(SPEC, epsilons=tuple(used))
    assert spec.epsilons == tuple(sorted(set(used)))
    assert PLAN.events(spec) == PLAN.events(replace(SPEC, epsilons=(min(used),)))
    assert spec.flip().epsilon == max(used)


def test_a_graph_knows_the_number_of_servers_and_the_links():
    star = Graph(4, ((0, 1), (0, 2), (0, 3)))
    rows = RowSpec(width=2)
    found = [
        TrainingTerms.over(star, rows).server_spec(i, records=5, epsilons=(1.0,)) for i in range(4)
    ]
    assert [(p.server, p.n_servers, p.degree) for p in found] == [
        (0, 4, 3),
        (1, 4, 1),
        (2, 4, 1),
        (3, 4, 1),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server", -1),
        ("server", 3),
        ("n_servers", 0),
        ("degree", -1),
        ("records", 0),
        ("records", 1.5),
        ("epsilons", ()),
        ("epsilons", (0.0, 1.0)),
        ("epsilons", (1.0, nan)),
        ("width", 0),
        ("classes", 1),
        ("norm_bound", 0.0),
        ("norm_bound", nan),
    ],
)
def test_what_is_no_spec_is_refused_by_name(name, value):
    with pytest.raises(InvalidInput, match=f"^{name} must") as error:
        replace(SPEC, **{name: value})
    assert error.value.setting == name


def test_a_spec_keeps_every_field_of_its_rows():
    rows = RowSpec(
        width=4,
        classes=3,
        norm_bound=2.0,
        blocks=(Block(name="a", start=0, levels=2, scale=1.0, length=1.0, epsilon=1.0),),
        in_clear=False,
        constant=0.25,
        menu=(0.5, 1.0, 2.0),
        encoding="a digest",
    )
    spec = TrainingTerms.over(Graph.complete(3), rows).server_spec(
        1, records=5, epsilons=(0.5, 2.0)
    )
    for entry in fields(RowSpec):
        assert getattr(rows, entry.name) != entry.default  # or a lost one would not show
        assert getattr(spec, entry.name) == getattr(rows, entry.name)
    assert spec.epsilons == rows.menu


@pytest.mark.parametrize("name", ["ServerSpec", "JobTerms"])
def test_public_facts_are_put_together_in_one_module(name):
    """A second constructor would miss the next field, and servers would disagree about a job."""
    source = Path(pdml.__file__).parent
    calls = [
        (path.name, node.lineno)
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and _called(node, path) == name
    ]
    assert len(calls) == 1, calls


def _called(call, path):
    """What is constructed; ``cls(...)`` in the module of the class is it, too."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return "JobTerms" if name == "cls" and path.name == "job_terms.py" else name


def test_a_new_field_of_a_row_reaches_every_server(monkeypatch):
    """Planted: a field that no code outside `RowSpec` has heard of."""

    @dataclass(frozen=True, kw_only=True)
    class Rows(RowSpec):
        colour: str = field(default="", metadata={server_spec.WORDS: "colour"})

    @dataclass(frozen=True, kw_only=True)
    class Spec(Rows, ServerSpec):
        pass

    monkeypatch.setattr(server_spec, "RowSpec", Rows)
    monkeypatch.setattr(server_spec, "ServerSpec", Spec)
    graph, sizes = Graph.complete(3), {"records": 5, "epsilons": (1.0,)}
    specs = [
        TrainingTerms.over(graph, Rows(width=4, colour=colour)).server_spec(1, **sizes)
        for colour in ("red", "blue")
    ]
    assert [spec.colour for spec in specs] == ["red", "blue"]
    assert specs[0].differences(specs[1]) == ["colour"]


def test_every_field_of_a_spec_has_words_for_an_operator():
    assert all(entry.metadata[server_spec.WORDS] for entry in fields(ServerSpec))
