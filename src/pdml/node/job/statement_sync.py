"""The end of a job: every member's statement, fetched piece by piece from its author, or from
whoever has it already.
"""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from pdml.errors import PeerError, plain
from pdml.node.daemon.nats_transport import CHUNK
from pdml.node.job.round_exchange import LATER, OK, REFUSED, Answer, decoded_answer
from pdml.node.protocol import signed_statement
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import FETCH, Fetch

_ATTEMPT = 2.0  # seconds for one piece
_PAUSE = 0.2
_TURNS = 4  # of so many questions about a statement one goes to another than its author


class StatementStore(Protocol):
    """Where statements are kept: an `Exchange`."""

    def stored_statement(self, server: str) -> bytes: ...

    def hear_statement(self, server: str, data: bytes) -> None: ...


Ask = Callable[[str, Mapping[str, bytes], float], Mapping[str, bytes]]
"""(kind, question by member, timeout) -> answer by member."""


def piece(data: bytes, start: int) -> Answer:
    """The answer to a `Fetch`."""
    return Answer(OK, messages=[data[start : start + CHUNK], len(data).to_bytes(8, "big")])


def cut_short(part: bytes, data: bytes, whole: int) -> bool:
    """Whether ``part``, with which ``data`` ends, is less than `piece` gives: byte by byte a text
    would take for ever.
    """
    return not part or (len(part) < CHUNK and len(data) < whole)


def nothing_yet(name: str, job: str, round: int, *, expected: bool) -> Answer:
    """There is no statement here; ``expected`` says whether one may come."""
    state = LATER if expected else REFUSED
    return Answer(state, f"{name} has no such statement on job {job}", [round.to_bytes(8, "big")])


def gather(
    contract: JobTerms,
    others: tuple[str, ...],
    keeper: StatementStore,
    ask: Ask,
    *,
    name: str,
    limit: float,
    check: Callable[[], None],
) -> None:
    """Until everybody's statement is here."""
    missing = [server for server in others if not keeper.stored_statement(server)]
    got: dict[tuple[str, str], bytes] = {}  # pieces, by author and by who sent them
    rounds, turn = dict.fromkeys(missing, -1), 0
    deadline = time.monotonic() + limit
    latest = time.monotonic() + limit * len(contract.servers)
    while missing:
        check()
        pieces = later = False
        for server in list(missing):
            whom = (
                server
                if turn % _TURNS < _TURNS - 1
                else others[(turn // _TURNS + others.index(server)) % len(others)]
            )
            request = Fetch(
                job=contract.job,
                contract=contract.digest,
                server=server,
                start=len(got.get((server, whom), b"")),
            )
            answer = decoded_answer(
                ask(FETCH, {whom: msgspec.msgpack.encode(request)}, min(_ATTEMPT, limit)).get(
                    whom, b""
                )
            )
            if answer is None:
                continue
            number = int.from_bytes(answer.messages[-1][:8], "big") if answer.messages else 0
            if answer.state == REFUSED and whom == server:
                raise PeerError(f"{server} says: {plain(answer.sentence)}")
            if answer.state == OK and len(answer.messages) == 2:
                pieces |= _take(
                    contract, server, whom, answer.messages[0], number, got, keeper, missing
                )
            elif (
                answer.state == LATER
                and whom == server
                and rounds[server] < number <= contract.plan.rounds
            ):
                later, rounds[server] = True, number
        now = time.monotonic()
        if pieces:
            deadline = now + limit
            continue
        if later:
            deadline = max(deadline, min(now + limit, latest))
        if missing and now > deadline:
            raise PeerError(
                f"{name} waited {limit:g} s for the statement of {', '.join(sorted(missing))}"
            )
        turn += 1
        time.sleep(_PAUSE)


def _take(
    contract: JobTerms,
    server: str,
    whom: str,
    part: bytes,
    whole: int,
    got: dict[tuple[str, str], bytes],
    keeper: StatementStore,
    missing: list[str],
) -> bool:
    """One more piece; only its author answers for a statement that is none. Whether that is
    news.
    """
    data = got[server, whom] = got.get((server, whom), b"") + part
    try:
        if cut_short(part, data, whole) or max(whole, len(data)) > signed_statement.most_bytes(
            contract, server
        ):
            raise PeerError(f"{server} has a statement of {whole:,} bytes, which is none")
        if len(data) >= whole:
            keeper.hear_statement(server, data)
            missing.remove(server)
    except PeerError:
        if whom == server:
            raise
        del got[server, whom]
        return False
    return True
