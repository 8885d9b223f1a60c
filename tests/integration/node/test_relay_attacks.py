"""A relay that nobody has to trust: whatever it does, the right result, or a sentence; it reads
nothing and is never believed.
"""

import contextlib
import random
import signal
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("nats")

from evil_relay import EvilRelay, honest
from federation import NAMES, Ended, Federation

from pdml.node.crypto import tls
from pdml.node.crypto.hpke import Box
from pdml.node.crypto.signing import Identity, verify_signature
from pdml.node.protocol.requests import RequestKind


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation(tmp_path_factory.mktemp("relay")) as made:
        made.expected_bits = made.expected()
        yield made


@contextlib.contextmanager
def relay(federation, bend=honest, **options):
    with EvilRelay(federation, bend, **options) as evil:
        federation.start(*NAMES)
        yield evil


def trains(federation, job, **options):
    federation.train(job, **options)
    federation.all_finished(job)
    np.testing.assert_array_equal(federation.released(job), federation.expected_bits)


def test_it_records_everything_and_reads_nothing(federation):
    """Of all bytes that reached the relay after TLS none holds a vector, nor the half of one, nor a
    statement.
    """
    with relay(federation) as evil:
        trains(federation, "recorded")
        seen = bytes(evil.seen)
    assert len(evil.subjects) > 12 * 6
    for name in NAMES:
        with federation.journal(name) as journal:
            payloads = [journal.outgoing("recorded", t) for t in range(1, 13)]
            statements = journal.statements("recorded").values()
        assert not any(payload[: len(payload) // 2] in seen for payload in payloads)
        assert not any(statement[200:264] in seen for statement in statements)


def garbled(rng):
    """Drops, delays, doubles and reorders, a tenth of all messages each."""

    def bend(subject, payload):
        kind = rng.random()
        if kind < 0.1:
            return []
        if kind < 0.2:
            return [(rng.uniform(0, 0.5), subject, payload)]
        if kind < 0.3:
            return [(0.0, subject, payload), (rng.uniform(0, 0.2), subject, payload)]
        return [(rng.uniform(0, 0.01), subject, payload)]

    return bend


def test_lost_late_doubled_and_reordered_messages_change_nothing(federation, monkeypatch):
    with relay(federation, garbled(random.Random(5))):
        trains(federation, "garbled", round_timeout=60, start_timeout=60, timeout=120)


def test_messages_swapped_between_nodes_and_requests_are_dropped(federation):
    """Every fifth message goes to another node, in another's name, or as the answer to another
    question; then the true one.
    """
    rng = random.Random(6)

    def bend(subject, payload):
        _, to, sender, kind, request = subject.split(".")
        other = rng.choice([name for name in NAMES if name not in (to, sender)])
        wrong = rng.choice(
            [
                f"pdml.{other}.{sender}.{kind}.{request}",
                f"pdml.{to}.{other}.{kind}.{request}",
                f"pdml.{to}.{sender}.q.{'0' * 16}",
            ]
        )
        return [*([(0.0, wrong, payload)] if rng.random() < 0.2 else []), (0.0, subject, payload)]

    with relay(federation, bend):
        trains(federation, "swapped")


def test_changed_bits_are_noticed_and_accuse_nobody(federation):
    rng = random.Random(7)

    def bend(subject, payload):
        bent = bytearray(payload)
        if bent and rng.random() < 0.2:
            bent[rng.randrange(len(bent))] ^= 1 << rng.randrange(8)
            return (
                [(0.0, subject, bytes(bent))]
                if rng.random() < 0.1
                else [(0.0, subject, bytes(bent)), (0.0, subject, payload)]
            )
        return [(0.0, subject, payload)]

    with relay(federation, bend):
        trains(federation, "changed", round_timeout=60, start_timeout=60, timeout=120)


def test_it_cannot_answer_for_a_node(federation):
    """It says OK for bob to everything that is asked of bob: nothing is believed, alice asks again
    and again, and the job does not begin.
    """
    asked = []

    def bend(subject, payload):
        _, to, sender, kind, request = subject.split(".")
        if to == "bob" and kind == "q":
            box = msgspec.msgpack.decode(payload, type=Box)
            asked.append((sender, box.context.kind))
            fake = msgspec.structs.replace(box, content=b"\x93\xa2ok\xa0\x90" + bytes(16))
            return [
                (0.0, f"pdml.{sender}.bob.a.{request}", data)
                for data in (msgspec.msgpack.encode(fake), payload, b"ok", b"")
            ]
        return [(0.0, subject, payload)]

    with relay(federation, bend):
        attempt = federation.offer("answered", start_timeout=600.0)
        federation.wait(
            lambda: asked.count(("alice", RequestKind.OFFER)) > 2, 120, "a question asked again"
        )
        federation.wait(lambda: federation.state(attempt, "carol")[0] == "accepted", 120)
        assert federation.state(attempt)[0] == "accepted", "and not begun"
        federation.stop(attempt)
        with pytest.raises(Ended, match="alice stopped the job"):
            federation.finish(attempt)
    assert all(federation.round("answered", name) == 0 for name in NAMES)


def test_what_was_said_in_one_job_is_worth_nothing_in_the_next(federation):
    """It keeps everything of a first job and says it again, all of it, while a second one runs."""
    kept = []
    with relay(
        federation,
        lambda subject, payload: (kept.append((subject, payload)), honest(subject, payload))[1],
    ):
        trains(federation, "kept")
    for name in NAMES:
        federation.kill(name, signal.SIGTERM)
    old = list(kept)
    with relay(federation) as evil:
        attempt = federation.offer("again")
        for subject, payload in old:
            evil.say(subject, payload)
        federation.finish(attempt)
        np.testing.assert_array_equal(federation.released("again"), federation.expected_bits)


def test_another_certificate_is_refused_before_a_word_is_said(federation, tmp_path):
    tls.make(tmp_path, "127.0.0.1")
    for name in NAMES:
        if name in federation.processes:
            federation.kill(name, signal.SIGTERM)
    with EvilRelay(federation, certificate=tmp_path) as evil:
        with pytest.raises(TimeoutError):
            federation.start("alice", timeout=3)
        assert b"CONNECT" not in evil.seen and evil.signatures == []
        told = federation.status("alice")
        assert (
            not told["connected"] and "not the one that the study pins" in told["connection"]["why"]
        )
    federation.kill("alice", signal.SIGTERM)


@pytest.mark.parametrize(
    "nonce", ["pdml job offer 1\0 rm -rf", "pdml training message 2\0", "a b", "x" * 200, ""]
)
def test_its_login_challenge_gets_no_signature_of_anything_else(federation, nonce):
    """The relay chooses what a node signs to log in: nothing that could pass for a node's own
    word.
    """
    for name in NAMES:
        if name in federation.processes:
            federation.kill(name, signal.SIGTERM)
    with EvilRelay(federation, nonce=nonce) as evil:
        with pytest.raises(TimeoutError):
            federation.start("alice", timeout=2)
        key = federation.study.signing_keys["alice"]
        assert not any(
            signature and verify_signature(key, nonce.encode(), signature.encode())
            for signature in evil.signatures
        )
    federation.kill("alice", signal.SIGTERM)


def test_a_login_signs_the_challenge_and_nothing_else(tmp_path):
    identity = Identity.create(tmp_path / "key")
    with pytest.raises(Exception, match="no login challenge"):
        identity.log_in("pdml statement 1\0" + "x" * 20)
    assert len(identity.log_in("abcdefghijk")) == 86


def test_it_cannot_fill_a_nodes_memory(federation):
    """A gigabyte announced in one message: the node hangs up, comes back, and has not grown."""
    with relay(federation) as evil:
        before = memory(federation.processes["alice"].pid)
        for _ in range(3):
            evil.send_raw(b"MSG pdml.alice.bob.q.0 1 1000000000\r\n" + bytes(1 << 24))
            time.sleep(0.5)
        federation.wait(lambda: federation.connected("alice"))
        assert memory(federation.processes["alice"].pid) < before + 60
        federation.wait(lambda: all(federation.connected(name) for name in NAMES))
        trains(federation, "after the flood".replace(" ", "-"))


def memory(pid):
    """Megabytes."""
    return (
        next(
            int(line.split()[1])
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        )
        / 1024
    )
