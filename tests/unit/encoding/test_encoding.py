"""`Encoding`: what may be declared of columns, and what scikit-learn does with it."""

import dataclasses
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pdml import Encoding, PDMLClassifier
from pdml.encoding.maps import Squares
from pdml.errors import InvalidInput, PrivacyUtilityWarning

WHOLE = {
    "scales": [(50, 15)],
    "ranges": [(0, 100)],
    "levels": {"town": ["Bern", "Basel"]},
    "maps": [Squares()],
    "missing": ("average", "level"),
    "norm_bound": 2.0,
    "intercept": False,
    "source": "census of 2021",
}


def test_a_clone_holds_the_same_declarations():
    encoding = Encoding(**WHOLE)
    for copy in (clone(encoding), pickle.loads(pickle.dumps(encoding))):
        assert copy is not encoding and copy.get_params() == WHOLE
    assert list(WHOLE) == [field.name for field in dataclasses.fields(Encoding)]


def test_parameters_are_set_together_or_not_at_all():
    encoding = Encoding()
    assert encoding.set_params(norm_bound=3.0, missing="average") is encoding
    assert (encoding.norm_bound, encoding.missing) == (3.0, "average")
    for wrong in ({"norm_bound": 1.0, "missing": "drop"}, {"norm_bound": 1.0, "scale": 1}):
        with pytest.raises(InvalidInput):
            encoding.set_params(**wrong)
        assert encoding.norm_bound == 3.0


def test_a_field_is_not_assigned_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Encoding().norm_bound = 2.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"scales": "guess"}, "scales must be one of 'from_data', got 'guess': "),
        ({"ranges": "guess"}, "ranges must be one of 'from_data', got 'guess': "),
        ({"levels": ["Bern"]}, r"levels must be levels by the names .*, got \['Bern'\]: "),
        ({"maps": "squares"}, "a map must be a table with its name"),
        ({"missing": "drop"}, "missing must be one of 'refuse', 'average', 'level', got 'drop'"),
        ({"missing": ("average", "drop")}, "got 'drop'"),
        ({"norm_bound": 0}, r"norm_bound must be a number in \(0, 1e\+12\], got 0: noise is"),
        ({"norm_bound": True}, "norm_bound must be a number"),
        ({"intercept": "yes"}, "intercept must be True or False, got 'yes': rows have"),
        ({"source": 3}, "source must be a text, got 3"),
    ],
)
def test_each_field_has_its_domain(settings, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        Encoding(**settings)
    assert refused.value.setting in settings


PUBLIC = pd.DataFrame(
    {
        "age": [20.0, np.nan, 40.0, 60.0],
        "town": ["Bern", "Basel", None, "Bern"],
        "smoker": [True, False, True, True],
        "born": pd.to_datetime(["2001-01-01"] * 4),
    }
)


@pytest.mark.parametrize("records", [PUBLIC, "a table"])
def test_public_records_say_averages_spreads_and_levels(records, tmp_path):
    """Gaps aside; truth values need no declaration, and dates have none."""
    if isinstance(records, str):
        records = tmp_path / "census.csv"
        PUBLIC[["age", "town"]].to_csv(records, index=False)
    encoding = Encoding.from_public(records, source="census of 2021", norm_bound=2.0)
    assert encoding.get_params() == {
        "scales": {"age": (40.0, 17.0)},
        "ranges": None,
        "levels": {"town": ("Basel", "Bern")},
        "maps": None,
        "missing": "refuse",
        "norm_bound": 2.0,
        "intercept": True,
        "source": "census of 2021",
    }


def test_a_model_names_the_public_source_and_no_leak():
    people = pd.DataFrame({"age": np.arange(60.0), "town": ["Bern", "Basel"] * 30})
    encoding = Encoding.from_public(PUBLIC[["age", "town"]], source="census of 2021")
    model = PDMLClassifier(n_servers=3, random_state=0, encoding=encoding, classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyUtilityWarning)
        model.fit(people, [0, 1, 1] * 20)
    provenance = model.model_.provenance
    assert provenance["declared_from"] == "census of 2021" and provenance["leaks"] == []
    average = model.model_.encoder["attributes"][0]["average"]
    assert average == 40 != people["age"].mean()


@pytest.mark.parametrize(
    ("records", "source", "sentence"),
    [
        (PUBLIC, "", "source must say what the records are"),
        (np.ones((3, 2)), "census", "records must be a table with named columns, got ndarray"),
    ],
)
def test_public_records_have_names(records, source, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Encoding.from_public(records, source=source)
