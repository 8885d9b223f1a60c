"""Objects by name: one's own beside the built-in ones, never in their place."""

from dataclasses import dataclass

import pytest

from pdml._registry import Registry
from pdml.errors import InvalidInput


@dataclass(frozen=True)
class Thing:
    name: str
    size: int = 0


def test_own_objects_stand_beside_the_built_in_ones():
    things = Registry("thing", Thing, (Thing("small"), Thing("large", 9)))
    own = things.register(Thing("own"))
    assert things.resolve("own") is own and things.resolve("large").size == 9
    assert things.register(Thing("own", 2)) == things.resolve("own") == Thing("own", 2)
    assert things.resolve(Thing("alone")) == Thing("alone") and "alone" not in things
    assert list(things.built_in) == ["small", "large"]
    assert things.register(Thing("small")) == Thing("small")
    with pytest.raises(InvalidInput, match="thing must be one of 'small', 'large', 'own'"):
        things.resolve("missing")
    with pytest.raises(
        InvalidInput, match="thing must be one of 'small', 'large', 'own', got None"
    ):
        things.resolve(None)


def test_a_built_in_object_is_never_replaced():
    things = Registry("thing", Thing, [Thing("small")])
    with pytest.raises(InvalidInput, match="a name of its own, got 'small'") as error:
        things.register(Thing("small", 3))
    assert error.value.setting == "thing" and things == {"small": Thing("small")}
