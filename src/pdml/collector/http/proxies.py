"""Who a request comes from: the other end of its connection, or whom a trusted proxy there
names.
"""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pdml.errors import InvalidInput

_LONGEST = 64  # characters of an address, with a port


class Proxies:
    """The addresses whose X-Forwarded-For is believed; anybody else could write anything there."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        """``trusted`` are addresses or networks, such as 10.0.0.7 or 10.0.0.0/24."""
        self._networks = tuple(_network(address) for address in trusted)
        self.trusts = lru_cache(maxsize=4096)(self._trusts)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def _trusts(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)

    def client(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Each proxy adds the address it was called from at the end: the last that is no trusted
        proxy is the client.
        """
        values = b",".join(value for name, value in headers if name == b"x-forwarded-for")
        for hop in reversed(values.decode("latin-1").split(",")):
            host = _bare(hop.strip())
            if host and not self.trusts(host):
                return host
        return peer


@lru_cache(maxsize=4096)
def group(host: str) -> str:
    """What counts as one address: an IPv6 network of 64 bits belongs to one household, and an
    address of it is free.
    """
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address or host)


def _network(text: str) -> Any:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidInput(
            f"proxy must be an address or a network such as 10.0.0.0/24, got {text!r}"
        ) from None


def _address(host: str) -> Any:
    """None for what is no address; an IPv4 address in IPv6's clothes is itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _bare(text: str) -> str:
    """Without a port: 192.0.2.1:4711, [2001:db8::1]:4711."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return text[:_LONGEST]
