"""What an operator is shown of an offer: the terms that the member signed, and the ledger's cost."""

import secrets
from contextlib import closing
from dataclasses import replace
from math import inf

import msgspec
import pytest

from pdml.node.protocol.job_terms import JobTerms

pytest.importorskip("cryptography")

from joined import STUDY, join, people

from pdml.accounting import Ledger
from pdml.errors import InvalidInput, PeerError
from pdml.node.job.training_data import import_table
from pdml.node.operator.offers import read_terms
from pdml.node.protocol.requests import Offer
from pdml.node.storage.control_db import Attempt, OfferState
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan

PLAN = TrainingPlan(rounds=5, noise_scale=0.4)
CAROL = '[[servers]]\nname = "carol"\nurl = "https://carol.example"\n\n[topology]'


@pytest.fixture
def alice(tmp_path):
    return with_records(join(tmp_path))


def with_records(home):
    import_table(home, people(), label="diagnosed", epsilon_column="eps", randomise=False)
    return NodeDirectory.open(home.folder)


def offered(alice, plan=PLAN, *, job="first", by="bob", signer=None, **changes):
    """An offer as alice's control database has it."""
    job_terms = JobTerms.for_study(alice.checked_study(), plan, job)
    terms = {"resume": False, "start_timeout": 60.0, "round_timeout": 30.0, "offerer": by}
    offer = msgspec.structs.replace(
        Offer.of(job_terms, attempt=secrets.token_hex(16), **terms), **changes
    )
    signed = offer.signed(NodeDirectory.open(alice.folder.parent / (signer or by)).identity())
    names = {"attempt": offer.attempt, "job": job, "terms": job_terms.digest, "offerer": by}
    return Attempt(**names, offer=signed, state=OfferState.PENDING, sentence="")


def row(terms, data="features", colluding=None):
    (cost,) = (
        each for each in terms.costs if (each.after.data, each.after.colluding) == (data, colluding)
    )
    return cost


def spend(home, job, plan=PLAN, *, rounds=None):
    """What the journal holds after a job, or after some of its rounds."""
    held = home.load_training_data()
    events = plan.events(held.server.spec)
    with closing(home.journal()) as journal:
        names = {"server": home.name, "dataset": held.dataset, "source": "secure"}
        journal.begin(job, terms="", sealed=b"", plan="", **names)
        journal.commit(job, 1, payload=b"", events=events if rounds is None else events[:rounds])
    return Ledger(((held.flip(), *events),))


def test_the_terms_are_those_that_were_signed(alice):
    attempt = offered(alice)
    terms = read_terms(alice, attempt)
    told = terms.to_dict()
    assert terms.job_terms.plan == PLAN and terms.digest == attempt.digest
    assert (told["offered_by"], told["job"], told["members"]) == ("bob", "first", ["alice", "bob"])
    assert (told["start_timeout"], told["round_timeout"], told["records"]) == (60.0, 30.0, 150)
    assert told["dataset"] == alice.load_training_data().dataset and told["plan"] == PLAN.to_dict()


def test_the_cost_is_the_ledgers_after_the_job(alice):
    """The row with the job in it is the row that the ledger has when the job was done."""
    cost = row(read_terms(alice, offered(alice)))
    assert cost.before.epsilon == 0 and cost.limit == 20
    alone = spend(alice, "first").row("features", "other servers")
    assert (cost.after.epsilon, cost.after.delta) == (alone.epsilon, 1e-6)
    second = row(read_terms(alice, offered(alice, job="second")))
    assert second.before.epsilon == alone.epsilon < second.after.epsilon
    assert second.to_dict()["epsilon_before"] == alone.epsilon


def test_less_noise_costs_more(alice):
    whole, half = (
        row(read_terms(alice, offered(alice, replace(PLAN, noise_scale=scale))))
        for scale in (PLAN.noise_scale, PLAN.noise_scale / 2)
    )
    assert half.after.epsilon > 1.5 * whole.after.epsilon  # ε of a Gaussian grows as 1/σ or faster


def test_a_job_that_goes_on_costs_no_more_than_the_whole_of_it(alice):
    fresh = row(read_terms(alice, offered(alice)))
    spend(alice, "first", rounds=3)
    further = row(read_terms(alice, offered(alice, resume=True)))
    assert 0 < further.before.epsilon < further.after.epsilon == fresh.after.epsilon


def test_of_masked_sums_the_budget_s_coalition_has_the_limit(tmp_path):
    text = STUDY.replace("[topology]", CAROL).replace("[budget]", "[budget]\ncolluding = 1")
    alice = with_records(join(tmp_path, text, names=("alice", "bob", "carol")))
    plan = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0, colluding=1)
    terms = read_terms(alice, offered(alice, plan))
    one, all_others = row(terms, colluding=1), row(terms, colluding=2)
    assert one.after.epsilon < all_others.after.epsilon
    assert (one.limit, all_others.limit) == (20, None)
    labels = row(terms, "label", 1)
    assert labels.limit == inf and labels.to_dict()["budget"] == "inf"


def test_what_the_offerer_has_not_signed_has_no_terms(alice):
    with pytest.raises(PeerError, match="bob sent an offer that it has not signed"):
        read_terms(alice, offered(alice, signer="alice"))
    with pytest.raises(InvalidInput, match="does not make the same terms"):
        read_terms(alice, offered(alice, terms="0" * 64))
