"""One organisation in one job: its method's state machine with journal and signed messages, without
sockets or a clock. Called in any order, from one thread at a time."""

import secrets
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pdml.accounting import Budget, Ledger, last_safe_round
from pdml.accounting.events import IterateReleased, SumsReleased
from pdml.errors import BudgetExceeded, Equivocation, InvalidInput, JournalError, PeerError
from pdml.mechanisms.randomness import Source
from pdml.node.crypto.signing import Identity
from pdml.node.job import statements
from pdml.node.job.sums_participant import SumsNode
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol import equivocation, signed_statement, wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import JobState, Journal
from pdml.numerics.admm import steps
from pdml.training.server import Node, compiles
from pdml.training.sums_release import check_sums


class TrainingMachine(Protocol):
    """One server in training: `pdml.training.server.Node`, or
    `pdml.node.job.sums_participant.SumsNode`. Its states have ``t`` and ``sent``."""

    def start(self) -> Any: ...

    def step(self, state: Any, messages: list[Any]) -> tuple[Any, NDArray[Any]]: ...

    def replay(self, state: Any, messages: list[Any], released: NDArray[Any]) -> Any: ...


class Participant:
    """This node's part in the job of ``terms``. Opening it again after a crash continues where the
    journal stands.

    Guarantees
    ----------
    - A release is committed, with its events, before `message` can return it; a round is never
      released twice with different bytes.
    - The job is refused if the whole of it, after everything this data set has released before,
      exceeds ``budget``.
    - What a neighbour says is used only if it is signed, of these terms, of the expected round
      and of a sane length; it may not differ from what the neighbour said before.
    """

    def __init__(
        self,
        terms: JobTerms,
        name: str,
        training_data: TrainingData,
        *,
        journal: Journal,
        identity: Identity,
        keys: Mapping[str, str],
        source: Source,
        budget: Budget | None = None,
        shared: Mapping[str, bytes] | None = None,
    ) -> None:
        """``shared``: this node's secret with each other one, of which masks are made."""
        self.terms, self.name, self.training_data = terms, name, training_data
        self._source, self._shared = source, shared or {}
        self.neighbours = terms.neighbours(name)
        self._journal, self._identity, self._keys = journal, identity, keys
        check_job(
            terms,
            name,
            training_data,
            keys=keys,
            journal=journal,
            source=source.name,
            budget=budget or Budget(),
        )
        self._events = terms.plan.events(training_data.server.spec)
        self._dataset = identity.alias(training_data.dataset)
        self._life = secrets.token_hex(16)
        self._challenges = {peer: secrets.token_hex(16) for peer in self.neighbours}
        self._echoes: dict[str, str] = {}  # each neighbour's challenge to this node
        # Processes of each neighbour that were met.
        self._lives: dict[str, set[str]] = {peer: set() for peer in self.neighbours}
        self._peer_round: dict[str, int] = {}
        self._node, self._state = self._open()

    def _open(self) -> tuple[TrainingMachine, Any]:
        terms, journal, source = self.terms, self._journal, self._source.name
        entry, purpose = journal.job(terms.job), f"{terms.digest} {self.name}".encode()
        if entry is None:
            node, inner = self._machine(None)
            journal.begin(
                terms.job,
                terms=terms.digest,
                server=self.name,
                dataset=self.training_data.dataset,
                source=source,
                sealed=self._identity.seal(inner, purpose),
                plan=statements.study_and_plan(terms),
            )
            return node, node.start()
        stored = (entry.terms, entry.server, entry.dataset)
        if stored != (terms.digest, self.name, self.training_data.dataset):
            other = "is in the journal with other terms, another server or data set"
            raise JournalError(f"job {terms.job} {other}: give it another name").mark_public()
        if entry.state == JobState.FINISHED:
            raise JournalError(f"job {terms.job} is finished: give it another name").mark_public()
        node, _ = self._machine(self._identity.unseal(journal.sealed(terms.job), purpose))
        state = node.start()
        for t in range(1, entry.round + 1):
            inbox = journal.inbox(terms.job, t - 1)
            released = self._unpacked(journal.outgoing(terms.job, t))
            state = node.replay(state, self._in_order(inbox), released)
        return node, state

    def _machine(self, inner: bytes | None) -> tuple[TrainingMachine, bytes]:
        """The state machine, and its inner state to be kept (q_i - η_i/n; of sums nothing).
        ``inner`` is what an earlier life kept."""
        server, plan = self.training_data.server, self.terms.plan
        if self.terms.sums:
            return SumsNode(self.terms, server, self._source, self._shared), b""
        linear = None if inner is None else self._unpacked(inner)
        flag = compiles(server, plan)
        node = Node(server, plan, self._source, linear=linear, use_numba=flag)
        return node, wire_messages.encode_vector(node.linear)

    def _unpacked(self, payload: bytes) -> NDArray[Any]:
        return wire_messages.decode_vector(payload, self.terms.shape, self.terms.dtype)

    def _in_order(self, inbox: Mapping[str, bytes]) -> list[NDArray[Any]]:
        return [self._unpacked(inbox[peer]) for peer in self.neighbours if peer in inbox]

    @property
    def round(self) -> int:
        return int(self._state.t)

    @property
    def done(self) -> bool:
        return self.round == self.terms.plan.rounds

    @property
    def ready(self) -> bool:
        return not self.done and not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The neighbours whose release of this round is not here, be it the last one."""
        if self.round == 0:
            return ()
        here = self._journal.inbox(self.terms.job, self.round)
        return tuple(peer for peer in self.neighbours if peer not in here)

    @property
    def complete(self) -> bool:
        """Whether all is here that the statement tells."""
        return self.done and not self.missing

    @property
    def released(self) -> NDArray[Any]:
        return np.asarray(self._state.sent)

    @property
    def ledger(self) -> Ledger:
        """What this data set has spent over all jobs, this one's rounds so far included."""
        events = (self.training_data.flip(), *self._journal.spent(self.training_data.dataset))
        return Ledger((events,), source=self._source.name, classes=self.terms.classes)

    @property
    def balance(self) -> str:
        """What an exchange of sums that ends early has cost here: it has no rounds to show for."""
        if not self.terms.sums:
            return ""
        if not self.round:
            return f"{self.name} has released nothing"
        masked = ", which tells its total to whoever has every row (who is silent has its own),"
        unread = masked if self.terms.masked else ""
        return f"what {self.name} has released{unread} counts as spent; resume the job"

    def advance(self) -> int:
        if not self.ready:
            raise InvalidInput(
                f"{self.name} cannot go past round {self.round}: it waits for "
                f"{', '.join(self.missing) or 'nobody, it is done'}"
            )
        t = self.round + 1
        messages = self._in_order(self._journal.inbox(self.terms.job, t - 1)) if t > 1 else []
        if messages and not self.terms.sums:
            self._check_pull(messages)
        state, released = self._node.step(self._state, messages)
        events = [
            event
            for event in self._events
            if (event.t if isinstance(event, IterateReleased) else 1) == t
        ]
        assert events, "no release without its debit"
        payload = wire_messages.encode_vector(released, self.terms.dtype)
        self._journal.commit(self.terms.job, t, payload=payload, events=events)
        self._state = state
        return t

    def _check_pull(self, messages: list[NDArray[Any]]) -> None:
        """Stop where others could refuse the next release, so far have they pulled it; by what was
        released alone, so that stopping tells nothing about records."""
        degree, penalty = len(messages), self.terms.plan.penalty
        sent, total = self._state.sent, np.sum(messages, axis=0)
        dual = steps.dual_step(self._state.dual, sent, total, degree=degree, penalty=penalty)
        pull = steps.primal_target(
            np.zeros_like(sent), dual, sent, total, degree=degree, penalty=penalty
        )
        longest = self.terms.release_bound(self.name, float(np.linalg.norm(pull)))
        if longest > self.terms.norm_cap:
            norms = [float(np.linalg.norm(vector)) for vector in messages]
            length, peer = max(zip(norms, self.neighbours, strict=True))
            raise PeerError(
                f"{self.name} stops before round {self.round + 1}: what its neighbours sent pulls "
                f"its release to a length of up to {longest:.3g}, and no honest one exceeds "
                f"{self.terms.norm_cap:.3g}. The longest of theirs is {peer}'s, {length:.3g} "
                f"({peer} may have been pulled by others)"
            )

    def message(self, peer: str, t: int) -> bytes:
        """The release of a committed round, signed for ``peer``."""
        payload = self._journal.outgoing(self.terms.job, t)
        return wire_messages.vector(
            self.terms, self._identity, sender=self.name, recipient=peer, t=t, payload=payload
        )

    def resend(self, peer: str) -> list[bytes]:
        """What ``peer`` lacks by its last hello: the releases of its own round and of all later
        ones."""
        since = max(1, self._peer_round[peer])
        return [self.message(peer, t) for t in range(since, self.round + 1)]

    def resend_recent(self, peer: str) -> list[bytes]:
        """What ``peer`` can lack within a job: this round's release and the one before."""
        return [self.message(peer, t) for t in range(max(1, self.round - 1), self.round + 1)]

    def hello(self, peer: str) -> bytes:
        """Where this node stands."""
        sent = self._journal.outgoing(self.terms.job, self.round) if self.round else None
        return wire_messages.hello(
            self.terms,
            self._identity,
            sender=self.name,
            recipient=peer,
            t=self.round,
            digest="" if sent is None else wire_messages.hash_of(sent),
            dataset=self._dataset,
            releases=self._journal.releases(self.training_data.dataset),
            new_participants=self._journal.covers_releases(
                self.training_data.dataset, self.training_data.apart_from
            ),
            life=self._life,
            challenge=self._challenges[peer],
            echo=self._echoes.get(peer, ""),
        )

    def welcome(self, peer: str, data: bytes) -> bool:
        """Take a neighbour's hello; False until a process that is met for the first time has
        answered this node's challenge. Its journal must not stand before what this node has of
        it, and a data set begins with a whole budget after another only by its operator's word."""
        hello = wire_messages.open_hello(data, self.terms, peer=peer, me=self.name, keys=self._keys)
        self._echoes[peer] = hello.challenge
        if hello.life in self._lives[peer]:
            self._peer_round[peer] = max(self._peer_round[peer], hello.round)
            return True
        if hello.echo != self._challenges[peer]:
            return False
        job, journal = self.terms.job, self._journal
        highest = journal.latest_round(job, peer)
        before = journal.minimum_releases(peer, hello.dataset)
        stored_digest = journal.digest(job, hello.round, peer) if hello.round else None
        if (
            hello.round < highest
            or hello.releases < before
            or (stored_digest is not None and stored_digest != hello.digest)
        ):
            raise PeerError(
                f"{peer}'s journal was rolled back: it stands at round {hello.round} with "
                f"{hello.releases} releases of its data set, "
                f"but {self.name} has its round {highest} and knows of {before} releases"
            )
        used, fresh = journal.released_aliases(peer), hello.releases == hello.round
        if used and hello.dataset not in used and fresh and not hello.new_participants:
            raise PeerError(
                f"{peer} has released something about another data set, and this one would begin "
                f"with a whole budget: restore {peer}'s folder from a copy, or, if nobody's record "
                "is in both, give the data set again with --new-participants"
            )
        journal.set_peer(job, peer, dataset=hello.dataset, before=hello.releases - hello.round)
        self._peer_round[peer] = hello.round
        self._lives[peer].add(hello.life)
        self._challenges[peer] = secrets.token_hex(16)
        return True

    def met(self, peer: str) -> bool:
        """Whether a process of this neighbour was met. A release that overtook its hello would make
        the hello look like a rollback: it is not taken before."""
        return bool(self._lives[peer])

    def accept(self, peer: str, data: bytes) -> None:
        """Take and store a neighbour's release; another one for the same round is equivocation."""
        message, _ = wire_messages.open_vector(
            data, self.terms, peer=peer, me=self.name, keys=self._keys
        )
        job, t, digest = self.terms.job, message.round, wire_messages.hash_of(message.payload)
        stored_digest = self._journal.digest(job, t, peer)
        if stored_digest is None:
            if not max(1, self.round) <= t <= self.round + 1:
                raise PeerError(
                    f"{peer} sent a release of round {t} while {self.name} stands at round "
                    f"{self.round}"
                )
            self._journal.receive(
                job, t, peer, digest=digest, payload=message.payload, signature=message.signature
            )
        elif stored_digest != digest:
            first = equivocation.stored_digest(self._journal, job, t, peer)
            digests = [wire_messages.signed_digest(message), *([first] if first else [])]
            evidence = equivocation.encode_evidence(digests)
            sentence = f"{peer} sent two different releases for round {t}"
            raise Equivocation(sentence, peer=peer, round=t, evidence=evidence)

    def save(self) -> None:
        """What was heard is on disk, also where no round follows at once."""
        self._journal.sync()

    def statement(self) -> bytes:
        """What this node says at the end, signed; stored before it is sent: there is only one."""
        if not self.complete:
            lacks = f"{', '.join(self.missing)} must send theirs" if self.missing else "more follow"
            raise InvalidInput(f"{self.name} is in round {self.round} and cannot tell all: {lacks}")
        job, journal = self.terms.job, self._journal
        if self.name not in journal.statements(job):
            draft = statements.build(
                self.terms, self.name, self.training_data, journal, self._dataset
            )
            journal.store_statement(job, self.name, signed_statement.sign(draft, self._identity))
        return journal.statements(job)[self.name]

    def store_statement(self, server: str, data: bytes) -> None:
        """Check and store another's statement; a second one that differs proves what it is."""
        signed_statement.open_statement(data, self.terms, server, self._keys)
        self._journal.store_statement(self.terms.job, server, data)
        stored = self._journal.statements(self.terms.job)[server]
        if stored != data:
            raise Equivocation(
                f"{server} made two different statements on job {self.terms.job}",
                peer=server,
                round=self.terms.plan.rounds,
                evidence=equivocation.encode_evidence(statements=[stored, data]),
            )

    def statements(self) -> dict[str, bytes]:
        """The statements that are here, by server."""
        return self._journal.statements(self.terms.job)

    @property
    def silent(self) -> tuple[str, ...]:
        """The servers, this one included, whose statement is not here."""
        here = self.statements()
        return tuple(name for name in self.terms.servers if name not in here)

    def finish(self) -> None:
        """Delete the inner state and the vectors heard; only a job that is done can be finished."""
        if not self.done:
            raise InvalidInput(
                f"job {self.terms.job} stands at round {self.round} of "
                f"{self.terms.plan.rounds}: it is not done"
            )
        if self.complete:
            self.statement()
        self._journal.finish(self.terms.job)


def check_job(
    terms: JobTerms,
    name: str,
    training_data: TrainingData,
    *,
    keys: Mapping[str, str],
    journal: Journal,
    source: str,
    budget: Budget,
) -> None:
    """Refuse what this node cannot or may not do: before it accepts a job, and before it begins."""
    _check_fit(terms, name, training_data, keys)
    if others := journal.sources(training_data.dataset) - {source}:
        raise JournalError(
            f"the data set of {name} was used with {others.pop()} noise before: "
            f"one ledger cannot hold that and {source}"
        ).mark_public()
    check_budget(terms, name, training_data, journal=journal, budget=budget)


def check_budget(
    terms: JobTerms, name: str, training_data: TrainingData, *, journal: Journal, budget: Budget
) -> None:
    """Refuse a job that as a whole would exceed the budget, after all other jobs on the data set:
    one that stops half way has spent its budget for nothing."""
    journal.refuse_fresh_budget(name, training_data.dataset, training_data.apart_from)
    already = journal.spent(training_data.dataset, but=terms.job)
    events, flip = terms.plan.events(training_data.server.spec), training_data.flip()
    safe = last_safe_round(
        [(flip, *events)], budget=budget, classes=terms.classes, already=[already]
    )
    if safe < terms.plan.rounds:
        before = sum(isinstance(event, IterateReleased | SumsReleased) for event in already)
        earlier = f" after the {before} releases of earlier jobs" if before else ""
        last = f"the last safe round is {safe}" if safe else "not even the first round is safe"
        what, why = f"{terms.plan.rounds} rounds exceed", f": {last}"
        if terms.sums:
            what, why = "the sums exceed", ""
        raise BudgetExceeded(f"{what} {name}'s budget for this data set{earlier}{why}")
    statements.check(terms, name, training_data.dataset, journal)


def _check_fit(
    terms: JobTerms, name: str, training_data: TrainingData, keys: Mapping[str, str]
) -> None:
    spec, index = training_data.server.spec, terms.index(name)
    expected = terms.training.server_spec(index, records=spec.records, epsilons=spec.epsilons)
    if differing := spec.differences(expected):
        raise InvalidInput(
            f"the data set of {name} does not fit job {terms.job}: they differ in the "
            f"{', the '.join(differing)}. Import the data set again under the job's study, with "
            "pdml node data"
        ).mark_public()
    if terms.sums:
        check_sums(spec, terms.plan)
    if spec.records > signed_statement.MOST_RECORDS:
        most = f"{signed_statement.MOST_RECORDS:,}"
        raise InvalidInput(f"{name} must have at most {most} records, got {spec.records:,}")
    if spec.epsilon < terms.epsilon:
        raise InvalidInput(
            f"the records of {name} hold epsilon {spec.epsilon:g}, below the study's "
            f"floor {terms.epsilon:g}"
        )
    for peer in terms.neighbours(name):
        if peer not in keys:
            raise InvalidInput(f"the public key of {peer} is not known to {name}")
