"""A model as a notebook shows it."""

from typing import TYPE_CHECKING

import numpy as np

from pdml.accounting import ledger_row
from pdml.errors import DataError
from pdml.formatting import notebook

if TYPE_CHECKING:
    from pdml.model.model import Model

_MOST = 12  # coefficients


def model_html(model: "Model") -> str:
    """What a reader needs to judge a model by, as a part of a page."""
    title = f"Model of {model.label}" if model.label else "Model"
    title += f" for {model.local} alone: do not publish it" if model.local else ""
    sheets = [_facts(model), _weights(model)]
    try:
        sheets.append(ledger_row.sheet(model.ledger_rows()))
    except DataError:  # it has none, which is said below
        notes = ["The model does not say what its training spent."]
    else:
        notes = [f"The ledger counts {model.privacy['counted']}."] if model.privacy else []
    leaks = model.provenance.get("leaks", [])
    return notebook.as_html(title, sheets, [*notes, *(f"Leak: {leak}." for leak in leaks)])


def _facts(model: "Model") -> notebook.Sheet:
    records = model.provenance.get("records_per_server", [])
    facts = {
        "classes": ", ".join(map(str, model.classes)),
        "features": f"{model.coefficients.shape[1]:,}",
        "records": f"{sum(records):,} of {len(records)} servers" if records else "",
        "trained in": _method(model),
        "noise": str(model.provenance.get("noise_source", "")),
    }
    if model.expected is not None:
        right = model.expected.accuracy
        facts["accuracy to expect"] = (
            f"{right.middle:.0%} ({right.low:.0%} to {right.high:.0%}), by what was released"
        )
    return notebook.Sheet(columns=("", ""), rows=tuple((k, v) for k, v in facts.items() if v))


def _method(model: "Model") -> str:
    if model.plan.get("method") == "sums":
        return "one exchange of sums"
    return f"{model.plan['rounds']} rounds" if "rounds" in model.plan else ""


def _weights(model: "Model") -> notebook.Sheet:
    """The largest, for features as the encoder makes them."""
    width = model.coefficients.shape[1]
    names = model.feature_names or tuple(f"feature {k + 1}" for k in range(width))
    size = np.abs(model.coefficients).max(axis=0)
    order = np.argsort(-size, kind="stable")[:_MOST]
    rows = [(names[k], *(f"{w:.3g}" for w in model.coefficients[:, k])) for k in order.tolist()]
    rows.append(("(constant)", *(f"{w:.3g}" for w in model.intercepts)))
    if len(model.classes) == 2:
        heads: tuple[str, ...] = (f"towards {model.classes[1]}",)
    else:
        heads = tuple(map(str, model.classes))
    caption = f"The {_MOST} largest coefficients of {width:,}" if width > _MOST else "Coefficients"
    return notebook.Sheet(caption=caption, columns=("feature", *heads), rows=tuple(rows))
