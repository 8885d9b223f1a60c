"""An entry for the Differential Privacy Deployments Registry of OpenDP, whose data and schema are
the repository opendp/deployments-registry-data on GitHub.

It has that part of the schema of July 2026 which a study can fill. What only the controller can say
is marked with `TO_FILL_IN`, and the entry is a draft.
"""

import json
import re
from datetime import date
from math import isinf
from typing import Any

from pdml.accounting.kinds import Data
from pdml.formatting import numbers
from pdml.statement.document import Blank, Section, parts_to_markdown
from pdml.statement.facts import OTHERS, RECEIVER, StatementFacts, title, whom

UNPUBLISHED = "1900-01-01"  # how the registry's own template says that a date is not known yet
_JUSTIFICATION = "why this budget, this menu and this noise"
_REGION = "the region that the data describe, and whose laws apply"

JsonObject = dict[str, Any]


def entry(
    facts: StatementFacts, sections: tuple[Section, ...], published: date | None
) -> tuple[JsonObject, list[str]]:
    """The entry, in the sentences of the statement, and what the controller must fill in."""
    text = {section.name: _text(section) for section in sections}
    study, missing = facts.study, list[str]()
    deployment = {
        "basic": _basic(facts, published, missing),
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": text["unit"],
            "unprotected_quantities": text["outside"],
        },
        "privacy_loss": _loss(facts, text),
        "deployment_model": _model(facts, text),
        "accounting": {
            "post_processing": "The model is a function of what was released, and its file and "
            "page of that and of public settings.",
            "composition": text["accounting"],
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "Ranges and levels are declared in the "
            "study, records are scaled by them one by one, and settings are public and fixed "
            "before a training. Whether anything was chosen by looking at records is for the "
            "controller to say.",
            "mechanisms": f"{text['randomness']}\n\n{text['channels']}",
            "justification": _fill("", _JUSTIFICATION, missing),
        },
        "administrative": {
            "sources": f"The study {study.id}, whose SHA-256 is {study.hash}.",
            "notes": _notes(published),
            "registry_authors": [_fill("", "who wrote this entry", missing)],
        },
    }
    slug = re.sub(r"[^a-z0-9]+", "-", study.id).strip("-")
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}, missing


def _fill(value: str, what: str, missing: list[str]) -> str:
    """A value, or a mark where it is not known."""
    if value:
        return value
    missing.append(what)
    return Blank(what).sentence


def _basic(facts: StatementFacts, published: date | None, missing: list[str]) -> JsonObject:
    study, servers = facts.study, [server.name for server in facts.study.servers]
    if published is None:
        missing.append("when the model was published (YYYY-MM-DD)")
    return {
        "name": study.title,
        "data_curators": [facts.controller] if facts.controller else servers,
        "intended_use": _fill(facts.purpose, "what the model is used for", missing),
        "data_product_type": "Machine learning model",
        "data_product_region": _fill("", _REGION, missing),
        "description": f"A linear classifier of the answer to “{study.question}” "
        f"({', '.join(study.classes)}) from "
        f"{numbers.count(len(study.attributes), 'other answer')}, "
        f"{'planned' if facts.spent is None else 'trained'} by "
        f"{numbers.count(len(study.servers), 'organisation')}.",
        "publication_date": UNPUBLISHED if published is None else published.isoformat(),
    }


def _notes(published: date | None) -> str:
    notes = "Made from the study and the ledger by “pdml statement”."
    if published is not None:
        return notes
    why = f"The date of publication is the registry's placeholder {UNPUBLISHED}: it is not known."
    return f"{notes} {why}"


def _loss(facts: StatementFacts, text: dict[str, str]) -> JsonObject:
    parameters = _parameters(facts)
    return {
        "privacy_unit": "Record-level: one person's report",
        "privacy_unit_details": text["neighbours"],
        **({} if parameters is None else {"privacy_parameters": parameters}),
        "privacy_parameters_details": f"{_explained(facts, parameters)}\n\n{text['parameters']}",
    }


def _parameters(facts: StatementFacts) -> JsonObject | None:
    """The one pair that an entry has room for: all answers, against all others. Before a training
    what the budget allows, else what the plan would spend."""
    if facts.simulated:
        return None
    if facts.spent is None and (ceiling := facts.ceiling(Data.FEATURES)) is not None:
        return {"epsilon": ceiling[0], "delta": ceiling[1]}
    row = facts.row(Data.FEATURES, OTHERS)
    if row is None or isinf(row.epsilon):
        return None
    return {"epsilon": row.epsilon, "delta": row.delta}


def _explained(facts: StatementFacts, parameters: JsonObject | None) -> str:
    what = facts.subject(Data.FEATURES)
    if facts.simulated:
        return "The noise was simulated: the run protects nobody, and no parameters are given."
    if parameters is None:
        return f"Nothing bounds {what} against all others: no parameters are given."
    if facts.spent is not None:
        return f"The parameters are for {what}, against {whom(OTHERS)}."
    by = "the budget allows" if facts.ceiling(Data.FEATURES) else "the plan would spend"
    return f"The parameters are what {by} at most of {what}, against {whom(OTHERS)}."


def _model(facts: StatementFacts, text: dict[str, str]) -> JsonObject:
    label_row = facts.row(Data.LABEL, RECEIVER)
    local = (
        "The sensitive answer is randomised on the person's device (local model). "
        if facts.devices and (label_row is None or not isinf(label_row.epsilon))
        else "The sensitive answer is not known to have been randomised on every person's device. "
    )
    if facts.sensitive:
        local += f"The same is true of the answers to: {facts.randomised_questions}. "
    rest = "the collecting organisation, which adds noise to what it releases."
    if facts.single_domain:
        rest = "one trust domain, which added the noise."
    what = title(facts.subject(Data.FEATURES, RECEIVER))
    return {
        "model_name": "Central" if facts.single_domain else "Federated",
        "model_name_details": f"{local}{what} are held by {rest}",
        "actors": text["trust"],
        "release_type": "One release" if facts.spent is not None else "Many releases",
        "release_type_details": text["accounting"],
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _text(section: Section) -> str:
    """The parts of a section as the registry shows text: Markdown."""
    return parts_to_markdown(part for part in section.parts if not isinstance(part, Blank)).strip()


def serialize(registry_entry: JsonObject) -> str:
    """JSON and YAML alike: YAML 1.1 takes 1e-06 for a word, so that numbers have a point."""
    plain = json.dumps(registry_entry, indent=1, ensure_ascii=False, allow_nan=False)
    return re.sub(r"(?m)^(\s*\"(?:epsilon|delta)\": \d+)(e[-+]?\d+)?(,?)$", _pointed, plain) + "\n"


def _pointed(literal: re.Match[str]) -> str:
    return f"{literal[1]}.0{literal[2] or ''}{literal[3]}"
