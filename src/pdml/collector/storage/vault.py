"""What the database holds of people, sealed: reports each with a key of its own, and the totals.

AES-256-GCM. A report's key seals nothing else, ever, so that its nonce can stay the same. The
totals are sealed again in every transaction, with a random nonce; a withdrawal moves them to a new
key and destroys the old one, because a total that goes down by one tells what was withdrawn, and
the database's log would keep both.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pdml.collector.storage.records import Content, Entry, Tallies
from pdml.collector.storage.report_keys import KeyDestroyed, KeyRing, Used
from pdml.errors import DataError

# ε in millionths, reported class, hour, MAC of the report; the features follow. A negative ε says
# that the consent comes before them.
_FIXED = struct.Struct("<qii32s")
_CONSENT = 48  # bytes of a consent
_CELL = struct.Struct("<qiq")  # ε in millionths, reported class, reports
_ONCE = bytes(12)
_TOTALS = b"totals"


class SealedTallies(NamedTuple):
    """As they stand in the database; key and bytes are None before the first report."""

    key: int | None
    sealed: bytes | None


class Vault:
    """Seals and opens with the keys of a ring, one call at a time. The totals are padded to
    ``cells``: their length tells of no report whether it was the first of its cell.
    """

    def __init__(self, keys: KeyRing, *, cells: int) -> None:
        self.keys = keys
        self._room = _CELL.size * cells
        # of the totals: the number of its key, and the cipher
        self._cipher: tuple[int, AESGCM] | None = None
        self._last: tuple[SealedTallies, Tallies] | None = None  # what this process wrote last

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Around a transaction that seals: once it is committed, what it sealed is there."""
        self.keys.begin()
        yield
        self.keys.settle()

    def seal(self, entries: Sequence[Entry], used: Used) -> list[tuple[int, bytes, bytes]]:
        """(number of its key, id, sealed content) of each."""
        return [
            (number, entry[0], AESGCM(key).encrypt(_ONCE, _packed(entry), entry[0]))
            for (number, key), entry in zip(
                self.keys.take(len(entries), used), entries, strict=True
            )
        ]

    def open(self, number: int, id: bytes, sealed: bytes) -> Content:
        """Raises `DataError` if its key is gone, or if the row is not as it was stored."""
        try:
            content = AESGCM(self.keys.read(number)).decrypt(_ONCE, sealed, id)
        except InvalidTag:
            raise DataError("a report does not fit its key: the database was altered") from None
        epsilon, label, hour, mac = _FIXED.unpack_from(content)
        start = _FIXED.size + (_CONSENT if epsilon < 0 else 0)
        consent = content[_FIXED.size : start]
        return Content(abs(epsilon), label, hour, content[start:], consent, mac)

    def tallies(self, sealed_tallies: SealedTallies) -> Tallies:
        """The totals; raises `DataError` as `open` does."""
        if sealed_tallies.key is None or sealed_tallies.sealed is None:
            return {}
        if self._last is not None and self._last[0] == sealed_tallies:
            return self._last[1]
        try:
            plain = self._totals_cipher(sealed_tallies.key).decrypt(
                sealed_tallies.sealed[:12], sealed_tallies.sealed[12:], _TOTALS
            )
        except InvalidTag:
            raise DataError("the totals do not fit their key: the database was altered") from None
        return {(epsilon, label): n for epsilon, label, n in _CELL.iter_unpack(plain) if n}

    def recount(
        self, rows: Iterable[Sequence[Any]], *, frozen: bool
    ) -> tuple[Tallies, list[tuple[bytes]]]:
        """The totals of (key, id, sealed) rows, and the ids of those whose keys are destroyed: for
        a database that was restored from before a withdrawal.
        """
        counts: Counter[tuple[int, int]] = Counter()
        gone: list[tuple[bytes]] = []
        for key, id, sealed in rows:
            try:
                content = self.open(key, id, sealed)
            except KeyDestroyed:
                gone.append((id,))
            else:
                counts[content.epsilon, content.label] += 1
        if gone and frozen:
            raise DataError(
                f"the collection is frozen, but the keys of {len(gone):,} of its reports "
                "were destroyed"
            )
        return counts, gone

    def seal_tallies(
        self, tallies: Tallies, previous: SealedTallies, used: Used, *, anew: bool = False
    ) -> SealedTallies:
        """Under the key they had; with a new one if they had none, or ``anew``."""
        number = previous.key
        if number is None or anew:
            ((number, key),) = self.keys.take(1, used)
            self._cipher = number, AESGCM(key)
        cells = b"".join(
            [_CELL.pack(epsilon, label, n) for (epsilon, label), n in tallies.items() if n]
        )
        plain = cells.ljust(self._room, b"\0")
        nonce = self.keys.entropy(12)
        now = SealedTallies(
            number, nonce + self._totals_cipher(number).encrypt(nonce, plain, _TOTALS)
        )
        self._last = now, tallies
        return now

    def _totals_cipher(self, number: int) -> AESGCM:
        if self._cipher is None or self._cipher[0] != number:
            self._cipher = number, AESGCM(self.keys.read(number))
        return self._cipher[1]


def _packed(entry: Entry) -> bytes:
    _, _, epsilon, label, hour, features, _, _, consent, mac, _ = entry
    return _FIXED.pack(-epsilon if consent else epsilon, label, hour, mac) + consent + features
