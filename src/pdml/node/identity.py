"""Who a node is: one Ed25519 key, kept in one file of mode 0600. It signs messages, and seals what must not be read at rest."""

import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SEALING = b"pdml journal 1"
_NAMING = b"pdml alias 1"


class Identity:
    """A node's private key. Ed25519 signatures are a function of key and message: signing again gives the same bytes."""

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._secret = secret
        self._key = Ed25519PrivateKey.from_private_bytes(secret)

    @classmethod
    def create(cls, path: Path) -> "Identity":
        """A new key in a new file that only its owner can read."""
        secret = os.urandom(32)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InvalidInput(f"{path} exists already: a new key would make every peer refuse this node") from None
        except OSError as error:
            raise InvalidInput(f"the key cannot be written to {path}: {error.strerror}") from None
        with os.fdopen(handle, "w") as file:
            file.write(secret.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        return cls(secret)

    @classmethod
    def load(cls, path: Path) -> "Identity":
        try:
            text, mode = path.read_text(), path.stat().st_mode
        except OSError as error:
            raise DataError(f"the node's key {path} cannot be read: {error.strerror}") from None
        if os.name == "posix" and mode & 0o077:
            raise DataError(f"the node's key {path} must be readable by its owner alone, got mode {mode & 0o777:o}: chmod 600 it")
        try:
            secret = bytes.fromhex(text.strip())
        except ValueError:
            secret = b""
        if len(secret) != 32:
            raise DataError(f"{path} must hold a key of 64 hexadecimal digits: it is damaged or another file")
        return cls(secret)

    @property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def seal(self, content: bytes, purpose: bytes) -> bytes:
        """AES-256-GCM under a key derived from this one; ``purpose`` is authenticated with it."""
        nonce = os.urandom(12)
        return nonce + self._cipher().encrypt(nonce, content, purpose)

    def unseal(self, sealed: bytes, purpose: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher().decrypt(sealed[:12], sealed[12:], purpose)
        except (InvalidTag, ValueError):
            raise DataError("what the journal keeps sealed cannot be opened: it was sealed with another key, or is damaged") from None

    def alias(self, digest: str) -> str:
        """A name for a data set that tells others nothing about it: its digest would let them try records until it fits."""
        return hmac.digest(self._derived(_NAMING), digest.encode(), "sha256").hex()

    def _cipher(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._derived(_SEALING))

    def _derived(self, purpose: bytes) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), 32, salt=None, info=purpose).derive(self._secret)


def verified(public: str, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` of ``message`` is of the key ``public``."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
