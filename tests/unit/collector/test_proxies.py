"""Whom a request comes from: only trusted proxies are believed, and only for what they themselves
saw.
"""

import pytest

from pdml.collector.http.guard import ConnectionLimits, Proxies, group
from pdml.errors import InvalidInput

NEAR = Proxies(["10.0.0.0/24", "2001:db8:1::7"])


def headers(*values):
    return [(b"host", b"x"), *((b"x-forwarded-for", value.encode("latin-1")) for value in values)]


@pytest.mark.parametrize(
    ("values", "client"),
    [
        (["192.0.2.1"], "192.0.2.1"),
        (["203.0.113.5, 192.0.2.1"], "192.0.2.1"),  # the client wrote the first itself
        (["203.0.113.5", "192.0.2.1, 10.0.0.8"], "192.0.2.1"),  # a second proxy of ours
        (["192.0.2.1:4711"], "192.0.2.1"),
        (["[2001:db8:9::1]:4711"], "2001:db8:9::1"),
        (["2001:db8:9::1"], "2001:db8:9::1"),
        (["::ffff:10.0.0.3, 192.0.2.9, ::ffff:10.0.0.4"], "192.0.2.9"),
        (["10.0.0.1, 10.0.0.2"], "10.0.0.7"),  # nobody but proxies: the one that called
        ([""], "10.0.0.7"),
        ([], "10.0.0.7"),
        (["unknown"], "unknown"),
        (["x" * 500], "x" * 64),
        (["\xff\xfe"], "\xff\xfe"),
    ],
)
def test_the_last_that_is_no_proxy_of_ours(values, client):
    assert NEAR.client("10.0.0.7", headers(*values)) == client


def test_who_is_trusted():
    assert all(
        NEAR.trusts(host)
        for host in (
            "10.0.0.1",
            "10.0.0.255",
            "::ffff:10.0.0.9",
            "2001:db8:1::7",
            "2001:0db8:1:0::7",
        )
    )
    assert not any(
        NEAR.trusts(host)
        for host in ("10.0.1.1", "2001:db8:1::8", "localhost", "", "10.0.0.1.evil")
    )
    assert not Proxies().trusts("127.0.0.1") and NEAR


@pytest.mark.parametrize("text", ["", "everybody", "10.0.0.0/33", "*", "proxy.example"])
def test_only_addresses_and_networks_can_be_trusted(text):
    with pytest.raises(InvalidInput, match="proxy must be an address or a network"):
        Proxies([text])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1:2:3", True),  # a household's network
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("unknown", "unknown", True),
    ],
)
def test_what_counts_as_one_address(one, other, same):
    assert (group(one) == group(other)) is same


@pytest.mark.parametrize(
    "wrong",
    [
        {"head": 0},
        {"body": float("nan")},
        {"write": float("inf")},
        {"write": -1},
        {"connections": 0},
        {"per_address": 0},
    ],
)
def test_limits_that_are_none_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(InvalidInput, match=f"{name} must be"):
        ConnectionLimits(**wrong)
