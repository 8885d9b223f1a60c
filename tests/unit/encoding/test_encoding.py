"""`Encoding`: what may be declared of columns, and what scikit-learn does with it."""

import dataclasses
import pickle

import pytest
from sklearn.base import clone

from pdml import Encoding
from pdml.encoding.maps import Squares
from pdml.errors import InvalidInput

WHOLE = {
    "scales": [(50, 15)],
    "ranges": [(0, 100)],
    "levels": {"town": ["Bern", "Basel"]},
    "maps": [Squares()],
    "missing": ("average", "level"),
    "norm_bound": 2.0,
    "intercept": False,
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
    ],
)
def test_each_field_has_its_domain(settings, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        Encoding(**settings)
    assert refused.value.setting in settings
