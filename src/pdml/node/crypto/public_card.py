"""A node's public card: its name and public keys in a small text file, signed by itself. It goes to
whoever keeps the study.
"""

import hashlib
import tomllib
from pathlib import Path

import msgspec

from pdml.errors import InvalidInput
from pdml.files import atomic_write, read_file
from pdml.formats import Format, decode
from pdml.node.crypto.hpke import SealingKey
from pdml.node.crypto.signing import Identity, verify_signature
from pdml.study import ServerEntry

FORMAT = Format(name="card", version=1)  # which is written from 2 on
_DOMAIN = b"pdml node card 1\0"
_MOST = 1 << 14  # bytes of a card


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Public halves only. The signature shows that whoever made the card has the signing key."""

    name: str
    signing_key: str
    sealing_key: str
    signature: str = ""

    @classmethod
    def of(cls, name: str, identity: Identity, sealing: SealingKey) -> "Card":
        card = cls(name=name, signing_key=identity.public, sealing_key=sealing.public)
        return msgspec.structs.replace(card, signature=identity.sign(card._signable()).hex())

    @classmethod
    def load(cls, path: Path) -> "Card":
        """Read and check a card."""
        table: dict[str, object] = {}
        try:
            table = decode(read_file(path, _MOST).decode(), by=tomllib.loads)
            card = msgspec.convert(table, cls)
            signature = bytes.fromhex(card.signature)
        except OSError as error:
            raise InvalidInput(
                f"cannot read {path}: {(error.strerror or str(error)).lower()}"
            ) from None
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
        """As the study pins it."""
        return ServerEntry(self.name, url, self.signing_key, self.sealing_key)

    def _signable(self) -> bytes:
        return _DOMAIN + msgspec.msgpack.encode((self.name, self.signing_key, self.sealing_key))
