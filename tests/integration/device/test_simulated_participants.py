"""Many devices: every report drawn once, on the disk before the first is sent, and all of them
accounted for.
"""

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording import Pauses, Recorder, receipt, refusal
from scipy.stats import binom

from pdml.device import simulated_participants
from pdml.device.delivery import Delivery
from pdml.errors import DataError, NotDelivered
from pdml.mechanisms.label_flip import LabelFlip
from pdml.study import Study
from pdml.study.messages import decode_report, features_of
from pdml.tables import Table

PEOPLE = 1050


@pytest.fixture
def table() -> Table:
    rng = np.random.default_rng(5)
    return Table(
        columns={
            "age": rng.integers(18, 101, PEOPLE),
            "sex": rng.choice(["female", "male", "other"], PEOPLE),
            "region": rng.choice(["north", "east", "south"], PEOPLE),
            "ill": rng.choice(["no", "yes"], PEOPLE),
            "epsilon": rng.choice([0.4, 1.0, 2.0], PEOPLE),
        }
    )


@pytest.fixture
def outbox(tmp_path: Path, study: Study, table: Table) -> Path:
    path = tmp_path / "people.reports.ndjson"
    simulated_participants.fill(
        path,
        study,
        table,
        study.read_labels(table, "ill"),
        study.read_epsilons(table, "epsilon"),
        source="s",
    )
    return path


def connect(recorder: Recorder) -> Delivery:
    return Delivery(recorder.url, clock=Pauses())


def test_the_outbox_is_every_device_drawn_on_its_own(
    outbox: Path, study: Study, table: Table
) -> None:
    """Flips at each ε lie in the exact binomial interval: false alarms in 3e-6 of runs; ε = 0.4 for
    2.0 would be seen.
    """
    reports = [decode_report(line) for line in outbox.read_bytes().splitlines()[1:]]
    assert len({report.id for report in reports}) == PEOPLE
    features = study.encode_table(table)
    assert all(
        (features_of(report) == row).all() for report, row in zip(reports, features, strict=True)
    )
    truth, epsilons = study.read_labels(table, "ill"), table.numeric("epsilon")
    assert [report.epsilon for report in reports] == [round(1e6 * epsilon) for epsilon in epsilons]
    flipped = np.array([report.label for report in reports]) != truth
    for epsilon in (0.4, 1.0, 2.0):
        among = epsilons == epsilon
        low, high = binom.ppf([5e-7, 1 - 5e-7], among.sum(), LabelFlip(epsilon).flip_probability)
        assert low <= flipped[among].sum() <= high
    assert not low <= flipped[epsilons == 0.4].sum() <= high  # the test would notice another ε
    assert stat.S_IMODE(outbox.stat().st_mode) == 0o600


def test_an_outbox_is_never_drawn_again(outbox: Path, study: Study, table: Table) -> None:
    before, labels, epsilons = (
        outbox.read_bytes(),
        study.read_labels(table, "ill"),
        table.numeric("epsilon"),
    )
    simulated_participants.fill(outbox, study, table, labels, epsilons, source="s")
    assert outbox.read_bytes() == before
    with pytest.raises(DataError, match="another table"):
        simulated_participants.fill(outbox, study, table, labels, epsilons, source="changed")
    outbox.write_text("something else\n")
    with pytest.raises(DataError, match="outbox"):
        simulated_participants.fill(outbox, study, table, labels, epsilons, source="s")


def test_two_outboxes_of_one_table_are_drawn_on_their_own(
    outbox: Path, tmp_path: Path, study: Study, table: Table
) -> None:
    """Two draws agree for all 1,050 people with a chance below 10^-100."""
    labels, epsilons = study.read_labels(table, "ill"), table.numeric("epsilon")
    other = tmp_path / "again"
    simulated_participants.fill(other, study, table, labels, epsilons, source="s")
    one, two = (
        [decode_report(line).label for line in path.read_bytes().splitlines()[1:]]
        for path in (outbox, other)
    )
    assert len(one) == len(two) == PEOPLE and one != two


def test_of_two_runs_at_the_same_time_the_first_wins(
    tmp_path: Path, study: Study, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run writes its outbox between our look for one and our draw."""
    path, labels, epsilons = (
        tmp_path / "outbox",
        study.read_labels(table, "ill"),
        table.numeric("epsilon"),
    )
    ours, first = simulated_participants.flip_labels, []

    def late(*given: Any) -> Any:
        monkeypatch.setattr(simulated_participants, "flip_labels", ours)
        simulated_participants.fill(path, study, table, labels, epsilons, source=source)
        first.append(path.read_bytes())
        return ours(*given)

    source = "s"
    monkeypatch.setattr(simulated_participants, "flip_labels", late)
    simulated_participants.fill(path, study, table, labels, epsilons, source="s")
    assert [path.read_bytes()] == first and list(tmp_path.iterdir()) == [path]
    path.unlink()
    source = "something else"
    monkeypatch.setattr(simulated_participants, "flip_labels", late)
    with pytest.raises(DataError, match="another table"):
        simulated_participants.fill(path, study, table, labels, epsilons, source="s")


def test_the_outbox_s_name_is_on_the_disk_before_anything_is_sent(
    tmp_path: Path, study: Study, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "outbox", []
    monkeypatch.setattr(
        "pdml.files.sync_folder", lambda folder: synced.append((folder, path.exists()))
    )
    simulated_participants.fill(
        path,
        study,
        table,
        study.read_labels(table, "ill"),
        table.numeric("epsilon"),
        source="s",
    )
    assert synced == [(tmp_path, True)]


def test_failures_are_their_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "failures"
    path.write_text("of the run before")
    simulated_participants.write_failures(
        path, [simulated_participants.Undelivered(3, "ab" * 16, "closed")]
    )
    assert path.read_text() == f'{{"row":3,"id":"{"ab" * 16}","code":"closed"}}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and list(tmp_path.iterdir()) == [path]


def test_everything_is_delivered_and_only_once(
    outbox: Path, recorder: Recorder, tmp_path: Path
) -> None:
    receipts, seen = tmp_path / "receipts", []
    tally = simulated_participants.deliver(
        outbox,
        receipts,
        lambda: connect(recorder),
        progress=lambda done, of: seen.append((done, of)),
    )
    assert (tally.stored, tally.stored_before, tally.undelivered) == (PEOPLE, 0, [])
    assert seen[-1] == (PEOPLE, PEOPLE)
    sent = [line for body in recorder.bodies for line in body.splitlines()]
    assert sorted(sent) == sorted(outbox.read_bytes().splitlines()[1:])
    assert max(len(body.splitlines()) for body in recorder.bodies) == simulated_participants.BATCH
    recorder.bodies.clear()
    again = simulated_participants.deliver(outbox, receipts, lambda: connect(recorder))
    assert (again.stored, again.stored_before, recorder.bodies) == (0, PEOPLE, [])


def test_what_is_refused_is_told_and_sent_again_unchanged(
    outbox: Path, recorder: Recorder, tmp_path: Path
) -> None:
    ids = [decode_report(line).id for line in outbox.read_bytes().splitlines()[1:]]
    unlucky = set(ids[10:200:7])
    recorder.answer = lambda line: (
        refusal("token_missing")(line) if decode_report(line).id in unlucky else receipt(line)
    )
    tally = simulated_participants.deliver(outbox, tmp_path / "receipts", lambda: connect(recorder))
    assert tally.by_code() == {"token_missing": len(unlucky)}
    assert [(one.row, one.id) for one in tally.undelivered] == [
        (i + 1, ids[i]) for i in range(10, 200, 7)
    ]
    recorder.answer, tokens = receipt, [f"{i:032x}" for i in range(PEOPLE)]
    recorder.bodies.clear()
    tally = simulated_participants.deliver(
        outbox, tmp_path / "receipts", lambda: connect(recorder), tokens=tokens
    )  # invitations came later
    assert (tally.stored, tally.stored_before) == (len(unlucky), PEOPLE - len(unlucky))
    late = [decode_report(line) for body in recorder.bodies for line in body.splitlines()]
    assert {(one.id, one.token) for one in late} == {(ids[i], tokens[i]) for i in range(10, 200, 7)}


def test_a_service_that_dies_ends_the_delivery_and_nothing_is_lost(
    outbox: Path, recorder: Recorder, tmp_path: Path
) -> None:
    count = 0

    def dying(line: bytes) -> tuple[int, bytes] | None:
        nonlocal count
        count += 1
        return receipt(line) if count <= 500 else None  # then batches come back short

    recorder.answer = dying
    tally = simulated_participants.deliver(
        outbox, tmp_path / "receipts", lambda: connect(recorder), connections=1
    )
    assert "may or may not hold" in tally.trouble
    assert tally.stored + len(tally.undelivered) == PEOPLE
    assert set(tally.by_code()) == {"not_delivered", "not_sent"}
    recorder.answer = receipt
    tally = simulated_participants.deliver(outbox, tmp_path / "receipts", lambda: connect(recorder))
    assert tally.stored + tally.stored_before == PEOPLE


def test_another_study_gets_nothing(outbox: Path, recorder: Recorder, tmp_path: Path) -> None:
    recorder.canonical = b"{}"
    with pytest.raises(NotDelivered, match="another study"):
        simulated_participants.deliver(outbox, tmp_path / "receipts", lambda: connect(recorder))
    assert recorder.bodies == []


def test_invitations_are_found_bare_or_in_links(tmp_path: Path) -> None:
    path, tokens = tmp_path / "tokens.csv", [f"{i:032x}" for i in range(3)]
    path.write_text(
        "token,link\n" + "".join(f"{token},https://alice.example/#t={token}\n" for token in tokens)
    )
    assert simulated_participants.read_tokens(path, 3) == tokens
    with pytest.raises(DataError, match=r"each of the 4 records, got 3"):
        simulated_participants.read_tokens(path, 4)
    path.write_text(f"{tokens[0]}\n{tokens[0]}\n")
    with pytest.raises(DataError, match="twice"):
        simulated_participants.read_tokens(path, 1)
    with pytest.raises(DataError, match="cannot read"):
        simulated_participants.read_tokens(tmp_path / "absent", 1)
