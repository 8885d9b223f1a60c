"""Organisations that exchange sums once: the same units as in one trust domain, masked or not,
whoever dies when; nothing that must stay inside is stored or sent, and every liar is named.
"""

import base64
import sqlite3
from dataclasses import replace
from math import sqrt

import msgspec
import numpy as np
import pytest
from consortium import MASKED, NAMES, PLAN, SUMS, Consortium
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from pdml.accounting import Budget
from pdml.accounting.events import SumsReleased
from pdml.errors import BudgetExceeded, Equivocation, InvalidInput, JournalError, PeerError
from pdml.mechanisms import integer_gaussian, masks
from pdml.mechanisms.randomness import Secure, Simulated
from pdml.node.crypto.hpke import SealingKey
from pdml.node.job import sums_participant
from pdml.node.protocol import equivocation, signed_statement, wire_messages
from pdml.node.protocol.job_terms import MOST_NUMBERS
from pdml.planning.server_spec import RowSpec
from pdml.training import sums_release

KINDS = pytest.mark.parametrize("plan", [SUMS, MASKED], ids=["seen", "masked"])


@pytest.fixture
def made(tmp_path):
    """A consortium of its own for each call, in one folder: the keys stay."""
    opened = []

    def make(plan, **terms):
        opened.append(Consortium(tmp_path, plan=plan, **terms))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def total(sent):
    return masks.total({name: row[0] for name, row in zip(NAMES, sent, strict=True)}, NAMES)


@KINDS
@pytest.mark.parametrize("classes", [2, 3])
def test_the_total_is_that_of_one_trust_domain_to_the_bit(made, plan, classes):
    consortium = made(plan, classes=classes)
    sent, rows = consortium.run(), consortium.rows()
    np.testing.assert_array_equal(total(sent.view(np.uint64)), rows.sum(axis=0))
    if plan is SUMS:
        np.testing.assert_array_equal(sent[:, 0], rows)
    else:
        assert (sent[:, 0].view(np.int64) != rows).mean() > 0.99


def test_everybody_hears_everybody_whatever_the_links_of_the_study(made):
    consortium = made(MASKED)
    assert (1, 3) not in consortium.job_terms.links.edges  # bob and dave
    assert consortium.job_terms.neighbours("bob") == ("alice", "carol", "dave")
    terms = consortium.job_terms
    bob = terms.index("bob")
    assert terms.training.server_spec(bob, records=9, epsilons=[1.0]).degree == 2


@KINDS
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), chance=st.sampled_from([0.1, 0.3]))
def test_killed_at_any_moment_the_bytes_are_those_of_an_unbroken_run(
    tmp_path_factory, plan, seed, chance
):
    folder = tmp_path_factory.mktemp("consortium")
    consortium = Consortium(folder, plan=plan)
    found = consortium.run(chance=chance, seed=seed)
    told = {name: consortium.party(name).statement() for name in NAMES}
    consortium.close()
    for name in NAMES:
        (folder / f"{name}.db").unlink()
    unbroken = Consortium(folder, plan=plan)
    np.testing.assert_array_equal(unbroken.run(), found)
    assert {name: unbroken.party(name).statement() for name in NAMES} == told
    unbroken.close()


@KINDS
def test_secure_noise_is_drawn_once_and_sums_are_added_up_once(made, plan, monkeypatch):
    """After its commit a node that dies sends the same bytes, and reads no record again."""
    drawn, honest = [], sums_release.release_sums
    monkeypatch.setattr(
        sums_release, "release_sums", lambda *known: drawn.append(known) or honest(*known)
    )
    consortium = made(plan, source=Secure())
    consortium.run()
    before = {name: consortium.party(name).message("alice", 1) for name in NAMES[1:]}
    for name in NAMES:
        consortium.kill(name)
        consortium.meet(name)
    assert {name: consortium.party(name).message("alice", 1) for name in NAMES[1:]} == before
    assert len(drawn) == len(NAMES)


@KINDS
def test_a_release_is_debited_in_the_transaction_that_stores_it(made, plan):
    consortium = made(plan)
    for name in NAMES:
        consortium.meet(name)
    bob, journal = consortium.party("bob"), consortium.journals["bob"]
    journal._db.change(
        "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(JournalError, match="disk full; nothing was sent"):
        bob.advance()
    assert (bob.round, journal.job("job-1").round, journal.spent("data of bob")) == (0, 0, ())
    journal._db.change("DROP TRIGGER full")
    bob.advance()
    (event,) = journal.spent("data of bob")
    assert event == plan.events(consortium.servers[1].spec)[0]
    share = 1 if plan is SUMS else 1 / sqrt(3)  # h = n - k = 3 honest servers at least
    assert event.label_stddev == pytest.approx(2.0 * share)
    assert event.hidden_among == (1 if plan is SUMS else 4)


@KINDS
def test_neither_exact_sums_nor_an_unmasked_row_is_ever_on_disk(made, plan):
    consortium = made(plan)
    consortium.run()
    names = {}
    for i, name in enumerate(NAMES):
        consortium.party(name).statement()
        own = sums_release.exact(consortium.servers[i], plan)
        exact = [own.label_sum, own.square_sum, integer_gaussian.quantize(own.label_sum)]
        names[name] = [part.tobytes() for part in exact]
        row = consortium.rows()[i].tobytes()
        content = b"".join(
            path.read_bytes() for path in consortium.folder.glob(f"{name}.db*") if path.is_file()
        )
        assert (row in content) == (plan is SUMS)
        assert all(part[:24] not in content for part in names[name])


def test_the_noise_of_masked_sums_is_a_share_for_the_servers_that_do_not_collude(made):
    """σ²/h in each of n rows, so that any h of them hold σ². χ² on 4,000 draws of Q's noise: a
    false alarm once in 10⁹, and a share for n or for n - 2 instead of n - 1 servers is seen.
    """
    draws = []
    for seed in range(250):
        consortium = made(MASKED, seed=seed)
        clean = [
            integer_gaussian.quantize(sums_release.exact(s, MASKED).label_sum)
            for s in consortium.servers
        ]
        draws.append(consortium.rows()[:, :4] - np.array(clean)[:, 0])
        consortium.close()
    noise = integer_gaussian.dequantize(np.concatenate(draws)) / MASKED.label_noise
    low, high = chi2.ppf([5e-10, 1 - 5e-10], noise.size) / noise.size
    assert low <= 3 * np.mean(noise**2) <= high
    for wrong in (4, 2, 1):
        assert not low <= wrong * np.mean(noise**2) <= high


def test_no_mask_serves_twice(made):
    """The same records and the same noise in two jobs: what alice sends differs by uniform words,
    where a mask that is used again would leave zeros. χ² on four bits, once in 10⁶ runs.
    """
    first = made(MASKED, width=60)
    one = first.run()[0, 0]
    first.close()
    second = made(MASKED, width=60, job="job-2")
    other = second.run()[0, 0]
    np.testing.assert_array_equal(first.rows(), second.rows())
    counts = np.bincount(((one - other) >> np.uint64(60)).astype(int), minlength=16)
    assert chisquare(counts).pvalue > 1e-6
    alike = replace(second.job_terms, study="6" * 64)
    assert sums_participant.mask_seeds(
        second.job_terms, "alice", second.shared("alice")
    ) != sums_participant.mask_seeds(alike, "alice", second.shared("alice"))


def test_a_coalition_of_k_sees_the_total_of_the_others_and_nothing_smaller(made):
    """carol and dave take their own masks off what alice and bob sent; k = 2 of 4."""
    plan = replace(MASKED, colluding=2)
    consortium = made(plan, width=40)
    sent, rows = consortium.run(), consortium.rows()
    left = {}
    for i, honest in enumerate(("alice", "bob")):
        found = sent[i, 0]
        for liar in ("carol", "dave"):
            seed = sums_participant.mask_seeds(consortium.job_terms, liar, consortium.shared(liar))[
                honest
            ]
            found = found - masks.words(seed, found.size)
        left[honest] = found
    both = (left["alice"] + left["bob"]).view(np.int64)
    np.testing.assert_array_equal(both, rows[0] + rows[1])
    counts = np.bincount((left["alice"] >> np.uint64(60)).astype(int), minlength=16)
    assert chisquare(counts).pvalue > 1e-6


def test_its_own_row_is_read_back_by_its_owner_alone(made):
    consortium = made(MASKED)
    sent, rows = consortium.run(), consortium.rows()
    for i, name in enumerate(NAMES):
        shared = consortium.shared(name)
        found = sums_participant.remove_masks(sent[i, 0], consortium.job_terms, name, shared)
        np.testing.assert_array_equal(found, rows[i])
        with pytest.raises(InvalidInput, match="has no secret in common with"):
            others = consortium.shared(NAMES[i - 1])
            sums_participant.remove_masks(sent[i, 0], consortium.job_terms, name, others)


def test_two_keys_have_one_secret_and_no_third_has_it(tmp_path):
    one, other, third = (SealingKey.create(tmp_path / name) for name in "abc")
    assert one.shared(other.public) == other.shared(one.public)
    assert len({one.shared(other.public), one.shared(third.public), third.shared(one.public)}) == 2
    raw = base64.b64decode(one.public)
    for bad in (raw[:-32] + bytes(32), raw[:-32] + b"\1" + bytes(31), raw[:-1]):
        with pytest.raises(ValueError):  # points of small order, and no key
            one.shared(base64.b64encode(bad).decode())


def test_masks_need_every_pairs_secret(made):
    consortium = made(MASKED)
    consortium.shared = lambda name: {}
    with pytest.raises(InvalidInput, match="alice has no secret in common with bob"):
        consortium.party("alice")


# Lies


def bent(consortium, sender, recipient, **changes):
    """What ``sender`` would say, with something else in it, and signed all the same."""
    data = consortium.party(sender).message(recipient, 1)
    message = msgspec.msgpack.decode(data, type=wire_messages.Vector)
    return wire_messages._signed(
        consortium.identities[sender], msgspec.structs.replace(message, **changes)
    )


def met(made, plan, **terms):
    consortium = made(plan, **terms)
    for name in NAMES:
        consortium.meet(name)
    consortium.party("carol").advance()
    return consortium


SIZE = sums_release.length(1, 4)
FLOATS = {"dtype": "<f8", "payload": np.zeros((1, SIZE)).tobytes()}
LIES = {
    "floats": (FLOATS, "carol sent <f8 of shape"),
    "short": ({"payload": bytes(8 * SIZE - 8)}, "carol sent <.8 of shape"),
    "long": ({"payload": bytes(8 * SIZE + 8)}, "carol sent <.8 of shape"),
    "shape": ({"shape": (SIZE, 1)}, "carol sent <.8 of shape"),
    "a vector of rounds": (
        {"dtype": "<f8", "shape": (1, 4), "payload": np.zeros((1, 4)).tobytes()},
        "carol sent <f8 of shape",
    ),
    "round 2": ({"round": 2}, "the plan has rounds 1 to 1"),
}


@KINDS
@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_row_of_sums_is_refused_and_its_sender_named(made, plan, lie):
    consortium = met(made, plan)
    changes, said = LIES[lie]
    with pytest.raises(PeerError, match=said):
        consortium.party("alice").accept("carol", bent(consortium, "carol", "alice", **changes))
    assert consortium.journals["alice"].inbox("job-1", 1) == {}


def test_words_are_no_units_and_units_no_words(made):
    for plan, kind in ((SUMS, "<u8"), (MASKED, "<i8")):
        consortium = met(made, plan, job=f"job{kind[1]}")
        with pytest.raises(PeerError, match=f"carol sent {kind} of shape"):
            consortium.party("alice").accept(
                "carol", bent(consortium, "carol", "alice", dtype=kind)
            )
        consortium.close()


@pytest.mark.parametrize("number", [2**52 + 2**30, -(2**52) - 2**30, 2**63 - 1, -(2**63)])
def test_a_sum_out_of_range_is_refused_unless_masks_hide_it(made, number):
    """An honest sum is within ±2^28, which is 2^52 units, and ten deviations of noise."""
    row = np.zeros((1, SIZE), dtype=np.int64)
    row[0, 1] = number
    consortium = met(made, SUMS)
    with pytest.raises(PeerError, match="carol sent a vector of round 1 with a sum that no"):
        consortium.party("alice").accept(
            "carol", bent(consortium, "carol", "alice", payload=row.tobytes())
        )
    assert (
        wire_messages.describe_defect(
            row.view(np.uint64), replace(consortium.job_terms, plan=MASKED)
        )
        == ""
    )


@KINDS
def test_a_row_of_another_job_is_refused(made, plan):
    first = met(made, plan)
    old = first.party("carol").message("alice", 1)
    first.close()
    second = met(made, plan, job="job-2", source=Simulated(4))
    with pytest.raises(PeerError, match="carol trains under other terms"):
        second.party("alice").accept("carol", old)
    stolen = msgspec.msgpack.decode(old, type=wire_messages.Vector).payload
    second.party("alice").accept("carol", second.party("carol").message("alice", 1))
    with pytest.raises(Equivocation, match="two different releases"):
        second.party("alice").accept("carol", bent(second, "carol", "alice", payload=stolen))


@KINDS
def test_whoever_sends_two_rows_is_proved_to_have_done_so(made, plan):
    consortium = made(plan)
    consortium.run()
    row = consortium.party("carol").released.copy()
    row[0, 0] += row.dtype.type(1)
    other = bent(consortium, "carol", "alice", payload=row.tobytes())
    with pytest.raises(Equivocation) as caught:
        consortium.party("alice").accept("carol", other)
    proved = equivocation.verify_evidence(
        caught.value.evidence, consortium.job_terms.digest, consortium.keys
    )
    assert (proved.sender, proved.round) == ("carol", 1)


# Statements


@KINDS
def test_a_statement_tells_the_row_that_was_sent_and_no_distances(made, plan):
    consortium = made(plan)
    sent = consortium.run()
    for i, name in enumerate(NAMES):
        data = consortium.party(name).statement()
        said = signed_statement.open_statement(data, consortium.job_terms, name, consortium.keys)
        np.testing.assert_array_equal(said.vector(consortium.job_terms), sent[i])
        assert [heard.distances for heard in said.received] == [[], [], []]
        assert isinstance(said.spent[0], SumsReleased) and len(said.spent) == 1


def test_a_statement_that_cannot_be_is_refused(made):
    consortium = made(SUMS)
    consortium.run()
    data = consortium.party("carol").statement()
    said = signed_statement.signed_by(data, "carol", consortium.keys)

    def refused(match, **changes):
        lie = signed_statement.sign(
            msgspec.structs.replace(said, **changes), consortium.identities["carol"]
        )
        with pytest.raises(PeerError, match=match):
            signed_statement.open_statement(lie, consortium.job_terms, "carol", consortium.keys)

    def row(at, number):
        values = said.vector(consortium.job_terms).copy()
        values[0, at] = number
        payload = wire_messages.encode_vector(values, "<i8")
        return {"release": payload, "sent": bytes.fromhex(wire_messages.hash_of(payload))}

    refused("a last release of", release=said.release[:-8])
    refused("another last release than it says", release=row(0, 5)["release"])
    refused("no honest node", **row(0, 2**24 * (60 + 31)))  # 60 records and 10 sigma
    refused("no honest node", **row(-1, 2**24 * 60))  # V of 60 records at epsilon 1 is 12.8
    refused("no honest node", records=61)
    distances = [msgspec.structs.replace(heard, distances=[1.0]) for heard in said.received]
    refused("does not tell what it sent and heard", received=distances)
    refused("another spending than the plan's", events=[])


@KINDS
def test_a_masked_lie_shows_in_the_total_and_names_nobody(made, plan):
    consortium = made(plan)
    sent = consortium.run()
    places = [server.spec for server in consortium.servers]
    assert not sums_participant.inconsistent_with_record_counts(
        total(sent.view(np.uint64)), consortium.job_terms, places
    )
    for wrong in ("garbage", "one record more", "sign"):
        bad = sent.copy().view(np.uint64)
        if wrong == "garbage":
            bad[2, 0] = masks.words(bytes(32), SIZE)
        elif wrong == "one record more":
            bad[2, 0, -1] += np.uint64(2**24)
        else:
            seeds = sums_participant.mask_seeds(
                consortium.job_terms, "carol", consortium.shared("carol")
            )
            bad[2, 0] += np.uint64(2) * masks.words(seeds["alice"], SIZE)
        assert sums_participant.inconsistent_with_record_counts(
            total(bad), consortium.job_terms, places
        )


# Terms


def test_terms_that_cannot_be_are_refused(made):
    job_terms = made(SUMS).job_terms
    with pytest.raises(InvalidInput, match="colluding must be below the number of servers, 4"):
        replace(job_terms, plan=replace(MASKED, colluding=4))
    wide, widest = (
        replace(job_terms.training, rows=RowSpec(width=width, menu=(1.0,)))
        for width in (1023, 1022)
    )
    with pytest.raises(InvalidInput, match="method must be 'rounds' for 1023 columns"):
        replace(job_terms, training=wide)
    assert replace(job_terms, training=widest).shape[1] <= MOST_NUMBERS
    assert replace(job_terms, training=wide, plan=PLAN).shape == (1, 1023)
    assert job_terms.digest != replace(job_terms, plan=MASKED).digest


@KINDS
def test_jobs_of_both_methods_follow_one_another_and_statements_tell_them(made, plan):
    """The earlier job's terms are checked by their digest, whichever method it had."""
    for job, method in (("job-1", plan), ("job-2", replace(PLAN, rounds=3)), ("job-3", plan)):
        consortium = made(method, job=job)
        consortium.run()
        for name in NAMES:
            data = consortium.party(name).statement()
            consortium.party(name).finish()
            said = signed_statement.open_statement(
                data, consortium.job_terms, name, consortium.keys
            )
        consortium.close()
    assert [(each.job, each.rounds) for each in said.earlier_jobs] == [("job-1", 1), ("job-2", 3)]
    assert said.earlier_releases == 4


def test_a_budget_that_sums_exceed_is_refused_before_anything_is_released(made):
    budget = Budget(features_epsilon=0.4)
    loud = made(SUMS, budget=budget)
    with pytest.raises(BudgetExceeded, match=r"the sums exceed alice's budget for this data set$"):
        loud.party("alice")
    loud.close()
    quiet, jobs = replace(SUMS, label_noise=8.0, square_noise=8.0), 0
    with pytest.raises(BudgetExceeded) as caught:
        for jobs in range(20):
            each = made(quiet, budget=budget, job=f"quiet-{jobs}")
            each.run()
            each.close()
    assert jobs and f"set after the {jobs} releases of earlier jobs" in str(caught.value)


def test_the_journal_of_a_masked_job_holds_nothing_to_open(made):
    """No inner state is kept: what is sealed is empty, and what a restart needs are the bytes."""
    consortium = made(MASKED)
    consortium.run()
    purpose = f"{consortium.job_terms.digest} alice".encode()
    sealed = consortium.journals["alice"].sealed("job-1")
    assert consortium.identities["alice"].unseal(sealed, purpose) == b""
    with sqlite3.connect(consortium.folder / "alice.db") as db:
        assert db.execute("SELECT count(*) FROM outbox").fetchone() == (1,)
    db.close()


def test_simulated_and_secure_noise_are_not_mixed(made):
    first = made(SUMS, source=Simulated(1))
    first.party("alice")
    first.close()
    with pytest.raises(JournalError, match="was used with simulated noise before"):
        made(SUMS, source=Secure(), job="job-2").party("alice")
