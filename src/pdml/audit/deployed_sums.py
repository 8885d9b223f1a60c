"""A deployed exchange of masked sums under attack: two honest nodes as organisations run them.

`Party`, signed messages, journals in files, masks from the nodes' own keys, noise from the
operating system; and when it has released, the victim dies and starts again. A third node, the
spy, is the adversary's, and the second one may join it. They open what was sent to the spy, take
off the masks whose seeds they have, and know all records but one. What is claimed is the line of
the ledger in the victim's *journal*, for a report that is known, as no coin is tossed here.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import LabelFlipped, SumsReleased
from pdml.audit import sums_transcripts
from pdml.audit.coalitions import member, one_of, records, single_words
from pdml.audit.confidence import DELTAS
from pdml.audit.deployment import CHUNK, MEMORY
from pdml.audit.finding import Finding, counted
from pdml.audit.sums_transcripts import Pair
from pdml.audit.victim import Effort, Victim
from pdml.mechanisms import masks
from pdml.mechanisms.integer_gaussian import valued
from pdml.mechanisms.masks import Words
from pdml.mechanisms.randomness import Secure
from pdml.node.crypto.hpke import SealingKey
from pdml.node.crypto.signing import Identity
from pdml.node.job.participant import Holdings, Party
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import Contract
from pdml.node.storage.journal import Journal
from pdml.training.engines.processes import spread
from pdml.training.server import Server

SPY = "spy"
SERVERS = ("victim", "second", SPY)  # masks are added for later ones
SHARE, FEWEST = 60, 100  # a life takes many times longer than a release


@dataclass(frozen=True)
class Seen:
    """What reached the spy in many runs of one world, and what the victim's journal says."""

    sent: Words  # (runs, 2, numbers): of both honest nodes
    rows: Words  # the same, without the masks that the spy knows
    alone: Words  # (runs, numbers): the victim's, without that of the second node too
    messages: int  # different ones of the victim in one run, at most
    ledger: Ledger  # of the last run: the same in all


def deployed_sums(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """A record by the spy, alone and with the second node; the width of the noise, which has no
    seed: it changes nothing; and single words.
    """
    runs = max(FEWEST, effort.transcripts // SHARE)
    return findings([live(victim, runs, effort.jobs) for victim in worlds().worlds])


def findings(seen: Sequence[Seen]) -> tuple[Finding, ...]:
    """Of either world, against the ledger in the journal."""
    pair, found, widths = worlds(), [], []
    for colluding, honest in ((1, 2), (2, 1)):
        totals = [_total(one, colluding) for one in seen]
        name, claims = (
            f"deployed_sums, coalition of {colluding}",
            _claims(seen[0].ledger, colluding),
        )
        found.append(sums_transcripts.told_apart(name, pair, totals, claims, hidden=honest))
        widths += [(v, t, honest / 2) for v, t in zip(pair.worlds, totals, strict=True)]
    (line,) = seen[0].ledger.events
    lines = sum(isinstance(event, SumsReleased) for event in line)
    return (
        *(counted(each, max(one.messages for one in seen), lines) for each in found),
        sums_transcripts.width("deployed_sums: noise", widths),
        single_words(
            "deployed_sums: single words", [each for one in seen for each in (one.sent, one.rows)]
        ),
    )


def _claims(ledger: Ledger, colluding: int) -> dict[float, float]:
    """The features' line at every δ, for a report that is known: without the coin."""
    (events,) = ledger.events
    known = tuple(event for event in events if not isinstance(event, LabelFlipped))
    book = replace(ledger, events=(known,))
    return {
        delta: replace(book, delta=delta)
        .line("features", "other servers", 0, colluding=colluding)
        .epsilon
        for delta in DELTAS
    }


def _total(seen: Seen, colluding: int) -> Array:
    """What is left of the honest nodes' total when all other sums are known, (runs, 1, numbers)."""
    if colluding == 2:
        return valued(seen.alone.view(np.int64))[:, None]
    known = sums_transcripts.exact_row(member(worlds().worlds[0], 1), worlds().worlds[0].plan)
    return valued(seen.rows.sum(axis=1, dtype=np.uint64).view(np.int64))[:, None] - known


def worlds() -> Pair[Victim]:
    """Two records at one of three nodes; the noise of two hides them as the plan says."""
    return records(one_of(len(SERVERS), 1))


def live(victim: Victim, runs: int, jobs: int = 1) -> Seen:
    """``runs`` lives of one world, each with data sets and a job of its own."""
    tasks = [(victim, min(CHUNK, runs - start)) for start in range(0, runs, CHUNK)]
    parts = spread(_chunk, tasks, jobs)
    return Seen(
        np.concatenate([part.sent for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.alone for part in parts]),
        max(part.messages for part in parts),
        parts[-1].ledger,
    )


def _chunk(victim: Victim, runs: int) -> Seen:
    place = TemporaryDirectory(prefix="pdml-audit-", dir=MEMORY if MEMORY.is_dir() else None)
    with threadpool_limits(1), place as folder, ExitStack() as until_the_end:
        nodes = [_Machine(Path(folder), name, until_the_end) for name in SERVERS]
        each = [_life(victim, f"run-{run}", nodes) for run in range(runs)]
    sent, rows, alone, messages, ledgers = zip(*each, strict=True)
    return Seen(np.array(sent), np.array(rows), np.array(alone), max(messages), ledgers[-1])


def _life(
    victim: Victim, job: str, nodes: Sequence["_Machine"]
) -> tuple[Words, Words, Words, int, Ledger]:
    """One job, as `Seen` has many."""
    contract = _contract(victim, job)
    (first, second), spy = nodes[:2], nodes[2]
    said, ledger = first.live(contract, member(victim, 0), nodes, dies=True)
    heard, _ = second.live(contract, member(victim, 1), nodes)
    keys = {node.name: node.identity.public for node in nodes}
    sent, rows = [], []
    for node, message in ((first, said[0]), (second, heard[0])):
        _, values = wire_messages.open_vector(
            message, contract, carrier=node.name, me=SPY, keys=keys
        )
        sent.append(values[0])
        rows.append(values[0] - spy.mask(contract, node))
    alone = rows[0] - second.mask(contract, first)
    return np.array(sent), np.array(rows), alone, len(said), ledger


class _Machine:
    """One organisation's, with its keys and its journal."""

    def __init__(self, folder: Path, name: str, until_the_end: ExitStack) -> None:
        self.name, self.source = name, Secure()
        self.identity = Identity.create(folder / f"{name}.key")
        self.sealing = SealingKey.create(folder / f"{name}.sealing")
        self.journal = until_the_end.enter_context(closing(Journal(folder / f"{name}.db")))

    def live(
        self, contract: Contract, server: Server, nodes: Sequence["_Machine"], dies: bool = False
    ) -> tuple[list[bytes], Ledger]:
        """Every different message to the spy, and the ledger; ``dies``: after it has released."""
        others = frozenset(self.journal.released_datasets())
        holdings = Holdings(server=server, dataset=f"of {contract.job}", apart_from=others)
        shared = {
            node.name: self.sealing.shared(node.sealing.public)
            for node in nodes
            if node is not self
        }

        def started() -> Party:
            return Party(
                contract,
                self.name,
                holdings,
                journal=self.journal,
                identity=self.identity,
                keys={node.name: node.identity.public for node in nodes},
                source=self.source,
                shared=shared,
            )

        party = started()
        party.advance()
        messages = [party.message(SPY, 1)]
        if dies:
            party = started()
            messages.append(party.message(SPY, 1))
        return list(dict.fromkeys(messages)), party.ledger

    def mask(self, contract: Contract, other: "_Machine") -> Words:
        """What an earlier node has added for this one."""
        secret = self.sealing.shared(other.sealing.public)
        seed = masks.seed_of(secret, job=contract.digest, one=self.name, other=other.name)
        return masks.words(seed, contract.shape[1])


def _contract(victim: Victim, job: str) -> Contract:
    return Contract(
        job=job,
        study="0" * 64,
        plan=victim.plan,
        servers=SERVERS,
        edges=tuple(combinations(range(len(SERVERS)), 2)),
        rows=victim.rows,
    )
