"""One person's report: encoded and randomised here, shown, and sent. All of what a device does, in the order in which it does it."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from pdml.contribute.delivery import Service
from pdml.contribute.memo import Memo, Memory
from pdml.encoder import Number
from pdml.errors import DataError, InvalidInput, NotDelivered
from pdml.mechanisms.label_flip import MILLION, WORD, threshold
from pdml.messages import VERSION, Problem, Receipt, Report, decode_report, encode_report, features_of, pack_features
from pdml.study import Study


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a reader of the report will see, read back from its bytes."""

    report: Report
    answers: Mapping[str, float | str]
    label: str  # as reported
    epsilon: float
    flip_probability: float
    bytes: bytes


def prepare(
    study: Study, memory: Memory, answers: Mapping[str, object], label: int, micro_epsilon: int, *, record: str = "", token: str = ""
) -> bytes:
    """The bytes to send. Chance decides here, before any network activity, and once: the memory holds its decision.

    Guarantees
    ----------
    - The label in the bytes is ε-LDP in the true one, with the ε of the memory's draw.
    - The same record in the same study gets the same draw, whatever is corrected; what has once left is the only thing that leaves.
    - The true label is stored nowhere.
    """
    if not 0 <= label < len(study.classes):
        raise InvalidInput(f"label must be the index of one of the {len(study.classes)} classes")
    if micro_epsilon not in study.epsilon_micro:
        menu = ", ".join(f"{epsilon:g}" for epsilon in study.menu)
        raise InvalidInput(f"epsilon must be on the study's menu ({menu}), got {micro_epsilon / MILLION:g}")
    features = study.encode(answers)
    memo = memory.settle(study.hash, record, micro_epsilon, len(study.classes))
    if memo.sent:
        return memo.sent.encode("ascii")
    report = Report(
        version=VERSION,
        study=study.hash,
        id=memo.id,
        epsilon=memo.epsilon,
        label=memo.reported[label],
        features=pack_features(features),
        token=token,
    )
    return encode_report(report)


def preview(study: Study, data: bytes) -> Preview:
    report = decode_report(data)
    return Preview(
        report=report,
        answers=study.decode(features_of(report)),
        label=study.classes[report.label],
        epsilon=report.epsilon / MILLION,
        flip_probability=threshold(report.epsilon, len(study.classes)) / WORD,
        bytes=data,
    )


def submit(memory: Memory, service: Service, data: bytes, *, record: str = "") -> Receipt:
    """Send prepared bytes and remember the receipt; a refusal or silence is a `NotDelivered` with its reason."""
    report = decode_report(data)
    memo = memory.recall(report.study, record)
    if memo is None or memo.id != report.id or (memo.sent and memo.sent.encode("ascii") != data):
        raise InvalidInput("a report must be prepared with the same memory before it is sent, got one that this memory does not know")
    if memo.receipt is None:
        service.require_study(report.study)
        memo = memory.keep(record, msgspec.structs.replace(memo, sent=data.decode("ascii")))
    answer = service.send(data)
    if isinstance(answer, Problem):
        if memo.receipt is None:  # certainly not stored: whatever is corrected, the draw stays
            memory.keep(record, msgspec.structs.replace(memo, sent=""))
        raise NotDelivered(f"{service.url} refused the report ({answer.code}): {answer.title}", answer.code)
    done = Memo(study=memo.study, id=memo.id, epsilon=memo.epsilon, sent=data.decode("ascii"), receipt=answer)
    memory.keep(record, done)
    return answer


def require_in_range(study: Study, answers: Mapping[str, object]) -> None:
    """Refuse numbers outside their declared range: encoding would clamp them, and people should know before."""
    for attribute in study.attributes:
        value = answers.get(attribute.name)
        if isinstance(attribute, Number) and isinstance(value, (int, float)) and not attribute.low <= value <= attribute.high:
            raise DataError(
                f"{attribute.name!r} must lie in [{attribute.low:g}, {attribute.high:g}], got {value:g}: the study declares no other value"
            )
