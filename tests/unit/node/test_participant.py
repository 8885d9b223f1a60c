"""Organisations with journals: the local engine's numbers, to the bit, whoever dies when; and every
liar named.
"""

import shutil
import sqlite3
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from consortium import EPSILON, NAMES, PLAN, SUMS, Consortium
from fitting import fading, is_gaussian, is_truncated_gaussian, slips
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Budget
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.kinds import UNSAID
from pdml.errors import BudgetExceeded, InvalidInput, JournalError, PeerError
from pdml.mechanisms.randomness import Secure, Simulated
from pdml.node.crypto.signing import Identity, verify_signature
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import Journal
from pdml.numerics.admm import labels
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Node


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("classes", [2, 3])
def test_parties_compute_what_the_local_engine_computes(tmp_path, classes):
    consortium = Consortium(tmp_path, classes=classes)
    found, expected = consortium.run(), consortium.by_local_engine()
    consortium.close()
    if classes == 2:
        np.testing.assert_array_equal(found, expected)
    else:  # softmax multiplies matrices, and BLAS rounds by where they lie in memory
        np.testing.assert_allclose(found, expected, rtol=1e-11)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), chance=st.sampled_from([0.02, 0.1, 0.3]))
def test_killed_at_any_moment_the_result_is_that_of_an_unbroken_run(tmp_path_factory, seed, chance):
    """Whatever the order of deliveries, duplicates and deaths."""
    consortium = Consortium(tmp_path_factory.mktemp("consortium"))
    found = consortium.run(chance=chance, seed=seed)
    consortium.close()
    np.testing.assert_array_equal(found, consortium.by_local_engine())


def test_secure_noise_is_never_drawn_again(tmp_path):
    """After a restart the same bytes go out, although the source cannot be repeated, and the next
    round goes on from them.
    """
    consortium = Consortium(tmp_path, source=Secure())
    consortium.run(until=5)
    before = [consortium.party("alice").message("bob", t) for t in range(1, 6)]
    linear = consortium.party("alice")._node.linear
    consortium.kill("alice")
    consortium.meet("alice")
    assert [consortium.party("alice").message("bob", t) for t in range(1, 6)] == before
    np.testing.assert_array_equal(consortium.party("alice")._node.linear, linear)
    consortium.run(chance=0.2, seed=4)
    assert consortium.party("alice").message("bob", 5) == before[4]
    consortium.close()


def test_a_release_is_debited_in_the_transaction_that_stores_it(consortium):
    consortium.run(until=3)
    ledger = consortium.party("bob").ledger
    (events,) = ledger.events
    assert [event.t for event in events if isinstance(event, IterateReleased)] == [1, 2, 3]
    assert sum(isinstance(event, ObjectiveNoised) for event in events) == 1
    journal = consortium.journals["bob"]
    failing = consortium.party("bob")
    for peer in failing.neighbours:
        failing.accept(peer, consortium.party(peer).message("bob", 3))
    journal._db.change(
        "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(JournalError, match="disk full; nothing was sent"):
        failing.advance()
    assert journal.job("job-1").round == 3  # neither the event nor the release
    assert failing.round == 3


@pytest.mark.parametrize("deaths", ["none", "one each", "many"])
@pytest.mark.parametrize("source", [Simulated(3), Secure()], ids=lambda source: source.name)
def test_what_is_debited_is_what_the_plan_spends_at_this_server(tmp_path, source, deaths):
    """From the servers' own sizes and links, not the terms', and however often they died."""
    plan = replace(PLAN, noise_scale=(0.3, 0.1, 0.2, 0.4))
    consortium = Consortium(tmp_path, plan=plan, source=source)
    if deaths == "one each":
        consortium.run(until=5)
        for name in NAMES:
            consortium.kill(name)
            consortium.meet(name)
    consortium.run(chance=0.2 if deaths == "many" else 0.0, seed=7)
    for name, server in zip(NAMES, consortium.servers, strict=True):
        spent = plan.events(server.spec)
        consortium.party(name)
        assert consortium.journals[name].spent(f"data of {name}") == spent
        flip = LabelFlipped(epsilon=EPSILON, by=UNSAID, epsilons=(EPSILON,))  # who: not said
        assert consortium.party(name).ledger.events == ((flip, *spent),)
    consortium.close()


def noise_of(consortium, name):
    """(η, [θ(1), θ(2), ...]) that a node drew: what it sent, less what a silent twin computes."""
    party, journal = consortium.party(name), consortium.journals[name]
    server, job_terms = party.training_data.server, consortium.job_terms
    sealed = journal.sealed(job_terms.job)
    purpose = f"{job_terms.digest} {name}".encode()
    linear = wire_messages.decode_vector(
        consortium.identities[name].unseal(sealed, purpose), job_terms.shape
    )
    mean = labels.label_mean(
        server.matrix, server.codes, job_terms.plan.loss_for(job_terms.classes)
    )
    twin = Node(server, replace(job_terms.plan, noise_scale=0.0), Simulated(0), linear=linear)
    state, theta = twin.start(), []
    for t in range(1, party.round + 1):
        heard = journal.inbox(job_terms.job, t - 1)
        others = [
            wire_messages.decode_vector(heard[peer], job_terms.shape)
            for peer in party.neighbours
            if heard
        ]
        _, point = twin.step(state, others)
        released = wire_messages.decode_vector(journal.outgoing(job_terms.job, t), job_terms.shape)
        theta.append(released - point)
        state = twin.replay(state, others, released)
    return len(NAMES) * (mean - linear), theta


@pytest.mark.parametrize("chance", [0.0, 0.2])
def test_the_noise_that_leaves_a_node_is_its_own_and_of_that_round(tmp_path, chance):
    """From the operating system, through a real journal, and after restarts.

    Server by server and round by round; false alarm 1e-9 per check. The V_i of others, other
    rounds, half, double, the variance and a forgotten or doubled 1/n are rejected as well.
    """
    scales, decay, bound = (0.4, 0.1, 0.2, 0.05), 0.5, 0.6
    noisy = {"noise_scale": scales, "noise_decay": decay, "objective_bound": bound}
    plan = TrainingPlan(rounds=3, penalty=1.0, **noisy)
    consortium = Consortium(tmp_path, plan=plan, source=Secure(), width=8_000)
    consortium.run(chance=chance, seed=1)
    for name, scale in zip(NAMES, scales, strict=True):
        eta, theta = noise_of(consortium, name)
        assert is_truncated_gaussian(eta, bound)
        wrong = (0.5, 2.0, bound / 6, 4.0, 0.25, 1.2)
        assert not any(is_truncated_gaussian(eta * factor, bound) for factor in wrong)
        for t, drawn in enumerate(theta, start=1):
            assert is_gaussian(drawn, fading(scale, decay, t))
            others = [other / scale for other in scales if other != scale]
            for factor in (*slips(scale, decay, t).values(), *others):
                assert not is_gaussian(drawn * factor, fading(scale, decay, t))
    consortium.close()


def test_budgets_belong_to_the_data_set_and_not_to_the_job(tmp_path):
    free = Consortium(tmp_path)
    free.run()
    spent = free.party("alice").ledger.row("features", "other servers").epsilon
    for name in NAMES:
        free.party(name).finish()
    free.close()
    again = Consortium(tmp_path, job="job-2", budget=Budget(features_epsilon=1.01 * spent))
    with pytest.raises(BudgetExceeded, match="after the 12 releases of earlier jobs"):
        again.party("alice")
    again.close()
    (tmp_path / "other").mkdir()
    fresh = Consortium(
        tmp_path / "other", job="job-2", budget=Budget(features_epsilon=1.01 * spent)
    )
    fresh.party("alice")  # without the first job the same budget suffices
    fresh.close()
    more = Consortium(tmp_path, job="job-2")
    more.run()
    assert (
        more.party("alice").ledger.row("features", "other servers").epsilon > 1.3 * spent
    )  # √2 in μ
    more.close()


def test_the_objective_noise_of_earlier_jobs_is_spent_too(tmp_path):
    """With θ off a label is protected by η alone: drawn twice, it protects less."""
    plan = replace(PLAN, noise_scale=0.0, objective_bound=20.0, rounds=2)
    first = Consortium(tmp_path, plan=plan)
    first.run()
    spent = first.party("alice").ledger.row("label", "other servers").epsilon
    assert 0 < spent < EPSILON / 2  # so that it is η, and not the flip, that bounds it
    for name in NAMES:
        first.party(name).finish()
    first.close()
    budget = Budget(labels_epsilon=1.05 * spent)
    again = Consortium(tmp_path, plan=plan, job="job-2", budget=budget)
    with pytest.raises(BudgetExceeded, match="after the 2 releases of earlier jobs"):
        again.party("alice")
    again.close()
    (tmp_path / "other").mkdir()
    fresh = Consortium(tmp_path / "other", plan=plan, job="job-2", budget=budget)
    fresh.party("alice")  # without the first job the same budget suffices
    fresh.close()
    more = Consortium(tmp_path, plan=plan, job="job-2")
    more.run()
    both = more.party("alice").ledger.row("label", "other servers").epsilon
    assert both > 1.2 * spent
    more.close()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("saved_at", "rolled_at"), [(4, 8), (4, 5), (11, 12)])
def test_a_rolled_back_journal_is_noticed(consortium, tmp_path, saved_at, rolled_at, restarted):
    """Be it by one round, by the last one, and though the neighbours died too: what they were sent
    they had written down.
    """
    consortium.run(until=saved_at)
    consortium.kill("carol")
    saved = shutil.copy(tmp_path / "carol.db", tmp_path / "old.db")
    consortium.run(until=rolled_at)
    consortium.close() if restarted else consortium.kill("carol")
    shutil.copy(saved, tmp_path / "carol.db")
    with pytest.raises(
        PeerError, match=f"carol's journal was rolled back: it stands at round {saved_at}"
    ):
        consortium.meet("carol")


def said_anew(consortium, **changes):
    """What carol tells alice after a start, changed, and signed by carol all the same."""
    alice, carol = consortium.party("alice"), consortium.party("carol")
    honest = msgspec.msgpack.decode(carol.hello("alice"), type=wire_messages.Hello)
    asked = msgspec.msgpack.decode(alice.hello("carol"), type=wire_messages.Hello).challenge
    anew = msgspec.structs.replace(honest, life="f" * 32, echo=asked, **changes)
    return wire_messages._signed(consortium.identities["carol"], anew)


@pytest.mark.parametrize("trace", ["round", "digest"])
def test_each_trace_of_a_rollback_is_enough(consortium, trace):
    """Whoever was set back and has released for other jobs since can hide how many there were."""
    consortium.run(until=5)
    alice = consortium.party("alice")
    earlier = consortium.journals["alice"].digest("job-1", 4, "carol")
    left = {
        "round": {"round": 4, "digest": earlier, "releases": 99},
        "digest": {"digest": "0" * 64, "releases": 99},
    }
    with pytest.raises(PeerError, match="carol's journal was rolled back"):
        alice.welcome("carol", said_anew(consortium, **left[trace]))
    assert alice.welcome("carol", said_anew(consortium))  # as it is


def test_an_old_hello_is_no_rollback(consortium):
    """Who carries the messages may keep one for later, or be slow: nobody is accused of it."""
    consortium.run(until=2)
    consortium.kill("bob")
    consortium.meet("bob")
    old = consortium.party("bob").hello("alice")
    consortium.run(until=6)
    assert consortium.party("alice").welcome("bob", old)  # the same process, some rounds ago
    consortium.kill("bob")
    consortium.meet("bob")
    consortium.run(until=8)
    assert consortium.party("alice").welcome("bob", old)  # an earlier process, which was met
    consortium.kill("alice")
    consortium.meet("alice")
    assert not consortium.party("alice").welcome(
        "bob", old
    )  # alice herself is another: prove that you speak now


def test_what_neighbours_hear_of_a_data_set_does_not_depend_on_its_records(consortium):
    """Its digest would let them try records until it fits; the alias needs the node's key."""
    party = consortium.party("alice")
    said = msgspec.msgpack.decode(party.hello("bob"), type=wire_messages.Hello)
    assert (
        said.dataset
        == consortium.identities["alice"].alias("data of alice")
        != consortium.identities["bob"].alias("data of alice")
    )
    assert "data of alice" not in repr(said)


def test_noise_that_protects_nobody_is_never_counted_as_if_it_did(tmp_path):
    simulated = Consortium(tmp_path)
    simulated.run(until=3)
    simulated.close()
    for job in ("job-1", "job-2"):  # neither the rest of the job nor another one on the data set
        secure = Consortium(tmp_path, source=Secure(), job=job)
        with pytest.raises(JournalError, match="was used with simulated noise before"):
            secure.party("alice")
        secure.close()


def test_a_lost_journal_is_noticed_in_the_next_job(consortium, tmp_path):
    consortium.run()
    consortium.close()
    (tmp_path / "carol.db").unlink()
    again = Consortium(tmp_path, job="job-2")
    with pytest.raises(PeerError, match="carol's journal was rolled back"):
        again.run()
    again.close()


def forged(consortium, *, key="bob", **changes):
    """What bob would send alice in round 1, changed, and signed by ``key``."""
    consortium.run(until=1)
    message = msgspec.msgpack.decode(
        consortium.party("bob").message("alice", 1), type=wire_messages.Vector
    )
    return wire_messages._signed(
        consortium.identities[key], msgspec.structs.replace(message, **changes)
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"payload": np.full((1, 4), np.nan).tobytes()}, "not finite"),
        ({"payload": np.full((1, 4), 1e200).tobytes()}, "no honest one exceeds"),
        ({"payload": b"\0" * 24}, "sent <f8 of shape"),
        ({"shape": (4, 1)}, "of shape"),
        ({"dtype": "<f4"}, "sent <f4"),
        ({"round": 0}, "the plan has rounds 1 to 12"),
        ({"round": 3}, "sent a release of round 3 while alice stands at round 1"),
        ({"round": 99}, "the plan has rounds"),
        ({"study": "6" * 64}, "trains another study"),
        ({"terms": "6" * 64}, "under other terms"),
        ({"job": "job-9"}, "under other terms"),
        ({"sender": "carol"}, "in the name of 'carol'"),
        ({"sender": "mallory"}, "in the name of 'mallory'"),
        ({"recipient": "dave"}, "meant for 'dave'"),
        ({"version": 2}, "version 2 of the format 'training message'"),
        ({"key": "carol"}, "signature is not bob's"),
        ({"payload": np.ones((1, 4)).tobytes()}, "two different releases for round 1"),
    ],
)
def test_a_bad_message_names_its_sender(consortium, changes, said):
    data = forged(consortium, **changes)
    with pytest.raises(PeerError, match=rf"^bob .*{said}"):
        consortium.party("alice").accept("bob", data)


def test_a_message_is_measured_before_it_is_parsed(consortium):
    with pytest.raises(PeerError, match="bob sent 1000000 bytes"):
        consortium.party("alice").accept("bob", b"\x81" * 1_000_000)


@given(data=st.binary(max_size=400))
def test_any_bytes_are_refused_in_one_sentence(parties, data):
    older = "a message that has version 1 "  # what carries no version, be it an empty map
    with pytest.raises(
        PeerError, match=rf"^bob sent ({older}|something that is no vector message)"
    ):
        parties.party("alice").accept("bob", data)
    with pytest.raises(PeerError, match=rf"^bob sent ({older}|something that is no hello message)"):
        parties.party("alice").welcome("bob", data)


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    made = Consortium(tmp_path_factory.mktemp("parties"))
    yield made
    made.close()


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_no_single_bit_can_be_changed_on_the_way(parties, position, bit):
    """A relay that flips a bit is noticed: either the message no longer parses or it is not
    signed.
    """
    if parties.party("bob").round == 0:
        parties.party("bob").advance()
    sent = bytearray(parties.party("bob").message("alice", 1))
    sent[position % len(sent)] ^= 1 << bit
    with pytest.raises(PeerError, match=r"^bob "):
        parties.party("alice").accept("bob", bytes(sent))


def test_honest_releases_stay_far_below_the_cap(consortium):
    longest = max(np.linalg.norm(released) for released in consortium.run())
    assert longest < consortium.job_terms.norm_cap / 10


def pull(made, length):
    """Rounds in which dave sends vectors of ``length`` times the cap, in one direction; who stops,
    and its sentence.
    """
    job_terms = made.job_terms
    vector = np.zeros(job_terms.shape)
    vector[0, 0] = length * job_terms.norm_cap
    for name in NAMES:
        made.meet(name)
    for _ in range(job_terms.plan.rounds):
        for name in [name for name in NAMES if made.party(name).ready]:
            party = made.party(name)
            try:
                t = party.advance()
            except PeerError as error:
                return name, str(error)
            for peer in party.neighbours:
                sent = party.message(peer, t)
                if name == "dave":
                    terms = {"sender": name, "recipient": peer, "t": t}
                    payload = wire_messages.encode_vector(vector)
                    sent = wire_messages.vector(
                        job_terms, made.identities[name], **terms, payload=payload
                    )
                made.party(peer).accept(name, sent)
    return "", ""


@pytest.mark.parametrize("length", [0.999, 0.9])
def test_who_is_pulled_by_a_long_vector_stops_and_accuses_no_honest_member(tmp_path, length):
    """No honest release is ever refused for its length: who could exceed the cap stops before it
    commits, and names whom it has the longest vector of. Honest members were once accused.
    """
    made = Consortium(tmp_path, plan=replace(PLAN, rounds=60, penalty=5.0))
    name, sentence = pull(made, length)
    assert name in ("alice", "carol")
    assert f"{name} stops before round {made.party(name).round + 1}" in sentence
    assert "The longest of theirs is dave's" in sentence
    made.close()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 30.0])
def test_a_release_is_no_longer_than_the_recursion_says(tmp_path, penalty, classes, monkeypatch):
    """`Contract.release_bound` holds for every honest release, and honest rounds stay below the
    cap. False alarms: none, the noise is seeded.
    """
    bounds = []
    whole = JobTerms.release_bound

    def noted(self, server, pull):
        bounds.append((server, pull, whole(self, server, pull)))
        return bounds[-1][2]

    monkeypatch.setattr(JobTerms, "release_bound", noted)
    made = Consortium(tmp_path, plan=replace(PLAN, penalty=penalty), classes=classes)
    made.run()
    assert len(bounds) == 4 * 11
    rounds = dict.fromkeys(NAMES, 1)
    sent = {
        name: [
            wire_messages.decode_vector(
                made.journals[name].outgoing("job-1", t), made.job_terms.shape
            )
            for t in range(1, 13)
        ]
        for name in NAMES
    }
    for server, pulled, bound in bounds:
        t = rounds[server]
        own, near = sent[server], [sent[peer] for peer in made.job_terms.neighbours(server)]
        dual = sum(penalty * (own[s] - other[s]) for s in range(t) for other in near)
        target = sum(penalty * (own[t - 1] + other[t - 1]) for other in near) - dual
        assert pulled == pytest.approx(np.linalg.norm(target))
        assert np.linalg.norm(own[t]) < bound < made.job_terms.norm_cap
        rounds[server] += 1
    made.close()


def test_releases_of_any_loss_have_a_cap(tmp_path):
    """The square loss has no bounded slope; at 0 it is that of the label."""
    made = Consortium(tmp_path, plan=replace(PLAN, loss="square"))
    longest = max(np.linalg.norm(released) for released in made.run())
    assert longest < made.job_terms.norm_cap / 10 < np.inf
    made.close()


def test_the_inner_state_is_sealed_and_then_gone(consortium, tmp_path):
    consortium.run()
    party, journal = consortium.party("alice"), consortium.journals["alice"]
    linear, sealed = wire_messages.encode_vector(party._node.linear), journal.sealed("job-1")
    files = [tmp_path / "alice.db", tmp_path / "alice.db-wal"]
    assert not any(linear in path.read_bytes() for path in files if path.exists())
    purpose = f"{consortium.job_terms.digest} alice".encode()
    assert consortium.identities["alice"].unseal(sealed, purpose) == linear
    for key, other in (("bob", purpose), ("alice", purpose[:-1])):
        with pytest.raises(InvalidInput, match="cannot be opened"):
            consortium.identities[key].unseal(sealed, other)
    for name in NAMES:
        consortium.party(name).finish()
    assert not any(sealed in path.read_bytes() for path in files if path.exists())
    with pytest.raises(JournalError, match="is finished"):
        consortium.kill("alice")
        consortium.party("alice")


def test_finishing_early_is_refused(consortium):
    consortium.run(until=2)
    with pytest.raises(InvalidInput, match="stands at round 2 of 12"):
        consortium.party("alice").finish()


def test_a_party_goes_on_with_everybody_s_word_and_within_its_plan(consortium):
    consortium.party("alice").advance()
    with pytest.raises(InvalidInput, match="alice cannot go past round 1: it waits for bob"):
        consortium.party("alice").advance()
    consortium.run()
    with pytest.raises(InvalidInput, match="past round 12: it waits for nobody, it is done"):
        consortium.party("alice").advance()
    journal = consortium.journals["alice"]
    with pytest.raises(JournalError, match="round 14 of job job-1 cannot be committed"):
        journal.commit("job-1", 14, payload=b"", events=())


@pytest.mark.parametrize("round", [-1, 13, 5])
def test_a_place_where_nobody_can_stand_is_refused(consortium, round):
    """Beyond the plan, before its begin, or after more rounds than it says it has released."""
    hello = msgspec.msgpack.decode(consortium.party("bob").hello("alice"), type=wire_messages.Hello)
    told = msgspec.structs.replace(hello, round=round, releases=min(round, 4) % 2**53)
    data = wire_messages._signed(consortium.identities["bob"], told)
    with pytest.raises(PeerError, match=f"^bob says it stands at round {round} of 12"):
        consortium.party("alice").welcome("bob", data)


def test_records_of_another_place_and_unknown_names_are_refused(consortium):
    consortium.servers[0] = consortium.servers[1]
    with pytest.raises(
        InvalidInput, match="the data set of alice does not fit job job-1: they differ in the "
    ):
        consortium.party("alice")
    with pytest.raises(InvalidInput, match="server must be one of alice, bob, carol, dave, got"):
        consortium.job_terms.index("mallory")


def test_an_exchange_that_has_not_begun_has_cost_nothing(tmp_path):
    made = Consortium(tmp_path, plan=SUMS)
    assert made.party("alice").balance == "alice has released nothing"
    made.party("alice").advance()
    assert made.party("alice").balance.startswith("what alice has released counts as spent")
    made.close()


def test_a_neighbour_whose_key_is_not_known_is_refused(consortium):
    del consortium.keys["carol"]
    with pytest.raises(InvalidInput, match="the public key of carol is not known to alice"):
        consortium.party("alice")


def test_other_terms_under_the_same_name_is_refused(consortium, tmp_path):
    consortium.run(until=2)
    consortium.close()
    other = Consortium(tmp_path, plan=replace(PLAN, penalty=0.2))
    with pytest.raises(JournalError, match="with other terms"):
        other.party("alice")
    other.close()


def test_a_journal_that_is_none_or_of_another_version_is_refused(tmp_path):
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at as one" * 50)
    with pytest.raises(JournalError, match=r"text\.db cannot be used: file is not a database"):
        Journal(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "new.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(
        JournalError, match=r"version 99 of the format 'journal'.* a pdml newer than"
    ):
        Journal(tmp_path / "new.db")
    with pytest.raises(JournalError, match="cannot be used"):
        Journal(tmp_path / "no folder" / "node.db")


def test_keys(tmp_path):
    made = Identity.create(tmp_path / "node.key")
    assert Identity.load(tmp_path / "node.key").public == made.public
    with pytest.raises(InvalidInput, match="exists already"):
        Identity.create(tmp_path / "node.key")
    (tmp_path / "node.key").chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        Identity.load(tmp_path / "node.key")
    (tmp_path / "bad.key").write_text("abc")
    (tmp_path / "bad.key").chmod(0o600)
    with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
        Identity.load(tmp_path / "bad.key")
    assert made.sign(b"x") == made.sign(b"x")


@pytest.mark.parametrize("sign", ["00", "80"])
def test_a_key_under_which_anybody_can_sign_is_no_key(sign):
    """The neutral point: S = 0 and R = the point itself satisfy S·B = R + h·A for every message."""
    public = bytes([1, *bytes(30), int(sign, 16)])
    assert not verify_signature(public.hex(), b"whatever", public[:31] + b"\0" + bytes(32))
    assert not any(verify_signature(key, b"", b"") for key in ("", "0" * 63, "x", "00"))


def test_records_below_the_floor_are_refused(tmp_path):
    consortium = Consortium(tmp_path)
    server = consortium.servers[0]
    low = replace(server.spec, epsilons=(EPSILON / 2,))
    consortium.servers[0] = replace(server, spec=low)
    with pytest.raises(InvalidInput, match="below the study's floor"):
        consortium.party("alice")
    consortium.close()
