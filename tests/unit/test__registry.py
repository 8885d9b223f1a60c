"""Objects that settings call by name: one's own join, and take nobody's place."""

from dataclasses import dataclass

import pytest

from pdml._registry import Registry
from pdml.errors import InvalidInput


@dataclass(frozen=True)
class Loss:
    name: str
    slope: float = 1.0


def losses() -> Registry[Loss]:
    return Registry("loss", Loss, [Loss("cosh"), Loss("square")])


def test_an_object_is_found_by_its_name_and_taken_as_it_is() -> None:
    registry, own = losses(), Loss("own")
    assert registry.resolve("cosh") is registry["cosh"] and registry.resolve(own) is own
    with pytest.raises(InvalidInput, match="loss must be one of 'cosh', 'square', got 'own'"):
        registry.resolve("own")


def test_one_s_own_is_known_afterwards_and_may_be_replaced() -> None:
    registry = losses()
    registry.register(Loss("own"))
    newer = registry.register(Loss("own", slope=2.0))
    assert registry.resolve("own") is newer and "own" not in registry.built_in


def test_a_built_in_one_is_never_replaced() -> None:
    """Other organisations mean it by that name."""
    registry = losses()
    registry.register(Loss("cosh"))  # the same one
    with pytest.raises(InvalidInput, match="must have a name of its own, got 'cosh'"):
        registry.register(Loss("cosh", slope=2.0))
    assert registry["cosh"].slope == 1.0
