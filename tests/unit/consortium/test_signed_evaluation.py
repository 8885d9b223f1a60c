"""What members say of a result's model: checked against the folder, and told in the statement."""

import json
from math import sqrt

import pytest
from results import SHORT, Studied, counted

from pdml.accounting.profiles import gaussian_profile
from pdml.consortium.signed_evaluation import combine_evaluations, verify_evaluations
from pdml.errors import BudgetExceeded, DataError, InvalidInput
from pdml.statement import statement


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    consortium = Studied(tmp_path_factory.mktemp("ended"), plan=SHORT, budget=5)
    consortium.run()
    consortium.write(consortium.folder / "result")
    yield consortium
    consortium.close()


def test_members_add_up_with_what_each_has_spent(ended, tmp_path):
    files = [
        counted(ended, "alice", tmp_path / "a.json"),
        counted(ended, "bob", tmp_path / "b.json", spent=[8.0, 16.0]),
    ]
    pooled = verify_evaluations(ended.folder / "result", files)
    assert pooled.evaluation.records == 200
    once, twice = (pooled.row(item).epsilon for item in pooled.parts)
    # The ledger's ε is the Gaussian profile's at the study's δ.
    for epsilon, stddevs in ((once, [8.0]), (twice, [8.0, 16.0])):
        mu = sqrt(sum(2 / item**2 for item in stddevs))
        assert gaussian_profile(mu)(epsilon) == pytest.approx(1e-6, rel=0.01)
    assert "alice signed for 100 records, counted once" in pooled.sentences()[0]
    assert "counted 2 times" in pooled.sentences()[1]
    assert [item["releases"] for item in pooled.to_dict()["members"]] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"model": "0" * 64}, DataError, "about another model"),
        ({"spent": [16.0]}, DataError, "does not count itself"),
        ({"spent": [8.0] * 100}, BudgetExceeded, "more than the study results allows"),
        ({"stddev": 0.1, "spent": [0.1]}, BudgetExceeded, "more than the study results allows"),
        ({"counts": [1]}, DataError, "no table"),
        ({"study": "0" * 64}, DataError, "not signed by a member"),
        ({"version": 2}, DataError, "version 2 of the format"),
        ({"spent": []}, DataError, "does not count itself"),
    ],
)
def test_what_is_not_so_is_refused_though_it_is_signed(ended, tmp_path, changes, error, why):
    file = counted(ended, "alice", tmp_path / "a.json", **changes)
    with pytest.raises(error, match=why):
        verify_evaluations(ended.folder / "result", [file])


def test_any_changed_field_breaks_the_signature(ended, tmp_path):
    file = counted(ended, "alice", tmp_path / "a.json")
    text = json.loads(file.read_text())
    for name, value in text.items():
        other = {str: "0", int: 7, float: 7.5, list: [1, 2]}[type(value)]
        file.write_text(json.dumps(text | {name: other}))
        with pytest.raises(DataError):
            combine_evaluations(ended.study, [file])


def test_the_statement_tells_what_was_measured_and_what_it_spent(ended, tmp_path):
    file = counted(ended, "alice", tmp_path / "a.json")
    result = ended.folder / "result"
    plain, text = (statement(ended.study, result, evaluations=item) for item in ((), (str(file),)))
    assert "Evaluated afterwards" in text.markdown and "held back" in text.markdown
    assert "nothing was measured on anybody's records" not in text.markdown
    assert "Evaluated afterwards" not in plain.markdown
    (member,) = text.to_dict()["evaluation"]["members"]
    assert (
        member["server"] == "alice"
        and member["epsilon"] < 1
        and plain.to_dict()["evaluation"] is None
    )
    with pytest.raises(InvalidInput, match="without a result"):
        statement(ended.study, evaluations=[file])
