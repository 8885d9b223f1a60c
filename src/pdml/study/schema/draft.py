"""A new study from the few things that only its author knows; everything else is proposed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pdml.encoding.encoder import LATEST, Attribute
from pdml.encoding.maps import FeatureMap, to_dict
from pdml.study.definition import Study
from pdml.study.schema import trainable

SERVERS = ("alice", "bob", "carol")
MENU = (0.4, 1.0, 2.0)
FEATURES_EPSILON = 1.0
LEAK = (
    "TAKEN FROM THE DATA: whoever is extreme or rare shows here. Replace it by what can "
    "be known without any record."
)


def new_study(
    *,
    title: str,
    question: str,
    classes: Sequence[str],
    attributes: Sequence[Attribute],
    servers: Sequence[str] = SERVERS,
    id: str = "",
    menu: Sequence[float] = MENU,
    default: float | None = None,
    accept_weak: bool = False,
    topology: str = "ring",
    features_epsilon: float = FEATURES_EPSILON,
    labels_epsilon: float | None = None,
    missing_values: Sequence[str] = (),
    maps: Sequence[FeatureMap] = (),
    notices: Mapping[str, Mapping[str, Any]] | None = None,
) -> Study:
    """A study of what only its author knows; `pdml.study.schema.template.render` writes it with
    comments.

    Parameters
    ----------
    title : str
        What people read first.
    question : str
        The question whose answer is kept secret.
    classes : sequence of str
        Its possible answers.
    attributes : sequence of Number or Category
        What the model predicts from, with ranges, typical values and levels that can be known
        without a record.
    servers : sequence of str
        Names, or NAME=URL; a name alone gets a placeholder for its address.
    id : str
        A short name, by default from the title.
    menu : sequence of float
        Epsilons to choose from, ascending.
    default : float, optional
        The one suggested, by default the middle of the menu.
    accept_weak : bool
        Take epsilons above 2.944438, which hardly protect.
    topology : str
        Who talks to whom: "ring" or "complete".
    features_epsilon, labels_epsilon : float
        The budget: the most that all other servers together may learn about one person from all
        trainings.
    missing_values : sequence of str
        What stands for no answer in tables.
    maps : sequence of maps
        Further features (`pdml.encoding.maps`).
    notices : mapping, optional
        The tables ``organiser``, ``notice`` and ``consent`` (`pdml.study.participant_notice`),
        without which nobody may be asked by it.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        With every mistake.
    UntrainableStudy
        If nobody could ever train under it.
    """
    limits = {"features": features_epsilon, "labels": labels_epsilon}
    document = {
        "study": {"id": id or _slug(title), "title": title},
        "label": {
            "question": question,
            "classes": list(classes),
            "epsilon": {
                "menu": list(menu),
                "default": menu[len(menu) // 2] if default is None else default,
                "accept_weak": accept_weak,
            },
        },
        "encoder": {"version": LATEST, "missing_values": list(missing_values)},
        "attributes": [attribute.to_dict() for attribute in attributes],
        **({"maps": [to_dict(feature_map) for feature_map in maps]} if maps else {}),
        **(notices or {}),
        "servers": [server_table(text) for text in servers],
        "topology": {"kind": topology},
        "budget": {row: {"epsilon": most} for row, most in limits.items() if most is not None},
    }
    study = Study.from_document(document, "what was asked for")
    trainable.check(study)
    return study


def server_table(text: str) -> dict[str, str]:
    """One of [[servers]] from NAME or NAME=URL."""
    name, _, url = text.partition("=")
    return {"name": name, "url": url or f"https://{name}.example"}


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:63].strip("-") or "study"
