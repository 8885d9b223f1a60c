"""Offers of jobs: what a node believes of one, and when it may begin."""

import secrets
from copy import copy
from dataclasses import replace as changed

import msgspec
import pytest
from consortium import PLAN
from example_study import STUDY
from msgspec.structs import replace

from pdml.errors import InvalidInput, PeerError
from pdml.mechanisms import objective_noise
from pdml.node.crypto.hpke import SealingKey
from pdml.node.crypto.signing import Identity
from pdml.node.protocol import requests
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import Begin, Offer, acceptance, check_begin
from pdml.numerics.admm import losses
from pdml.planning.training_plan import TrainingPlan


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {each.name: Identity.create(folder / each.name) for each in STUDY.servers}


@pytest.fixture(scope="module")
def study(identities, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sealing")
    pinned = tuple(
        changed(
            each,
            signing_key=identities[each.name].public,
            sealing_key=SealingKey.create(folder / each.name).public,
        )
        for each in STUDY.servers
    )
    return changed(STUDY, servers=pinned)


@pytest.fixture
def offer(study):
    job_terms = JobTerms.for_study(study, PLAN, "june")
    terms = {"offerer": "alice", "resume": False, "start_timeout": 60.0, "round_timeout": 60.0}
    return Offer.of(job_terms, attempt=secrets.token_hex(16), **terms)


def read(data, identities, sender="alice"):
    return Offer.read(data, sender, identities[sender].public)


def test_what_a_member_signed_is_its_offer(offer, study, identities):
    assert read(offer.signed(identities["alice"]), identities) == offer
    assert offer.make_job_terms(study).digest == offer.terms


def test_an_offer_that_its_sender_has_not_signed_is_none(offer, identities):
    with pytest.raises(PeerError, match="alice sent an offer that it has not signed"):
        read(offer.signed(identities["bob"]), identities)
    with pytest.raises(PeerError, match="bob signed an offer in the name of 'alice'"):
        read(offer.signed(identities["bob"]), identities, "bob")
    content = msgspec.msgpack.encode({"version": 1, "job": 3})
    with pytest.raises(PeerError, match="alice sent something that is no offer"):
        read(identities["alice"].sign(requests._OFFER + content) + content, identities)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start_timeout": 0.5}, "with waits of 0.5 s for its start and 60 s for an answer"),
        ({"start_timeout": 3601.0}, r"they must lie in \[1, 3600\] and \[1, 86400\]"),
        ({"start_timeout": 86_400.0}, "with waits of 86400 s"),
        ({"start_timeout": float("nan")}, "with waits of nan s"),
        ({"round_timeout": 1e9}, r"and 1e\+09 s for an answer"),
        ({"attempt": "short"}, "without a name of 32 digits"),
    ],
)
def test_nobody_is_made_to_wait_for_ever(offer, identities, changes, said):
    with pytest.raises(PeerError, match=f"alice offers a job .*{said}"):
        read(replace(offer, **changes).signed(identities["alice"]), identities)


def test_an_hour_is_time_enough_to_start(offer, identities):
    longest = replace(offer, start_timeout=3600.0, round_timeout=86_400.0)
    assert read(longest.signed(identities["alice"]), identities) == longest


def test_its_terms_are_those_of_the_node_s_own_study(offer, study):
    with pytest.raises(InvalidInput, match="the studies differ"):
        offer.make_job_terms(changed(study, title="Another"))
    with pytest.raises(InvalidInput, match="does not make the same terms"):
        replace(offer, terms="0" * 64).make_job_terms(study)


def test_nobody_begins_before_everybody_has_accepted(offer, study, identities):
    signed = {name: acceptance(offer, name, own) for name, own in identities.items()}
    check_begin(Begin(attempt=offer.attempt, accepted=signed), offer, study)
    other = replace(offer, attempt=secrets.token_hex(16))
    for wrong in (
        {name: each for name, each in signed.items() if name != "carol"},
        signed | {"carol": signed["bob"]},
        signed | {"carol": acceptance(other, "carol", identities["carol"])},
    ):
        with pytest.raises(PeerError, match="which carol has not accepted"):
            check_begin(Begin(attempt=offer.attempt, accepted=wrong), offer, study)


@pytest.fixture
def own_objects(monkeypatch):
    """A loss and an objective noise that a researcher has registered in this process alone."""
    monkeypatch.setattr(losses, "BINARY", copy(losses.BINARY))
    monkeypatch.setattr(objective_noise, "FAMILIES", copy(objective_noise.FAMILIES))
    family = changed(objective_noise.UNIFORM_BOX, name="mine")
    return {"loss": changed(losses.LOGISTIC, name="mine"), "objective_noise": family}


@pytest.mark.parametrize("name", ["loss", "objective_noise"])
def test_job_terms_hold_what_every_member_has_code_for(own_objects, study, name):
    plan = TrainingPlan(**{name: own_objects[name]})
    with pytest.raises(InvalidInput, match=f"{name} must be a built-in one between organisations"):
        JobTerms.for_study(changed(study, plan=None), plan, "june")
