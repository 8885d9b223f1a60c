"""What a node signs at the end of a job: the same bytes whenever asked."""

import tracemalloc
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from consortium import NAMES, PLAN, Consortium
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import Ledger
from pdml.errors import Equivocation, InvalidInput, JournalError, PeerError
from pdml.mechanisms.randomness import Secure
from pdml.node.job import statements
from pdml.node.protocol import equivocation, signed_statement, wire_messages
from pdml.node.protocol.signed_statement import digest_of, open_statement


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    made = Consortium(tmp_path_factory.mktemp("ended"))
    made.run()
    yield made
    made.close()


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path)
    yield made
    made.close()


def opened(consortium, name):
    said = consortium.party(name).statement()
    return open_statement(said, consortium.job_terms, name, consortium.keys)


def changed(consortium, name="bob", *, key="", **changes):
    """The statement of ``name``, changed, and signed by ``key``."""
    said = msgspec.structs.replace(opened(consortium, name), **changes)
    return signed_statement.sign(said, consortium.identities[key or name])


def test_a_statement_tells_what_was_sent_and_heard(ended):
    said = {name: opened(ended, name) for name in NAMES}
    for name in NAMES:
        vector = said[name].vector(ended.job_terms)
        np.testing.assert_array_equal(vector, ended.party(name).released)
        for heard in said[name].received:
            assert heard.digests == said[heard.sender].sent
            assert (heard.dataset, heard.earlier_releases) == (said[heard.sender].dataset, 0)
        for t in range(1, PLAN.rounds + 1):
            payload = ended.journals[name].outgoing("job-1", t)
            assert digest_of(said[name].sent, t) == wire_messages.hash_of(payload)


def test_both_ends_of_a_link_tell_the_same_distances(ended):
    said = {name: opened(ended, name) for name in NAMES}
    for name in NAMES:
        for heard in said[name].received:
            (back,) = [other for other in said[heard.sender].received if other.sender == name]
            assert heard.distances == back.distances


def test_it_is_the_same_after_a_crash_and_after_the_job(consortium):
    consortium.run()
    before = consortium.party("bob").statement()
    consortium.kill("bob")
    assert consortium.party("bob").statement() == before
    consortium.party("bob").finish()
    assert consortium.journals["bob"].statements("job-1") == {"bob": before}


def test_finishing_leaves_a_statement(consortium):
    """Afterwards the vectors are gone, and it could not be made."""
    consortium.run()
    consortium.party("bob").finish()
    (said,) = consortium.journals["bob"].statements("job-1").values()
    open_statement(said, consortium.job_terms, "bob", consortium.keys)


def test_it_waits_for_the_last_release_of_every_neighbour(consortium):
    consortium.run(until=PLAN.rounds - 1)
    bob = consortium.party("bob")
    for peer in bob.neighbours:
        bob.accept(peer, consortium.party(peer).message("bob", PLAN.rounds - 1))
    bob.advance()
    assert bob.done and not bob.complete
    with pytest.raises(InvalidInput, match=r"bob is in round 12 .* alice, carol must send theirs"):
        bob.statement()


def test_earlier_jobs_are_told_with_what_they_spent(tmp_path):
    first = Consortium(tmp_path)
    first.run(until=7)  # and is never finished
    first.close()
    second = Consortium(tmp_path, job="job-2")
    second.run()
    said = opened(second, "alice")
    assert [(job.job, job.rounds) for job in said.earlier_jobs] == [("job-1", 7)]
    assert {heard.earlier_releases for heard in opened(second, "bob").received} == {7}
    told = Ledger(((*said.earlier_spending, *said.spent),))
    spent = Ledger((second.journals["alice"].spent("data of alice"),))
    for data in ("label", "features"):
        line = told.row(data, "other servers").epsilon
        assert line == pytest.approx(spent.row(data, "other servers").epsilon, rel=1e-8)
    second.close()


def test_secure_noise_leaves_releases_that_only_it_can_make(tmp_path):
    consortium = Consortium(tmp_path, source=Secure())
    consortium.run()
    assert opened(consortium, "bob").source == "secure"
    consortium.close()


def bent(said, *, event=0, **changes):
    events = [dict(values) for values in said.events]
    events[event] |= changes
    return events


def heard_but(said, **changes):
    first, *others = said.received
    return [msgspec.structs.replace(first, **changes), *others]


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (lambda s: {"records": 10**9}, "1,000,000,000 records"),
        (lambda s: {"records": 0}, "0 records"),
        (lambda s: {"records": 51}, "another spending than the plan's: event 1 is"),
        (lambda s: {"epsilon": 0.9}, "impossible label epsilons"),
        (lambda s: {"epsilon": 1.5, "label_epsilon": 1.5}, "another spending than the plan's"),
        (lambda s: {"label_epsilon": 0.5}, "impossible label epsilons"),
        (lambda s: {"label_epsilon": float("nan")}, "impossible label epsilons"),
        (lambda s: {"label_epsilon": float("inf")}, "impossible label epsilons"),
        (lambda s: {"events": bent(s, event=3, stddev=9.0)}, "event 4 is"),
        (lambda s: {"events": bent(s, event=3, stddev=float("nan"))}, "cannot be read"),
        (lambda s: {"events": bent(s, event=3, t="3")}, "cannot be read"),
        (lambda s: {"events": bent(s, event=3, event_="LabelFlipped")}, "cannot be read"),
        (lambda s: {"events": s.events[:-1]}, "12 events, the plan has 13"),
        (lambda s: {"events": [*s.events, s.events[-1]]}, "14 events"),
        (lambda s: {"sent": s.sent[:-32]}, "in each of 12 rounds"),
        (lambda s: {"sent": s.sent + s.sent}, "in each of 12 rounds"),
        (lambda s: {"received": s.received[:1]}, "from others than its neighbours"),
        (lambda s: {"received": s.received[::-1]}, "from others than its neighbours"),
        (lambda s: {"received": heard_but(s, digests=b"")}, "in each of 12 rounds"),
        (lambda s: {"received": heard_but(s, distances=[])}, "in each of 12 rounds"),
        (lambda s: {"received": heard_but(s, distances=[1e300] * 12)}, "distances that no honest"),
        (lambda s: {"received": heard_but(s, distances=[float("nan")] * 12)}, "distances"),
        (lambda s: {"release": s.release[:-8]}, "24 bytes"),
        (lambda s: {"release": np.full(4, np.nan).tobytes()}, "no honest node"),
        (lambda s: {"release": np.full(4, 1e200).tobytes()}, "no honest node"),
        (lambda s: {"release": bytes(32)}, "another last release than it says it sent"),
        (lambda s: {"source": "secure"}, "secure noise, which cannot make"),
        (lambda s: {"source": "dice"}, "noise from 'dice'"),
        (lambda s: {"randomised_by": "nobody"}, "'nobody' randomised"),
        (lambda s: {"dataset": "x"}, "a name that no node gives"),
        (lambda s: {"terms": "6" * 64}, "on another job"),
        (lambda s: {"study": "6" * 64}, "on another job"),
        (lambda s: {"job": "job-2"}, "on another job"),
        (lambda s: {"plan": s.plan | {"penalty": 0.2}}, "on another job"),
        (lambda s: {"plan": {"colour": "red"}}, "on another job"),
        (lambda s: {"server": "carol"}, "signed a statement of 'carol'"),
        (lambda s: {"version": 2}, "version 2 of the format 'statement'"),
    ],
)
def test_what_no_honest_node_would_say_is_refused_by_name(ended, lie, said):
    data = changed(ended, **lie(opened(ended, "bob")))
    with pytest.raises(PeerError, match=rf"^bob .*{said}"):
        open_statement(data, ended.job_terms, "bob", ended.keys)


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """A second job on the same data sets."""
    folder = tmp_path_factory.mktemp("again")
    first = Consortium(folder)
    first.run(until=5)
    first.close()
    made = Consortium(folder, job="job-2")
    made.run()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"rounds": 0}, "impossible terms"),
        ({"rounds": 13}, "impossible terms"),
        ({"rounds": 4}, "another spending of job job-1"),
        ({"terms": "6" * 64}, "impossible terms"),
        ({"study": "6" * 64}, "impossible terms"),
        ({"job": "job-0"}, "impossible terms"),
        ({"job": "no job"}, "cannot be read"),
        ({"plan": {}}, "impossible terms"),
        ({"plan": {"rounds": 10**9}}, "cannot be read"),
        ({"events": []}, "another spending of job job-1"),
        ({"events": [{}]}, "cannot be read"),
    ],
)
def test_earlier_jobs_cannot_be_told_cheaper(again, lie, said):
    (earlier,) = opened(again, "bob").earlier_jobs
    data = changed(again, earlier_jobs=[msgspec.structs.replace(earlier, **lie)])
    with pytest.raises(PeerError, match=rf"^bob .*{said}"):
        open_statement(data, again.job_terms, "bob", again.keys)


def test_no_earlier_job_is_told_twice_or_without_end(again):
    (earlier,) = opened(again, "bob").earlier_jobs
    endless = [msgspec.structs.replace(earlier, rounds=10**6)]
    for told, said in (
        ([earlier] * 2, "twice"),
        ([earlier] * 1001, "`array` of length <= 1000"),
        (endless, "more earlier rounds"),
    ):
        with pytest.raises(PeerError, match=said):
            open_statement(changed(again, earlier_jobs=told), again.job_terms, "bob", again.keys)


def test_nobody_states_for_another(ended):
    with pytest.raises(PeerError, match="the statement of bob is not signed by it"):
        open_statement(changed(ended, key="carol"), ended.job_terms, "bob", ended.keys)
    with pytest.raises(PeerError, match="the statement of alice is not signed by it"):
        open_statement(changed(ended), ended.job_terms, "alice", ended.keys)
    without = {name: key for name, key in ended.keys.items() if name != "bob"}
    with pytest.raises(PeerError, match="the statement of bob is not signed by it"):
        open_statement(changed(ended), ended.job_terms, "bob", without)


def test_a_statement_has_one_spelling(ended):
    """Another one that reads the same, signed by its own server, is refused all the same."""
    content = msgspec.msgpack.encode(opened(ended, "bob"))
    assert content[0] == 0xDE  # a map of up to 65,535 fields, as msgpack writes 17 of them
    data = signed(ended, msgspec.Raw(b"\xdf\0\0" + content[1:]))
    with pytest.raises(PeerError, match="in another way"):
        open_statement(data, ended.job_terms, "bob", ended.keys)


def test_it_is_measured_before_it_is_parsed(ended):
    with pytest.raises(PeerError, match="bob made a statement of 64,000,000 bytes"):
        open_statement(bytes(64_000_000), ended.job_terms, "bob", ended.keys)


def test_two_different_statements_prove_who_made_them(consortium):
    consortium.run()
    alice = consortium.party("alice")
    data = consortium.party("bob").statement()
    alice.store_statement("bob", data)
    alice.store_statement("bob", data)
    assert alice.silent == ("alice", "carol", "dave")
    with pytest.raises(Equivocation, match="bob made two different statements") as caught:
        alice.store_statement("bob", changed(consortium, randomised_by="operator"))
    found = equivocation.verify_evidence(
        caught.value.evidence, consortium.job_terms.digest, consortium.keys
    )
    assert found.sender == caught.value.peer == "bob"


def test_two_different_releases_prove_who_sent_them(consortium):
    """Also to a hearer that was told both, in the middle of the job."""
    consortium.run(until=1)
    message = msgspec.msgpack.decode(
        consortium.party("bob").message("alice", 1), type=wire_messages.Vector
    )
    other = msgspec.structs.replace(message, payload=np.ones((1, 4)).tobytes())
    with pytest.raises(Equivocation, match="bob sent two different releases for round 1") as caught:
        consortium.party("alice").accept(
            "bob", wire_messages._signed(consortium.identities["bob"], other)
        )
    proof = caught.value.evidence
    found = equivocation.verify_evidence(proof, consortium.job_terms.digest, consortium.keys)
    assert (found.sender, found.round) == ("bob", 1) == (caught.value.peer, caught.value.round)
    with pytest.raises(PeerError, match="not signed by it"):
        keys = consortium.keys | {"bob": consortium.keys["carol"]}
        equivocation.verify_evidence(proof, consortium.job_terms.digest, keys)
    with pytest.raises(PeerError, match="another job"):
        equivocation.verify_evidence(proof, "6" * 64, consortium.keys)


INTEGERS = st.integers(-(2**63), 2**63)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from([*signed_statement.Statement.__struct_fields__])
PLANS = st.sampled_from([*PLAN.to_dict()])


@given(
    changes=st.dictionaries(FIELDS, VALUES, min_size=1, max_size=2),
    plan=st.dictionaries(PLANS, VALUES),
)
def test_whatever_a_member_signs_ends_in_one_sentence_if_not_in_a_statement(again, changes, plan):
    """Never a traceback: any value in any place, any settings in the plan of an earlier job."""
    said = msgspec.to_builtins(opened(again, "bob"), builtin_types=(bytes,))
    (earlier,) = said["earlier_jobs"]
    before = earlier | {"plan": earlier["plan"] | plan}
    lies = [said | changes, said | {"plan": said["plan"] | plan}, said | {"earlier_jobs": [before]}]
    for lie in lies:
        try:
            open_statement(signed(again, lie), again.job_terms, "bob", again.keys)
        except PeerError as error:
            assert str(error).startswith("bob ")


def signed(consortium, values):
    """Anything at all, as bob would sign a statement."""
    domain, content = b"pdml statement 1\0", msgspec.msgpack.encode(values)
    return domain + consortium.identities["bob"].sign(domain + content) + content


def test_a_list_without_end_is_refused_before_it_is_built(ended):
    """A million empty events take a byte each in msgpack, and 64 MB as tables."""
    said = msgspec.to_builtins(opened(ended, "bob"), builtin_types=(bytes,))
    data = signed(ended, said | {"events": [{}] * 1_000_000})
    assert len(data) < signed_statement.most_bytes(ended.job_terms, "bob")
    tracemalloc.start()
    with pytest.raises(PeerError, match="`array` of length <= 20001"):
        open_statement(data, ended.job_terms, "bob", ended.keys)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * len(data)


def test_two_statements_prove_something_of_one_job_in_one_spelling(ended):
    elsewhere = changed(ended, terms="6" * 64)
    proof = equivocation.encode_evidence(statements=[ended.party("bob").statement(), elsewhere])
    with pytest.raises(PeerError, match="the statements of bob are about another job"):
        equivocation.verify_evidence(proof, ended.job_terms.digest, ended.keys)
    head = len(equivocation._DOMAIN)
    assert proof[head] == 0x82  # a map of two in one byte; here in three
    with pytest.raises(PeerError, match="evidence in another spelling"):
        equivocation.verify_evidence(
            proof[:head] + b"\xde\x00\x02" + proof[head + 1 :], ended.job_terms.digest, ended.keys
        )


def test_a_job_that_is_not_in_the_journal_is_not_told_of(ended):
    other = replace(ended.job_terms, job="job-9")
    held, journal = ended.party("alice").training_data, ended.journals["alice"]
    with pytest.raises(JournalError, match="job job-9 is not in the journal of alice"):
        statements.build(other, "alice", held, journal, alias="a")
    began = replace(journal.job("job-1"), plan="")  # as of a released evaluation
    with pytest.raises(JournalError, match="job job-1 has no plan"):
        statements.plan_of(began)
