"""A member with true keys that lies, floods, forges or offers falsely: it is named, or nothing
comes of it.
"""

import asyncio
import contextlib
import json
import os
import secrets
import ssl
import time

import msgspec
import numpy as np
import pytest

pytest.importorskip("nats")

from federation import NAMES, Ended, Federation, freeze, small_disk
from lying import LIES, Liar, TwoFaced, at_work

from pdml.node.crypto.hpke import Context
from pdml.node.daemon.nats_transport import most_payload, token
from pdml.node.job import statements
from pdml.node.job.training_data import import_frozen
from pdml.node.protocol import requests
from pdml.node.protocol.requests import LATER, REFUSED, PeerAnswer, RequestKind
from pdml.node.storage.control_db import ENDED
from pdml.node.storage.node_dir import JOURNAL, NodeDirectory
from pdml.study.frozen_dataset import open_frozen


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation(tmp_path_factory.mktemp("members")) as made:
        made.expected_bits = made.expected()
        made.start("relay", "alice", "bob")
        yield made


@pytest.mark.parametrize("kind", LIES)
def test_who_breaks_the_protocol_is_named_by_all_and_the_job_goes_on_without_lies(federation, kind):
    job = f"lie-{kind.replace(' ', '-')}"
    with at_work(federation) as carol:
        carol.kind = kind
        attempt = federation.offer(job, round_timeout=3)
        with pytest.raises(Ended, match=LIES[kind]):
            federation.finish(attempt)
        for name in NAMES:
            federation.wait(lambda name=name: federation.state(attempt, name)[0] in ENDED)
        carol.kind = ""
        if kind == "stale":  # two words for one round stay two words
            return
        federation.train(job, resume=True)
    np.testing.assert_array_equal(federation.released(job), federation.expected_bits)


def test_a_thousand_million_records_are_told_by_nobody(federation, monkeypatch):
    """They would make carol's own account look cheap."""
    honest = statements.build
    monkeypatch.setattr(
        statements,
        "build",
        lambda *given: msgspec.structs.replace(honest(*given), records=10**9),
    )
    with at_work(federation):
        attempt = federation.offer("boasting", round_timeout=5)
        with pytest.raises(
            Ended, match=r"carol tells of 1,000,000,000 records, not 1 to 100,000,000"
        ):
            federation.finish(attempt)
        for name in NAMES:
            federation.wait(lambda name=name: federation.state(attempt, name)[0] in ENDED)


def test_who_tells_neighbours_different_things_is_proved_to_everybody(federation):
    """In 12 of 12 rounds nobody noticed, once. Now bob's copy and carol's own statement are the
    proof, and alice has it too.
    """
    with at_work(federation, kind=TwoFaced):
        attempt = federation.offer("two-faced", round_timeout=5)
        with contextlib.suppress(
            Ended
        ):  # alice heard one word only, and may have ended before bob spoke
            federation.finish(attempt)
        federation.wait(lambda: federation.state(attempt, "bob")[0] in ENDED)
        assert TwoFaced.caught(federation.state(attempt, "bob")[1])
        for name in ("alice", "bob"):
            federation.wait(
                lambda name=name: (
                    federation.homes[name].evidence("two-faced") / "carol.evidence"
                ).exists()
            )


def test_a_proof_that_proves_nothing_is_fetched_once_and_kept_by_nobody(federation):
    """Carol announces a proof against bob, in every job that alice knows; what it gives is none."""
    with at_work(federation) as carol:
        federation.train("accused")
        folder = carol.directory.evidence("accused")
        folder.mkdir(mode=0o700, parents=True)
        (folder / "bob.evidence").write_bytes(bytes(100_000))
        proof = msgspec.msgpack.encode(requests.Proof(job="accused", peer="bob"))
        assert asked(carol, RequestKind.PROOF, proof).state == LATER
        federation.wait(lambda: "has against bob proves nothing" in log_of(federation, "alice"))
        assert asked(carol, RequestKind.PROOF, proof).state == REFUSED
        for peer in ("mallory", "../carol", ""):
            named = msgspec.msgpack.encode(requests.Proof(job="accused", peer=peer))
            assert asked(carol, RequestKind.PROOF, named).state == REFUSED
    assert not federation.homes["alice"].evidence("accused").exists()


def test_a_member_speaks_in_no_other_name(federation):
    """The relay refuses it; and what the relay would let pass is not sealed by the one whose name
    it bears.
    """
    with at_work(federation) as carol:
        before = log_of(federation, "relay")
        client = carol.transport._client
        forged = b"anything"
        for subject in (
            "pdml.alice.bob.q.0",
            "pdml.alice.bob.a.0",
            "pdml.alice.-.none.0",
            "_INBOX.alice.x",
            "$SYS.REQ.SERVER.PING",
        ):
            asyncio.run_coroutine_threadsafe(
                client.publish(subject, forged), carol.transport._loop
            ).result(5)
        for subject in ("pdml.alice.>", ">", "pdml.*.alice.>", "$SYS.>"):
            asyncio.run_coroutine_threadsafe(
                client.subscribe(subject), carol.transport._loop
            ).result(5)
        asyncio.run_coroutine_threadsafe(client.flush(), carol.transport._loop).result(5)
        federation.wait(
            lambda: log_of(federation, "relay").count("Violation") >= before.count("Violation") + 9
        )
        context = Context(federation.study.hash, "", RequestKind.STOP, "bob", "alice", "0" * 16)
        sealed = carol.transport._sealer.seal(context, b"")
        publish = client.publish(f"pdml.alice.{token('carol')}.q.{'0' * 16}", sealed)
        asyncio.run_coroutine_threadsafe(publish, carol.transport._loop).result(5)
        federation.wait(
            lambda: "a message came from carol that is not from it" in log_of(federation, "alice")
        )
        federation.train("own-name")
    np.testing.assert_array_equal(federation.released("own-name"), federation.expected_bits)


def log_of(federation, name):
    return federation.log(name).read_text()


@pytest.mark.parametrize("cut", [False, True])
def test_sixty_four_megabytes_end_the_senders_connection_only(federation, cut):
    """``cut``: the library fails while it hangs up, as where the connection is gone before; even so
    carol is back by itself.
    """
    job = f"after-huge-{cut}"
    with at_work(federation) as carol:
        client = carol.transport._client
        flush = client._flush_pending

        async def cut_off(**options):
            if cut and client.is_closed:
                raise ConnectionResetError(104, "Connection reset by peer")
            await flush(**options)

        client._flush_pending = cut_off
        seen = log_of(federation, "relay").lower().count("maximum payload")
        client._max_payload = 1 << 30
        huge = client.publish("pdml.alice.carol.q.0", bytes(64 << 20))
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(huge, carol.transport._loop).result(20)
        federation.wait(lambda: log_of(federation, "relay").lower().count("maximum payload") > seen)
        assert federation.connected("alice") and federation.connected("bob")
        federation.wait(
            lambda: carol.transport._client not in (None, client) and federation.connected("carol")
        )
        federation.train(job)
    np.testing.assert_array_equal(federation.released(job), federation.expected_bits)


def test_ten_thousand_messages_do_not_keep_the_others_out(federation):
    """Half of them are garbage, half are true questions, while a job runs."""
    with at_work(federation) as carol:
        client, loop = carol.transport._client, carol.transport._loop

        async def flood():
            for i in range(5_000):
                await client.publish(f"pdml.alice.carol.q.{i:016x}", secrets.token_bytes(2000))
                request = f"{i:016x}"
                context = Context(
                    federation.study.hash, "", RequestKind.PROGRESS, "carol", "alice", request
                )
                with carol.transport._sealing:
                    data = carol.transport._sealer.seal(context, b"x" * 64)
                await client.publish(f"pdml.alice.carol.q.{request}", data)

        attempt = federation.offer("flooded", by="bob", round_timeout=60)
        flooding = asyncio.run_coroutine_threadsafe(flood(), loop)
        federation.finish(attempt, by="bob", timeout=100)
        flooding.result(60)
        for name in NAMES:  # alice has the flood to read first, and needs carol until the end
            federation.wait(lambda name=name: federation.state(attempt, name)[0] in ENDED, 100)
    np.testing.assert_array_equal(federation.released("flooded", "bob"), federation.expected_bits)


def offer_of(federation, carol, **changes):
    job_terms = federation.job_terms(changes.pop("job", "false"))
    terms = {
        "attempt": secrets.token_hex(16),
        "offerer": "carol",
        "resume": False,
        "start_timeout": 5.0,
        "round_timeout": 5.0,
    }
    return msgspec.structs.replace(requests.Offer.of(job_terms, **terms), **changes)


def asked(carol, kind, content, whom="alice"):
    replies = carol.transport.ask(kind, {whom: content}, timeout=5)
    return msgspec.msgpack.decode(replies[whom], type=PeerAnswer)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"plan": {"rounds": 500}}, "another plan than the study"),
        (
            {"terms": "0" * 64},
            "carol's offer of job false does not make the same terms",
        ),
        ({"study": "0" * 64}, "the studies differ"),
        ({"offerer": "bob"}, "signed an offer in the name of 'bob'"),
        ({"round_timeout": 1e9}, "must lie in"),
        ({"start_timeout": -1.0}, "must lie in"),
        ({"version": 9}, "version 9 of the format 'offer'"),
        ({"plan": {"rounds": "many"}}, "rounds"),
    ],
)
def test_an_offer_with_false_terms_is_refused(federation, changes, said):
    with at_work(federation) as carol:
        answer = asked(
            carol,
            RequestKind.OFFER,
            offer_of(federation, carol, **changes).signed(carol.member.identity),
        )
    assert answer.state == REFUSED and said in answer.sentence, answer


def test_nobody_begins_what_somebody_has_not_accepted(federation):
    """Alice has accepted; carol forges bob's acceptance, or leaves it out, or begins another's
    offer: nothing is released.
    """
    with at_work(federation) as carol:
        offer = offer_of(federation, carol, job="hasty")
        mine = requests.acceptance(offer, "carol", carol.member.identity)
        alices = asked(carol, RequestKind.OFFER, offer.signed(carol.member.identity)).messages[0]
        for bobs in (b"", mine, alices, bytes(64)):
            begin = requests.Begin(
                attempt=offer.attempt, accepted={"alice": alices, "carol": mine, "bob": bobs}
            )
            answer = asked(carol, RequestKind.BEGIN, msgspec.msgpack.encode(begin))
            assert answer.state == REFUSED and "which bob has not accepted" in answer.sentence
        stop = requests.Stop(attempt=offer.attempt, sentence="never mind")
        asked(carol, RequestKind.STOP, msgspec.msgpack.encode(stop))
    assert federation.round("hasty", "alice") == 0
    federation.wait(lambda: federation.state(offer.attempt, "alice")[0] in ENDED)


@pytest.mark.parametrize("kind", [*RequestKind, "shell"])
def test_garbage_gets_one_sentence(federation, kind):
    with at_work(federation) as carol:
        for content in (b"", b"\xc1", b"\x80", bytes(1000), secrets.token_bytes(100)):
            answer = asked(carol, kind, content)
            assert answer.state == REFUSED or (kind, answer.state) == ("progress", "ok"), (
                kind,
                answer,
            )
            assert "\n" not in answer.sentence and len(answer.sentence) < 1000


def test_a_member_that_dies_at_any_step_is_named_or_comes_back(federation):
    """Killed after its acceptance, at the first round, in the middle, and at its statement; then
    started again.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(federation.kill, "carol")
        federation.start("carol")
        for step, ready in enumerate((0, 1, 6, 12)):
            job = f"dies-{step}"
            attempt = federation.offer(job, round_timeout=20)
            if ready == 0:
                federation.wait(lambda attempt=attempt: federation.state(attempt, "carol")[0] != "")
            else:
                federation.wait(
                    lambda job=job, ready=ready: federation.round(job, "carol") >= ready
                )
            federation.kill("carol")
            federation.start("carol")
            try:
                federation.finish(attempt)
            except Ended as error:
                assert "carol" in str(error)
                federation.wait(
                    lambda attempt=attempt: federation.state(attempt, "carol")[0] in (*ENDED, "")
                )
                federation.wait(
                    lambda attempt=attempt: federation.state(attempt, "bob")[0] in (*ENDED, "")
                )
                federation.train(job, resume=True)
            np.testing.assert_array_equal(federation.released(job), federation.expected_bits)


def test_an_old_journal_put_back_is_noticed(federation):
    """By one job: the neighbours know what they were sent."""
    with contextlib.ExitStack() as stack:
        stack.callback(federation.kill, "carol")
        federation.start("carol")
        federation.train("before")
        federation.kill("carol")
        home = federation.homes["carol"]
        saved = {path.name: path.read_bytes() for path in home.folder.glob(f"{JOURNAL}*")}
        federation.start("carol")
        federation.train("after")
        federation.kill("carol")
        for path in home.folder.glob(f"{JOURNAL}*"):
            path.unlink()
        for name, content in saved.items():
            (home.folder / name).write_bytes(content)
        federation.start("carol")
        with pytest.raises(Ended, match="carol's journal was rolled back"):
            federation.train("again")
        federation.kill("carol")
    others = freeze(federation.study, "carol", home.path("other people"), seed=9)
    federation.homes["carol"] = home.save(data="other people")
    federation.start("carol")  # for the tests after this one
    with pytest.raises(Ended, match=r"carol refused the job: .* a whole budget") as ended:
        federation.train("unsaid")
    assert open_frozen(others).manifest.digest[:12] not in str(ended.value)
    federation.kill("carol")
    import_frozen(home, others, new_participants=True)
    federation.homes["carol"] = NodeDirectory.open(home.folder)
    federation.expected_bits = federation.expected()


def test_strangers_and_other_keys_are_not_let_in(federation):
    relay = federation.study.relay
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def knock(**options):
        reader, writer = await asyncio.open_connection(relay.host, relay.port, ssl=context)
        await reader.readline()
        writer.write(
            b"CONNECT " + json.dumps({"verbose": True, **options}).encode() + b"\r\nPING\r\n"
        )
        said = await reader.read(200)
        writer.close()
        return said

    for options in ({}, {"user": "alice", "pass": "alice"}, {"nkey": "U" * 56, "sig": "AA"}):
        assert b"Authorization Violation" in asyncio.run(knock(**options))


def test_the_relay_holds_every_message_that_a_study_needs(federation):
    config = (federation.relay_folder / "relay.conf").read_text()
    assert f"max_payload: {most_payload(federation.study)}" in config
    for absent in ("http", "monitor", "jetstream", "store_dir", "leafnodes", "websocket"):
        assert absent not in config.lower()


def test_a_full_disk_ends_the_job_with_a_sentence_and_nothing_unwritten_is_sent(tmp_path):
    with small_disk("12m") as place, Federation(place) as federation:
        federation.start()
        federation.train("first")
        filler = place / "filler"
        attempt = federation.offer("second", round_timeout=5)
        handle = os.open(filler, os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while True:
                os.write(handle, bytes(4096))
        os.close(handle)
        began = time.monotonic()
        with contextlib.suppress(Exception):
            federation.finish(attempt, timeout=8)
        assert time.monotonic() - began < 40
        filler.unlink()
        assert all(federation.running(name) for name in NAMES)
        federation.wait(
            lambda: federation.state(attempt)[0] in ENDED
        )  # the wish may have waited for room
        for name in NAMES:
            federation.wait(lambda name=name: federation.state(attempt, name)[0] in (*ENDED, ""))
        federation.train("third")
        np.testing.assert_array_equal(federation.released("third"), federation.expected())


def test_the_liar_is_honest_when_it_does_not_lie(federation):
    with at_work(federation, kind=Liar):
        federation.train("honest")
    np.testing.assert_array_equal(federation.released("honest"), federation.expected_bits)
