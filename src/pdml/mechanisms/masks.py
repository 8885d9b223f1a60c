"""Sums that only exist as a whole: every pair of servers adds and subtracts the same secret words.

Server i sends  z_i = x_i + Σ_{l > i} PRG(s_il) - Σ_{l < i} PRG(s_il)  modulo 2^64. All masks
cancel in the total of all servers, to the last bit; the z_i of any fewer look like uniform words to
whoever lacks one seed of each missing pair. So a coalition of k servers learns the total of the
other n - k and nothing else (privacy.md, "Coalitions").

That rests on computation, not on noise: X25519, HKDF and ChaCha20 must hold, no seed may be known
to a third party, and no seed may serve twice. A seed is bound to the digest of its job, which is
never used for a second release.
"""

from collections.abc import Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from pdml.errors import InvalidInput
from pdml.mechanisms.integer_gaussian import Units

Words = NDArray[np.uint64]

SEED = 32  # bytes
_DOMAIN = b"pdml mask 1\0"


def derive_seed(shared: bytes, *, job: str, server: str, other: str) -> bytes:
    """The seed of one pair of servers in one job."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    if not job or server == other:
        raise InvalidInput("a mask must belong to a job and to two different servers")
    parts = [part.encode() for part in (job, *sorted((server, other)))]
    about = _DOMAIN + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return HKDF(SHA256(), SEED, salt=None, info=about).derive(shared)


def words(seed: bytes, count: int) -> Words:
    """``count`` words of the stream of a seed: ChaCha20, from its beginning."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    if len(seed) != SEED:
        raise InvalidInput(f"the seed of a mask must have {SEED} bytes, got {len(seed)}")
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


def add_masks(units: Units, me: str, servers: tuple[str, ...], seeds: Mapping[str, bytes]) -> Words:
    """What server ``me`` sends instead of its noisy sums."""
    others = [name for name in servers if name != me]
    if me not in servers or set(seeds) != set(others):
        raise InvalidInput(f"{me} must have one seed with each of the other servers")
    sums = np.asarray(units, dtype=np.int64).view(np.uint64).copy()
    for name in others:
        mask = words(seeds[name], sums.size).reshape(sums.shape)
        sums = sums + mask if servers.index(me) < servers.index(name) else sums - mask
    return sums


def total(sent: Mapping[str, Words], servers: tuple[str, ...]) -> Units:
    """The exact total of all servers' sums with their noise."""
    if set(sent) != set(servers):
        missing = ", ".join(name for name in servers if name not in sent)
        raise InvalidInput(f"a total needs the sums of every server, and lacks those of {missing}")
    return reduce(np.add, (sent[name] for name in servers)).view(np.int64)
