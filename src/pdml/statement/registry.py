"""An entry for the Differential Privacy Deployments Registry of OpenDP, whose data and schema are
the repository opendp/deployments-registry-data on GitHub.

The types here are that part of the schema of July 2026 which a study can fill. What only the
controller can say is marked with `TO_FILL_IN`, and the entry is a draft.
"""

import json
import re
from datetime import date
from math import isinf
from typing import Literal

import msgspec

from pdml.accounting.kinds import Data
from pdml.formatting import numbers
from pdml.statement.document import TO_FILL_IN, Blank, Section, parts_to_markdown
from pdml.statement.facts import OTHERS, RECEIVER, Facts, title, whom

UNPUBLISHED = "1900-01-01"  # how the registry's own template says that a date is not known yet


class _Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of an entry: what it does not know, the registry refuses."""


class Basic(_Part):
    """What every entry must say."""

    name: str
    data_curators: list[str]
    intended_use: str
    data_product_type: Literal["Machine learning model"]
    data_product_region: str
    description: str
    publication_date: str  # YYYY-MM-DD


class Variant(_Part):
    """Which kind of differential privacy."""

    variant_name: Literal["Pure DP", "Approximate DP"]
    data_domain: str
    unprotected_quantities: str


class Parameters(_Part):
    """One ε and δ; left out where nothing bounds them."""

    epsilon: float
    delta: float


class Loss(_Part, kw_only=True):
    """Unit and size of the privacy loss."""

    privacy_unit: str
    privacy_unit_details: str
    privacy_parameters: Parameters | None = None
    privacy_parameters_details: str


class DeploymentModel(_Part):
    """Who is trusted, and what is published how often."""

    model_name: Literal["Central", "Federated"]
    model_name_details: str
    actors: str
    release_type: Literal["One release", "Many releases"]
    release_type_details: str
    data_source_type: Literal["Static"]
    access_type: Literal["Non-interactive"]


class Accounting(_Part):
    """How losses add up."""

    post_processing: str
    composition: str


class Implementation(_Part):
    """What was done, and how."""

    preprocessing_and_hyperparameter_tuning: str
    mechanisms: str
    justification: str


class Administrative(_Part):
    """Who wrote the entry, and after what."""

    sources: str
    notes: str
    registry_authors: list[str]


class Deployment(_Part):
    """All tables of one deployment."""

    basic: Basic
    dp_variant: Variant
    privacy_loss: Loss
    deployment_model: DeploymentModel
    accounting: Accounting
    implementation: Implementation
    administrative: Administrative


class Entry(_Part):
    """A whole entry of the registry."""

    url_slug: str
    status: Literal["Draft"]
    tier: Literal[3]
    deployment: Deployment


def entry(
    facts: Facts, sections: tuple[Section, ...], published: date | None
) -> tuple[Entry, tuple[str, ...]]:
    """The entry, and what the controller must fill in before it is sent in.

    Sentences are those of the statement's sections, so that both say the same.
    """
    by_name = {section.name: section for section in sections}
    study, blanks = facts.study, _Blanks()
    return (
        Entry(
            url_slug=re.sub(r"[^a-z0-9]+", "-", study.id).strip("-"),
            status="Draft",
            tier=3,
            deployment=Deployment(
                basic=_basic(facts, published, blanks),
                dp_variant=Variant(
                    variant_name="Approximate DP",
                    data_domain=_text(by_name["unit"]),
                    unprotected_quantities=_text(by_name["outside"]),
                ),
                privacy_loss=_loss(facts, by_name),
                deployment_model=_model(facts, by_name),
                accounting=Accounting(
                    post_processing="The model is a function of what was released, and its file "
                    "and page of that and of public settings.",
                    composition=_text(by_name["accounting"]),
                ),
                implementation=Implementation(
                    preprocessing_and_hyperparameter_tuning="Ranges and levels are declared "
                    "in the study, records are scaled by them one by one, and settings are public "
                    "and fixed before a training. Whether anything was chosen by looking at "
                    "records is for the controller to say.",
                    mechanisms=f"{_text(by_name['randomness'])}\n\n{_text(by_name['channels'])}",
                    justification=blanks.fill("", "why this budget, this menu and this noise"),
                ),
                administrative=Administrative(
                    sources=f"The study {study.id}, whose SHA-256 is {study.hash}.",
                    notes=_notes(published),
                    registry_authors=[blanks.fill("", "who wrote this entry")],
                ),
            ),
        ),
        tuple(blanks.missing),
    )


class _Blanks:
    """Remembers what was not known."""

    def __init__(self) -> None:
        self.missing: list[str] = []

    def fill(self, value: str, what: str) -> str:
        if value:
            return value
        self.missing.append(what)
        return f"{TO_FILL_IN}: {what}."


def _basic(facts: Facts, published: date | None, blanks: _Blanks) -> Basic:
    study = facts.study
    curator = facts.controller
    classes = ", ".join(study.classes)
    if published is None:
        blanks.missing.append("when the model was published (YYYY-MM-DD)")
    return Basic(
        name=study.title,
        data_curators=[curator] if curator else [server.name for server in study.servers],
        intended_use=blanks.fill(facts.purpose, "what the model is used for"),
        data_product_type="Machine learning model",
        data_product_region=blanks.fill(
            "", "the region that the data describe, and whose laws apply"
        ),
        description=f"A linear classifier of the answer to “{study.question}” ({classes}) from "
        f"{numbers.count(len(study.attributes), 'other answer')}, "
        f"{'planned' if facts.spent is None else 'trained'} by "
        f"{numbers.count(len(study.servers), 'organisation')}.",
        publication_date=UNPUBLISHED if published is None else published.isoformat(),
    )


def _notes(published: date | None) -> str:
    if published is not None:
        return "Made from the study and the ledger by “pdml statement”."
    return (
        "Made from the study and the ledger by “pdml statement”. The date of publication is the "
        f"registry's placeholder {UNPUBLISHED}: it is not known."
    )


def _loss(facts: Facts, sections: dict[str, Section]) -> Loss:
    parameters = _parameters(facts)
    return Loss(
        privacy_unit="Record-level: one person's report",
        privacy_unit_details=_text(sections["neighbours"]),
        privacy_parameters=parameters,
        privacy_parameters_details=_explained(facts, parameters, sections["parameters"]),
    )


def _parameters(facts: Facts) -> Parameters | None:
    """The one pair that an entry has room for: all answers, against all others. Before a
    training what the budget allows, else what the plan would spend."""
    if facts.simulated:
        return None
    if facts.spent is None and (ceiling := facts.ceiling("features")) is not None:
        return Parameters(epsilon=ceiling[0], delta=ceiling[1])
    line = facts.row(Data.FEATURES, OTHERS)
    if line is None or isinf(line.epsilon):
        return None
    return Parameters(epsilon=line.epsilon, delta=line.delta)


def _explained(facts: Facts, parameters: Parameters | None, section: Section) -> str:
    what = facts.subject("features")
    if facts.simulated:
        head = "The noise was simulated: the run protects nobody, and no parameters are given."
    elif parameters is None:
        head = f"Nothing bounds {what} against all others: no parameters are given."
    elif facts.spent is not None:
        head = f"The parameters are for {what}, against {whom(OTHERS)}."
    else:
        by = "the budget allows" if facts.ceiling("features") else "the plan would spend"
        head = f"The parameters are what {by} at most of {what}, against {whom(OTHERS)}."
    return f"{head}\n\n{_text(section)}"


def _model(facts: Facts, sections: dict[str, Section]) -> DeploymentModel:
    name: Literal["Central", "Federated"] = "Central" if facts.single_domain else "Federated"
    label_line = facts.row(Data.LABEL, RECEIVER)
    local = (
        "The sensitive answer is randomised on the person's device (local model). "
        if facts.devices and (label_line is None or not isinf(label_line.epsilon))
        else "The sensitive answer is not known to have been randomised on every person's device. "
    )
    if facts.sensitive:
        local += f"The same is true of the answers to: {facts.randomised_questions}. "
    what = title(facts.subject("features", RECEIVER))
    rest = (
        f"{what} are held by one trust domain, which added the noise."
        if facts.single_domain
        else f"{what} are held by the collecting organisation, which adds noise "
        "to what it releases."
    )
    return DeploymentModel(
        model_name=name,
        model_name_details=local + rest,
        actors=_text(sections["trust"]),
        release_type="One release" if facts.spent is not None else "Many releases",
        release_type_details=_text(sections["accounting"]),
        data_source_type="Static",
        access_type="Non-interactive",
    )


def _text(section: Section) -> str:
    """The parts of a section as the registry shows text: Markdown."""
    return parts_to_markdown(part for part in section.parts if not isinstance(part, Blank)).strip()


def serialize(registry_entry: Entry) -> str:
    """An entry as text that is JSON and YAML alike, as the registry's own checks read it.

    YAML 1.1 takes 1e-06 for a word: numbers have a point.
    """
    plain = json.dumps(
        msgspec.to_builtins(registry_entry), indent=1, ensure_ascii=False, allow_nan=False
    )
    return re.sub(r"(?m)^(\s*\"(?:epsilon|delta)\": \d+)(e[-+]?\d+)?(,?)$", _pointed, plain) + "\n"


def _pointed(literal: re.Match[str]) -> str:
    return f"{literal[1]}.0{literal[2] or ''}{literal[3]}"
