"""A coalition of servers against the others: masked sums as they travel.

Of n servers k put together what they know: every word that all of them sent, their own seeds, sums
and noise, and everybody's records but the one in question. They can take their own rows off the
total, and the masks they share off every single row. What is then left of the total is the total of
the n - k honest ones, to be held against the ledger's row for that k. What is left of single rows,
of all differences of them, and of their differences from one job to the next, must look like words
that say nothing: each value of each byte is as likely as any other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations, product
from math import sqrt

import numpy as np

from pdml._types import Array
from pdml.audit import sums_attacks
from pdml.audit.confidence import FALSE_ALARM, Finding, at_least, compare
from pdml.audit.rounds_attacks import label_victim
from pdml.audit.sums_attacks import WorldPair
from pdml.audit.victim import CHUNK, Effort, Victim
from pdml.mechanisms import masks
from pdml.mechanisms.integer_gaussian import Units, dequantize
from pdml.mechanisms.masks import Words
from pdml.mechanisms.randomness import Simulated
from pdml.research.processes import run_parallel
from pdml.training.server import Server
from pdml.training.sums_release import exact, release_sums

SERVERS = ("victim", "second", "third", "fourth")
MU = 2.2  # of what the plan's colluders see
COLLUDING = 2  # the plan's: the noise of any two others hides a record as it says
SHARE = 10  # an exchange takes several times longer than a release
WORDS_IN = 200  # jobs whose single words are looked at


@dataclass(frozen=True)
class MaskedExchanges:
    """What travelled in many jobs, and what each server knows of itself: (jobs, n, numbers)."""

    jobs: Words
    sent: Words
    rows: Units  # before the masks


def coalition(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One, half and all other servers: labels and records by the total, the width of its noise, and
    single words.
    """
    findings, widths, words = [], [], []
    runs = max(WORDS_IN, effort.transcripts // SHARE)
    for number, pair in enumerate(pairs()):
        worlds = [
            exchanges(victim, runs, seed + number, world, effort.jobs)
            for world, victim in enumerate(pair.worlds)
        ]
        for colluding in range(1, len(SERVERS)):
            honest = len(SERVERS) - colluding
            totals = [
                honest_total(exchange, victim, colluding)
                for exchange, victim in zip(worlds, pair.worlds, strict=True)
            ]
            name, claims = f"coalition of {colluding}", pair.worlds[0].claims(pair.data, colluding)
            findings.append(sums_attacks.distinguish(name, pair, totals, claims, hidden=honest))
            share = honest / (len(SERVERS) - COLLUDING)
            widths += [(v, t, share) for v, t in zip(pair.worlds, totals, strict=True)]
        words += [
            _remove_coalition_masks(exchange, colluding)
            for exchange in worlds
            for colluding in range(len(SERVERS) - 1)
        ]
    return (
        *findings,
        sums_attacks.width("coalition: noise", widths),
        single_words("coalition: single words", words),
    )


def pairs() -> tuple[WorldPair[Victim], ...]:
    """A reported label, and a record: neither of them randomised, which no server does."""
    victim = masked_victim(len(SERVERS), COLLUDING)
    return sums_attacks.flipped("label", sums_attacks.with_noise(victim, MU, MU)), records(victim)


def masked_victim(servers: int, colluding: int) -> Victim:
    """A victim whose sums appear in the total of so many servers only."""
    alone = sums_attacks.sums_victim(label_victim())
    plan = replace(alone.plan, colluding=colluding)
    return replace(alone, plan=plan, n_servers=servers, degree=servers - 1)


def records(victim: Victim) -> WorldPair[Victim]:
    """Two records that move both sums, each as well hidden as the other."""
    mu = MU / sqrt(2)
    return sums_attacks.records(
        "record", sums_attacks.with_noise(victim, mu, mu), sums_attacks.ANGLE
    )


def exchanges(victim: Victim, count: int, seed: int, world: int, jobs: int) -> MaskedExchanges:
    """So many jobs of all servers; the victim's record or label is that of its world."""
    names = np.random.SeedSequence(seed, spawn_key=(world,)).generate_state(count, np.uint64)
    chunks = np.array_split(names, max(1, count // CHUNK))
    parts = run_parallel(_exchanges, [(victim, chunk) for chunk in chunks], jobs)
    sent, rows = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return MaskedExchanges(names.astype(np.uint64), sent, rows)


def _exchanges(victim: Victim, jobs: Words) -> tuple[Words, Units]:
    members = [member(victim, index) for index in range(len(SERVERS))]
    owns = [exact(server, victim.plan) for server in members]
    sent, rows = [], []
    for job in jobs:
        source, seeds = Simulated(int(job)), _seeds(job)
        releases = [
            release_sums(*of, victim.plan, source) for of in zip(owns, members, strict=True)
        ]
        rows.append(releases)
        sent.append(
            [masks.add_masks(releases[i], me, SERVERS, seeds[me]) for i, me in enumerate(SERVERS)]
        )
    return np.array(sent), np.array(rows)


def member(victim: Victim, index: int) -> Server:
    """The victim, or one of the others, who have its records without the one in question."""
    if index == 0:
        return victim.server(Simulated(0))
    other = replace(victim, matrix=victim.matrix[1:], labels=victim.labels[1:])
    server = other.server(Simulated(0))
    return replace(server, spec=replace(server.spec, server=index))


def _seeds(job: int) -> dict[str, dict[str, bytes]]:
    """Of every server with every other, in one job."""
    seeds: dict[str, dict[str, bytes]] = {name: {} for name in SERVERS}
    for server, other in combinations(SERVERS, 2):
        secret = sha256(f"{server} {other}".encode()).digest()  # the pair's, the same in all jobs
        seed = masks.derive_seed(secret, job=f"job {job}", server=server, other=other)
        seeds[server][other] = seeds[other][server] = seed
    return seeds


def honest_total(exchange: MaskedExchanges, victim: Victim, colluding: int) -> Array:
    """What the last ``colluding`` servers learn together: (jobs, 1, numbers).

    They take off the total what they sent themselves, and the sums of honest servers whose records
    they know: the victim's own sums and the noise of all honest servers are left.
    """
    honest = len(SERVERS) - colluding
    other_sums = [sums_attacks.exact_row(member(victim, i), victim.plan) for i in range(1, honest)]
    total = exchange.sent.sum(axis=1, dtype=np.uint64).view(np.int64) - exchange.rows[
        :, honest:
    ].sum(axis=1)
    return dequantize(total - sum(other_sums))[:, None]


def single_words(name: str, rows: Sequence[Words]) -> Finding:
    """How much oftener than 1/256 some value of some byte comes in honest rows (jobs, h, numbers),
    less the masks that are known: in any sum or difference of them but their total.
    """
    words = [combination for block in rows for combination in _left(block)]
    alpha = FALSE_ALARM / (256 * 8 * len(words))
    return compare(
        name,
        1.0,
        256 * max(_likeliest(combination, alpha) for combination in words),
        "how often the likeliest value of a byte comes, over 1/256, in "
        f"{sum(combination.size for combination in words):,} words that are not the total's",
        quantity="ratio",
    )


def _likeliest(words: Words, alpha: float) -> float:
    """How likely some value of some byte is at the least."""
    values = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)
    most = max(np.bincount(byte).max() for byte in values.T)
    return float(at_least(most, len(values), alpha))


def _left(rows: Words) -> list[Words]:
    """Sums and differences in single jobs, and from one job to the next."""
    honest = rows.shape[1]
    signs = product((0, 1, -1), repeat=honest)
    rest = [sign for sign in signs if (0,) * honest < sign and abs(sum(sign)) < honest]
    mixed = [np.einsum("h,jhk->jk", np.array(sign).astype(np.uint64), rows) for sign in rest]
    even = len(rows) // 2 * 2
    return [*mixed, *(words[:even:2] - words[1:even:2] for words in mixed)]


def _remove_coalition_masks(exchange: MaskedExchanges, colluding: int) -> Words:
    """Honest rows of some jobs, less the masks whose seeds the coalition has."""
    honest = len(SERVERS) - colluding
    rows = exchange.sent[:WORDS_IN, :honest].copy()
    for row, job in zip(rows, exchange.jobs[:WORDS_IN], strict=True):
        seeds = _seeds(job)
        for index, other in product(range(honest), SERVERS[honest:]):
            row[index] -= masks.words(seeds[other][SERVERS[index]], row.shape[1])
    return rows
