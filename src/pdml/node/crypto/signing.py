"""Who a node is: one Ed25519 key in one file of mode 0600, which signs messages, logs in to the
relay and seals what must not be read at rest; and its public card, signed by itself."""

import base64
import binascii
import hashlib
import hmac
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pdml.errors import DataError, InvalidInput, PeerError
from pdml.files import atomic_write, open_ours, read_named, write_private
from pdml.formats import Format, decode
from pdml.study import ServerEntry

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORMAT = Format(name="card", version=1)
_CARD = b"pdml node card 1\0"
_MOST_CARD = 1 << 14  # bytes of a card
_SEALING = b"pdml journal 1"
_NAMING = b"pdml alias 1"
_LONGEST = 4096  # bytes of a key's file
_NONCE = re.compile(r"[A-Za-z0-9+/_=-]{8,86}", re.ASCII)  # a relay's challenge
_USER = 20 << 3  # an NKey's first byte: "U", a user


class Identity:
    """A node's private key. Ed25519 is deterministic: signing again gives the same bytes."""

    def __init__(self, secret: bytes, *, naming: bytes | None = None) -> None:
        """``naming``: the secret of which aliases are made; by default this key's own."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._secret = secret
        self._naming = naming or self._derived(_NAMING)
        self._key = Ed25519PrivateKey.from_private_bytes(secret)

    @classmethod
    def create(cls, path: Path) -> "Identity":
        return cls(create_secret(path, 32))

    @classmethod
    def load(cls, path: Path, *, naming: Path | None = None) -> "Identity":
        alias = None if naming is None else load_secret(naming, 32)
        return cls(load_secret(path, 32), naming=alias)

    @property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    @property
    def nkey(self) -> str:
        return nkey(self.public)

    def log_in(self, challenge: str) -> bytes:
        """The signature with which the relay lets this node in.

        Guarantees
        ----------
        - The relay chooses what is signed: anything but a short word is refused, so that no message
          of a node, all of which begin with a sentence and a zero byte, can be had from here.
        """
        if not _NONCE.fullmatch(challenge):
            raise PeerError(
                "the relay asked this node to sign something that is no login challenge"
            )
        return base64.urlsafe_b64encode(self._key.sign(challenge.encode())).rstrip(b"=")

    def seal(self, content: bytes, purpose: bytes) -> bytes:
        """AES-256-GCM under a key derived from this one; ``purpose`` is authenticated with it."""
        nonce = os.urandom(12)
        return nonce + self._cipher().encrypt(nonce, content, purpose)

    def unseal(self, sealed: bytes, purpose: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher().decrypt(sealed[:12], sealed[12:], purpose)
        except (InvalidTag, ValueError):
            raise DataError(
                "what the journal keeps sealed cannot be opened: it was sealed with "
                "another key, or is damaged"
            ) from None

    def alias(self, digest: str) -> str:
        """A name for a data set that tells others nothing about it, as its digest would to who
        tries records until it fits; it outlives a node's keys."""
        return hmac.digest(self._naming, digest.encode(), "sha256").hex()

    def _cipher(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._derived(_SEALING))

    def _derived(self, purpose: bytes) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), 32, salt=None, info=purpose).derive(self._secret)


# Points of small order on Edwards' curve, sign aside: under such a key anybody can sign anything.
_WEAK = {
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
}


def verify_signature(public: str, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` of ``message`` is of the key ``public``; not if all can sign for it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = bytes.fromhex(public)
        if key[:31] + bytes([key[31] & 0x7F]) in _WEAK:
            return False
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError, IndexError):
        return False
    return True


def nkey(public: str) -> str:
    """A public key (64 hexadecimal digits) as NATS spells it: base32, with a check sum."""
    body = bytes([_USER]) + bytes.fromhex(public)
    check = binascii.crc_hqx(body, 0).to_bytes(2, "little")  # CRC-16/XMODEM
    return base64.b32encode(body + check).decode().rstrip("=")


def create_secret(path: Path, size: int) -> bytes:
    """``size`` random bytes in a new file that only its owner can read."""
    secret = os.urandom(size)
    if not write_private(path, secret.hex() + "\n", first=True):
        raise InvalidInput(
            f"{path} exists already: a new key would make every peer refuse this node"
        )
    return secret


def load_secret(path: Path, size: int) -> bytes:
    """What `create_secret` wrote; a file that others can read is refused."""
    try:
        with open(open_ours(path, "the node's key"), "rb") as file:
            text = file.read(_LONGEST).decode("ascii", "replace")
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise DataError(f"the node's key {path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise DataError(
            f"the node's key {path} must be readable by its owner alone, got mode "
            f"{mode & 0o777:o}: chmod 600 it"
        )
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != size:
        raise DataError(
            f"{path} must hold a key of {2 * size} hexadecimal digits: it is damaged or "
            "another file"
        )
    return secret


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Public halves only. The signature shows that whoever made the card has the signing key."""

    name: str
    signing_key: str
    sealing_key: str
    signature: str = ""

    @classmethod
    def of(cls, name: str, identity: Identity, sealing_key: str) -> "Card":
        card = cls(name=name, signing_key=identity.public, sealing_key=sealing_key)
        return msgspec.structs.replace(card, signature=identity.sign(card._signable()).hex())

    @classmethod
    def load(cls, path: Path) -> "Card":
        data, table = read_named(path, _MOST_CARD, error=InvalidInput), {}
        try:
            table = decode(data.decode(), by=tomllib.loads)
            card = msgspec.convert(table, cls)
            signature = bytes.fromhex(card.signature)
        except ValueError as error:  # no UTF-8, no TOML, not these fields
            why = FORMAT.refusal_of(msgspec.json.encode(table), f"the card {path}")
            raise InvalidInput(why or f"{path} is no card of `pdml node init`: {error}") from None
        if not verify_signature(card.signing_key, card._signable(), signature):
            raise InvalidInput(
                f"the card {path} is not signed by its own key: it was changed on the way"
            )
        return card

    def save(self, path: Path) -> None:
        atomic_write(path, self.text())

    def text(self) -> str:
        lines = "".join(
            f'{key} = "{value}"\n' for key, value in msgspec.structs.asdict(self).items()
        )
        return (
            "# The public card of a node: nothing in it is secret. Fingerprint "
            f"{self.fingerprint}\n{lines}"
        )

    @property
    def fingerprint(self) -> str:
        """What two people compare on the telephone."""
        digest = hashlib.sha256(self._signable()).hexdigest()
        return "-".join(digest[i : i + 4] for i in range(0, 24, 4))

    def entry(self, url: str = "") -> ServerEntry:
        return ServerEntry(self.name, url, self.signing_key, self.sealing_key)

    def _signable(self) -> bytes:
        return _CARD + msgspec.msgpack.encode((self.name, self.signing_key, self.sealing_key))
