"""Sealed requests and answers between nodes over one outgoing TLS connection to the relay (NATS).

    pdml.<to>.<from>.q.<request>    a request           pdml.<to>.<from>.a.<request>    its answer
    pdml.<to>.<from>.t.<request>    what needs no answer
    pdml.<me>.-.none.<request>      the relay's word that nobody listens

The relay lets a node publish in its own name only, and hear only what is for it. Requests are
taken in threads, one at a time for each peer: who floods fills its own queue, and no other.
"""

import asyncio
import contextlib
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from pdml.clock import Clock
from pdml.errors import PeerError, plain
from pdml.node.crypto import tls
from pdml.node.crypto.hpke import OVERHEAD, Context, Sealer, UnknownSession
from pdml.node.crypto.signing import Identity
from pdml.node.crypto.tls import RelayContext
from pdml.node.job.activity import ConnectionChanged, Handle
from pdml.node.job.statements import CHUNK
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.node_dir import NodeDirectory
from pdml.study import Relay, Study

WAITING = 64  # requests of one peer that may wait here
_MEMBER = 128  # bytes that one member's acceptance may take
_CONNECT, _AGAIN, _PING = 5, 0.5, 10  # seconds: to connect, between attempts, between signs of life
_LAST = 1.0  # seconds for what is still on its way when the transport closes

log = logging.getLogger("pdml.node")


def token(name: str) -> str:
    """A server's name as one word of a subject; dots would part it."""
    return name.replace(".", "=")


def publish_subject(name: str) -> str:
    return f"pdml.*.{token(name)}.>"


def subscribe_subject(name: str) -> str:
    return f"pdml.{token(name)}.>"


def most_subscriptions(study: Study) -> int:
    """What a node subscribes to: answers, the relay's own word, and two kinds from each other."""
    return 2 + 2 * (len(study.servers) - 1)


def most_payload(study: Study) -> int:
    """The longest message that this study needs: the relay and every node refuse more."""
    names = [server.name for server in study.servers]
    answers = [
        min(wire_messages.ANSWERS, 1 + job.plan.rounds) * wire_messages.most_bytes(job.shape, names)
        for job in JobTerms.largest(study)
    ]
    return max([*answers, CHUNK, _MEMBER * len(names)]) + OVERHEAD


class _Parser(Parser):
    """Refuses to gather more than the longest message. Whatever it cannot read ends the connection:
    the library would stop to read, and wait."""

    most = 1 << 16

    async def parse(self, data: bytes = b"") -> None:
        try:
            await super().parse(data)
        except Exception as error:
            raise ProtocolError from error
        if max(self.needed, len(self.buf)) > self.most + 8192:
            raise ProtocolError


class _Connection(Client):
    """One attempt to reach one address. A relay is not trusted: of its greeting only the login
    challenge counts, and other addresses that it names are never called."""

    def __init__(self, identity: Identity, most: int) -> None:
        super().__init__()
        # The library wants the private key, and would sign whatever it is sent.
        self._public_nkey = identity.nkey
        self._ps = _Parser(self)
        self._ps.most = self._most = most

    async def _select_next_server(self) -> None:
        (self._current_server,) = self._server_pool
        await self._connect_to_server(self._current_server)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection:
            nonce = info.get("nonce")
            if not isinstance(nonce, str):
                raise NatsError("its greeting holds no login challenge")
            self._auth_configured = True
            self._server_info = {"nonce": nonce, "headers": True, "max_payload": self._most}


async def _drop(client: Client) -> None:
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), _LAST)
    if client._transport:
        client._transport.close()  # type: ignore[no-untyped-call]


class NatsTransport:
    """This node's connection to the relay: a `pdml.node.job.activity.Transport`."""

    def __init__(
        self, sealer: Sealer, identity: Identity, study: Study, relay: Relay, clock: Clock
    ) -> None:
        self.name, self._sealer, self._identity, self._study = sealer.name, sealer, identity, study
        self._relay, self._clock = relay, clock
        self._handle: Handle = lambda context, content: None
        self._changed: ConnectionChanged = lambda up, why: None
        self._most = most_payload(study)
        self.tls = RelayContext.towards(relay.fingerprint)
        self._peers = [server.name for server in study.servers if server.name != self.name]
        self._waiting: dict[str, tuple[str, asyncio.Future[bytes | None]]] = {}
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(
            min(64, 2 * len(self._peers) + 2), thread_name_prefix="pdml-answer"
        )
        self._sealing = threading.Lock()
        self._client: Client | None = None
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="pdml-transport", daemon=True)

    @classmethod
    def of_node(cls, directory: NodeDirectory, clock: Clock, *, relay: str = "") -> "NatsTransport":
        """``relay``: another way to it (HOST:PORT); its certificate must be the pinned one."""
        study, identity = directory.checked_study(), directory.identity()
        assert study.relay is not None  # `NodeDirectory.join` has seen to it
        keys = {server.name: server.sealing_key for server in study.servers}
        key, signing = directory.sealing(), study.signing_keys
        sealer = Sealer(directory.name, identity, key, signing=signing, sealing=keys)
        address = replace(study.relay, address=relay) if relay else study.relay
        return cls(sealer, identity, study, address, clock)

    def start(self, handle: Handle, changed: ConnectionChanged) -> None:
        """Connect, and go on trying for ever; returns at once."""
        self._handle, self._changed = handle, changed
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._stay(), self._loop)

    def certificate_end(self) -> float | None:
        certificate = self.tls.peer_certificate
        return tls.ends(certificate).timestamp() if certificate else None

    def close(self) -> None:
        if self._thread.is_alive():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result(2 * _LAST)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_LAST)
        self._threads.shutdown(cancel_futures=True)

    def _live(self) -> None:
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:  # nobody waits for an answer that can come no more
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.close()

    # The connection

    async def _stay(self) -> None:
        """One connection after another. What a relay says may break the library anywhere, so every
        error ends a connection, and none ends this."""
        while not self._ended.is_set():
            client = _Connection(self._identity, self._most)
            try:
                await asyncio.wait_for(self._connect(client), 4 * _CONNECT)
                await self._watch(client)
                self._changed(False, "the connection to the relay is lost")
            except Exception as error:
                self._client = None
                await self._failed(error)
            self._client = None
            await _drop(client)
            await self._clock.sleep_async(_AGAIN)

    async def _connect(self, client: Client) -> None:
        await client.connect(
            f"tls://{self._relay.address}",
            name=self.name,
            tls=self.tls,
            tls_hostname=self._relay.host,
            tls_handshake_first=True,
            signature_cb=self._identity.log_in,
            connect_timeout=_CONNECT,
            allow_reconnect=False,  # its own way back ends for good at the first strange greeting
            error_cb=self._failed,
        )
        await self._subscribe(client)
        if not client.is_connected:
            raise NatsError("it did not take the login")
        self._client = client
        self._changed(True, "")

    async def _watch(self, client: Client) -> None:
        while True:
            for _ in range(round(_PING / _AGAIN)):
                await self._clock.sleep_async(_AGAIN)
                if not client.is_connected:  # asked: hanging up may fail before it is told
                    return
            await asyncio.wait_for(client.flush(_PING), _PING)

    async def _subscribe(self, client: Client) -> None:
        me, most = token(self.name), WAITING * self._most
        await client.subscribe(f"pdml.{me}.*.a.*", cb=self._answered, pending_bytes_limit=most)
        await client.subscribe(f"pdml.{me}.-.none.*", cb=self._handle_no_responders)
        for peer in self._peers:
            for kind in ("q", "t"):
                await client.subscribe(
                    f"pdml.{me}.{token(peer)}.{kind}.*",
                    cb=self._make_handler(peer, answers=kind == "q"),
                    pending_msgs_limit=WAITING,
                    pending_bytes_limit=most,
                )
        await client.flush()

    async def _hang_up(self) -> None:
        self._ended.set()
        if self._client is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._client.flush(), _LAST)
            await _drop(self._client)

    async def _failed(self, error: Exception) -> None:
        silent = isinstance(error, TimeoutError)
        text = "it does not answer" if silent else plain(str(error)) or type(error).__name__
        log.debug("relay: %s", text)
        if self._client is None or not self._client.is_connected:
            self._changed(False, f"the relay {self._relay.address} cannot be used: {text}")

    # Requests of this node

    def ask(
        self, kind: str, messages: Mapping[str, bytes], *, job: str = "", timeout: float
    ) -> dict[str, bytes]:
        """Ask several peers at once; who is missing in the result did not answer in time. With a
        timeout of 0 nobody answers."""
        if self._ended.is_set():
            return {}
        asking = self._ask_all(kind, messages, job, timeout)
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._loop).result(timeout + _CONNECT)
        except RuntimeError:  # the loop is closed
            asking.close()
            return {}
        except (CancelledError, TimeoutError):  # it closed meanwhile
            return {}

    async def _ask_all(
        self, kind: str, messages: Mapping[str, bytes], job: str, timeout: float
    ) -> dict[str, bytes]:
        requests = [
            self._ask(kind, peer, content, job, timeout) for peer, content in messages.items()
        ]
        answers = await asyncio.gather(*requests)
        return {
            peer: answer
            for peer, answer in zip(messages, answers, strict=True)
            if answer is not None
        }

    async def _ask(
        self, kind: str, peer: str, content: bytes, job: str, timeout: float
    ) -> bytes | None:
        deadline = self._clock.monotonic() + timeout
        for _ in range(2):  # a second time with this node's key, if the peer has lost it
            request = secrets.token_hex(8)
            context = Context(self._study.hash, job, kind, self.name, peer, request)
            with self._sealing:
                data = self._sealer.seal(context, content)
            left = max(deadline - self._clock.monotonic(), 0.05) if timeout else 0.0
            reply = await self._exchange(peer, request, data, left)
            if reply is None:
                return None
            with self._sealing:
                if not reply:
                    self._sealer.forget(peer, job)
                    continue
                try:
                    return self._sealer.open_answer(context, reply)
                except PeerError as error:
                    log.warning("an answer was dropped: %s", error)
                    return None
        return None

    async def _exchange(self, peer: str, request: str, data: bytes, timeout: float) -> bytes | None:
        if self._client is None or not self._client.is_connected or len(data) > self._most:
            return None
        me = token(self.name)
        if timeout <= 0:
            with contextlib.suppress(NatsError):
                await self._client.publish(f"pdml.{token(peer)}.{me}.t.{request}", data)
            return None
        arrived: asyncio.Future[bytes | None] = self._loop.create_future()
        self._waiting[request] = peer, arrived
        try:
            await self._client.publish(
                f"pdml.{token(peer)}.{me}.q.{request}", data, reply=f"pdml.{me}.-.none.{request}"
            )
            return await asyncio.wait_for(arrived, timeout)
        except (TimeoutError, NatsError):
            return None
        finally:
            del self._waiting[request]

    async def _answered(self, message: Msg) -> None:
        _, _, sender, _, request = message.subject.split(".")
        peer, arrived = self._waiting.get(request, ("", None))
        if arrived is not None and token(peer) == sender and not arrived.done():
            arrived.set_result(message.data)

    async def _handle_no_responders(self, message: Msg) -> None:
        """The relay knows of no subscriber: the peer is not there, and waiting for it is idle."""
        _, arrived = self._waiting.get(message.subject.rpartition(".")[2], ("", None))
        if arrived is not None and not arrived.done():
            arrived.set_result(None)

    # Requests of others

    def _make_handler(self, peer: str, *, answers: bool) -> Callable[[Msg], Any]:
        async def handle(message: Msg) -> None:
            request = message.subject.rpartition(".")[2]
            reply = await self._loop.run_in_executor(
                self._threads, self._answer, peer, request, message.data
            )
            if answers and reply is not None and self._client is not None:
                with contextlib.suppress(NatsError):
                    await self._client.publish(
                        f"pdml.{token(peer)}.{token(self.name)}.a.{request}", reply
                    )

        return handle

    def _answer(self, peer: str, request: str, data: bytes) -> bytes | None:
        """What cannot have come from ``peer`` is dropped without a word: it accuses nobody."""
        try:
            if len(data) > self._most:
                raise PeerError(
                    f"{len(data)} bytes came in the name of {peer}, more than any message needs"
                )
            with self._sealing:
                context, content, session = self._sealer.open(peer, data)
            if context.request != request:
                raise PeerError(f"a message of {peer} came a second time under another number")
            answer = self._handle(context, content)
            if answer is None:
                return None
            with self._sealing:
                return self._sealer.answer(context, session, answer)
        except UnknownSession:
            return b""
        except PeerError as error:
            log.warning("dropped: %s", error)
        except Exception:
            log.exception("a request of %s could not be answered", peer)
        return None
