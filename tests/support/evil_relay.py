"""A relay that does what it likes: it speaks NATS with the true certificate, and every message
passes its hands.

``bend(sender, subject, payload)`` returns what is delivered instead: a list of (seconds to wait,
subject, payload). ``greeting``: bytes instead of its INFO.
"""

import asyncio
import json
import ssl
import threading

from pdml.node.crypto import tls


def honest(subject, payload):
    return [(0.0, subject, payload)]


class EvilRelay:
    def __init__(
        self,
        federation,
        bend=honest,
        *,
        certificate=None,
        nonce="evil-relay-nonce",
        greeting=None,
    ):
        self.bend, self.nonce, self.greeting = bend, nonce, greeting
        self.calls = 0
        self.seen = bytearray()  # everything that arrived, after TLS
        self.subjects, self.signatures = [], []
        self.clients = {}  # writer -> {sid: subject}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        folder = certificate or federation.relay_folder
        context.load_cert_chain(folder / tls.CERTIFICATE, folder / tls.KEY)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        relay = federation.study.relay
        serving = asyncio.start_server(self._serve, relay.host, relay.port, ssl=context)
        self.server = asyncio.run_coroutine_threadsafe(serving, self.loop).result(10)

    def close(self):
        async def end():
            self.server.close()
            for writer in list(self.clients):
                writer.transport.abort()
            await asyncio.sleep(0.05)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0.05)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def say(self, subject, payload):
        """Deliver something of its own."""
        asyncio.run_coroutine_threadsafe(self._deliver(0.0, subject, payload), self.loop).result(10)

    def send_raw(self, data):
        """Bytes to every client, whatever they are."""

        async def write():
            for writer in list(self.clients):
                writer.write(data)

        asyncio.run_coroutine_threadsafe(write(), self.loop).result(10)

    async def _serve(self, reader, writer):
        info = {
            "server_id": "evil",
            "version": "2.15.0",
            "max_payload": 1 << 26,
            "auth_required": True,
            "nonce": self.nonce,
            "headers": True,
        }
        self.calls += 1
        greeting = f"INFO {json.dumps(info)}\r\n".encode()
        writer.write(greeting if self.greeting is None else self.greeting)
        self.clients[writer] = {}
        try:
            while line := await reader.readuntil(b"\r\n"):
                self.seen += line
                word, *rest = line.split()
                if word == b"CONNECT":
                    self.signatures.append(json.loads(line.split(b" ", 1)[1]).get("sig"))
                elif word == b"PING":
                    writer.write(b"PONG\r\n")
                elif word == b"SUB":
                    self.clients[writer][rest[-1].decode()] = rest[0].decode()
                elif word == b"PUB":
                    payload = await reader.readexactly(int(rest[-1]) + 2)
                    self.seen += payload
                    subject = rest[0].decode()
                    self.subjects.append(subject)
                    for wait, where, what in self.bend(subject, payload[:-2]):
                        task = asyncio.ensure_future(self._deliver(wait, where, what))
                        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            pass
        finally:
            self.clients.pop(writer, None)
            writer.close()

    async def _deliver(self, wait, subject, payload):
        if wait:
            await asyncio.sleep(wait)
        for writer, known in list(self.clients.items()):
            for sid, pattern in known.items():
                if matches(pattern, subject):
                    writer.write(
                        f"MSG {subject} {sid} {len(payload)}\r\n".encode() + payload + b"\r\n"
                    )


def matches(pattern, subject):
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(given) >= len(wanted) and all(
            w in ("*", g) for w, g in zip(wanted[:-1], given, strict=False)
        )
    return len(wanted) == len(given) and all(
        w in ("*", g) for w, g in zip(wanted, given, strict=True)
    )
