"""Slow and greedy clients with real sockets: they are ended, and people at other addresses never
notice.
"""

import asyncio
import contextlib
import json
import resource
import select
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from collecting import Process, report
from conversation import JSON

from pdml.collector.http import guard as guarding
from pdml.collector.http.listener import Listener

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"  # addresses of clients
QUICK = ("--open", "--head-timeout", "1", "--body-timeout", "1", "--write-timeout", "1")
PATIENCE = 60  # seconds for a busy machine; nothing here takes more than a few
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def connected(service, source=HERE, **options):
    wire = socket.create_connection(
        (HERE, service.port), timeout=PATIENCE, source_address=(source, 0)
    )
    for option, value in options.items():
        wire.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
    return wire


def post(path, length, kind="application/json"):
    return (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: "
        f"{length}\r\n\r\n"
    ).encode()


def honest(service, source=ELSEWHERE):
    """A report from another address."""
    with httpx.Client(
        transport=httpx.HTTPTransport(local_address=source), timeout=PATIENCE
    ) as client:
        return client.post(f"{service.url}/v1/reports", content=report(), headers=JSON).status_code


def answer(wire):
    """Everything that comes until the other side ends the connection; None: it was cut off with
    something on its way.
    """
    received = b""
    try:
        while part := wire.recv(65536):
            received += part
    except ConnectionError:
        return received or None
    return received


class Crowd:
    """Many connections that send a byte now and then, until each is ended."""

    def __init__(self, wires, drop=b"x"):
        self.left = set(wires)
        self.drop = drop
        self._thread = threading.Thread(target=self._drip)

    def _drip(self):
        deadline = time.monotonic() + PATIENCE
        while self.left and time.monotonic() < deadline:
            for wire in list(self.left):
                try:
                    wire.setblocking(False)
                    wire.send(self.drop)
                except BlockingIOError:
                    pass
                except OSError:
                    self.left.discard(wire)
            time.sleep(0.1)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join()


def metrics(service):
    """What it counts, asked for again and again until there is room for the question."""
    token = Path(service.told["operator_token"]).read_text().strip()
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            text = httpx.get(
                f"{service.url}/metrics",
                headers={"authorization": f"Bearer {token}"},
                timeout=PATIENCE,
            ).text
            return dict(
                line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
            )
        except httpx.TransportError:
            assert time.monotonic() < deadline


def wait_until_all_are_ended(service):
    """Until nobody is connected but who asks."""
    deadline = time.monotonic() + PATIENCE
    while int(metrics(service)["pdml_collect_connections"]) > 1:
        assert time.monotonic() < deadline, metrics(service)
        time.sleep(0.1)


def wait_for_ends(wires, count):
    """Until so many of them have been ended, and which."""
    poll = select.poll()
    for wire in wires:
        poll.register(wire, select.POLLIN)
    deadline = time.monotonic() + PATIENCE
    while len(ended := poll.poll(100)) < count:
        assert time.monotonic() < deadline, len(ended)
    handles = {handle for handle, _ in ended}
    return [wire for wire in wires if wire.fileno() in handles]


PATHS = [
    "/v1/reports",
    "/v1/batches",
    "/operator",
    "/v1/study",
    "/nowhere",
    "/",
    "/healthz",
    "/metrics",
]


def test_dripping_heads_and_bodies_on_any_path_are_ended_and_honest_reports_go_on(tmp_path):
    with (
        Process(tmp_path, *QUICK, "--per-address", "500") as service,
        contextlib.ExitStack() as stack,
    ):
        heads = [stack.enter_context(connected(service)) for _ in range(40)]
        bodies = [stack.enter_context(connected(service)) for _ in range(40)]
        for wire in heads:
            wire.sendall(b"GET / HTTP/1.1\r\nx: ")
        for i, wire in enumerate(bodies):
            kind = (
                "application/x-ndjson" if "batch" in PATHS[i % len(PATHS)] else "application/json"
            )
            wire.sendall(post(PATHS[i % len(PATHS)], 500, kind))
        with Crowd([*heads, *bodies]) as crowd:
            assert [honest(service) for _ in range(20)] == [201] * 20
        assert not crowd.left
        wait_until_all_are_ended(service)
        assert service.stop() == 0
    assert (tmp_path / "stderr").read_text() == ""


def test_a_body_that_does_not_come_is_answered(tmp_path):
    with Process(tmp_path, *QUICK) as service, connected(service) as wire:
        wire.sendall(post("/v1/reports", 10))
        head, _, body = answer(wire).partition(b"\r\n\r\n")
        assert (
            head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
            and b"connection: close" in head.lower()
        )
        assert (
            json.loads(body)["code"] == "timeout"
            and "within 1 seconds" in json.loads(body)["detail"]
        )
        assert f"content-length: {len(body)}".encode() in head
        assert metrics(service)['pdml_collect_problems_total{code="timeout"}'] == "1"


@pytest.mark.parametrize("path", ["/nowhere", "/v1/study", "/operator.json"])
def test_an_answer_does_not_wait_for_a_body_that_nobody_reads(tmp_path, path):
    with (
        Process(tmp_path, "--open", "--head-timeout", "600") as service,
        connected(service) as wire,
    ):
        wire.sendall(post(path, 100_000))
        told = answer(wire)  # long before any deadline
        assert told.startswith((b"HTTP/1.1 404", b"HTTP/1.1 405"))


def test_a_body_that_was_read_keeps_the_connection(tmp_path):
    with (
        Process(tmp_path, "--open") as service,
        httpx.Client(timeout=PATIENCE) as client,
        connected(service) as wire,
    ):
        for _ in range(3):
            body = report()
            wire.sendall(post("/v1/reports", len(body)) + body)
            assert wire.recv(65536).startswith(b"HTTP/1.1 201")
            wire.sendall(GET)
            assert wire.recv(65536).startswith(b"HTTP/1.1 200")
            wire.sendall(b"")
            while select.select([wire], [], [], 0.2)[0]:  # the rest of the page
                assert wire.recv(65536)
        assert client.get(f"{service.url}/healthz").status_code == 200


def test_pipelines_that_never_read_are_ended(tmp_path):
    """The page is asked for again and again; nobody reads it, and nothing more is sent once the
    pipe is full.
    """
    with (
        Process(tmp_path, *QUICK, "--per-address", "500") as service,
        contextlib.ExitStack() as stack,
    ):
        wires = [stack.enter_context(connected(service, SO_RCVBUF=4096)) for _ in range(40)]
        small = [stack.enter_context(connected(service, SO_RCVBUF=4096)) for _ in range(5)]
        for wire in wires:
            wire.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(2000):
                    wire.send(GET * 50)
        for (
            wire
        ) in small:  # answers that fit into what the system takes: the end comes when they close
            wire.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 30)
        assert [honest(service) for _ in range(20)] == [201] * 20
        wait_until_all_are_ended(service)
        assert service.stop() == 0
    assert (tmp_path / "stderr").read_text() == ""


def test_who_never_reads_does_not_keep_the_service_from_stopping(tmp_path):
    with (
        Process(tmp_path, "--open", "--write-timeout", "1") as service,
        connected(service, SO_RCVBUF=4096) as wire,
    ):
        wire.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(2000):
                wire.send(GET * 50)
        assert honest(service) == 201
        assert service.stop() == 0
    assert (tmp_path / "stderr").read_text() == ""


def test_eleven_hundred_connections_of_one_address_shut_nobody_out(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with Process(tmp_path, "--open") as service, contextlib.ExitStack() as stack:
            wires = [stack.enter_context(connected(service)) for _ in range(1100)]
            assert [honest(service) for _ in range(20)] == [201] * 20
            ended = wait_for_ends(wires, 1100 - 128)
            assert len(ended) == 1100 - 128 and all(not answer(wire) for wire in ended)
            # Of that address itself too, for as many as it has
            wires[next(i for i, wire in enumerate(wires) if wire not in ended)].close()
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                with contextlib.suppress(httpx.TransportError):
                    assert honest(service, HERE) == 201
                    break
            assert service.stop() == 0
        assert (tmp_path / "stderr").read_text() == ""
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_there_is_an_end_to_connections_in_all(tmp_path):
    with (
        Process(tmp_path, "--open", "--connections", "5") as service,
        contextlib.ExitStack() as stack,
    ):
        kept = [stack.enter_context(connected(service, f"127.0.0.{10 + i}")) for i in range(5)]
        for wire in kept:
            wire.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert wire.recv(65536).startswith(b"HTTP/1.1 200")
        assert not answer(stack.enter_context(connected(service, ELSEWHERE)))
        kept[0].close()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                assert honest(service) == 201
                break


def test_a_process_with_few_file_descriptors_takes_fewer_connections(tmp_path):
    """It keeps some for the database, and goes on when they are free again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        Process(tmp_path, *QUICK, "--per-address", "500", files=100) as service,
        contextlib.ExitStack() as stack,
    ):
        wires = [stack.enter_context(connected(service)) for _ in range(150)]
        wait_for_ends(wires, 150 - 36)
        wait_until_all_are_ended(service)
        assert honest(service) == 201
        assert service.stop() == 0
    assert (tmp_path / "stderr").read_text() == ""
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


LONG = b"x-long: " + b"y" * 70_000 + b"\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"GET / HTTP/1.1\r\nhost: x\r\n" + LONG + b"\r\n"],  # all at once
        [GET + b"GET / HTTP/1.1\r\nhost: x\r\n" + LONG + b"\r\n"],  # behind another
        [b"GET /?" + b"q" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"],
        [b"GET / HTTP/1.1\r\nx: ", *[b"y" * 4096] * 200],  # without end
    ],
)
def test_a_head_above_the_limit_is_refused(tmp_path, pieces):
    with Process(tmp_path, "--open") as service, connected(service) as wire:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                wire.sendall(piece)
        told = answer(wire) or b""
        assert told.count(b"HTTP/1.1 200") == pieces[0].startswith(GET)
        if b"HTTP/1.1 400" not in told:  # the parser has a limit of its own for addresses
            assert len(pieces) > 1 or (
                b'"code":"too_large"' in told and b"head may have at most 65536 bytes" in told
            )
            assert metrics(service)['pdml_collect_problems_total{code="too_large"}'] == "1"


def test_nonsense_leaves_no_word_on_stderr(tmp_path):
    """Garbage, upgrades, half requests, resets; heads with what no path may hold; and a stop in the
    middle of it.
    """
    messages = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: "
        b"websocket\r\nsec-websocket-key: x\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /%ff%00?%zz HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-type: "
        b"application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        post("/v1/reports", 10) + b"1234",
        post("/v1/reports", 5, "x") + b"{}{}{}{}{}",
        post("/operator", 5000, "application/x-www-form-urlencoded") + b"token=" + b"%" * 4000,
    ]
    with Process(tmp_path, "--open") as service:
        for message in messages:
            for reset in (False, True):
                with connected(service) as wire:
                    wire.sendall(message)
                    if reset:
                        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    else:
                        wire.shutdown(socket.SHUT_WR)
                        answer(wire)
        assert honest(service) == 201
        with connected(service) as wire:
            wire.sendall(post("/v1/reports", 10))
            assert service.stop() == 0
    assert (tmp_path / "stderr").read_text() == ""


def test_a_request_that_begins_when_the_service_stops_is_not_waited_for_either(monkeypatch):
    """Its head was read before the signal and handed on after it; its body has 30 seconds."""
    monkeypatch.setattr(guarding, "_GRACE", 0.1)

    async def stopped():
        guard, here = guarding.Guard(), socket.create_server((HERE, 0))
        listener = Listener(guard, asyncio.Protocol, here)
        reader, writer = await asyncio.open_connection(*here.getsockname())
        while not guard.connections:
            await asyncio.sleep(0.01)
        (connection,) = guard._open.values()
        listener.close()
        connection.began()
        told = await asyncio.wait_for(reader.read(), 25)
        writer.close()
        here.close()
        assert guard.problems["timeout"] == 1
        return told

    assert b"the body must arrive within 30 seconds" in asyncio.run(stopped())


@pytest.fixture
def certificate(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run(
        [*command, "-subj", "/CN=x", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    return "--cert", str(cert), "--key", str(key)


def test_handshakes_that_never_end_are_ended_too_and_count(tmp_path, certificate):
    """Before the handshake no HTTP server knows of them; and a few of one address are enough."""
    with (
        Process(tmp_path, *QUICK, "--per-address", "20", *certificate) as service,
        contextlib.ExitStack() as stack,
    ):
        silent = [stack.enter_context(connected(service)) for _ in range(40)]
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        with httpx.Client(
            transport=httpx.HTTPTransport(verify=trusting, local_address=ELSEWHERE),
            timeout=PATIENCE,
        ) as client:
            for _ in range(5):
                assert (
                    client.post(
                        f"{service.url}/v1/reports", content=report(), headers=JSON
                    ).status_code
                    == 201
                )
        assert all(not answer(wire) for wire in wait_for_ends(silent, 40))
        garbage = stack.enter_context(connected(service))
        garbage.sendall(GET)
        assert not (answer(garbage) or b"").startswith(b"HTTP")
        with trusting.wrap_socket(connected(service)) as wire:  # and inside TLS all is as outside
            wire.sendall(post("/v1/reports", 10))
            assert answer(wire).startswith(b"HTTP/1.1 408")
        assert service.stop() == 0
    assert (tmp_path / "stderr").read_text() == ""


def forwarded(service, client, *, source=HERE):
    """A request under way that a proxy passes on."""
    wire = connected(service, source)
    wire.sendall(
        post("/v1/reports", 10)[:-2] + b"x-forwarded-for: " + client.encode() + b"\r\n\r\n"
    )
    return wire


def test_behind_a_trusted_proxy_each_client_has_its_own_share(tmp_path):
    options = ("--open", "--proxy", f"{HERE}/32", "--per-address", "3", "--body-timeout", "20")
    with Process(tmp_path, *options) as service, contextlib.ExitStack() as stack:
        for client in (
            "192.0.2.1",
            "198.51.100.9, 192.0.2.1",
            "192.0.2.1:4711",
        ):  # what the client wrote itself is not believed
            stack.enter_context(forwarded(service, client))
        deadline = time.monotonic() + PATIENCE
        told = b""
        while (
            not told.startswith(b"HTTP/1.1 429") and time.monotonic() < deadline
        ):  # until the three are under way
            with forwarded(service, "192.0.2.1") as wire:
                wire.sendall(b"{}{}{}{}{}")
                told = wire.recv(65536)
        assert b'"code":"too_many_requests"' in told and b"retry-after" in told
        for client in ("192.0.2.2", "2001:db8::1"):
            with forwarded(service, client) as wire:
                wire.sendall(b"{}{}{}{}{}")
                assert wire.recv(65536).startswith(b"HTTP/1.1 400")
        # Nobody else is believed: by the address itself, and no more than its share
        for _ in range(3):
            stack.enter_context(forwarded(service, "192.0.2.77", source=ELSEWHERE))
        with forwarded(service, "192.0.2.78", source=ELSEWHERE) as wire:
            assert not answer(wire)


def test_the_proxy_s_own_connections_are_not_one_person_s(tmp_path):
    with (
        Process(tmp_path, "--open", "--proxy", HERE, "--per-address", "2") as service,
        contextlib.ExitStack() as stack,
    ):
        wires = [stack.enter_context(connected(service)) for _ in range(30)]
        for i, wire in enumerate(wires):
            wire.sendall(
                b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.%d\r\n\r\n" % i
            )
        assert all(wire.recv(65536).startswith(b"HTTP/1.1 200") for wire in wires)
