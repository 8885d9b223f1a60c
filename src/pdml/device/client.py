"""One person's report: encoded and randomised here, shown, and sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec

from pdml.device import answers as answer_rules
from pdml.device.delivery import Delivery
from pdml.device.memo import Memo, Memory, default_folder
from pdml.device.receipt import SavedReceipt, make_receipt
from pdml.encoding import device_encoding
from pdml.errors import InvalidInput, NotDelivered
from pdml.mechanisms.label_flip import MILLION
from pdml.study import Study
from pdml.study.messages import (
    FORMAT,
    Problem,
    Receipt,
    Report,
    decode_report,
    encode_report,
    features_of,
    pack_features,
    report_nonce,
)


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a reader of the report will see, read back from its bytes."""

    report: Report
    answers: Mapping[str, float | str | None]  # None where there is none
    answer_epsilons: Mapping[str, float]  # ε of those answers that are randomised
    label: str  # as reported
    epsilon: float
    bytes: bytes


def prepare(
    study: Study,
    memory: Memory,
    answers: Mapping[str, object],
    label: int | None,
    micro_epsilon: int | None,
    *,
    epsilons: Mapping[str, int] = MappingProxyType({}),
    record: str = "",
    token: str = "",
    agreed: bool = False,
) -> bytes:
    """The bytes to send. Answers are randomised here, once: the memory keeps the draw.

    Guarantees
    ----------
    - The label in the bytes, and every sensitive answer, is ε-LDP in the true one, with the ε of
      a draw of its own.
    - The same invitation and record in the same study get the same draw, whatever is corrected or
      said later; nothing of it once the report was withdrawn.
    - Neither the true label nor a sensitive answer is stored: what the memory holds is a function
      of the returned bytes.
    """
    key = study.memory_key(token)
    memo = memory.recall(key, record)
    _refuse_second_draw(study, memory, memo, token=token, record=record)
    if memo is not None and (left := _left(memo, study)):
        return left
    consent = answer_rules.consent(study, agreed=agreed)
    if memo is None:
        draws = answer_rules.to_draw(study, answers, epsilons)
        study.encode(answers, [(0, micro) for _, micro, _ in draws])  # refuses bad ones first
        if label is None or not 0 <= label < len(study.classes):
            raise InvalidInput(f"label must be the index of one of {len(study.classes)} classes")
        micro_epsilon = answer_rules.on_menu(study, (micro_epsilon or 0) / MILLION)
        memo = memory.draw_once(key, record, label, micro_epsilon, len(study.classes), draws)
        if left := _left(memo, study):  # by another process meanwhile
            return left
    report = Report(
        version=FORMAT.version,
        study=study.hash,
        id=memo.id,
        nonce=report_nonce(memo.code),
        epsilon=memo.epsilon,
        label=memo.label,
        features=pack_features(study.encode(answers, memo.answers)),
        token=token,
        **consent,
    )
    return encode_report(report)


def _refuse_second_draw(
    study: Study, memory: Memory, memo: Memo | None, *, token: str, record: str
) -> None:
    """Refuse where the same person would, or could, be randomised twice."""
    if memo is not None and memo.withdrawn:
        why = (
            "this report was withdrawn on this device, and the same answer is not randomised again"
        )
        raise NotDelivered(f"Nothing was sent: {why}.")
    # somebody who lost the link, or somebody else: only they know
    is_anonymous = memo is None and not token and not record
    if is_anonymous and memory.remembers_invitations(study.unkeyed_hash):
        raise InvalidInput(
            "token must be the invitation, which was used for this study on this device before, "
            "got none: one person could be randomised twice. If somebody else answers "
            "without an invitation, name their record",
            setting="token",
        )


def _left(memo: Memo, study: Study) -> bytes:
    """The bytes that alone may leave once a report has; empty if none has, or if one without a
    receipt was for an earlier revision. The draw stays."""
    data = memo.sent.encode("ascii")
    if data and memo.receipt is None and decode_report(data).study != study.hash:
        return b""
    return data


def preview(study: Study, data: bytes) -> Preview:
    """A report in words, read back from its bytes."""
    report = decode_report(data)
    features = features_of(report)
    chosen = device_encoding.read_draws(study.encoder, features)
    sensitive = zip(study.encoder.sensitive, chosen, strict=True)
    return Preview(
        report=report,
        answers=study.decode(features),
        answer_epsilons={attribute.name: micro / MILLION for attribute, (_, micro) in sensitive},
        label=study.classes[report.label],
        epsilon=report.epsilon / MILLION,
        bytes=data,
    )


def submit(
    study: Study, memory: Memory, service: Delivery, data: bytes, *, record: str = ""
) -> Receipt:
    """Send prepared bytes and keep the receipt; a refusal or silence is a `NotDelivered`."""
    report = decode_report(data)
    memo = memory.recall(study.memory_key(report.token), record)
    draw = None if memo is None else (memo.id, memo.epsilon, memo.label)
    fits = draw == (report.id, report.epsilon, report.label) and data.isascii()
    if memo is None or not fits or _left(memo, study) not in (b"", data):
        must = "a report must be prepared with the same memory before it is sent"
        raise InvalidInput(f"{must}, got one that this memory does not know")
    if memo.receipt is None:
        service.require_study(report.study)
        memo = memory.keep(record, msgspec.structs.replace(memo, sent=data.decode("ascii")))
    answer = service.send(data)
    if isinstance(answer, Problem):
        if memo.receipt is None:  # certainly not stored: whatever is corrected, the draw stays
            memory.keep(record, msgspec.structs.replace(memo, sent=""))
        why = f"{service.url} refused the report ({answer.code}): {answer.title}"
        raise NotDelivered(why, answer.code)
    memory.keep(record, msgspec.structs.replace(memo, receipt=answer))
    return answer


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """One record's report to one service, step by step."""

    study: Study
    service: Delivery  # The collecting organisation's
    memory: Memory  # What this device remembers, so that it randomises once
    # Whose record, where several people share the device without invitations of their own
    record: str = ""
    token: str = ""  # The invitation, if there is one. Another invitation is another person

    @property
    def memo(self) -> Memo | None:
        """What was drawn for this record before; with ``sent`` a report has left."""
        return self.memory.recall(self.study.memory_key(self.token), self.record)

    def require_admission(self) -> None:
        """Refuse, before anybody is asked, where a report would not be taken: `NotDelivered`."""
        who = {"token": self.token, "record": self.record}
        _refuse_second_draw(self.study, self.memory, self.memo, **who)
        self.service.require_study(self.study.hash)
        self.service.require_admission(self.study.hash, self.token)

    def prepare(
        self,
        answers: Mapping[str, object],
        label: int | None = None,
        micro_epsilon: int | None = None,
        *,
        epsilons: Mapping[str, int] = MappingProxyType({}),
        agreed: bool = False,
    ) -> Preview:
        """`prepare`, with what a reader of the report will see."""
        data = prepare(
            self.study,
            self.memory,
            answers,
            label,
            micro_epsilon,
            epsilons=epsilons,
            record=self.record,
            token=self.token,
            agreed=agreed,
        )
        return preview(self.study, data)

    def receipt(self) -> SavedReceipt:
        """The receipt of this record's report, for its owner to keep."""
        memo = self.memo
        if memo is None:
            raise InvalidInput("a receipt is kept of a report that was stored, got no report")
        return make_receipt(self.study, self.service.url, memo)

    def send(self, prepared: Preview) -> Receipt:
        """`submit` of what was looked at."""
        return submit(self.study, self.memory, self.service, prepared.bytes, record=self.record)


def contribute(
    study: Study,
    url: str,
    answers: Mapping[str, object],
    *,
    label: str,
    epsilon: float,
    epsilons: Mapping[str, float] = MappingProxyType({}),
    agreed: bool = False,
    token: str = "",
    record: str = "",
    memory: Path | None = None,
    ca: Path | None = None,
) -> Receipt:
    """Randomise one person's answer on this device and send the report.

    Parameters
    ----------
    study : Study
        `Study.load("study.toml")`.
    url : str
        The collection service, one of the study's servers.
    answers : mapping of str to object
        By the attribute's name, as `pdml.device.answers.check_answers` takes them.
    label : str
        The true answer, which is stored nowhere.
    epsilon : float
        From the study's menu.
    epsilons : mapping of str to float
        Of sensitive attributes, from their menus; by default what those suggest.
    agreed : bool
        Whether the person has read the study's notice and agrees to its consent.
    token : str
        The invitation, or the link that holds it.
    record : str
        Whose record, where several people share this device.
    memory : Path, optional
        Where draws are kept, by default ~/.local/state/pdml.
    ca : Path, optional
        Trust this authority's certificates (PEM) instead of the system's.

    Returns
    -------
    Receipt
        The service's word that exactly this report is stored.

    Raises
    ------
    InvalidInput
        For a value outside its domain; nothing is drawn then.
    NotDelivered
        If the service cannot be reached or refuses; ``code`` says why.

    Guarantees
    ----------
    - Those of `prepare`: each record is randomised once, before anything leaves.
    - A report that has left goes out again as it is, which counts once.

    Examples
    --------
    >>> contribute(
    ...     study, study.servers[0].url, {"age": 34}, label="yes", epsilon=1, agreed=True
    ... )  # doctest: +SKIP
    """
    checked_answers = answer_rules.check_answers(study, answers)
    chosen = (answer_rules.class_index(study, label), answer_rules.on_menu(study, epsilon))
    private = answer_rules.on_menus(study, epsilons)
    with Delivery(url, ca=ca) as service:
        contribution = Contribution(
            study=study,
            service=service,
            memory=Memory(memory or default_folder()),
            record=record,
            token=answer_rules.invitation(token),
        )
        if contribution.memo is None or not contribution.memo.sent:
            contribution.require_admission()
        return contribution.send(
            contribution.prepare(checked_answers, *chosen, epsilons=private, agreed=agreed)
        )
