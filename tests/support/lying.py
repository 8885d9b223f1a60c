"""A member with its own true keys that breaks the protocol: carol's node in this process, bent
where a test wants it.
"""

import contextlib
import re
import threading

import msgspec
import numpy as np

from pdml.clock import SYSTEM_CLOCK
from pdml.mechanisms.randomness import Simulated
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.daemon.nats_transport import NatsTransport
from pdml.node.protocol import wire_messages
from pdml.node.protocol.requests import RequestKind

ROUND = 3
LIES = {  # what is said of carol
    "nan": r"carol sent a vector of round 3 that is not finite",
    "huge": r"carol sent a vector of round 3 of length 2e\+100: no honest one exceeds",
    "stale": r"carol sent two different releases for round 2",
    "ahead": r"carol sent a release of round 5 while (alice|bob) stands at round [23]",
    "forged": r"carol sent a message whose signature is not carol's",
    # the same again is no error, but no news either
    "replayed": r"(alice|bob) waited 3 s for carol( \(which .*\))? to send their release of round 3",
    "as bob": r"carol sent a message in the name of 'bob'",
    "long": r"carol sent \d+ bytes, more than the \d+ any message of this job needs",
    "other job": r"carol trains under other terms",
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
        "other job": {"terms": "0" * 64},
    }
    return wire_messages._signed(identity, msgspec.structs.replace(message, **changes[kind]))


class Bent(NodeDaemon):
    """Sends what `said` makes of each of its releases; nothing where that is b""."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        ask = self.transport.ask

        def bent_ask(kind, messages, **options):
            work = self.admission.work
            if kind == RequestKind.RELEASE and work is not None:
                bent = {peer: self.said(work.terms, peer, data) for peer, data in messages.items()}
                messages = {peer: data for peer, data in bent.items() if data}
            return ask(kind, messages, **options)

        self.transport.ask = bent_ask

    def said(self, terms, peer, data):
        return data

    def signed(self, data, **changes):
        """Another release than ``data``, signed all the same."""
        message = msgspec.msgpack.decode(data, type=wire_messages.Vector)
        return wire_messages._signed(
            self.member.identity, msgspec.structs.replace(message, **changes)
        )


class Liar(Bent):
    """Honest but for its releases of one round; ``kind`` "" is honest."""

    kind = ""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.sent = {}

    def said(self, terms, peer, data):
        message = msgspec.msgpack.decode(data, type=wire_messages.Vector)
        self.sent[peer, message.round] = data
        if not self.kind or message.round != ROUND:
            return data
        return bent(self.kind, message, self.sent.get((peer, ROUND - 1)), self.member.identity)


class TwoFaced(Bent):
    """Tells bob another vector than alice in one round, by default the third; both are signed, and
    both are sane. Bob sees it by itself where carol, hearing nothing for a second, repeats her
    release unbent, else by her statement.
    """

    round = ROUND

    @classmethod
    def caught(cls, sentence):
        """Whether this is what bob says of it."""
        ways = "equivocated in|sent two different releases for"
        return re.search(rf"carol ({ways}) round {cls.round}\b", sentence) is not None

    def said(self, terms, peer, data):
        message = msgspec.msgpack.decode(data, type=wire_messages.Vector)
        if peer != "bob" or message.round != self.round:
            return data
        kept = message.payload[8:]  # all but the first number, which is a little larger for bob
        first = np.frombuffer(message.payload[:8], dtype=terms.dtype)
        step = first.dtype.type(1 if terms.sums else 2.0**-40)
        return self.signed(data, payload=(first + step).tobytes() + kept)


@contextlib.contextmanager
def at_work(federation, name="carol", kind=Liar):
    """The member in this process, in place of its own."""
    if federation.running(name):
        federation.kill(name)
    directory = federation.homes[name]
    transport = NatsTransport.of_node(directory, SYSTEM_CLOCK)
    daemon = kind(directory, Simulated(federation.seed), transport, clock=SYSTEM_CLOCK)
    thread = threading.Thread(target=daemon.run, daemon=True)
    thread.start()
    try:
        federation.wait(lambda: federation.connected(name))
        yield daemon
    finally:
        daemon.leave()
        thread.join(20)
