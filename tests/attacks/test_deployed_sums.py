"""What is wrong with a deployed exchange of sums must be found: one mistake at a time.

Noise comes from the operating system. With so many runs a mistake is missed with a chance below
1e-6; without one each finding alarms as rarely.
"""

from dataclasses import replace

import numpy as np

from pdml.audit.deployed_sums import findings, live, worlds
from pdml.mechanisms import masks
from pdml.mechanisms.randomness import SecureStream
from pdml.node.storage.journal import Journal
from pdml.training import sums_release

FEW = 60
NOISE, WORDS = "deployed_sums: noise", "deployed_sums: single words"


def violated(runs=FEW):
    found = findings([live(victim, runs) for victim in worlds().worlds])
    return {finding.name: finding.sentence for finding in found if not finding.passed}


def test_nothing_is_found_where_nothing_is_wrong():
    assert violated() == {}


def test_half_the_secure_noise(monkeypatch):
    real = SecureStream.gaussian
    monkeypatch.setattr(
        SecureStream, "gaussian", lambda self, out, stddev: real(self, out, np.asarray(stddev) / 2)
    )
    assert NOISE in violated()


def test_the_second_node_adds_no_noise(monkeypatch):
    """What hides the victim from the spy is then half as much."""
    real = sums_release.release_sums

    def released(own, server, plan, source):
        quiet = replace(plan, label_noise=0.0, square_noise=0.0)
        return real(own, server, quiet if server.spec.server else plan, source)

    monkeypatch.setattr(sums_release, "release_sums", released)
    assert NOISE in violated(4 * FEW)  # half the variance is seen later than half the deviation


def test_rows_without_masks(monkeypatch):
    monkeypatch.setattr(masks, "add_masks", lambda units, *_: units.view(np.uint64))
    assert WORDS in violated()


def test_masks_that_do_not_belong_to_their_job(monkeypatch):
    real = masks.derive_seed
    monkeypatch.setattr(
        masks,
        "derive_seed",
        lambda shared, *, job, server, other: real(shared, job="any", server=server, other=other),
    )
    assert set(violated()) == {WORDS}


def test_a_release_without_a_debit(monkeypatch):
    real = Journal.commit

    def commit(self, job, t, *, payload, events):
        real(self, job, t, payload=payload, events=())

    monkeypatch.setattr(Journal, "commit", commit)
    said = "1 messages were sent, but the ledger has rows for 0"
    assert list(violated(10).values()) == [said, said]


def test_a_row_that_changes_when_it_is_asked_for_again(monkeypatch):
    real = Journal.outgoing

    def outgoing(self, job, t):
        words = np.frombuffer(real(self, job, t), dtype="<u8")
        return (words + np.random.default_rng().integers(0, 99, words.shape, "u8")).tobytes()

    monkeypatch.setattr(Journal, "outgoing", outgoing)
    said = "2 messages were sent, but the ledger has rows for 1"
    assert list(violated(10).values())[:2] == [said, said]
