"""One node's rounds: it meets its neighbours, and never waits longer than the offer allows.

What arrives is handed to `Exchange.answer`, from any thread; what is sent and waited for is
yielded. A release needs no answer: the next one says that it has come; who hears nothing for a
second asks. `OK` and `LATER` name whom this node waits for itself: the one that is gone is named by
those, too, who never speak with it. A refusal ends the job at both ends; so do a timeout and a
stop.
"""

import threading
from collections.abc import Callable, Iterable, Mapping

from threadpoolctl import ThreadpoolController

from pdml.clock import Clock
from pdml.errors import Equivocation, PDMLError, PeerError, plain
from pdml.node.job.activity import Ask, Steps, Wait
from pdml.node.job.participant import Participant
from pdml.node.protocol.redaction import public_message
from pdml.node.protocol.requests import LATER, OK, REFUSED, PeerAnswer, RequestKind, read_answer

_FIRST, _ATTEMPT = 1.0, 10.0  # seconds before the first sending, and any, is tried again
_PAUSE = 0.25  # between two attempts
_LIBRARIES = ThreadpoolController()  # looks for them once: it takes milliseconds
_GLANCE = 0.5  # how often a waiting node looks whether it should stop


class Stopped(PDMLError):
    """Somebody else ended the job."""

    public = True


class Exchange:
    """A participant among its neighbours; ``after_round`` is called with each round's number."""

    def __init__(
        self,
        participant: Participant,
        *,
        clock: Clock,
        start_timeout: float,
        round_timeout: float,
        after_round: Callable[[int], None] = lambda t: None,
    ) -> None:
        self.participant, self._clock, self._after_round = participant, clock, after_round
        self._start_timeout, self._round_timeout = start_timeout, round_timeout
        self._lock, self._arrival = threading.RLock(), threading.Event()
        self._failure: Exception | None = None
        self._awaited: tuple[str, ...] = ()  # whom this node waits for
        self._awaited_by_peers: dict[str, str] = {}  # whom each neighbour says it waits for

    # What arrives, in any thread

    def answer(self, kind: str, peer: str, data: bytes) -> PeerAnswer:
        """Take one message; a bad one ends the job here, and its sender hears why."""
        participant = self.participant
        if peer not in participant.neighbours:
            return PeerAnswer(
                REFUSED, f"{peer or 'somebody'} is no neighbour of {participant.name}"
            )
        with self._lock:
            if self._failure is not None:
                return PeerAnswer(REFUSED, public_message(self._failure, participant.name))
            awaited = ", ".join(self._awaited)
            try:
                if kind == RequestKind.HELLO:
                    met = participant.welcome(peer, data)
                    messages = [participant.hello(peer), *(participant.resend(peer) if met else [])]
                    return PeerAnswer(OK if met else LATER, awaited, messages)
                if not participant.met(peer):
                    return PeerAnswer(LATER, awaited)
                participant.accept(peer, data)
                if participant.done:
                    participant.save()  # no next round does
            except Exception as error:  # `run` raises it, for this node's own log
                self._fail(error)
                return PeerAnswer(REFUSED, public_message(error, participant.name))
            self._arrival.set()
        return PeerAnswer(OK, awaited)

    def stop(self, sentence: str) -> None:
        """End the job from outside."""
        with self._lock:
            self._fail(Stopped(sentence))

    @property
    def equivocation(self) -> Equivocation | None:
        """A neighbour's, if that ended the job: after the last round `run` does not raise it."""
        return self._failure if isinstance(self._failure, Equivocation) else None

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._arrival.set()

    def statement(self) -> bytes:
        """This node's statement at the end."""
        with self._lock:
            return self.participant.statement()

    def stored_statement(self, server: str) -> bytes:
        """A statement that is here and on disk; b"" if there is none yet."""
        with self._lock:
            return self.participant.statements().get(server, b"")

    def store_statement(self, server: str, data: bytes) -> None:
        """Check and store another's statement."""
        with self._lock:
            self.participant.store_statement(server, data)

    def finish(self) -> None:
        """All statements are here: forget the inner state, and take no message any more."""
        with self._lock:
            self.participant.finish()
            self._fail(Stopped("the job has ended"))

    # What this node does, step by step

    def run(self) -> Steps[None]:
        """All rounds that are left, and the last one of every neighbour, of which the statement
        speaks; raises what ended the job."""
        if self.participant.complete:  # an earlier life did them; who lacks something asks for it
            return
        try:
            yield from self._meet(self.participant.neighbours)
            while not self.participant.done:
                t, messages = yield from self._advance()
                self._after_round(t)
                if self.participant.done:  # no next one tells that they have it
                    yield from self._deliver(messages, f"round {t}")
                else:
                    yield from self._send(RequestKind.RELEASE, messages, 0.0)
            yield from self._wait(lambda: self.participant.complete)
        except Exception as error:  # whoever speaks to this node from now on hears it
            with self._lock:
                self._fail(error)
            raise

    def _meet(self, neighbours: Iterable[str]) -> Steps[None]:
        """Say where this node stands, hear where the neighbours do, hand over what either lacks."""
        missing, patience = set(neighbours), _FIRST
        limit = self._start_timeout
        deadline = self._until(limit)
        while missing:
            with self._lock:
                hellos = {peer: self.participant.hello(peer) for peer in sorted(missing)}
            answers = yield from self._try(
                RequestKind.HELLO, hellos, deadline, limit, "the start", patience
            )
            patience = _FIRST if len(answers) == len(hellos) else 2 * patience
            for peer, answer in answers.items():
                if answer.state == OK and not answer.messages:
                    raise PeerError(f"{peer} answered a hello with nothing")
                with self._lock:
                    met = bool(answer.messages) and self.participant.welcome(
                        peer, answer.messages[0]
                    )
                    if not met or answer.state != OK:
                        continue  # one of the two has yet to answer the other's challenge
                    for message in answer.messages[1:]:
                        self.participant.accept(peer, message)
                    lacking = self.participant.resend(peer)
                missing.discard(peer)
                for message in lacking:
                    yield from self._deliver({peer: message}, "what was missing")

    def _advance(self) -> Steps[tuple[int, dict[str, bytes]]]:
        """Wait for the neighbours, then commit the next round. They remember the last one: no node
        can be set back by a round and release another."""
        yield from self._wait(lambda: self.participant.ready)
        with self._lock:
            self._check()
            with _LIBRARIES.limit(limits=1):  # as in the local engine: sums in one order
                t = self.participant.advance()
            return t, {
                peer: self.participant.message(peer, t) for peer in self.participant.neighbours
            }

    def _wait(self, ready: Callable[[], bool]) -> Steps[None]:
        """Until ``ready``. Whoever is silent may lack what this node has sent: it is sent again."""
        participant, limit = self.participant, self._round_timeout
        deadline, patience = self._until(limit), _FIRST
        while True:
            again = self._clock.monotonic() + patience
            while True:
                self._arrival.clear()
                with self._lock:
                    if ready():
                        return
                    what = f"their release of round {participant.round}"
                    self._check(deadline, limit, participant.missing, what)
                    if (left := again - self._clock.monotonic()) <= 0:
                        resent = {peer: participant.resend_recent(peer) for peer in self._awaited}
                        break
                yield Wait(min(_GLANCE, left), self._arrival)
                if not self._arrival.is_set():
                    with self._lock:
                        participant.save()
            for messages in zip(*resent.values(), strict=True):
                timeout = min(patience, _ATTEMPT)
                by_peer = dict(zip(resent, messages, strict=True))
                answers = yield from self._send(RequestKind.RELEASE, by_peer, timeout)
                yield from self._meet_again(answers)
            patience *= 2

    def _deliver(self, messages: Mapping[str, bytes], what: str) -> Steps[None]:
        """Until every neighbour has said that it has its message; saying it twice does no harm."""
        missing, limit, patience = dict(messages), self._round_timeout, _FIRST
        deadline = self._until(limit)
        while missing:
            answers = yield from self._try(
                RequestKind.RELEASE, missing, deadline, limit, what, patience
            )
            for peer, answer in answers.items():
                if answer.state == OK:
                    del missing[peer]
            yield from self._meet_again(answers)
            patience *= 2

    def _meet_again(self, answers: Mapping[str, PeerAnswer]) -> Steps[None]:
        """Whoever was killed after its last round does not say hello again, and takes no release
        before one: who lacks something of it says it."""
        later = [peer for peer, answer in answers.items() if answer.state == LATER]
        if self.participant.done and later:
            yield from self._meet(later)

    def _try(
        self,
        kind: RequestKind,
        messages: Mapping[str, bytes],
        deadline: float,
        limit: float,
        what: str,
        patience: float,
    ) -> Steps[dict[str, PeerAnswer]]:
        """One attempt; a refusal ends the job, and so does the deadline."""
        with self._lock:
            self._check(deadline, limit, tuple(messages), f"an answer to {what}")
        left = deadline - self._clock.monotonic()
        answers = yield from self._send(kind, messages, max(0.1, min(patience, _ATTEMPT, left)))
        if any(peer not in answers or answers[peer].state == LATER for peer in messages):
            with self._lock:
                self.participant.save()
            yield Wait(_PAUSE)
        return answers

    def _send(
        self, kind: RequestKind, messages: Mapping[str, bytes], timeout: float
    ) -> Steps[dict[str, PeerAnswer]]:
        """A refusal ends the job. With a timeout of 0 no answer is waited for."""
        digest = self.participant.terms.digest
        replies = yield Ask(kind=kind, messages=dict(messages), timeout=timeout, job=digest)
        answers = {}
        for peer, data in replies.items():
            answer = read_answer(data)
            if answer is None:
                continue
            answers[peer] = answer
            if answer.state not in (OK, LATER):
                with self._lock:
                    self._check()  # its refusal may be the echo of ours
                    sentence = plain(answer.sentence)
                    self._fail(PeerError(f"{peer} refused {self.participant.name}: {sentence}"))
                    self._check()
            self._awaited_by_peers[peer] = answer.sentence
        return answers

    def _until(self, limit: float) -> float:
        self._awaited_by_peers.clear()
        return self._clock.monotonic() + limit

    def _check(
        self,
        deadline: float | None = None,
        limit: float = 0.0,
        missing: tuple[str, ...] = (),
        what: str = "",
    ) -> None:
        """Called with the lock held: remember who is waited for, and raise what ended the job."""
        self._awaited = tuple(sorted(missing))
        late = deadline is not None and self._clock.monotonic() > deadline
        if self._failure is None and late:
            balance = f"; {self.participant.balance}" if self.participant.balance else ""
            names = ", ".join(self._describe(peer) for peer in self._awaited)
            self._fail(
                PeerError(
                    f"{self.participant.name} waited {limit:g} s for {names} to send "
                    f"{what}{balance}"
                )
            )
        if self._failure is not None:
            raise self._failure

    def _describe(self, peer: str) -> str:
        """Its name, and whom it waits for by its own word, if these are others alone: who waits for
        each other has lost messages."""
        names = set(self._awaited_by_peers.get(peer, "").split(", "))
        others = sorted(names.intersection(self.participant.terms.servers) - {peer})
        if not others or self.participant.name in others:
            return peer
        return f"{peer} (which says it waits for {', '.join(others)})"
