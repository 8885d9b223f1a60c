"""What makes a table of a document a menu of ε, the label's or a sensitive attribute's."""

import math
from collections.abc import Sequence

from pdml.mechanisms.label_flip import MILLION, WEAK_ABOVE, is_weak, micro
from pdml.study.schema import fields
from pdml.study.schema.fields import EPSILONS, MOST_CHOICES
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import ValidationErrors


def read_menu(
    f: ValidationErrors, at: Path, value: object
) -> tuple[tuple[float, ...], float, bool]:
    """The ε that people may choose, the one that is suggested, and whether weak ones are accepted;
    every mistake is told, and the menu is empty or the suggestion NaN after one.
    """
    table = f.table(at, value, *fields.of("label.epsilon"))
    menu: tuple[float, ...] = ()
    suggested, accepted = math.nan, False
    if "accept_weak" in table:
        accepted = f.truth((*at, "accept_weak"), table["accept_weak"])
    if "menu" in table:
        menu = _menu(f, (*at, "menu"), table["menu"])
        _strength(f, at, menu, accepted=accepted)
    if "default" in table:
        default = f.number((*at, "default"), table["default"])
        if default is not None and menu and default not in menu:
            choices = ", ".join(f"{choice:g}" for choice in menu)
            f.reject((*at, "default"), f"be on the menu ({choices})", table["default"])
        suggested = math.nan if default is None else default
    return menu, suggested, accepted


def _strength(f: ValidationErrors, at: Path, menu: Sequence[float], *, accepted: bool) -> None:
    """An epsilon that hardly protects is for the contract to accept by name, for all to read."""
    weak = [(i, epsilon) for i, epsilon in enumerate(menu) if is_weak(micro(epsilon))]
    limit = WEAK_ABOVE / MILLION
    for i, epsilon in [] if accepted else weak:
        why = "above it a report can make people over 95% sure, and accept_weak = true must say so"
        f.reject((*at, "menu", i), f"be at most {limit}", epsilon, why)
    if accepted and menu and not weak:
        why = f"no epsilon on the menu is above {limit}"
        f.reject((*at, "accept_weak"), "be left out", True, why)


def _menu(f: ValidationErrors, path: Path, value: object) -> tuple[float, ...]:
    low, high = EPSILONS
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MOST_CHOICES:
        f.reject(path, f"be a list of 1 to {MOST_CHOICES} epsilons", value, "people choose from it")
        return ()
    good: list[float] = []
    for i, item in enumerate(value):
        epsilon = f.number((*path, i), item)
        if epsilon is None:
            continue
        if not low <= epsilon <= high:
            why = "above it nothing is randomised"
            why = "below it a label is all but noise" if epsilon < low else why
            f.reject((*path, i), f"lie in [{low:g}, {high:g}]", item, why)
        elif round(epsilon * 1e6) / 1e6 != epsilon:
            why = "devices compute with millionths"
            f.reject((*path, i), "have at most six decimals", item, why)
        elif epsilon in good:
            f.reject(
                (*path, i), "differ from the others on the menu", item, "it stands there twice"
            )
        else:
            if good and epsilon < max(good):
                why = "the menu is read from most to least private"
                f.reject((*path, i), "be larger than the one before it", item, why)
            good.append(epsilon)
    return tuple(good)
