"""A server's place: which ε decide, and what is no place at all."""

from dataclasses import fields, replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import InvalidInput
from pdml.numerics.admm.graph import Graph
from pdml.numerics.coded_rows import Block
from pdml.planning.server_spec import RowSpec, ServerSpec
from pdml.planning.training_plan import TrainingPlan

PLACE = ServerSpec(server=1, n_servers=3, degree=2, records=40, epsilons=(1.0,), width=6)
PLAN = TrainingPlan(rounds=3, noise_scale=0.5)

epsilons = st.lists(st.floats(0.05, 20) | st.just(inf), min_size=1, max_size=6)


@given(epsilons)
def test_the_smallest_epsilon_fixes_the_sensitivity_and_the_largest_the_flip(used):
    place = replace(PLACE, epsilons=tuple(used))
    assert place.epsilons == tuple(sorted(set(used)))
    assert PLAN.events(place) == PLAN.events(replace(PLACE, epsilons=(min(used),)))
    assert place.flip().epsilon == max(used)


def test_a_graph_knows_the_number_of_servers_and_the_links():
    star = Graph(4, ((0, 1), (0, 2), (0, 3)))
    rows = RowSpec(width=2)
    found = [ServerSpec.of(star, i, rows, records=5, epsilons=(1.0,)) for i in range(4)]
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
def test_what_is_no_place_is_refused_by_name(name, value):
    with pytest.raises(InvalidInput, match=f"^{name} must") as error:
        replace(PLACE, **{name: value})
    assert error.value.setting == name


def test_a_place_keeps_every_field_of_its_rows():
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
    place = ServerSpec.of(Graph.complete(3), 1, rows, records=5, epsilons=(0.5, 2.0))
    for field in fields(RowSpec):
        assert getattr(rows, field.name) != field.default  # or a lost one would not show
        assert getattr(place, field.name) == getattr(rows, field.name)
    assert place.epsilons == rows.menu
