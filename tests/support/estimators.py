"""Estimators that tests make from settings of all kinds beside one another."""

from dataclasses import fields, replace

from pdml import Encoding, PDMLClassifier, TrainingPlan
from pdml.planning.resolve_plan import SETTINGS

ENCODING = {field.name for field in fields(Encoding)}


def nested(settings):
    """The same with settings of the plan and fields of the encoding where they belong."""
    own, planned, encoded = {}, {}, {}
    for name, value in settings.items():
        (encoded if name in ENCODING else planned if name in SETTINGS else own)[name] = value
    if encoded:
        own["encoding"] = Encoding(**encoded)
    if planned and isinstance(own.get("plan"), TrainingPlan):
        own["plan"] = replace(own["plan"], **planned)
    elif planned:
        own["plan"] = planned
    return own


def make_classifier(*epsilon, **settings):
    """A classifier, whatever its settings belong to."""
    return PDMLClassifier(*epsilon, **nested(settings))
