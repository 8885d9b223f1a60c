"""A member with its own true keys that breaks the protocol: carol's node in this process, bent
where a test wants it.
"""

import contextlib
import threading

import msgspec
import numpy as np

from pdml.mechanisms.randomness import Simulated
from pdml.node import wire
from pdml.node.exchange import RELEASE
from pdml.node.office import Office

ROUND = 3
LIES = {  # what is said of carol
    "nan": r"carol sent a vector of round 3 that is not finite",
    "huge": r"carol sent a vector of length 2e\+100 in round 3: no honest one exceeds",
    "stale": r"carol sent two different releases for round 2",
    "ahead": r"carol sent a release of round 5 while (alice|bob) stands at round [23]",
    "forged": r"carol sent a message whose signature is not carol's",
    # the same again is no error, but no news either
    "replayed": r"(alice|bob) waited 3 s for carol to send their release of round 3",
    "as bob": r"carol sent a message in the name of 'bob'",
    "long": r"carol sent \d+ bytes, more than the \d+ any message of this job needs",
    "other job": r"carol trains under another contract",
}


def bent(kind, message, before, identity):
    """What is sent in place of the release of `ROUND`; ``before`` is that of the round before, as
    it was sent.
    """
    if kind == "replayed":
        return before
    if kind == "long":
        return msgspec.msgpack.encode(message) + bytes(2000)
    if kind == "forged":
        return msgspec.msgpack.encode(msgspec.structs.replace(message, signature=b"\0" * 64))
    changes = {
        "nan": {"payload": np.full(message.shape, np.nan).tobytes()},
        "huge": {"payload": np.full(message.shape, 1e100).tobytes()},
        "stale": {"round": ROUND - 1},
        "ahead": {"round": ROUND + 2},
        "as bob": {"sender": "bob"},
        "other job": {"contract": "0" * 64},
    }
    return wire._signed(identity, msgspec.structs.replace(message, **changes[kind]))


class Liar(Office):
    """Honest but for its releases of one round; ``kind`` "" is honest."""

    kind = ""

    def _sender(self, contract):
        honest, sent = super()._sender(contract), {}

        def said(peer, data):
            message = msgspec.msgpack.decode(data, type=wire.Vector)
            sent[peer, message.round] = data
            return (
                bent(self.kind, message, sent.get((peer, ROUND - 1)), self.identity)
                if message.round == ROUND
                else data
            )

        def send(topic, messages, timeout):
            if self.kind and topic == RELEASE:
                messages = {peer: said(peer, data) for peer, data in messages.items()}
            return honest(topic, messages, timeout)

        return send


class TwoFaced(Office):
    """Tells bob another vector than alice in one round; both are signed, and both are sane."""

    def _sender(self, contract):
        honest = super()._sender(contract)

        def said(peer, data):
            message = msgspec.msgpack.decode(data, type=wire.Vector)
            if peer != "bob" or message.round != ROUND:
                return data
            other = wire.unpacked(message.payload, contract.shape) + 2.0**-40
            return wire._signed(
                self.identity, msgspec.structs.replace(message, payload=wire.packed(other))
            )

        def send(topic, messages, timeout):
            if topic == RELEASE:
                messages = {peer: said(peer, data) for peer, data in messages.items()}
            return honest(topic, messages, timeout)

        return send


@contextlib.contextmanager
def at_work(federation, name="carol", kind=Liar):
    """The member in this process, in place of its own."""
    if federation.running(name):
        federation.kill(name)
    office = kind(federation.homes[name], Simulated(federation.seed))
    thread = threading.Thread(target=office.run, daemon=True)
    thread.start()
    try:
        federation.wait(lambda: federation.connected(name))
        yield office
    finally:
        office.leave()
        thread.join(20)
