"""A deployed exchange of masked sums under attack: two honest nodes as organisations run them.

`Participant`, signed messages, journals in files, masks from the nodes' own keys, noise from the
operating system; and when it has released, the victim dies and starts again. A third node, the
spy, is the adversary's, and the second one may join it. They open what was sent to the spy, take
off the masks whose seeds they have, and know all records but one. What is claimed is the row of
the ledger in the victim's *journal*, for a report that is known, as nothing is randomised here.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import LabelFlipped, SumsReleased
from pdml.accounting.kinds import Adversary, Data
from pdml.audit import sums_attacks
from pdml.audit.coalitions import masked_victim, member, records, single_words
from pdml.audit.confidence import DELTAS, Finding, require_ledger_rows
from pdml.audit.deployed_rounds import CHUNK, MEMORY
from pdml.audit.sums_attacks import WorldPair
from pdml.audit.victim import Effort, Victim, deploy
from pdml.mechanisms import masks
from pdml.mechanisms.integer_gaussian import dequantize
from pdml.mechanisms.masks import Words
from pdml.mechanisms.randomness import Secure
from pdml.node.crypto.hpke import SealingKey
from pdml.node.crypto.signing import Identity
from pdml.node.job.participant import Participant
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import Journal
from pdml.research.processes import run_parallel
from pdml.training.server import Server

SPY = "spy"
SERVERS = ("victim", "second", SPY)  # masks are added for later ones
SHARE, FEWEST = 60, 100  # a life takes many times longer than a release


@dataclass(frozen=True)
class SumsTranscript:
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


def findings(transcripts: Sequence[SumsTranscript]) -> tuple[Finding, ...]:
    """Of either world, against the ledger in the journal."""
    pair, comparisons, widths = worlds(), [], []
    for colluding, honest in ((1, 2), (2, 1)):
        totals = [_total(transcript, colluding) for transcript in transcripts]
        name, claims = (
            f"deployed_sums, coalition of {colluding}",
            _claims(transcripts[0].ledger, colluding),
        )
        comparisons.append(sums_attacks.distinguish(name, pair, totals, claims, hidden=honest))
        widths += [(v, t, honest / 2) for v, t in zip(pair.worlds, totals, strict=True)]
    (events,) = transcripts[0].ledger.events
    charged = sum(isinstance(event, SumsReleased) for event in events)
    return (
        *(
            require_ledger_rows(
                comparison, max(transcript.messages for transcript in transcripts), charged
            )
            for comparison in comparisons
        ),
        sums_attacks.width("deployed_sums: noise", widths),
        single_words(
            "deployed_sums: single words",
            [words for transcript in transcripts for words in (transcript.sent, transcript.rows)],
        ),
    )


def _claims(ledger: Ledger, colluding: int) -> dict[float, float]:
    """The features' row at every δ, for a report that is known: not randomised."""
    (events,) = ledger.events
    releases = tuple(event for event in events if not isinstance(event, LabelFlipped))
    book = replace(ledger, events=(releases,))
    return {
        delta: replace(book, delta=delta)
        .row(Data.FEATURES, Adversary.OTHERS, 0, colluding=colluding)
        .epsilon
        for delta in DELTAS
    }


def _total(transcript: SumsTranscript, colluding: int) -> Array:
    """What is left of the honest nodes' total when all other sums are known, (runs, 1, numbers)."""
    if colluding == 2:
        return dequantize(transcript.alone.view(np.int64))[:, None]
    member_sums = sums_attacks.exact_row(member(worlds().worlds[0], 1), worlds().worlds[0].plan)
    return (
        dequantize(transcript.rows.sum(axis=1, dtype=np.uint64).view(np.int64))[:, None]
        - member_sums
    )


def worlds() -> WorldPair[Victim]:
    """Two records at one of three nodes; the noise of two hides them as the plan says."""
    return records(masked_victim(len(SERVERS), 1))


def live(victim: Victim, runs: int, jobs: int = 1) -> SumsTranscript:
    """``runs`` lives of one world, each with data sets and a job of its own."""
    tasks = [(victim, min(CHUNK, runs - start)) for start in range(0, runs, CHUNK)]
    parts = run_parallel(_chunk, tasks, jobs)
    return SumsTranscript(
        np.concatenate([part.sent for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.alone for part in parts]),
        max(part.messages for part in parts),
        parts[-1].ledger,
    )


def _chunk(victim: Victim, runs: int) -> SumsTranscript:
    temporary = TemporaryDirectory(prefix="pdml-audit-", dir=MEMORY if MEMORY.is_dir() else None)
    with threadpool_limits(1), temporary as folder, ExitStack() as until_the_end:
        nodes = [_Machine(Path(folder), name, until_the_end) for name in SERVERS]
        lives = [_life(victim, f"run-{run}", nodes) for run in range(runs)]
    sent, rows, alone, messages, ledgers = zip(*lives, strict=True)
    return SumsTranscript(
        np.array(sent), np.array(rows), np.array(alone), max(messages), ledgers[-1]
    )


def _life(
    victim: Victim, job: str, nodes: Sequence["_Machine"]
) -> tuple[Words, Words, Words, int, Ledger]:
    """One job, as `SumsTranscript` has many."""
    terms = _job_terms(victim, job)
    (first, second), spy = nodes[:2], nodes[2]
    victim_messages, ledger = first.live(terms, member(victim, 0), nodes, dies=True)
    second_messages, _ = second.live(terms, member(victim, 1), nodes)
    keys = {node.name: node.identity.public for node in nodes}
    sent, rows = [], []
    for node, message in ((first, victim_messages[0]), (second, second_messages[0])):
        _, values = wire_messages.open_vector(message, terms, peer=node.name, me=SPY, keys=keys)
        sent.append(values[0])
        rows.append(values[0] - spy.mask(terms, node))
    alone = rows[0] - second.mask(terms, first)
    return np.array(sent), np.array(rows), alone, len(victim_messages), ledger


class _Machine:
    """One organisation's, with its keys and its journal."""

    def __init__(self, folder: Path, name: str, until_the_end: ExitStack) -> None:
        self.name, self.source = name, Secure()
        self.identity = Identity.create(folder / f"{name}.key")
        self.sealing = SealingKey.create(folder / f"{name}.sealing")
        self.journal = until_the_end.enter_context(closing(Journal(folder / f"{name}.db")))

    def live(
        self, terms: JobTerms, server: Server, nodes: Sequence["_Machine"], dies: bool = False
    ) -> tuple[list[bytes], Ledger]:
        """Every different message to the spy, and the ledger; ``dies``: after it has released."""
        others = frozenset(self.journal.released_datasets())
        data = TrainingData(
            server=deploy(server, terms, self.name),
            dataset=f"of {terms.job}",
            apart_from=others,
        )
        shared = {
            node.name: self.sealing.shared(node.sealing.public)
            for node in nodes
            if node is not self
        }

        def started() -> Participant:
            return Participant(
                terms,
                self.name,
                data,
                journal=self.journal,
                identity=self.identity,
                keys={node.name: node.identity.public for node in nodes},
                source=self.source,
                shared=shared,
            )

        participant = started()
        participant.advance()
        messages = [participant.message(SPY, 1)]
        if dies:
            participant = started()
            messages.append(participant.message(SPY, 1))
        return list(dict.fromkeys(messages)), participant.ledger

    def mask(self, terms: JobTerms, other: "_Machine") -> Words:
        """What an earlier node has added for this one."""
        secret = self.sealing.shared(other.sealing.public)
        seed = masks.derive_seed(secret, job=terms.digest, server=self.name, other=other.name)
        return masks.words(seed, terms.shape[1])


def _job_terms(victim: Victim, job: str) -> JobTerms:
    return JobTerms.for_study(victim.study(SERVERS), victim.plan, job)
