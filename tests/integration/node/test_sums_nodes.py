"""Three organisations that exchange sums over a real relay, with real processes: the units of one
trust domain whatever is killed, nothing unmasked on the way, and every liar named.
"""

import contextlib
import json
import os
import random
import signal
import stat
import time

import msgspec
import numpy as np
import pytest

pytest.importorskip("nats")

from evil_relay import EvilRelay
from federation import MASKED, NAMES, SUMS, Ended, Federation, study_of
from lying import Bent, TwoFaced, at_work

from pdml.consortium.job_client import load_job_result
from pdml.errors import InvalidInput
from pdml.mechanisms import integer_gaussian
from pdml.model.model import load_model
from pdml.node.job import sums_participant
from pdml.node.operator.status import read_consortium_status, read_status
from pdml.node.protocol.requests import RequestKind
from pdml.node.storage.control_db import ENDED
from pdml.node.storage.journal import Journal
from pdml.node.storage.node_dir import JOURNAL
from pdml.training import sums_release

PLANS = {"seen": SUMS, "masked": MASKED}


@pytest.fixture(scope="module", params=PLANS)
def federation(request, tmp_path_factory):
    """Started once, with a first job done, so that tests may run in any order."""
    study = study_of(plan=PLANS[request.param], edges=(("alice", "bob"), ("bob", "carol")))
    with Federation(tmp_path_factory.mktemp("sums"), study) as made:
        made.start()
        made.train("first")
        made.all_finished("first")
        yield made


def masked(federation):
    return federation.study.plan.colluding is not None


def ended(federation, attempt, names=NAMES):
    for name in names:
        federation.wait(lambda name=name: federation.state(attempt, name)[0] in ENDED)


def outbox(federation, job, name):
    with federation.journal(name) as journal:
        return journal.outgoing(job, 1)


def spent(federation, job, name):
    with federation.journal(name) as journal:
        return journal.events_of(job)


def test_the_total_is_that_of_one_trust_domain_to_the_bit_at_every_member(federation):
    rows = federation.rows()
    for name in NAMES:
        federation.wait(lambda name=name: federation.finished("first", name))
        np.testing.assert_array_equal(federation.total("first", name), rows.sum(axis=0))
        (event,) = spent(federation, "first", name)
        assert event.hidden_among == (3 if masked(federation) else 1)
    sent = federation.released("first")[:, 0].view(np.int64)
    assert (sent == rows).all() != masked(federation)


def test_every_member_sees_what_each_has_released_and_has_left(federation):
    """By the statements in its own journal; the same at all, and what each says of itself."""
    for name in NAMES:
        federation.wait(lambda name=name: federation.finished("first", name))
    views = [read_consortium_status(federation.homes[name]) for name in NAMES]
    assert [each.server for each in views[0].released] == list(NAMES)
    assert views[0].silent == () == views[0].unread
    for view in views:
        for mine, theirs in zip(view.released, views[0].released, strict=True):
            if mine.job == theirs.job:  # another test may be training
                assert mine.to_dict() == theirs.to_dict()
    for name, each in zip(NAMES, views[0].released, strict=True):
        (own,) = read_status(federation.homes[name]).datasets
        assert each.releases <= own.releases and each.releases >= 1
        assert each.records == read_status(federation.homes[name]).records
        if each.releases == own.releases:
            spent = own.ledger.row("features", "other servers").epsilon
            assert each.ledger.row("features", "other servers").epsilon == spent
            assert each.next_job == own.next_job


def test_the_commands_train_verify_and_keep_a_house_model(federation, tmp_path):
    """As people type them: one result, the same bytes at every member; a model for each house, for
    its owner alone, that is in no result.
    """
    study = federation.folder / "study.toml"
    job, out = "typed", tmp_path / "alice"
    home = federation.homes["alice"].folder
    done = federation.pdml(
        "train", study, "--engine", "nodes", "--node", home, "--job", job, "--out", out
    )
    assert done.returncode == 0, done.stderr
    assert "The local model is made of your exact sums: it is not to be shared" in done.stdout
    checked = federation.pdml("verify", out, "--study", study)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for name in ("bob", "carol"):
        folder = federation.homes[name].folder
        federation.wait(lambda name=name: federation.finished(job, name))
        told = federation.pdml("node", "result", folder, job, "--out", tmp_path / name, "--json")
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["files"]["local model"] == str(
            federation.homes[name].local_model_path(job)
        )
    contents = [
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.*")}
        for name in NAMES
    ]
    assert contents[0] == contents[1] == contents[2]
    assert not any("local_model" in path.name for path in contents[0])
    houses = []
    for name in NAMES:
        path = federation.homes[name].local_model_path(job)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        houses.append(load_model(path))
        assert houses[-1].local == name
        assert "never to be shared" in houses[-1].provenance["do_not_publish"]
    weights = [model.coefficients for model in (*houses, load_model(out / "model.json"))]
    assert len({each.tobytes() for each in weights}) == 4


def test_a_house_model_is_made_of_its_own_exact_sums_and_the_others_noisy_ones(federation):
    """By the same function as in one trust domain, where nothing is masked."""
    rows = federation.rows()
    for i, name in enumerate(NAMES):
        federation.wait(lambda name=name: federation.finished("first", name))
        found, server = load_job_result(federation.homes[name], "first"), federation.servers()[i]
        total = rows.sum(axis=0)
        wanted = sums_release.local_weights(server, rows[i], total, federation.study.plan)
        np.testing.assert_allclose(found.local_model.coefficients, wanted[:, :-1], rtol=1e-9)


def test_a_node_keeps_its_house_model_by_itself(federation):
    """Nobody fetched anything: the file is there, for its owner alone, and what `load_job_result` finds."""
    for name in NAMES:
        home = federation.homes[name]
        federation.wait(home.local_model_path("first").exists, what=f"{name}'s house")
        assert stat.S_IMODE(home.local_model_path("first").stat().st_mode) == 0o600
        assert stat.S_IMODE(home.local_model_path("first").parent.stat().st_mode) == 0o700
        kept = load_model(home.local_model_path("first"))
        assert kept.local == name and "never to be shared" in kept.provenance["do_not_publish"]
        assert kept.to_bytes() == load_job_result(home, "first").local_model.to_bytes()


def test_a_node_killed_before_it_kept_its_house_keeps_it_when_it_is_back(federation):
    """Bob's process dies where the file would be written; the job is done, and so is the house once
    he is started again. Carol's cannot be written: her node works on, and has it after a restart.
    """
    federation.wait(lambda: federation.homes["bob"].local_model_path("first").exists())
    federation.kill("bob")
    federation.local_models = {"bob": dies, "carol": fails}
    federation.start("bob")
    federation.kill("carol")
    federation.start("carol")
    ended(federation, federation.offer("lasting"), ("alice", "carol"))
    bob, carol = federation.homes["bob"].local_model_path("lasting"), federation.homes["carol"]
    federation.wait(lambda: not federation.running("bob"), what="bob's death")
    assert federation.finished("lasting", "bob") and not bob.exists()
    federation.wait(lambda: b"not written: no room" in federation.log("carol").read_bytes())
    assert federation.running("carol") and not carol.local_model_path("lasting").exists()
    federation.local_models = {}
    federation.start("bob")
    federation.wait(bob.exists, what="bob's house")
    kept = load_model(bob).to_bytes()
    assert kept == load_job_result(federation.homes["bob"], "lasting").local_model.to_bytes()
    federation.kill("carol")
    federation.start("carol")
    federation.wait(carol.local_model_path("lasting").exists, what="carol's house")


def dies(home, job, held):
    """Once the others have what it said of the job: without it they would wait for it."""
    for name in ("alice", "carol"):
        other = home.folder.parent / name / JOURNAL
        while True:
            with contextlib.closing(Journal.peek(other)) as journal:
                if home.name in journal.statements(job):
                    break
            time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def fails(home, job, held):
    raise OSError("no room")


def test_without_its_data_there_is_no_house_model(federation):
    home = federation.homes["bob"]
    federation.wait(lambda: federation.finished("first", "bob"))
    ended = load_job_result(home.save(data=""), "first")
    home.save(data="data")
    assert ended.problem == "" and ended.local_model is None


def test_a_relay_that_records_everything_reads_nothing(tmp_path):
    """Neither rows, masked or not, nor statements."""
    for plan in (SUMS, MASKED):
        with Federation(tmp_path / f"{plan.colluding}", study_of(plan=plan)) as federation:
            with EvilRelay(federation) as evil:
                federation.start(*NAMES)
                federation.train("recorded")
                seen = bytes(evil.seen)
            assert len(evil.subjects) > 20
            for name in NAMES:
                row = outbox(federation, "recorded", name)
                assert row[:48] not in seen and row[-48:] not in seen
                for statement in federation.signed("recorded").values():
                    assert statement[200:264] not in seen
            federation.close()


class Tapped(Bent):
    """Keeps everything that leaves its node before it is sealed, statements included."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.left, ask = [], self.transport.ask

        def tapped(kind, messages, **options):
            self.left += messages.values()
            return ask(kind, messages, **options)

        self.transport.ask = tapped

        handle = self.handlers.handle

        def tapped_handle(context, content):
            answer = handle(context, content)
            self.left.append(answer or b"")
            return answer

        self.handlers.handle = tapped_handle


def test_an_unmasked_row_never_leaves_a_node_of_a_masked_job(federation):
    federation.kill("carol")
    with at_work(federation, kind=Tapped) as carol:
        federation.train("tapped")
        federation.wait(lambda: federation.finished("tapped", "carol"))
        left = b"\0".join(carol.left)
    federation.start("carol")
    row = federation.rows()[NAMES.index("carol")]
    sent = outbox(federation, "tapped", "carol")
    assert sent in left and (row.tobytes() in left) != masked(federation)
    exact = sums_release.exact(federation.servers()[NAMES.index("carol")], federation.study.plan)
    for part in (exact.label_sum, exact.square_sum, integer_gaussian.quantize(exact.square_sum)):
        assert part.tobytes()[:24] not in left
    if masked(federation):  # not two numbers of it in a row
        assert not any(row[i : i + 2].tobytes() in left for i in range(len(row) - 1))


def test_killed_at_random_moments_it_goes_on_with_the_same_bytes(tmp_path):
    """With secure noise, which nobody can draw a second time: what was committed stays, what all
    heard is what was sent, and the ledger holds one release.
    """
    rng = random.Random(8)
    for plan in (SUMS, MASKED):
        folder = tmp_path / f"{plan.colluding}"
        with Federation(folder, study_of(plan=plan), seed=None) as federation:
            federation.start()
            for job in ("one", "two", "three"):
                attempt = federation.offer(job, start_timeout=30, round_timeout=30)
                time.sleep(rng.uniform(0.1, 0.8))
                victims = rng.sample(NAMES, rng.choice((1, 2)))
                for name in victims:
                    federation.kill(name)
                released = [name for name in NAMES if federation.round(job, name)]
                before = {name: outbox(federation, job, name) for name in released}
                federation.start(*victims)
                for _ in range(10):
                    with contextlib.suppress(Ended, TimeoutError):  # killed, it may know no offer
                        federation.finish(attempt, timeout=10)
                    if all(federation.finished(job, name) for name in NAMES):
                        break
                    attempt = federation.offer(job, resume=True, start_timeout=30)
                said = [federation.statements(job, name) for name in NAMES]
                assert said[0] == said[1] == said[2]
                for name in NAMES:
                    payload = outbox(federation, job, name)
                    assert payload == before.get(name, payload) == said[0][name].release
                    assert len(spent(federation, job, name)) == 1
                assert load_job_result(federation.homes["alice"], job).problem == ""


class Silent(Bent):
    """Commits its release and sends it to nobody; it has more patience than those who wait for
    it.
    """

    mute = True

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        run, honest = self.job_runner.run, self.handlers.by_kind[RequestKind.HELLO]

        def patient(work):
            work.offer = msgspec.structs.replace(work.offer, round_timeout=60.0)
            return run(work)

        def answer(context, content):
            answer = honest(context, content)
            if not self.mute:
                return answer
            return msgspec.structs.replace(answer, messages=answer.messages[:1])  # the hello alone

        self.job_runner.run = patient
        for kind in (RequestKind.HELLO, RequestKind.RELEASE):
            self.handlers.by_kind[kind] = answer

    def said(self, terms, peer, data):
        return b"" if self.mute else data


def test_a_missing_node_ends_the_job_with_its_name_and_what_was_spent(federation):
    """Everybody else has released and is debited; what they sent is the same when the job goes on,
    and without carol's row the others' tell nothing.
    """
    federation.kill("carol")
    with at_work(federation, kind=Silent) as carol:
        attempt = federation.offer("missing", round_timeout=3)
        with pytest.raises(
            Ended, match="waited 3 s for carol to send their release of round 1; what "
        ) as caught:
            federation.finish(attempt)
        ended(federation, attempt)
        unread = "whoever has every row (who is silent has its own)" in str(caught.value)
        assert unread == masked(federation) and "counts as spent" in str(caught.value)
        before = {name: outbox(federation, "missing", name) for name in ("alice", "bob")}
        assert all(len(spent(federation, "missing", name)) == 1 for name in NAMES)
        with pytest.raises(InvalidInput, match="stands at round 1 and is not finished"):
            load_job_result(federation.homes["alice"], "missing")
        if masked(federation):
            part = [np.frombuffer(before[name], dtype="<u8") for name in ("alice", "bob")]
            places = [server.spec for server in federation.servers()[:2]]
            job_terms = federation.job_terms("missing")
            assert sums_participant.inconsistent_with_record_counts(
                (part[0] + part[1]).view(np.int64), job_terms, places
            )
        carol.mute = False
        federation.train("missing", resume=True)
    federation.start("carol")
    assert before == {name: outbox(federation, "missing", name) for name in ("alice", "bob")}
    np.testing.assert_array_equal(federation.total("missing"), federation.rows().sum(axis=0))


def test_who_is_not_there_at_the_start_costs_nothing(federation):
    federation.kill("carol")
    attempt = federation.offer("absent", start_timeout=2)
    with pytest.raises(Ended, match=r"carol.*nothing was released"):
        federation.finish(attempt)
    ended(federation, attempt, ("alice", "bob"))
    assert all(federation.round("absent", name) == 0 for name in ("alice", "bob"))
    federation.start("carol")


class Lying(Bent):
    """Sends what ``lie`` makes of its row."""

    lie = staticmethod(lambda daemon, data: data)

    def said(self, terms, peer, data):
        return self.lie(self, data)


def floats(daemon, data):
    size = len(daemon.directory.load_training_data().server.matrix.T)
    return daemon.signed(
        data, dtype="<f8", payload=np.zeros(sums_release.length(1, size)).tobytes()
    )


def out_of_range(daemon, data):
    size = sums_release.length(1, daemon.member.study.width)
    return daemon.signed(data, payload=np.full(size, 2**62).tobytes())


LIES = {
    "floats": (floats, r"carol sent <f8 of shape"),
    "short": (lambda daemon, data: daemon.signed(data, payload=bytes(8)), "carol sent <.8 of"),
    "out of range": (out_of_range, "with a sum that no number of records has"),
    "another job": (
        lambda daemon, data: daemon.signed(data, terms="0" * 64),
        "carol trains under other terms",
    ),
    "forged": (
        lambda daemon, data: data[:-8] + bytes(8),
        "carol sent a message whose signature is not carol's",
    ),
}


@pytest.mark.parametrize("kind", LIES)
def test_who_breaks_the_protocol_is_named_and_the_job_goes_on_without_lies(federation, kind):
    if masked(federation) and kind == "out of range":
        pytest.skip("masks hide it: only the total can be checked")
    federation.kill("carol")
    job, (lie, said) = f"lie-{kind.replace(' ', '-')}", LIES[kind]
    with at_work(federation, kind=Lying) as carol:
        carol.lie = lie
        attempt = federation.offer(job, round_timeout=3)
        with pytest.raises(Ended, match=said):
            federation.finish(attempt)
        ended(federation, attempt)
        carol.lie = Lying.lie
        federation.train(job, resume=True)
    federation.start("carol")
    np.testing.assert_array_equal(federation.total(job), federation.rows().sum(axis=0))


class FirstRow(TwoFaced):
    round = 1


def test_who_sends_two_rows_is_proved_to_everybody(federation):
    federation.kill("carol")
    with at_work(federation, kind=FirstRow):
        attempt = federation.offer("two-faced", round_timeout=5)
        federation.wait(lambda: federation.state(attempt, "bob")[0] in ENDED)
        assert FirstRow.caught(federation.state(attempt, "bob")[1])
        for name in ("alice", "bob"):
            proof = federation.homes[name].evidence("two-faced") / "carol.evidence"
            federation.wait(proof.exists)
    federation.start("carol")


def test_no_secret_of_a_finished_job_is_left(federation):
    """Of the pairs' seeds and the rows that were heard nothing is on disk."""
    federation.wait(lambda: all(federation.finished("first", name) for name in NAMES))
    job_terms = federation.job_terms("first")
    for name in NAMES:
        home = federation.homes[name]
        shared = home.shared(federation.study)
        secret = [*shared.values(), *sums_participant.mask_seeds(job_terms, name, shared).values()]
        content = b"".join(p.read_bytes() for p in home.folder.glob("*.db*"))
        assert not any(each in content or each.hex().encode() in content for each in secret)
        with pytest.raises(Exception, match="finished"), federation.journal(name) as journal:
            journal.sealed("first")
