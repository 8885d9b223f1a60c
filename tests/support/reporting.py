"""Reports for tests: one place that knows every field of the format."""

from typing import Any

import numpy as np

from pdml.study import Study
from pdml.study.messages import FORMAT, Report, pack_features, report_id, report_nonce

CODE = "ab" * 16


def make_report(study: Study, code: str = CODE, /, **changes: Any) -> Report:
    """What the device with this withdrawal code sends, but for the changes; features may be an
    array.
    """
    agreed = study.consent
    fields = {
        "version": FORMAT.version,
        "study": study.hash,
        "id": report_id(code),
        "nonce": report_nonce(code),
        "epsilon": study.epsilon_micro[0],
        "label": 0,
        "features": [0.1] * study.width,
        "token": "",
        "consent": agreed.digest if agreed else "",
        "consent_version": agreed.version if agreed else "",
    }
    fields |= changes
    if not isinstance(fields["features"], str):
        fields["features"] = pack_features(np.asarray(fields["features"], dtype=np.float32))
    return Report(**fields)
