"""People who report, what a collecting organisation has promised them, and whether it keeps that."""

from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from clocks import START
from example_study import ASKING
from reporting import make_report
from scenes import SUMS, study_of

from pdml.collector.storage.records import CollectionState, Totals, hour_text
from pdml.collector.storage.retention import WEEK, ends
from pdml.errors import DataError, StorageUnavailable
from pdml.study.frozen_dataset import FrozenData
from pdml.study.messages import Problem, Receipt, Withdrawn, encode_report, report_id

if TYPE_CHECKING:
    from collectors import Collector

PATIENCE, ATTEMPTS, PAUSE = 3.0, 4, 1.0  # seconds for an answer, tries, seconds between two
MOST = 80  # people: each has an age of their own, by which rows are told apart


def _day(days: int) -> datetime:
    return datetime.fromtimestamp(START, UTC) + timedelta(days=days)


STUDY = replace(
    study_of(SUMS),
    opens=_day(-2),
    closes=_day(40),
    organiser=ASKING.organiser,
    notice=replace(ASKING.notice, retention=_day(100)),
    consent=ASKING.consent,
)
Row = tuple[bytes, int, int]  # features, label, ε


@dataclass(eq=False)
class Person:
    """One device, and what has become of its report."""

    number: int
    token: str = ""
    has_arrived: bool = False  # at the service, whatever came of it
    is_acknowledged: bool = False
    wants_out: bool = False  # a withdrawal has arrived
    is_out: bool = False  # and was acknowledged
    is_excused: bool = False  # by an old copy that was restored
    refusal: str = ""  # the code of the last answer that was none
    hours: set[str] = field(default_factory=set)  # at which the report has arrived

    def __post_init__(self) -> None:
        self.code = f"{self.number + 1:032x}"
        features = STUDY.encode({"age": 18 + self.number})
        epsilon, label = STUDY.epsilon_micro[self.number % 2], self.number % 3 % 2
        self.row: Row = features.tobytes(), label, epsilon
        report = make_report(
            STUDY, self.code, features=features, label=label, epsilon=epsilon, token=self.token
        )
        self.line, self.id = encode_report(report), report_id(self.code)

    @property
    def is_answered(self) -> bool:
        return bool(self.is_acknowledged or self.refusal) and self.refusal != "storage_unavailable"


class Promises:
    """What the outside world has been promised by one collection."""

    def __init__(self, collector: "Collector") -> None:
        self._collector = collector
        self.people: list[Person] = []
        self.tokens: list[str] = []  # of invitations that were given out
        self.shut = ""  # "closed", "frozen" or "erased", if that is certain
        self.openings = 0  # how often it may have been opened again
        self.latest = 0  # the latest hour that may be believed
        self.may_be_erased = self.may_be_frozen = self.is_restored = False
        self.digest = ""  # of what was exported

    def _refuse(self, invariant: str, sentence: str) -> None:
        self._collector.world.observer.refuse(invariant, sentence)

    def look_at_clock(self) -> None:
        """Whether all reports may be erased now, because their retention has ended by a date that
        is believed.
        """
        now, end = self._collector.clock.now(), ends(STUDY)
        hour = int(now // 3600)
        if not self.latest or hour - self.latest <= WEEK or hour + WEEK < end // 3600:
            self.latest = max(self.latest, hour)
        self.may_be_erased |= now >= end and hour <= self.latest

    # Answers as they leave the machine

    def reported(self, person: Person, answer: Receipt | Problem, new: bool, call: "Call") -> None:
        if isinstance(answer, Problem):
            if not person.is_acknowledged:
                person.refusal = answer.code
            return
        who, own = f"the report of person {person.number}", sha256(person.line).hexdigest()
        if (answer.id, answer.digest, answer.study) != (person.id, own, STUDY.hash):
            self._refuse("a receipt is of its report", who)
        if answer.hour not in person.hours:
            self._refuse("a receipt is of its report", f"{who} came at {answer.hour}")
        if new and not STUDY.opens.timestamp() <= call.now < STUDY.closes.timestamp():
            self._refuse(
                "opens and closes", f"{who} was taken at {hour_text(int(call.now // 3600))}"
            )
        if new and call.shut and call.openings == self.openings:
            self._refuse("nothing is added", f"{who} was stored though {call.shut}")
        if new and person.token and not person.is_excused:
            others = (one for one in self.people if one is not person and one.is_acknowledged)
            if any(one.token == person.token and not one.is_excused for one in others):
                self._refuse("an invitation works once", f"{who}, and another by the same")
        if new and self._collector.require_tokens and person.token not in self.tokens:
            self._refuse("invited people alone", who)
        person.is_acknowledged, person.refusal = True, ""

    def withdrawn(self, person: Person, answer: Withdrawn | Problem, *, again: bool) -> None:
        who = f"the report of person {person.number}"
        if isinstance(answer, Withdrawn):
            person.is_out = True
        elif answer.code == "withdrawal_unknown" and (
            person.is_acknowledged
            and not (again and self.is_restored)  # by a copy from before it came
            and not (person.is_excused or self.may_be_erased)
        ):
            self._refuse("no acknowledged report is lost", f"{who} is unknown")
        elif answer.code == "frozen" and not self.may_be_frozen:
            self._refuse("what is frozen was exported", who)

    # What a collection holds

    def check(self, rows: Iterable[Row], totals: Totals, where: str) -> None:
        """Of what is stored, or was exported."""
        by_row = {person.row: person for person in self.people}
        counts = Counter(by_row.get(row) for row in rows)
        if None in counts:
            self._refuse("only what was reported", f"{where} has a row of nobody")
            return
        for person, count in counts.items():
            who = f"{where} has the report of person {person.number}"
            if count > 1:
                self._refuse("no report is counted twice", f"{who} {count} times")
            if not person.has_arrived:
                self._refuse("only what was reported", f"{who}, which has not arrived")
            if person.is_out and not person.is_excused:
                self._refuse("what is withdrawn is gone", who)
        for person in self.people:
            owed = person.is_acknowledged and not (person.wants_out or person.is_excused)
            if owed and not self.may_be_erased and person not in counts:
                lost = f"{where} lacks the report of person {person.number}"
                self._refuse("no acknowledged report is lost", lost)
        cells = Counter(row[2:0:-1] for person in counts for row in [person.row])
        if cells != Counter(dict(totals.tallies)):
            self._refuse("totals are those of the reports", where)
        if totals.state is CollectionState.ERASED and not self.may_be_erased:
            self._refuse("nothing is erased too early", f"at {hour_text(totals.erased_hour)}")
        if self.shut == "erased" and counts:
            self._refuse("what is erased is gone", f"{where} has {sum(counts.values())} reports")
        if self.shut == "frozen" and totals.state not in (
            CollectionState.FROZEN,
            CollectionState.ERASED,
        ):
            self._refuse("what is frozen stays so", f"{where} is {totals.state}")

    def unreadable(self, error: DataError) -> None:
        """A data set that is frozen again after its keys were destroyed is lost, as was wanted."""
        if not (self.is_restored and self.may_be_frozen and self.may_be_erased):
            self._refuse("what is stored can be read", str(error))

    def exported(self, data: FrozenData, totals: Totals) -> None:
        columns = zip(data.features, data.labels.tolist(), data.epsilons.tolist(), strict=True)
        rows = [(bytes(features.tobytes()), *others) for features, *others in columns]
        if self.digest and self.digest != data.manifest.digest:
            self._refuse("the same data set", "another one was exported than before")
        self.shut, self.digest = "frozen", data.manifest.digest
        self.check(rows, totals, "the data set")

    # Old copies

    def save(self) -> list[Person]:
        return [copy(person) for person in self.people]

    def restore(self, before: list[Person], *, with_keys: bool) -> None:
        """What came after the copy is not promised any more; what was withdrawn stays so, unless
        the keys came back as well.
        """
        self.openings, self.shut, self.digest = self.openings + 1, "", ""
        self.is_restored = True
        for person in self.people:
            old = before[person.number] if person.number < len(before) else Person(person.number)
            if with_keys or not person.is_out:
                person.is_excused |= person.is_acknowledged != old.is_acknowledged
                person.is_excused |= person.wants_out != old.wants_out


@dataclass(frozen=True)
class Call:
    """What was certain when a report arrived."""

    now: float
    shut: str
    openings: int


class Delivery:
    """One device, or an organisation that sends for several people: it sends until it is answered,
    and gives up after a while.
    """

    def __init__(self, collector: "Collector", people: list[Person], *, withdraw: bool = False):
        self._collector, self._world = collector, collector.world
        self._people, self._withdraw = people, withdraw
        self._attempts = 0
        collector.deliveries.append(self)
        self._send()

    def _send(self) -> None:
        self._attempts += 1
        number = self._attempts
        self._world.note("send", *(person.number for person in self._people))
        for seconds in self._world.network.delays("people", self._collector.name):
            self._world.later(seconds, self._arrive)
        self._world.later(PATIENCE, lambda: self._again(number))

    def _again(self, number: int) -> None:
        if number != self._attempts or not self._people:
            return
        if number < ATTEMPTS:
            self._send()
        else:
            self._end()

    def _end(self) -> None:
        self._people = []
        if self in self._collector.deliveries:
            self._collector.deliveries.remove(self)

    def _arrive(self) -> None:
        collector = self._collector
        if collector.is_hung:
            self._world.at(collector.hung_until, self._arrive)
        elif collector.is_up and collector.is_serving and self._people:
            with self._world.acting(collector):
                steps = self._take_back() if self._withdraw else self._report()
                collector.loop.create_task(steps)

    async def _report(self) -> None:
        collector, people = self._collector, list(self._people)
        promises, service = collector.promises, collector.service
        call = Call(collector.clock.now(), promises.shut, promises.openings)
        for person in people:
            person.has_arrived = True
            person.hours.add(hour_text(int(call.now // 3600)))
        answers = await service.accept([person.line for person in people])
        if collector.disk.dead:
            return
        for person, (answer, new) in zip(people, answers, strict=True):
            self._world.note("answer", person.number, type(answer).__name__, new)
            promises.reported(person, answer, new, call)
        over = [
            person
            for person, (answer, _) in zip(people, answers, strict=True)
            if not (isinstance(answer, Problem) and answer.code == "storage_unavailable")
        ]
        self._answer(over)

    async def _take_back(self) -> None:
        (person,), collector = self._people, self._collector
        again, person.wants_out = person.wants_out, True
        try:
            answer = await collector.service.withdraw(person.code)
        except StorageUnavailable:
            return
        if not collector.disk.dead:
            self._world.note("answer", person.number, type(answer).__name__)
            collector.promises.withdrawn(person, answer, again=again)
            self._answer([person])

    def _answer(self, over: list[Person]) -> None:
        """Whoever is not among ``over`` asks again."""
        for seconds in self._world.network.delays("people", self._collector.name):
            self._world.later(seconds, lambda: self._hear(over))

    def _hear(self, over: list[Person]) -> None:
        if not self._people:
            return
        self._people = [person for person in self._people if person not in over]
        if not self._people:
            self._end()
        else:
            number = self._attempts
            self._world.later(PAUSE, lambda: self._again(number))
