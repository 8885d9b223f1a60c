"""Masks: the total is exact, and nothing smaller can be read."""

import hashlib
import hmac
import os
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pdml.errors import InvalidInput
from pdml.mechanisms import masks

JOB = "ab" * 32


def seeds(servers, job=JOB, secrets=None):
    """Every pair's seed, by server."""
    secrets = secrets or {pair: os.urandom(32) for pair in combinations(servers, 2)}
    found = {name: {} for name in servers}
    for (one, other), secret in secrets.items():
        seed = masks.derive_seed(secret, job=job, server=one, other=other)
        assert seed == masks.derive_seed(secret, job=job, server=other, other=one)
        found[one][other] = found[other][one] = seed
    return found


def test_a_seed_is_what_its_formula_gives():
    """HKDF by RFC 5869: members of one job may run two versions of this software."""
    shared = bytes(range(32))
    about = b"pdml mask 1\0" + b"\0\0\0\x40" + JOB.encode() + b"\0\0\0\3bob" + b"\0\0\0\5carol"
    key = hmac.digest(bytes(32), shared, hashlib.sha256)
    seed = masks.derive_seed(shared, job=JOB, server="carol", other="bob")
    assert seed == hmac.digest(key, about + b"\1", hashlib.sha256)


@given(
    st.integers(2, 7).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-(2**52), 2**52), min_size=5, max_size=5), min_size=n, max_size=n
        )
    )
)
def test_the_total_is_exact(sums):
    servers = tuple(f"s{i}" for i in range(len(sums)))
    known = seeds(servers)
    sent = {
        name: masks.add_masks(np.array(values), name, servers, known[name])
        for name, values in zip(servers, sums, strict=True)
    }
    np.testing.assert_array_equal(masks.total(sent, servers), np.sum(sums, axis=0))


def test_any_fewer_look_uniform():
    """Each proper subset's total of known sums is uniform on 64-bit words: a chi-square test on
    the top four bits of 4,096 words, which fails once in 10^6 runs for each of 14 subsets."""
    servers = ("a", "b", "c", "d")
    known = seeds(servers)
    sent = {
        name: masks.add_masks(np.zeros(4096, dtype=np.int64), name, servers, known[name])
        for name in servers
    }
    for size in (1, 2, 3):
        for some in combinations(servers, size):
            added = sum((sent[name] for name in some), np.zeros(4096, dtype=np.uint64))
            counts = np.bincount((added >> np.uint64(60)).astype(int), minlength=16)
            assert stats.chisquare(counts).pvalue > 1e-6, some
    assert not masks.total(sent, servers).any()


def test_a_coalition_that_knows_its_own_seeds_is_left_with_the_total_of_the_others():
    """k = 2 of 4 take their own masks off: the sum of the two honest ones is plain, each is not."""
    servers = ("a", "b", "c", "d")
    known = seeds(servers)
    sums = {name: np.arange(3) * 10**i for i, name in enumerate(servers)}
    sent = {name: masks.add_masks(sums[name], name, servers, known[name]) for name in servers}
    open_ = {}
    for honest in ("a", "c"):
        found = sent[honest]
        for liar in ("b", "d"):
            mask = masks.words(known[liar][honest], 3)
            found = found - mask if servers.index(honest) < servers.index(liar) else found + mask
        open_[honest] = found.view(np.int64)
    np.testing.assert_array_equal(open_["a"] + open_["c"], sums["a"] + sums["c"])
    assert (open_["a"] != sums["a"]).all() and (open_["c"] != sums["c"]).all()


def test_no_seed_serves_twice():
    secret = os.urandom(32)
    found = {
        masks.derive_seed(secret, job=job, server=one, other=other)
        for job in (JOB, "cd" * 32)
        for one, other in (("a", "b"), ("a", "c"), ("ab", "c"), ("a", "bc"))
    }
    assert len(found) == 8 and secret not in found


def test_the_same_seed_gives_the_same_bytes_after_a_restart():
    seed = os.urandom(32)
    np.testing.assert_array_equal(masks.words(seed, 100)[:7], masks.words(seed, 7))


def test_words_are_the_standard_stream():
    """RFC 8439's first block for an all-zero key, nonce and counter."""
    first = masks.words(bytes(32), 2).tobytes().hex()
    assert first == "76b8e0ada0f13d90405d6ae55386bd28"


def test_a_missing_server_is_named():
    servers = ("a", "b", "c")
    known = seeds(servers)
    sums = np.zeros(2, dtype=np.int64)
    with pytest.raises(InvalidInput, match="one seed with each"):
        masks.add_masks(sums, "a", servers, {"b": known["a"]["b"]})
    with pytest.raises(InvalidInput, match="lacks those of c"):
        masks.total({name: sums.view(np.uint64) for name in "ab"}, servers)
    with pytest.raises(InvalidInput, match="32 bytes"):
        masks.words(b"short", 1)
    with pytest.raises(InvalidInput, match="two different servers"):
        masks.derive_seed(bytes(32), job=JOB, server="a", other="a")


@pytest.mark.parametrize("width", [90, 400])
def test_a_long_row_is_masked_to_its_end(width):
    """All words of a row of sums with so many columns differ: of 80,601 two agree with a chance of
    2e-10. A stream that begins again would let the differences of far numbers be read.
    """
    length = width + width * (width + 1) // 2 + 1
    servers = ("a", "b")
    sent = masks.add_masks(np.zeros(length, dtype=np.int64), "a", servers, seeds(servers)["a"])
    assert len(np.unique(sent)) == length > 4096
