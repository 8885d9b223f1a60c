"""What a consortium's members have released, from the statements that they have signed."""

import msgspec
import pytest
from consortium import NAMES
from results import SHORT, Studied

from pdml.node.operator.status import latest_statements
from pdml.node.protocol import signed_statement


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    consortium = Studied(tmp_path_factory.mktemp("keys"), plan=SHORT)
    consortium.run()
    yield consortium
    consortium.close()


@pytest.fixture(scope="module")
def said(made):
    signed = made.tell()
    return [signed_statement.signed_by(data, name, made.keys) for name, data in signed.items()]


def test_each_member_is_told_by_its_own_events(made, said):
    found = latest_statements(made.study, reversed(said))
    assert [each.server for each in found] == list(NAMES)
    for each, one in zip(found, said, strict=True):
        assert (each.records, each.releases) == (one.records, SHORT.rounds)
        flip, *spent = each.ledger.events[0]
        assert tuple(spent) == one.spent and flip.by == one.randomised_by
        assert each.next_job is not None


def test_the_last_word_on_a_data_set_counts_and_includes_what_was_before(made, said):
    first = said[0]
    again = signed_statement.EarlierJob(
        job="job-0",
        terms=first.terms,
        study=first.study,
        plan=first.plan,
        rounds=SHORT.rounds,
        events=first.events,
    )
    later = msgspec.structs.replace(first, job="job-2", earlier_jobs=[again])
    for order in ([first, later], [later, first]):
        (found,) = latest_statements(made.study, order)
        assert (found.job, found.releases) == ("job-2", 2 * SHORT.rounds)
        once = latest_statements(made.study, [first])[0]
        spent = [each.ledger.row("features", "other servers").epsilon for each in (once, found)]
        assert spent[1] > spent[0]
    other = msgspec.structs.replace(first, dataset="ab" * 32)
    assert (
        len(latest_statements(made.study, [first, other])) == 2
    )  # another data set has its own account
