"""What follows from a study and is not written in it."""

from typing import Any

from pdml.encoding.clipping_forecast import forecast_clipping
from pdml.mechanisms.label_flip import is_weak
from pdml.numerics.admm.labels import keep_weight
from pdml.study import study_summary
from pdml.study.definition import Study
from pdml.study.schema import trainable


def facts(study: Study) -> dict[str, Any]:
    """What people who are asked, and organisations that sign, want to know, as plain values.

    Parameters
    ----------
    study : Study

    Returns
    -------
    dict
        ``hash`` and ``width``; how often rows will be ``clipped``; for every ε of the ``menu`` what
        it means; the ``influence`` that one report can have at most; the ``plan``, and the
        ``ledger`` of a job by it with as few records as the study allows (None without a plan).
    """
    classes = len(study.classes)
    floor = float(keep_weight(study.menu[0], classes))
    plan = study.plan
    return {
        "hash": study.hash,
        "width": study.width,
        "clipped": forecast_clipping(study.encoder).to_dict(),
        "menu": [
            {
                "epsilon": epsilon,
                "millionths": micro,
                "true_answer": float(study_summary.keep_probability(micro, classes)),
                "certainty": float(study_summary.certainty(micro)),
                "weak": is_weak(micro),
                "meaning": study_summary.meaning(micro, study.classes),
            }
            for epsilon, micro in zip(study.menu, study.epsilon_micro, strict=True)
        ],
        "influence": {
            "weight": floor,
            "records": study.min_records,
            "cap": floor / study.min_records,
        },
        "plan": None if plan is None else plan.to_dict(),
        "ledger": None if plan is None else trainable.worst_case_ledger(study, plan).to_dict(),
    }
