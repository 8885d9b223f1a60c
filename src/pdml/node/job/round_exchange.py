"""One node's part in a job: it meets its neighbours, does its rounds, and never waits longer than
it was told to.

Whoever carries the bytes is handed in as ``send``, and hands what arrives to
`Exchange.print_answer`, from any thread. A release needs no answer: the neighbour's next one says
that it has come. Who hears nothing for a second says it again as a question. Every question is
answered: `OK`, `LATER` (this node is not ready; ask again) or `REFUSED` with one sentence. The
first two name whom this node waits for itself: the one that is gone is named by those, too, who
never speak with it. A refused message ends the job at both ends; so do a timeout and a stop. The
journal keeps what was spent.
"""

import time
from collections.abc import Callable, Mapping
from threading import Condition

import msgspec
from threadpoolctl import ThreadpoolController

from pdml.errors import Equivocation, PDMLError, PeerError, plain
from pdml.formats import decode
from pdml.node.job.participant import Participant
from pdml.node.protocol.redaction import public_message

HELLO, RELEASE = "pdml.hello", "pdml.release"
OK, LATER, REFUSED = "ok", "later", "refused"

_FIRST, _ATTEMPT = 1.0, 10.0  # seconds before the first sending, and any, is tried again
_PAUSE = 0.25  # between two attempts
_LIBRARIES = ThreadpoolController()  # looks for them once: it takes milliseconds
_GLANCE = 0.5  # how often a waiting node looks whether it should stop


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node says to a message."""

    state: str
    sentence: str = ""
    messages: list[bytes] = []


def decoded_answer(data: bytes) -> Answer | None:
    """An answer as it arrived; None if it is none."""
    try:
        answer: Answer = decode(data, Answer, msgspec.msgpack.decode)
    except msgspec.DecodeError:
        return None
    return answer


Send = Callable[[str, Mapping[str, bytes], float], Mapping[str, Answer]]
"""(topic, message by neighbour, timeout) -> answer by neighbour; who is missing did not answer.
With a timeout of 0 nobody has to."""


class Stopped(PDMLError):
    """Somebody else ended the job."""

    public = True


class Exchange:
    """A party on the air. ``meanwhile`` is called after each round with its number."""

    def __init__(
        self,
        party: Participant,
        send: Send,
        *,
        start_timeout: float,
        round_timeout: float,
        meanwhile: Callable[[int], None] = lambda t: None,
    ) -> None:
        self.party, self._send, self._meanwhile = party, send, meanwhile
        self._start_timeout, self._round_timeout = start_timeout, round_timeout
        self._changed = Condition()
        self._failure: Exception | None = None
        self._awaited: tuple[str, ...] = ()  # whom this node waits for
        self._theirs: dict[str, str] = {}  # whom each neighbour says it waits for

    # What arrives, in any thread

    def answer(self, topic: str, peer: str, data: bytes) -> Answer:
        """Take one message; a bad one ends the job here, and its sender is told why (`told`)."""
        if peer not in self.party.neighbours:
            return Answer(REFUSED, f"{peer or 'somebody'} is no neighbour of {self.party.name}")
        with self._changed:
            if self._failure is not None:
                return Answer(REFUSED, public_message(self._failure, self.party.name))
            awaited = ", ".join(self._awaited)
            try:
                if topic == HELLO:
                    met = self.party.welcome(peer, data)
                    messages = [self.party.hello(peer), *(self.party.resend(peer) if met else [])]
                    return Answer(OK if met else LATER, awaited, messages)
                if not self.party.met(peer):
                    return Answer(LATER, awaited)
                self.party.accept(peer, data)
                if self.party.done:
                    self.party.save()  # no next round does
            except Exception as error:  # `run` raises it, for this node's own log
                self._fail(error)
                return Answer(REFUSED, public_message(error, self.party.name))
            self._changed.notify_all()
        return Answer(OK, awaited)

    def stop(self, sentence: str) -> None:
        """End the job from outside."""
        with self._changed:
            self._fail(Stopped(sentence))

    @property
    def contradiction(self) -> Equivocation | None:
        """A neighbour's, if that ended the job: it may come after the last round, when `run` does
        not raise it any more, and its proof must not be lost.
        """
        return self._failure if isinstance(self._failure, Equivocation) else None

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._changed.notify_all()

    def statement(self) -> bytes:
        """What this node says at the end; see `Party.statement`."""
        with self._changed:
            return self.party.statement()

    def stored_statement(self, server: str) -> bytes:
        """A statement that is here and on disk; b"" if there is none yet."""
        with self._changed:
            return self.party.statements().get(server, b"")

    def hear_statement(self, server: str, data: bytes) -> None:
        """Take another's statement; see `Party.hear_statement`."""
        with self._changed:
            self.party.hear_statement(server, data)

    def finish(self) -> None:
        """Everybody has spoken: forget the inner state, and take no message any more."""
        with self._changed:
            self.party.finish()
            self._fail(Stopped("the job has ended"))

    # What this node does, in one thread

    def run(self) -> None:
        """All rounds that are left, until the last one of every neighbour is here: the statement
        tells it. Raises what ended the job."""
        if self.party.complete:  # an earlier life did them; who lacks something asks for it
            return
        try:
            self._meet()
            while not self.party.done:
                t, messages = self._advance()
                self._meanwhile(t)
                if self.party.done:  # no next one tells that they have it
                    self._deliver(messages, f"round {t}")
                else:
                    self._say(RELEASE, messages, 0.0)
            self._hear_out()
        except Exception as error:  # whoever speaks to this node from now on is told
            with self._changed:
                self._fail(error)
            raise

    def _meet(self) -> None:
        """Say where this node stands, hear where the neighbours do, and hand over what either
        lacks.
        """
        missing, patience = set(self.party.neighbours), _FIRST
        deadline = self._until(self._start_timeout)
        while missing:
            with self._changed:
                greetings = {peer: self.party.hello(peer) for peer in sorted(missing)}
            answers = self._try(
                HELLO, greetings, deadline, self._start_timeout, "the start", patience
            )
            patience *= 2
            for peer, answer in answers.items():
                if answer.state == OK and not answer.messages:
                    raise PeerError(f"{peer} answered a hello with nothing")
                with self._changed:
                    met = bool(answer.messages) and self.party.welcome(peer, answer.messages[0])
                    if not met or answer.state != OK:
                        continue  # one of the two has yet to answer the other's challenge
                    for message in answer.messages[1:]:
                        self.party.accept(peer, message)
                    owed = self.party.resend(peer)
                missing.discard(peer)
                for message in owed:
                    self._deliver({peer: message}, "what was missing")

    def _advance(self) -> tuple[int, dict[str, bytes]]:
        """Wait for the neighbours, then commit the next round. They do not need the last one, but
        they remember it: so that no node can be set back by a round and release another."""
        self._wait(lambda: self.party.ready)
        with self._changed:
            self._check()
            with _LIBRARIES.limit(limits=1):  # as in the local engine: sums in one order
                t = self.party.advance()
            return t, {peer: self.party.message(peer, t) for peer in self.party.neighbours}

    def _hear_out(self) -> None:
        self._wait(lambda: self.party.complete)

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until ``ready``. Whoever is silent may lack what this node has said: it is said again."""
        deadline, patience = self._until(self._round_timeout), _FIRST
        while True:
            again = time.monotonic() + patience
            with self._changed:
                what = f"their release of round {self.party.round}"
                while not ready() and (left := again - time.monotonic()) > 0:
                    self._check(deadline, self._round_timeout, self.party.missing, what)
                    if not self._changed.wait(min(_GLANCE, left)):
                        self.party.save()
                if ready():
                    return
                self._check(deadline, self._round_timeout, self.party.missing, what)
                owed = {peer: self.party.owed(peer) for peer in self.party.missing}
            for messages in zip(*owed.values(), strict=True):
                self._say(RELEASE, dict(zip(owed, messages, strict=True)), min(patience, _ATTEMPT))
            patience *= 2

    def _deliver(self, messages: Mapping[str, bytes], what: str) -> None:
        """Until every neighbour has said that it has its message; saying it twice does no harm."""
        missing, deadline, patience = dict(messages), self._until(self._round_timeout), _FIRST
        while missing:
            for peer, answer in self._try(
                RELEASE, missing, deadline, self._round_timeout, what, patience
            ).items():
                if answer.state == OK:
                    del missing[peer]
            patience *= 2

    def _try(
        self,
        topic: str,
        messages: Mapping[str, bytes],
        deadline: float,
        limit: float,
        what: str,
        patience: float,
    ) -> Mapping[str, Answer]:
        """One attempt; a refusal ends the job, and so does the deadline."""
        with self._changed:
            self._check(deadline, limit, tuple(messages), f"an answer to {what}")
        answers = self._say(
            topic, messages, max(0.1, min(patience, _ATTEMPT, deadline - time.monotonic()))
        )
        if any(peer not in answers or answers[peer].state == LATER for peer in messages):
            with self._changed:
                self.party.save()
            time.sleep(_PAUSE)
        return answers

    def _say(
        self, topic: str, messages: Mapping[str, bytes], timeout: float
    ) -> Mapping[str, Answer]:
        """Send; a refusal ends the job. With a timeout of 0 no answer is waited for."""
        answers = self._send(topic, dict(messages), timeout)
        for peer, answer in answers.items():
            if answer.state not in (OK, LATER):
                with self._changed:
                    self._check()  # its refusal may be the echo of ours
                    self._fail(
                        PeerError(f"{peer} refused {self.party.name}: {plain(answer.sentence)}")
                    )
                    self._check()
            self._theirs[peer] = answer.sentence
        return answers

    def _until(self, limit: float) -> float:
        """The deadline of a wait that begins now."""
        self._theirs.clear()
        return time.monotonic() + limit

    def _check(
        self,
        deadline: float | None = None,
        limit: float = 0.0,
        missing: tuple[str, ...] = (),
        what: str = "",
    ) -> None:
        """Called with the lock held: remember who is waited for, and raise what ended the job."""
        self._awaited = tuple(sorted(missing))
        if self._failure is None and deadline is not None and time.monotonic() > deadline:
            balance = f"; {self.party.balance}" if self.party.balance else ""
            self._fail(
                PeerError(
                    f"{self.party.name} waited {limit:g} s for "
                    f"{', '.join(self._named(peer) for peer in self._awaited)} "
                    f"to send {what}{balance}"
                )
            )
        if self._failure is not None:
            raise self._failure

    def _named(self, peer: str) -> str:
        """With whom it says it waits for, if these are others alone: who waits for each other has
        lost what was said between them.
        """
        names = set(self._theirs.get(peer, "").split(", "))
        others = sorted(names.intersection(self.party.contract.servers) - {peer})
        if not others or self.party.name in others:
            return peer
        return f"{peer} (which says it waits for {', '.join(others)})"
