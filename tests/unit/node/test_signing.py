"""Who a node is: its key, its card, and what it never signs."""

import base64
import binascii
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.errors import DataError, InvalidInput, PeerError
from pdml.node.crypto import signing
from pdml.node.crypto.signing import Card, Identity, create_secret, load_secret, verify_signature

ALICE, BOB = Identity(b"a" * 32), Identity(b"b" * 32)


@given(st.binary(max_size=200), st.integers(0, 63), st.integers(0, 7))
def test_a_signature_is_of_one_key_and_one_message(message: bytes, byte: int, bit: int) -> None:
    signature = ALICE.sign(message)
    assert signature == ALICE.sign(message)
    assert verify_signature(ALICE.public, message, signature)
    assert not verify_signature(BOB.public, message, signature)
    assert not verify_signature(ALICE.public, message + b"x", signature)
    bent = bytearray(signature)
    bent[byte] ^= 1 << bit
    assert not verify_signature(ALICE.public, message, bytes(bent))


@pytest.mark.parametrize("weak", sorted(signing._WEAK), ids=bytes.hex)
def test_under_a_key_of_small_order_nothing_is_signed(weak: bytes) -> None:
    """R = identity, s = 0 verifies under such keys for one message in eight, or for all."""
    forged = bytes([1]) + bytes(63)
    for sign in (0, 0x80):
        public = (weak[:31] + bytes([weak[31] | sign])).hex()
        assert not any(verify_signature(public, bytes([i]), forged) for i in range(64))


@pytest.mark.parametrize("public", ["", "zz", "00", ALICE.public[:-2]])
def test_what_is_no_key_has_signed_nothing(public: str) -> None:
    assert not verify_signature(public, b"", ALICE.sign(b""))


def test_the_relay_gets_no_signature_of_a_message() -> None:
    challenge = "a" * 20
    signature = base64.urlsafe_b64decode(ALICE.log_in(challenge) + b"==")
    assert verify_signature(ALICE.public, challenge.encode(), signature)
    for other in ("pdml node card 1\0", "short", "a" * 87, "two words here"):
        with pytest.raises(PeerError, match="no login challenge"):
            ALICE.log_in(other)


def test_an_nkey_is_base32_with_its_check_sum() -> None:
    raw = base64.b32decode(ALICE.nkey + "=" * (-len(ALICE.nkey) % 8))
    assert ALICE.nkey.startswith("U") and raw[1:33].hex() == ALICE.public
    assert int.from_bytes(raw[33:], "little") == binascii.crc_hqx(raw[:33], 0)


@given(st.binary(max_size=100))
def test_what_is_sealed_opens_for_its_purpose_and_its_key_alone(content: bytes) -> None:
    sealed = ALICE.seal(content, b"noise")
    assert ALICE.unseal(sealed, b"noise") == content
    for who, data, purpose in (
        (BOB, sealed, b"noise"),
        (ALICE, sealed, b"other"),
        (ALICE, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"noise"),
        (ALICE, sealed[:5], b"noise"),
    ):
        with pytest.raises(DataError, match="cannot be opened"):
            who.unseal(data, purpose)


def test_an_alias_outlives_the_key_where_its_secret_does() -> None:
    assert ALICE.alias("digest") != BOB.alias("digest") != ALICE.alias("other")
    assert Identity(b"c" * 32, naming=b"n" * 32).alias("digest") == Identity(
        b"d" * 32, naming=b"n" * 32
    ).alias("digest")


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    secret = create_secret(path, 32)
    assert path.stat().st_mode & 0o777 == 0o600 and load_secret(path, 32) == secret
    assert Identity.load(path).public == Identity(secret).public
    with pytest.raises(InvalidInput, match="exists already"):
        create_secret(path, 32)
    path.chmod(0o640)
    with pytest.raises(DataError, match="readable by its owner alone, got mode 640"):
        load_secret(path, 32)


@pytest.mark.parametrize("text", ["", "zz" * 32, "00" * 31, "00" * 33])
def test_another_file_is_no_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "signing.key"
    path.write_text(text)
    os.chmod(path, 0o600)
    with pytest.raises(DataError, match="must hold a key of 64 hexadecimal digits"):
        load_secret(path, 32)


def test_a_card_says_whose_it_is_and_any_change_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "alice.card"
    card = Card.of("alice", ALICE, "5" * 64)
    card.save(path)
    assert Card.load(path) == card
    assert re.fullmatch(r"([0-9a-f]{4}-){5}[0-9a-f]{4}", card.fingerprint)
    assert card.entry("nats://x").signing_key == ALICE.public
    for old, new in (('"alice"', '"mallory"'), ("5" * 64, "6" * 64), (ALICE.public, BOB.public)):
        path.write_text(card.text().replace(old, new))
        with pytest.raises(InvalidInput, match="changed on the way"):
            Card.load(path)
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="is no card"):
        Card.load(path)
