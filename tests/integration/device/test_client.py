"""One person's report: prepared before any network activity, kept, sent, and never drawn again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording import Pauses, Recorder, receipt, refusal
from reporting import make_report

from pdml.device.client import contribute, prepare, preview, submit
from pdml.device.delivery import Delivery
from pdml.device.memo import Memo, Memory
from pdml.errors import InvalidInput, NotDelivered
from pdml.mechanisms.label_flip import WORD
from pdml.study import Study
from pdml.study.messages import decode_report, encode_report, features_of
from pdml.study.schema.servers import Relay

ANSWERS = {"age": 34, "sex": "female", "region": "south"}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "state")


def service(recorder: Recorder) -> Delivery:
    return Delivery(recorder.url, clock=Pauses())


def drawn(memory: Memory, study: Study, label: int) -> None:
    draw = {"id": "ab" * 16, "epsilon": 1_000_000, "label": label, "code": "cd" * 16}
    memory.keep("", Memo(study=study.unkeyed_hash, version=1, **draw))


@pytest.mark.parametrize("label", [0, 1, None])
def test_the_report_holds_the_draw_whatever_is_said_later(
    study: Study,
    memory: Memory,
    label: int | None,
) -> None:
    drawn(memory, study, 1)
    report = decode_report(prepare(study, memory, ANSWERS, label, 1_000_000))
    assert (report.label, report.id, report.epsilon) == (1, "ab" * 16, 1_000_000)
    assert (report.token, report.study) == ("", study.hash)
    assert features_of(report).tobytes() == study.encode(ANSWERS).tobytes()


@pytest.mark.parametrize("label", [0, 1])
def test_what_leaves_is_what_was_drawn_and_nothing_beside_it(
    study: Study, tmp_path: Path, label: int
) -> None:
    """With the randomness fixed every byte of the report is known, and none carries the truth."""
    word = 0 if label == 0 else WORD - 1  # flips the one, lets the other stand: both become 1
    code = bytes([0xAB]) * 16

    def entropy(count: int) -> bytes:
        return code if count == len(code) else (word.to_bytes(8, "little") * count)[:count]

    data = prepare(study, Memory(tmp_path, entropy=entropy), ANSWERS, label, 1_000_000)
    sent = make_report(study, epsilon=1_000_000, label=1, features=study.encode(ANSWERS))
    assert data == encode_report(sent)


def test_the_preview_is_read_back_from_the_bytes(study: Study, memory: Memory) -> None:
    drawn(memory, study, 0)
    data = prepare(study, memory, ANSWERS, 1, 1_000_000)
    seen = preview(study, data)
    assert (seen.answers, seen.label, seen.epsilon, seen.bytes) == (ANSWERS, "no", 1.0, data)


def test_what_has_left_is_all_that_can_leave(
    study: Study, memory: Memory, recorder: Recorder
) -> None:
    data = prepare(study, memory, ANSWERS, 1, 1_000_000)
    recorder.answer = lambda body: None
    with service(recorder) as silent, pytest.raises(NotDelivered):
        submit(study, memory, silent, data)
    assert (
        prepare(study, memory, {**ANSWERS, "age": 50}, 0, 2_000_000) == data
    )  # in doubt: the same bytes, whatever is said now
    recorder.answer = receipt
    with service(recorder) as honest:
        first = submit(study, memory, honest, data)
        assert submit(study, memory, honest, data) == first
    assert set(recorder.bodies) == {data}
    known = memory.recall(study.unkeyed_hash, "")
    assert known is not None and known.receipt == first


def test_a_refused_report_can_be_corrected_but_not_redrawn(
    study: Study, memory: Memory, recorder: Recorder
) -> None:
    data = prepare(study, memory, ANSWERS, 1, 1_000_000, token="cd" * 16)
    recorder.answer = refusal("too_early")
    with service(recorder) as closed, pytest.raises(NotDelivered, match="too_early"):
        submit(study, memory, closed, data)
    again = decode_report(
        prepare(study, memory, {**ANSWERS, "age": 35}, 1, 400_000, token="cd" * 16)
    )
    before = decode_report(data)
    assert (again.id, again.label, again.epsilon) == (before.id, before.label, before.epsilon)
    assert (
        again.token == "cd" * 16
        and features_of(again).tobytes() == study.encode({**ANSWERS, "age": 35}).tobytes()
    )


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (408, "timeout"),
        (425, "closed"),
        (429, "too_many_requests"),
        (503, "closed"),
        (502, "token_missing"),
        (200, "closed"),
    ],
)
def test_an_answer_in_doubt_leaves_the_bytes_locked(
    study: Study, memory: Memory, recorder: Recorder, status: int, code: str
) -> None:
    """Whatever the body says: a proxy may have spoken in between."""
    data = prepare(study, memory, ANSWERS, 1, 1_000_000)
    recorder.answer = lambda body: (status, refusal(code)(body)[1])
    with service(recorder) as busy, pytest.raises(NotDelivered, match="may or may not hold"):
        submit(study, memory, busy, data)
    assert prepare(study, memory, {**ANSWERS, "age": 50}, 0, 2_000_000) == data


def test_a_refusal_whose_body_is_in_doubt_leaves_the_bytes_locked(
    study: Study, memory: Memory, recorder: Recorder
) -> None:
    data = prepare(study, memory, ANSWERS, 1, 1_000_000)
    recorder.answer = lambda body: (400, refusal("storage_unavailable")(body)[1])
    with service(recorder) as odd, pytest.raises(NotDelivered, match="may or may not hold"):
        submit(study, memory, odd, data)
    assert prepare(study, memory, {**ANSWERS, "age": 50}, 0, 2_000_000) == data


def test_bytes_from_elsewhere_are_not_sent(
    study: Study, memory: Memory, recorder: Recorder, tmp_path: Path
) -> None:
    foreign = prepare(study, Memory(tmp_path / "other"), ANSWERS, 1, 1_000_000)
    with service(recorder) as honest, pytest.raises(InvalidInput, match="same memory"):
        submit(study, memory, honest, foreign)
    assert recorder.bodies == []


def test_a_service_of_another_study_gets_nothing(
    study: Study, memory: Memory, recorder: Recorder
) -> None:
    recorder.canonical += b" "
    with service(recorder) as wrong, pytest.raises(NotDelivered, match="another study"):
        submit(study, memory, wrong, prepare(study, memory, ANSWERS, 1, 1_000_000))
    assert recorder.bodies == []


def test_bad_answers_draw_nothing(study: Study, memory: Memory) -> None:
    for answers, label, epsilon in (
        ({"age": 3}, 1, 1_000_000),
        (ANSWERS, 2, 1_000_000),
        (ANSWERS, -1, 1_000_000),
        (ANSWERS, 1, 999_999),
        (ANSWERS, None, 1_000_000),
        (ANSWERS, 1, None),
    ):
        with pytest.raises(InvalidInput):
            prepare(study, memory, answers, label, epsilon)
    assert memory.recall(study.unkeyed_hash, "") is None


def test_one_call_asks_for_admission_draws_and_sends(
    study: Study, recorder: Recorder, tmp_path: Path
) -> None:
    """Twice: the second time the same bytes leave, whatever is said."""
    how = {"memory": tmp_path / "state", "token": f"https://a.example/#t={'cd' * 16}"}
    first = contribute(study, recorder.url, ANSWERS, label="yes", epsilon=1, **how)
    assert len(recorder.invitations) == 1 and first.id == decode_report(recorder.bodies[0]).id
    again = contribute(study, recorder.url, ANSWERS, label="no", epsilon=2, **how)
    assert again == first and recorder.bodies == recorder.bodies[:1] * 2


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [({"label": "perhaps"}, "label"), ({"epsilon": 3.0}, "epsilon"), ({"token": "0"}, "token")],
)
def test_one_call_refuses_what_it_cannot_send(
    study: Study, recorder: Recorder, tmp_path: Path, wrong: dict[str, Any], setting: str
) -> None:
    how = {"label": "yes", "epsilon": 1.0, "memory": tmp_path / "state", **wrong}
    with pytest.raises(InvalidInput) as refused:
        contribute(study, recorder.url, ANSWERS, **how)
    assert refused.value.setting == setting and "perhaps" not in str(refused.value)
    assert recorder.heads == [] and not (tmp_path / "state").exists()


def revised(study: Study, relay: str) -> Study:
    """The next revision: only the relay and the hash of the one before differ."""
    return replace(study, relay=Relay(address=relay, fingerprint="ab" * 32), replaces=study.hash)


def test_a_revision_does_not_draw_again(study: Study, tmp_path: Path) -> None:
    """Keys and the relay change a study's hash: whoever answers again reports the same draw."""
    second = revised(study, "relay.example:4222")
    third = revised(second, "relay.example:4333")
    assert len({study.hash, second.hash, third.hash}) == 3
    for person in range(40):  # fresh draws would all agree with probability below 1e-8
        memory = Memory(tmp_path / str(person))
        reports = [
            decode_report(prepare(each, memory, ANSWERS, 1, 400_000))
            for each in (study, second, third)
        ]
        assert len({(report.id, report.label, report.epsilon) for report in reports}) == 1
        assert [report.study for report in reports] == [study.hash, second.hash, third.hash]


def test_a_report_in_doubt_goes_on_as_its_draw_in_the_next_revision(
    study: Study, memory: Memory, recorder: Recorder
) -> None:
    recorder.answer = lambda body: (500, b"oops")
    data = prepare(study, memory, ANSWERS, 1, 1_000_000)
    with service(recorder) as silent, pytest.raises(NotDelivered):
        submit(study, memory, silent, data)
    later = revised(study, "relay.example:4222")
    before, after = decode_report(data), decode_report(prepare(later, memory, ANSWERS, 0, None))
    assert after.study == later.hash and (after.id, after.label) == (before.id, before.label)


def test_what_was_stored_is_not_sent_again_for_a_revision(
    study: Study, memory: Memory, recorder: Recorder
) -> None:
    data = prepare(study, memory, ANSWERS, 1, 1_000_000)
    with service(recorder) as honest:
        submit(study, memory, honest, data)
    assert prepare(revised(study, "relay.example:4222"), memory, ANSWERS, 0, None) == data


TOKENS = ["ab" * 16, "cd" * 16]


def test_another_invitation_is_another_person(study: Study, memory: Memory) -> None:
    """A draw of their own; and the first one's stays."""
    first, second = (prepare(study, memory, ANSWERS, 1, 1_000_000, token=each) for each in TOKENS)
    assert decode_report(first).id != decode_report(second).id
    assert prepare(study, memory, ANSWERS, 0, 2_000_000, token=TOKENS[0]) == first
    assert prepare(study, memory, ANSWERS, 0, 2_000_000, token=TOKENS[1]) == second


def test_people_with_invitations_are_drawn_for_apart(study: Study, tmp_path: Path) -> None:
    """40 pairs at epsilon 0.4: the same draw for both would agree each time; independent ones all
    agree with probability below 1e-10.
    """
    agree = 0
    for person in range(40):
        memory = Memory(tmp_path / str(person))
        labels = [
            decode_report(prepare(study, memory, ANSWERS, 1, 400_000, token=each)).label
            for each in TOKENS
        ]
        agree += labels[0] == labels[1]
    assert agree < 40


def test_without_the_invitation_nothing_is_drawn_again(study: Study, memory: Memory) -> None:
    """Whoever lost the link, and whoever else is at this device: only they know who they are."""
    prepare(study, memory, ANSWERS, 1, 1_000_000, token=TOKENS[0])
    with pytest.raises(InvalidInput, match="name their record") as refused:
        prepare(study, memory, ANSWERS, 1, 1_000_000)
    assert refused.value.setting == "token"
    assert memory.recall(study.memory_key(), "") is None
    prepare(study, memory, ANSWERS, 1, 1_000_000, record="bob")
    other = replace(study, id="another-study")
    prepare(other, memory, ANSWERS, 1, 1_000_000)  # which nobody has answered here


def test_whoever_answered_without_an_invitation_goes_on_without(
    study: Study, memory: Memory
) -> None:
    first = prepare(study, memory, ANSWERS, 1, 1_000_000)
    prepare(study, memory, ANSWERS, 1, 1_000_000, token=TOKENS[0])
    assert prepare(study, memory, ANSWERS, 0, 1_000_000) == first


def test_a_report_is_sent_for_the_person_whose_invitation_it_carries(
    study: Study, memory: Memory, recorder: Recorder
) -> None:
    first, second = (prepare(study, memory, ANSWERS, 1, 1_000_000, token=each) for each in TOKENS)
    with service(recorder) as honest:
        submit(study, memory, honest, first)
    kept = [memory.recall(study.memory_key(each), "") for each in TOKENS]
    assert [memo is not None and memo.receipt is not None for memo in kept] == [True, False]
    assert recorder.bodies == [first] and second not in recorder.bodies
