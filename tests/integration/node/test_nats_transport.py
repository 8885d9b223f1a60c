"""A node's way to its relay: whatever a relay says, the node comes back, and calls nobody else."""

import contextlib
import json
import socket
import ssl
import threading
import time

import pytest

pytest.importorskip("nats")

from evil_relay import EvilRelay
from federation import Federation

from pdml.clock import SYSTEM_CLOCK
from pdml.node.daemon.nats_transport import NatsTransport
from pdml.node.daemon.relay_server import CONFIG

NONCE = "evil-relay-nonce"


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Keys, study and certificate; no process of it is started."""
    with Federation(tmp_path_factory.mktemp("transport")) as made:
        yield made


class Member:
    """A node's transport alone, in this process."""

    def __init__(self, federation, name):
        self.up, self.why = False, ""
        self.transport = NatsTransport.of_node(federation.homes[name], SYSTEM_CLOCK)
        self.transport.start(lambda context, content: b"heard " + content, self.change)

    def change(self, up, why):
        self.up, self.why = up, why


@contextlib.contextmanager
def members(federation, *names):
    made = [Member(federation, name) for name in names]
    try:
        yield made
    finally:
        for member in made:
            member.transport.close()


class Trap:
    """A port that nobody has a reason to call; it counts who does."""

    def __init__(self):
        self.calls, self.socket = 0, socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self):
        with contextlib.suppress(OSError):
            while True:
                self.socket.accept()[0].close()
                self.calls += 1


def wait(ready, what, timeout=30):
    deadline = time.monotonic() + timeout
    while not ready():
        assert time.monotonic() < deadline, f"{what}: not after {timeout} s"
        time.sleep(0.02)


def talks(one, other):
    """Whether a question of ``one`` reaches ``other`` and is answered."""
    asked = {other.transport.name: b"you"}
    return one.transport.ask("ask", asked, timeout=1) == {other.transport.name: b"heard you"}


def info(**fields):
    return b"INFO " + json.dumps({"nonce": NONCE, "auth_required": True, **fields}).encode()


def greetings(trap):
    """Everything that once ended the library's own way back, and more of its kind."""
    other = [trap.address, f"{trap.address}0", "127.0.0.1"]
    return {
        "a foreign nonce": info(nonce="pdml job offer 1\0 rm -rf"),
        "a nonce that is a number": info(nonce=7),
        "no nonce": info(nonce=None),
        "other addresses": info(connect_urls=other),
        "addresses that are none": info(connect_urls=[7, None, ["[::1", {}]]),
        "an address that cannot be read": info(connect_urls=["[::1"]),
        "addresses that are no list": info(connect_urls=7),
        "limits that are no numbers": info(max_payload="much", headers=7, connect_urls=other),
        "an end that is announced": info(ldm=True, connect_urls=other),
        "no object": b"INFO []",
        "no JSON": b"INFO {",
        "depth": b"INFO " + b"[" * 20_000,
        "no greeting": b"HELLO",
        "length": b"INFO " + b" " * 200_000,
    }


def test_no_greeting_of_a_relay_keeps_a_node_away_or_sends_it_elsewhere(federation):
    """The relay's place is taken by one that greets strangely, then by a good one: the node comes
    back to that, each time, and has called nobody else.
    """
    trap = Trap()
    with members(federation, "alice", "bob") as (alice, bob):
        for what, greeting in greetings(trap).items():
            with EvilRelay(federation, greeting=greeting + b"\r\n") as evil:
                wait(lambda evil=evil: evil.calls >= 2, f"calls of a relay with {what}")
            with EvilRelay(federation):
                wait(lambda: alice.up and bob.up and talks(alice, bob), f"after {what}")
    assert trap.calls == 0


LINES = {
    "other addresses": info(connect_urls=["TRAP"]),
    "addresses that are none": info(connect_urls=[7]),
    "no object": b"INFO []",
    "no JSON": b"INFO {",
    "an error without words": b"-ERR ",
    "an error": b"-ERR 'Authorization Violation'",
    "headers that are none": b"HMSG pdml.alice.bob.q.0 1 4 4\r\n\xff\xff\xff\xff",
    "a subject that is no text": b"MSG \xff 1 0\r\n",
    "a subject of fewer words": b"MSG a 1 0\r\n",
    "an unknown word": b"QUIT",
}


def test_no_later_line_of_a_relay_keeps_a_node_away_or_sends_it_elsewhere(federation):
    trap = Trap()
    with EvilRelay(federation) as evil, members(federation, "alice", "bob") as (alice, bob):
        wait(lambda: alice.up and bob.up, "the beginning")
        for what, line in LINES.items():
            evil.send_raw(line.replace(b"TRAP", trap.address.encode()) + b"\r\n")
            time.sleep(0.1)
            wait(lambda: alice.up and bob.up and talks(alice, bob), f"after {what}")
        for writer in list(evil.clients):  # whoever was told other addresses has to come back
            evil.loop.call_soon_threadsafe(writer.transport.abort)
        time.sleep(0.1)
        wait(lambda: alice.up and bob.up and talks(alice, bob), "after everybody was cut off")
    assert trap.calls == 0


def test_what_a_relay_says_reaches_a_terminal_as_plain_text(federation):
    """Its words stand in `pdml node status`."""
    greeting = info() + b"\r\n-ERR '\x1b[2J gone'\r\n"
    with EvilRelay(federation, greeting=greeting), members(federation, "alice") as (alice,):
        wait(lambda: "gone" in alice.why, "its error")
        assert "\x1b" not in alice.why


class Idlers:
    """Strangers who connect to the relay and say nothing; who is hung up on comes again at once."""

    def __init__(self, federation, many, *, tls):
        self.relay, self.tls, self.ended = federation.study.relay, tls, threading.Event()
        self.open, self.cut = [False] * many, 0  # who is connected, and how many were hung up on
        self.threads = [threading.Thread(target=self._idle, args=(i,)) for i in range(many)]
        for thread in self.threads:
            thread.start()

    def _idle(self, i):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                bare = socket.create_connection((self.relay.host, self.relay.port), 5)
                with context.wrap_socket(bare) if self.tls else bare as idle:
                    idle.settimeout(0.2)
                    self.open[i] = True
                    while not self.ended.is_set():
                        with contextlib.suppress(TimeoutError):
                            if not idle.recv(4096):
                                self.cut += 1
                                break
            self.open[i] = False

    def close(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(10)


@pytest.mark.parametrize("tls", [False, True])
def test_strangers_who_say_nothing_do_not_keep_nodes_off_the_relay(federation, tls):
    """Sixty connections without a key, open all the time; twelve were once enough."""
    federation.start("relay")
    try:
        with contextlib.closing(Idlers(federation, 60, tls=tls)) as idlers:
            wait(lambda: all(idlers.open), "sixty strangers")
            with members(federation, "alice", "bob") as (alice, bob):
                wait(lambda: alice.up and bob.up and talks(alice, bob), "in their midst")
            assert sum(map(bool, idlers.open)) > 30
    finally:
        federation.kill("relay")


@pytest.mark.parametrize("tls", [False, True])
def test_the_relay_hangs_up_on_who_says_nothing(federation, tls):
    """Before TLS and after it: its places are for members."""
    assert (federation.relay_folder / CONFIG).read_text().count(" timeout: 2\n") == 2
    federation.start("relay")
    try:
        with contextlib.closing(Idlers(federation, 1, tls=tls)) as idler:
            wait(lambda: idler.open[0], "a stranger")
            wait(lambda: idler.cut, "the end of its patience")
    finally:
        federation.kill("relay")
