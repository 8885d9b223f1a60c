"""What a node takes for a message of another: every other one is refused before it is read."""

import msgspec
import pytest
from msgspec.structs import replace

from pdml.errors import PeerError
from pdml.node.crypto import hpke
from pdml.node.crypto.hpke import Box, Context, Sealer, SealingKey, UnknownSession
from pdml.node.crypto.signing import Identity

NAMES = ("alice", "bob", "carol")
REQUEST = Context("s" * 64, "job", "release", "alice", "bob", "r1")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {
        name: (Identity.create(folder / f"{name}.key"), SealingKey.create(folder / f"{name}.seal"))
        for name in NAMES
    }


@pytest.fixture
def sealers(keys):
    signing = {name: own.public for name, (own, _) in keys.items()}
    public = {name: key.public for name, (_, key) in keys.items()}
    return {
        name: Sealer(name, own, key, signing=signing, sealing=public)
        for name, (own, key) in keys.items()
    }


def bent(data, **changes):
    return msgspec.msgpack.encode(replace(msgspec.msgpack.decode(data, type=Box), **changes))


def test_a_message_and_its_answer_arrive(sealers):
    context, content, session = sealers["bob"].open(
        "alice", sealers["alice"].seal(REQUEST, b"hello")
    )
    assert (context, content) == (REQUEST, b"hello")
    back = sealers["bob"].answer(context, session, b"good day")
    assert sealers["alice"].open_answer(REQUEST, back) == b"good day"
    again = sealers["alice"].seal(REQUEST, b"x")  # the key is known by now, and not sent again
    assert msgspec.msgpack.decode(again, type=Box).envelope == b""


def test_a_key_that_was_forgotten_is_sent_again(sealers, keys):
    first = sealers["alice"].seal(REQUEST, b"x")
    *_, session = sealers["bob"].open("alice", first)
    sealers["alice"].open_answer(REQUEST, sealers["bob"].answer(REQUEST, session, b""))
    sealers["bob"]._theirs.clear()  # a restart
    with pytest.raises(UnknownSession, match="under a key that bob does not have"):
        sealers["bob"].open("alice", sealers["alice"].seal(REQUEST, b"x"))
    sealers["alice"].forget("bob", "job")
    assert sealers["bob"].open("alice", sealers["alice"].seal(REQUEST, b"y"))[1] == b"y"


@pytest.mark.parametrize(
    ("sender", "changes", "said"),
    [
        ("carol", {}, "from carol that is not from it, or not for bob"),
        ("alice", {"context": replace(REQUEST, recipient="carol")}, "or not for bob"),
        ("alice", {"signature": bytes(64)}, "in the name of alice that alice has not signed"),
        ("alice", {"context": replace(REQUEST, job="other")}, "that alice has not signed"),
        ("alice", {"envelope": bytes(hpke.ENVELOPE + 1)}, "that alice has not signed"),
        ("alice", {"content": b"x" * 32}, "in the name of alice that it has not sealed"),
        ("alice", {"content": b""}, "in the name of alice that it has not sealed"),
        ("alice", {"context": replace(REQUEST, kind="hello")}, "that it has not sealed"),
        ("alice", {"context": replace(REQUEST, request="r2")}, "that it has not sealed"),
        ("alice", {"session": b"short"}, "a message came that is none"),
        ("alice", {"nonce": b"short"}, "a message came that is none"),
        ("alice", {"version": 99}, "a sealed message"),
    ],
)
def test_what_was_changed_on_the_way_is_refused(sealers, sender, changes, said):
    data = bent(sealers["alice"].seal(REQUEST, b"hello"), **changes)
    with pytest.raises(PeerError, match=said):
        sealers["bob"].open(sender, data)


@pytest.mark.parametrize("data", [b"", b"\xc0", b"\x93\x01\x02\x03", b"\x91" * 5000])
def test_bytes_that_are_no_message_are_refused(sealers, data):
    with pytest.raises(PeerError, match="a message came that is none"):
        sealers["bob"].open("alice", data)


def test_a_key_that_was_sealed_for_somebody_else_is_refused(sealers, keys):
    """Signed by alice for bob, as she might by mistake: bob cannot open it, and says so."""
    box = msgspec.msgpack.decode(sealers["alice"].seal(REQUEST, b"x"), type=Box)
    about = hpke._about(REQUEST, box.session)
    envelope = hpke.encapsulate(keys["carol"][1].public, b"k" * 32, about)
    signature = keys["alice"][0].sign(about + envelope)
    with pytest.raises(PeerError, match="alice sent a key that was not sealed for bob"):
        sealers["bob"].open(
            "alice", msgspec.msgpack.encode(replace(box, envelope=envelope, signature=signature))
        )


def test_a_key_of_one_job_is_none_of_another(sealers):
    data = sealers["alice"].seal(REQUEST, b"x")
    sealers["bob"].open("alice", data)
    with pytest.raises(PeerError, match="from alice under the key of another job"):
        sealers["bob"].open("alice", bent(data, context=replace(REQUEST, job="other")))


def test_an_answer_belongs_to_its_request(sealers):
    other = replace(REQUEST, request="r2")
    _, _, session = sealers["bob"].open("alice", sealers["alice"].seal(REQUEST, b"x"))
    sealers["alice"].seal(other, b"y")
    with pytest.raises(PeerError, match="an answer of bob belongs to another request"):
        sealers["alice"].open_answer(other, sealers["bob"].answer(REQUEST, session, b"z"))


def test_a_peer_has_few_keys_open_at_once(sealers):
    for k in range(hpke._SESSIONS + 5):
        context = replace(REQUEST, job=f"job {k}")
        sealers["bob"].open("alice", sealers["alice"].seal(context, b"x"))
    assert len(sealers["bob"]._theirs["alice"]) == hpke._SESSIONS
