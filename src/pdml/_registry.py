"""Objects that settings call by name: the built-in ones, and those of one's own in this process."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

from pdml import _validate
from pdml.errors import InvalidInput


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=_Named)


class Registry(dict[str, Item]):
    """Objects of one kind by their name, for one ``setting``."""

    built_in: Mapping[str, Item]  # what other organisations know, too

    def __init__(self, setting: str, kind: type[Item], items: Iterable[Item]) -> None:
        super().__init__((item.name, item) for item in items)
        self.setting, self.kind, self.built_in = setting, kind, MappingProxyType(dict(self))

    def resolve(self, chosen: str | Item) -> Item:
        """An object by its name, or one of a researcher's own, as it is."""
        if isinstance(chosen, self.kind):
            return chosen
        return self[_validate.choice(self.setting, chosen, tuple(self))]

    def register(self, item: Item) -> Item:
        """Make an object known by its name; one registered before under it is replaced, a built-in
        one never."""
        if self.built_in.get(item.name, item) != item:
            raise InvalidInput(
                f"{self.setting} must have a name of its own, got {item.name!r}: a built-in one "
                "has it",
                setting=self.setting,
            )
        self[item.name] = item
        return item
