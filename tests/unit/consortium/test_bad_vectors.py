"""tests/vectors/bad: what every reader and verifier must refuse, for the reason that stands there.

Other implementations run the same lists; docs/reference says how they are read.
"""

import pytest
from bad_vectors import VECTORS, listed, replaced, spoilt
from results import verified

from pdml.collector.intake.report_rules import Refusal, Rules
from pdml.errors import DataError, StudyError
from pdml.model.model import load_model
from pdml.study import Study
from pdml.tables import read_table


def cases(name, rows="bad"):
    return [pytest.param(row, id=row.get("name") or row["row"]) for row in listed(name)[rows]]


@pytest.mark.parametrize("row", cases("results"))
def test_a_bad_result_is_refused_for_its_reason(row, tmp_path):
    problems = verified(spoilt(tmp_path, row)).problems
    assert sorted({problem.kind for problem in problems}) == row["kinds"]


def test_every_kind_of_problem_has_a_bad_result():
    kinds = {kind for row in listed("results")["bad"] for kind in row["kinds"]}
    assert len(kinds) == 10 and len(listed("results")["bad"]) > 90


@pytest.mark.parametrize("row", cases("models"))
def test_a_bad_model_is_refused_for_its_reason(row, tmp_path):
    good = (VECTORS / listed("models")["base"]).read_bytes()
    (tmp_path / "model.json").write_bytes(replaced(good, row))
    with pytest.raises(DataError) as refused:
        load_model(tmp_path / "model.json")
    assert row["refused"] in str(refused.value)


@pytest.mark.parametrize("row", cases("studies"))
def test_a_bad_study_is_refused_for_its_reason(row):
    good = (VECTORS / listed("studies")["base"]).read_bytes()
    with pytest.raises(StudyError) as refused:
        Study.from_text(replaced(good, row).decode())
    assert row["refused"] in str(refused.value)


@pytest.mark.parametrize("row", cases("reports"))
def test_a_bad_report_is_refused_with_its_code(row):
    vectors = listed("reports")
    rules = Rules.of(Study.load(VECTORS / vectors["study"]), require_tokens=False)
    good = vectors["good"].encode()
    accepted, refused = rules.read([good, replaced(good, row)], 0.0)
    assert not isinstance(accepted, Refusal)
    assert isinstance(refused, Refusal) and refused.code == row["refused"]


@pytest.mark.parametrize("row", cases("rows", "rows"))
def test_a_row_of_a_table_is_refused_for_its_reason(row, tmp_path):
    study, header = listed("rows")["study"], listed("rows")["header"]
    path = tmp_path / "people.csv"
    path.write_text(f"{header}\n{row['row']}\n", encoding="utf-8")
    encode = Study.load(VECTORS / study).encode_table
    if not row["refused"]:
        assert len(encode(read_table(path))) == 1
        return
    with pytest.raises(DataError) as refused:
        encode(read_table(path))
    assert repr(row["column"]) in str(refused.value) or not row["column"]
