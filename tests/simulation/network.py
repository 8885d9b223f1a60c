"""The network between simulated machines, and the relay in its middle."""

import secrets
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pdml.errors import PeerError
from pdml.node.crypto.hpke import Context, Sealer
from pdml.node.daemon.nats_transport import NatsTransport, most_payload

if TYPE_CHECKING:
    from nodes import Node
    from world import World

REQUEST, TELL, ANSWER, NOBODY = "q", "t", "a", "none"
_FASTEST, _SLOWEST = 0.001, 0.02  # seconds on the way
_PATIENCE = 0.05  # seconds that a second attempt has at least


@dataclass(frozen=True)
class Packet:
    """What the relay carries: sealed, but for who asks whom."""

    sender: str
    recipient: str
    letter: str  # as in a subject of `NatsTransport`
    request: str
    data: bytes


@dataclass
class Weather:
    """How often something goes wrong on the way, as chances."""

    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0  # by seconds: what was sent later arrives before
    corrupt: float = 0.0
    lie: float = 0.0  # the relay sends something of its own making
    cut: set[str] = field(default_factory=set)  # machines without a relay
    parted: set[frozenset[str]] = field(default_factory=set)  # pairs that the relay keeps apart

    def is_calm(self) -> bool:
        chances = (self.drop, self.duplicate, self.delay, self.corrupt, self.lie)
        return not (any(chances) or self.cut or self.parted)


class Network:
    """Carries packets by the world's clock."""

    def __init__(self, world: "World") -> None:
        self.world, self.weather = world, Weather()
        self.faults: dict[str, int] = {}
        self._carried: list[Packet] = []  # what a lying relay has kept

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def send(self, packet: Packet) -> None:
        weather, chance = self.weather, self.world.random.random
        self.world.note("send", packet.sender, packet.recipient, packet.letter)
        pair = frozenset((packet.sender, packet.recipient))
        sender = self.world.nodes.get(packet.sender)
        if sender is not None and sender.is_silent:
            self.count("silence")
            return
        if pair & weather.cut or pair in weather.parted:
            self.count("partition")
            self.world.observer.disturbed |= pair
            return
        if weather.is_calm():
            self._deliver_later(packet, _FASTEST + (_SLOWEST - _FASTEST) * chance())
            return
        if weather.lie and chance() < weather.lie:
            self.count("lie")
            self.world.observer.disturbed |= pair
            packet = self._lie(packet)
        if chance() < weather.corrupt:
            self.count("corrupt")
            self.world.observer.disturbed |= pair
            bit = int(chance() * 8 * len(packet.data))
            data = bytearray(packet.data)
            if data:
                data[bit // 8] ^= 1 << bit % 8
            packet = Packet(
                packet.sender, packet.recipient, packet.letter, packet.request, bytes(data)
            )
        for seconds in self._ways(pair):
            self._deliver_later(packet, seconds)

    def delays(self, one: str, other: str) -> list[float]:
        """The seconds on the way of each copy that arrives, over a connection that hides what is
        corrupt: of nothing at all, one, or two.
        """
        pair, weather = frozenset((one, other)), self.weather
        if pair & weather.cut or pair in weather.parted:
            self.count("partition")
            return []
        return self._ways(pair)

    def _ways(self, pair: frozenset[str]) -> list[float]:
        weather, chance = self.weather, self.world.random.random
        if chance() < weather.drop:
            self.count("drop")
            self.world.observer.disturbed |= pair
            return []
        ways = []
        for _ in range(1 + (chance() < weather.duplicate)):
            late = _FASTEST + (_SLOWEST - _FASTEST) * chance()
            if chance() < weather.delay:
                self.count("delay")
                self.world.observer.disturbed |= pair
                late += 4 * chance() ** 2
            ways.append(late)
        return ways

    def _lie(self, packet: Packet) -> Packet:
        """Something that a relay can make of all it has carried."""
        random = self.world.random
        self._carried.append(packet)
        old = random.choice(self._carried)
        lies = (
            Packet(old.sender, old.recipient, old.letter, old.request, old.data),  # again
            Packet(packet.sender, packet.recipient, packet.letter, packet.request, old.data),
            Packet(old.sender, packet.recipient, packet.letter, packet.request, packet.data),
            Packet(packet.sender, old.recipient, packet.letter, packet.request, packet.data),
            Packet(packet.sender, packet.recipient, old.letter, old.request, packet.data),
            Packet("-", packet.sender, NOBODY, packet.request, b""),
        )
        lie = random.choice(lies)
        if lie.recipient not in self.world.nodes:
            return packet
        if random.random() < 0.5:  # beside the truth
            self._deliver_later(lie, _SLOWEST * random.random())
            return packet
        return lie

    def _deliver_later(self, packet: Packet, seconds: float) -> None:
        self.world.later(seconds, lambda: self._deliver(packet))

    def _deliver(self, packet: Packet) -> None:
        machine = self.world.nodes[packet.recipient]
        if machine.is_hung:
            self.world.at(machine.hung_until, lambda: self._deliver(packet))
            return
        transport = machine.transport
        if transport is None or not transport.is_connected:
            if packet.letter == REQUEST and packet.sender in self.world.nodes:
                self.send(Packet("-", packet.sender, NOBODY, packet.request, b""))
            return
        with self.world.acting(machine):
            transport.take(packet)


class Request:
    """One message to one peer, as `NatsTransport._ask` does it."""

    def __init__(
        self,
        transport: "Transport",
        context: tuple[str, str, str],
        content: bytes,
        deadline: float,
        done: Callable[[str, bytes | None], None],
    ) -> None:
        self.transport, self._what, self._content = transport, context, content
        self.peer, self._deadline, self._done = context[2], deadline, done
        self._attempts = 0
        self.is_over = False
        self._send()

    def _send(self) -> None:
        job, kind, peer = self._what
        transport, self._attempts = self.transport, self._attempts + 1
        self._number = secrets.token_hex(8)
        self._context = Context(transport.study.hash, job, kind, transport.name, peer, self._number)
        data = transport.sealer.seal(self._context, self._content)
        transport.waiting[self._number] = self
        transport.world.network.send(Packet(transport.name, peer, REQUEST, self._number, data))
        left = max(self._deadline - transport.world.time, _PATIENCE)
        transport.world.later(left, lambda number=self._number: self._late(number))

    def _late(self, number: str) -> None:
        if number == self._number:
            self.end(None)

    def take(self, reply: bytes | None) -> None:
        """What came back; nothing at all where nobody listens."""
        job, _, peer = self._what
        if reply is None:
            self.end(None)
        elif not reply:  # the peer has lost this node's key
            self.transport.sealer.forget(peer, job)
            del self.transport.waiting[self._number]
            if self._attempts < 2:
                self._send()
            else:
                self.end(None)
        else:
            try:
                self.end(self.transport.sealer.open_answer(self._context, reply))
            except PeerError:
                self.end(None)

    def end(self, reply: bytes | None) -> None:
        self.transport.waiting.pop(self._number, None)
        if not self.is_over:
            self.is_over = True
            self._done(self.peer, reply)


class Transport:
    """A node's connection to the simulated relay: what `NatsTransport` does, without its loop."""

    _answer = NatsTransport._answer

    def __init__(self, world: "World", machine: "Node") -> None:
        self.world, self.machine, self.name = world, machine, machine.name
        directory = machine.directory
        self.study = directory.checked_study()
        self._most = most_payload(self.study)
        self.sealer = self._sealer = Sealer(
            self.name,
            directory.identity(),
            directory.sealing(),
            signing=self.study.signing_keys,
            sealing={server.name: server.sealing_key for server in self.study.servers},
        )
        self._sealing = nullcontext()
        self.waiting: dict[str, Request] = {}
        self.is_connected = False
        self._is_closed = False

    def start(self, handle, changed) -> None:
        def observed(context: Context, content: bytes) -> bytes | None:
            self.world.observer.arrived(self.machine, context, content)
            answer = handle(context, content)
            if self.machine.disk.dead:
                return None
            self.world.observer.answered(self.machine, context, answer)
            return answer

        self._handle, self._changed = observed, changed
        self.world.later(0.01, self._connect)

    def _connect(self) -> None:
        if not self._is_closed and self.machine.transport is self:
            self.is_connected = True
            with self.world.acting(self.machine):
                self._changed(True, "")

    def ask(self, kind: str, messages: Mapping[str, bytes], *, job: str = "", timeout: float):
        raise AssertionError("a simulated node waits by its steps alone")

    def begin(
        self,
        kind: str,
        messages: Mapping[str, bytes],
        job: str,
        timeout: float,
        done: Callable[[dict[str, bytes]], None],
    ) -> None:
        """As `ask`; ``done`` gets the replies."""
        replies: dict[str, bytes] = {}
        missing = set(messages)
        if not self.is_connected or self._is_closed:
            self.world.later(0.001, lambda: done({}))
            return
        world, machine = self.world, self.machine
        if machine.bend is not None:
            messages = machine.bend(kind, job, messages)
        for peer, content in messages.items():
            if machine.disk.dead:
                return
            world.observer.asked(machine, kind, job, peer, content)
        if timeout <= 0:
            for peer, content in messages.items():
                number = secrets.token_hex(8)
                context = Context(self.study.hash, job, kind, self.name, peer, number)
                data = self.sealer.seal(context, content)
                world.network.send(Packet(self.name, peer, TELL, number, data))
            world.later(0.0005, lambda: done({}))
            return

        def take(peer: str, reply: bytes | None) -> None:
            missing.discard(peer)
            if reply is not None:
                replies[peer] = reply
            if not missing:
                done({name: replies[name] for name in messages if name in replies})

        if not messages:
            world.later(0.001, lambda: done({}))
        for peer, content in messages.items():
            Request(self, (job, kind, peer), content, world.time + timeout, take)

    def take(self, packet: Packet) -> None:
        """What the relay brings."""
        if packet.letter in (REQUEST, TELL):
            reply = self._answer(packet.sender, packet.request, packet.data)
            if self.machine.disk.dead or self._is_closed:
                return
            if packet.letter == REQUEST and reply is not None:
                back = Packet(self.name, packet.sender, ANSWER, packet.request, reply)
                self.world.network.send(back)
            return
        request = self.waiting.get(packet.request)
        if request is None:
            return
        if packet.letter == NOBODY:
            request.take(None)
        elif packet.sender == request.peer:
            request.take(packet.data)

    def certificate_end(self) -> float | None:
        return None

    def close(self) -> None:
        self.is_connected, self._is_closed = False, True
        for request in list(self.waiting.values()):
            request.end(None)
