"""A node's report: what the admin believes of it, and what it does not."""

import msgspec
import pytest
from consortium import EPSILON, PLAN, Consortium

from pdml.errors import PeerError
from pdml.node.flare import report


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    made = Consortium(tmp_path_factory.mktemp("report"))
    yield made
    made.close()


def told(contract, /, **changes):
    fields = {
        "contract": contract.digest,
        "server": "bob",
        "records": 50,
        "epsilon": EPSILON,
        "released": [[0.1, 0.2, 0.3, 0.4]],
        "apart": [0.5] * (PLAN.rounds - 1),
        "label_epsilon": EPSILON,
        "earlier": [],
        "source": "secure",
    }
    return report.Report(**{**fields, **changes})


def opened(consortium, data, server="bob"):
    return report.open_report(data, consortium.contract, server, consortium.keys)


def test_an_honest_report_comes_through(consortium):
    honest = told(consortium.contract, earlier=report.lines(consortium.contract.events("bob", records=50, epsilon=EPSILON)))
    found = opened(consortium, report.sign(honest, consortium.identities["bob"]))
    assert found == honest and len(found.spent_before) == PLAN.rounds + 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"contract": "5" * 64}, "another contract"),
        ({"released": [[0.1, 0.2, 0.3]]}, "a release that no honest node"),
        ({"released": [[1e99, 0.0, 0.0, 0.0]]}, "a release that no honest node"),
        ({"apart": [0.5]}, "distances"),
        ({"apart": [-0.5] * (PLAN.rounds - 1)}, "distances"),
        ({"apart": [1e999] * (PLAN.rounds - 1)}, "no report|distances"),
        ({"records": 0}, "records that no honest node"),
        ({"epsilon": EPSILON / 2}, "records that no honest node"),
        ({"label_epsilon": EPSILON / 2}, "records that no honest node"),
        ({"labels": "angels"}, "labels that no honest node"),
        ({"earlier": ["{}"]}, "earlier jobs that cannot be read"),
        ({"earlier": ['{"event": "IterateReleased", "t": "x"}']}, "earlier jobs that cannot be read"),
    ],
)
def test_what_no_honest_node_would_say_is_refused_by_name(consortium, changes, said):
    with pytest.raises(PeerError, match=rf"^bob.*({said})"):
        opened(consortium, report.sign(told(consortium.contract, **changes), consortium.identities["bob"]))


def test_nobody_reports_for_another(consortium):
    with pytest.raises(PeerError, match="the report of bob is not signed by it"):
        opened(consortium, report.sign(told(consortium.contract), consortium.identities["carol"]))
    with pytest.raises(PeerError, match="the report of alice is not signed by it"):
        opened(consortium, report.sign(told(consortium.contract), consortium.identities["bob"]), "alice")
    signed = msgspec.json.decode(report.sign(told(consortium.contract), consortium.identities["bob"]), type=report.Signed)
    changed = msgspec.structs.replace(signed, report=signed.report.replace(b'"records":50', b'"records":51'))
    with pytest.raises(PeerError, match="not signed"):
        opened(consortium, msgspec.json.encode(changed))
    with pytest.raises(PeerError, match="no report"):
        opened(consortium, b"[]")
