"""What the Python client has on the disk is a function of what it sends: whoever reads both learns
no more than from the report."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from guessing import hits, most_hits
from recording import Recorder, receipt, refusal

from pdml.device.client import prepare, submit
from pdml.device.delivery import Delivery
from pdml.device.memo import Memory, draw
from pdml.errors import NotDelivered
from pdml.mechanisms.label_flip import LabelFlip
from pdml.study import Study
from pdml.study.messages import report_id

ANSWERS = {"age": 34, "sex": "female", "region": "south"}
EPSILON = 0.01  # so private that a report says next to nothing: whatever else is stored stands out
KEPT = 1 - LabelFlip(EPSILON).flip_probability
LEARN, DEVICES = 60, 330


def on_disk(folder: Path) -> dict[str, object]:
    """All of it, whatever its name."""
    (file,) = [path for path in folder.rglob("*") if path.is_file()]
    found: dict[str, object] = json.loads(file.read_bytes())
    assert report_id(str(found.pop("code"))) == found["id"]  # which is drawn before the answer
    return found


def stored(sent: bytes, *, left: bool = True, answer: object = None) -> dict[str, object]:
    """What may be on the disk: nothing that is not in the report, but for the service's own
    receipt, and the code of which the report's number is a hash."""
    report = json.loads(sent)
    drawn = {key: report[key] for key in ("study", "id", "epsilon", "label")}
    held = {"sent": sent.decode() if left else "", "receipt": answer}
    return {**drawn, **{key: value for key, value in held.items() if value}, "version": 1}


@pytest.mark.parametrize("label", [0, 1])
def test_at_every_step_the_disk_holds_a_function_of_the_report(
    study: Study,
    tmp_path: Path,
    recorder: Recorder,
    label: int,
) -> None:
    memory = Memory(tmp_path)
    data = prepare(study, memory, ANSWERS, label, 1_000_000)
    assert on_disk(tmp_path) == stored(data, left=False)
    seen_at_the_server: list[dict[str, object]] = []

    def look(body: bytes) -> tuple[int, bytes]:
        seen_at_the_server.append(on_disk(tmp_path))
        return refusal("storage_unavailable")(body)

    recorder.answer = look
    with Delivery(recorder.url, attempts=1) as service, pytest.raises(NotDelivered):
        submit(study, memory, service, data)
    assert seen_at_the_server == [stored(data)]  # before it left
    assert on_disk(tmp_path) == stored(data)  # after a 503
    recorder.answer = refusal("bad_features")
    with Delivery(recorder.url) as service, pytest.raises(NotDelivered):
        submit(study, memory, service, data)
    assert on_disk(tmp_path) == stored(data, left=False)
    recorder.answer = receipt
    with Delivery(recorder.url) as service:
        submit(study, memory, service, data)
    assert on_disk(tmp_path) == stored(data, answer=json.loads(receipt(data)[1]))


def people() -> list[int]:
    rng = random.Random(7)
    return [rng.randrange(2) for _ in range(LEARN + DEVICES)]


def test_after_an_unclear_answer_the_disk_betrays_nothing_beside_the_report(
    study: Study,
    tmp_path: Path,
    recorder: Recorder,
) -> None:
    """More hits than allowed have a chance of at most 1e-6; what was stored before is caught (next
    test)."""
    private = replace(study, menu=(EPSILON, 1.0))
    recorder.canonical, recorder.answer = private.canonical(), refusal("storage_unavailable")
    states = []
    for i, truth in enumerate(people()):
        memory = Memory(tmp_path / str(i))
        data = prepare(private, memory, ANSWERS, truth, private.epsilon_micro[0])
        with Delivery(recorder.url, attempts=1) as service, pytest.raises(NotDelivered):
            submit(private, memory, service, data)
        states.append({"disk": on_disk(tmp_path / str(i)), "wire": recorder.bodies[-1].decode()})
    assert hits(states, people(), LEARN) <= most_hits(DEVICES, KEPT)


def test_a_table_of_draws_beside_the_report_would_be_noticed() -> None:
    """What devices once stored: the draw for each possible answer, and what was sent. Missed with a
    chance below 1e-5."""
    states = []
    for truth in people():
        table = [draw(label, int(1e6 * EPSILON), 2) for label in (0, 1)]
        states.append({"disk": {"reported": table}, "wire": {"label": table[truth]}})
    assert hits(states, people(), LEARN) > most_hits(DEVICES, KEPT)
