"""Who a node is: one Ed25519 key, kept in one file of mode 0600.

It signs messages, logs in to the relay (as an NKey, which is the same key in another spelling), and
seals what must not be read at rest. It is made where it is used; only its public half travels.
"""

import base64
import hmac
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pdml.errors import DataError, InvalidInput, PeerError
from pdml.files import write_private
from pdml.ownership import open_ours

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SEALING = b"pdml journal 1"
_NAMING = b"pdml alias 1"
_LONGEST = 4096  # bytes of a key's file
_NONCE = re.compile(
    r"[A-Za-z0-9+/_=-]{8,86}", re.ASCII
)  # a relay's challenge; no message of ours looks like it
_USER = 20 << 3  # an NKey's first byte: "U", a user


class Identity:
    """A node's private key. Ed25519 signatures are a function of key and message: signing again
    gives the same bytes.
    """

    def __init__(self, secret: bytes, *, naming: bytes | None = None) -> None:
        """``naming``: the secret of which aliases are made; by default this key's own."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._secret = secret
        self._naming = naming or self._derived(_NAMING)
        self._key = Ed25519PrivateKey.from_private_bytes(secret)

    @classmethod
    def create(cls, path: Path) -> "Identity":
        """A new key in a new file that only its owner can read."""
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
        """The public key as the relay spells it."""
        return nkey(self.public)

    def log_in(self, challenge: str) -> bytes:
        """The signature with which the relay lets this node in.

        Guarantees
        ----------
        - The relay chooses what is signed, so anything that is not a short word is refused: no
          message of a node, all of which begin with a sentence and a zero byte, can be had from
          here.
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
        """A name for a data set that tells others nothing about it: its digest would let them try
        records until it fits. It outlives a node's keys, and so does what others know by it.
        """
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
    """A public key (64 hexadecimal digits) as an NKey: base32 of a prefix, the key, and a check
    sum.
    """
    body = bytes([_USER]) + bytes.fromhex(public)
    return base64.b32encode(body + _crc16(body).to_bytes(2, "little")).decode().rstrip("=")


def _crc16(data: bytes) -> int:
    """CRC-16/XMODEM, which NKeys end with."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
            crc &= 0xFFFF
    return crc


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
