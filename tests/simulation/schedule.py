"""Schedules: operations drawn from a seed, their execution, and the shortest that still fails."""

import json
import shutil
import sqlite3
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
from collectors import NAME, Collector
from invariants import Observer
from network import Weather
from nodes import WIRE, Node
from people import MOST, Delivery, Person
from scenes import NAMES, NOISE, PLANS, folder_of_runs, scene
from world import Machine, Violation, World, simulated_world

from pdml.errors import PDMLError
from pdml.node.operator import offers
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import FLOATS
from pdml.node.protocol.requests import RequestKind
from pdml.node.storage.control_db import ENDED, CommandKind, ControlDatabase, OfferState
from pdml.node.storage.journal import JobState
from pdml.node.storage.node_dir import NodeDirectory
from pdml.study.schema import template

LONGEST = 200.0  # simulated seconds in which everything must have ended once nothing fails
JUMPS = (1.0, 60.0, 3600.0, 86400.0, 30 * 86400.0, 365 * 86400.0)  # seconds

Operation = tuple[Any, ...]
"""Seconds to wait before it, its name, and its arguments."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Everything that a run depends on."""

    seed: int
    method: str = "rounds"  # of the members' plan; "" without members
    collects: bool = False  # an organisation collects reports
    require_tokens: bool = False  # from people who were invited
    tight: bool = False
    fresh_noise: bool = False
    asking: tuple[str, ...] = ()  # members whose operators are asked about every offer
    timeout: float = 6.0  # of a start, and of a round
    restart: float = 0.0  # seconds after which what ended is started again; 0: only at the end
    must_succeed: bool = False  # what has begun everywhere is done by all
    operations: tuple[Operation, ...] = ()

    def to_json(self) -> str:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(fields, indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> "Schedule":
        fields = json.loads(path.read_text())
        fields.pop("why", None)
        fields["operations"] = tuple(tuple(operation) for operation in fields["operations"])
        fields["asking"] = tuple(fields["asking"])
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a schedule."""

    history: str
    violation: Violation | None
    states: frozenset[int]
    faults: Counter[str]
    jobs: Counter[str]  # by state, at all members
    seconds: float  # simulated
    trace: tuple[str, ...] = ()


def draw(seed: int) -> Schedule:
    """The schedule of a seed: of ten, two are gentle, two of a collection alone, and one of a
    collection beside the members.
    """
    random = Random(f"schedule {seed}")
    if seed % 5 == 4:
        return _draw_gentle(seed, random)
    collects, trains = seed % 10 in (1, 3, 6), seed % 10 not in (1, 6)
    operations: list[Operation] = []
    jobs = 0
    for _ in range(random.choice((3, 5, 8, 12) if trains else (6, 12, 20, 30))):
        gap = round(random.choice((0.0, 0.1 * random.random(), random.random() ** 2 * 8)), 4)
        if collects and not (trains and random.random() < 0.6):
            kinds, who, other = _COLLECTOR_KINDS, NAME, "people"
        else:
            kinds, who = _KINDS, random.choice(NAMES)
            other = random.choice([name for name in NAMES if name != who])
            if not jobs or random.random() < 0.3:
                is_old = jobs and random.random() < 0.5
                jobs += not is_old
                job = random.randint(1, jobs) if is_old else jobs
                operations.append((gap, "offer", who, job, bool(is_old)))
                continue
        kind = random.choices(list(kinds), [chance for chance, _ in kinds.values()])[0]
        arguments = kinds[kind][1](random, who, other)
        operations.append((gap, kind, *arguments))
        if kind in _ABSENCES and random.random() < 0.3:
            operations.append((0.0, "wait", 50.0))  # longer than any timeout
    asking = tuple(name for name in NAMES if random.random() < 0.1)
    return Schedule(
        seed=seed,
        method=random.choice(list(PLANS)) if trains else "",
        collects=collects,
        require_tokens=random.random() < 0.4,
        tight=random.random() < 0.25,
        fresh_noise=random.random() < 0.5,
        asking=asking if trains else (),
        restart=random.choice((0.0, 0.0, 1.0)),
        operations=tuple(operations),
    )


def _draw_gentle(seed: int, random: Random) -> Schedule:
    """Nodes that end are started again at once, and little is lost on the way: every job is done."""
    drop = random.choice((0.0, 0.03))
    operations: list[Operation] = [(0.0, "weather", drop, random.choice((0.0, 0.3)), 0.0, 0.0, 0.0)]
    for job in range(1, 1 + random.choice((1, 1, 2))):
        operations.append((0.0, "offer", random.choice(NAMES), job, False))
        for _ in range(random.choice((1, 2))):
            gap = round(random.choice((0.0, 0.5 * random.random())), 4)
            who = random.choice(NAMES)
            kind = random.choice(("kill", "cut", "cut_after", "cut_after"))
            arguments = (who, random.randrange(80)) if kind == "cut_after" else (who,)
            operations.append((gap, kind, *arguments))
        operations.append((25.0, "heal"))
    return Schedule(
        seed=seed,
        method=random.choice(list(PLANS)),
        fresh_noise=random.random() < 0.5,
        operations=tuple(operations),
        timeout=20.0,
        restart=random.choice((0.2, 1.0)),
        must_succeed=True,
    )


def _chance(random: Random) -> float:
    return random.choice((0.0, 0.0, 0.05, 0.3))


def _weather(random: Random, who: str, other: str) -> tuple[float, ...]:
    """Chances of a drop, a duplicate, a delay, a bit that changes, and a lie of the relay."""
    return tuple(_chance(random) for _ in range(5))


_Kinds = dict[str, tuple[float, Callable[[Random, str, str], tuple]]]
_FAULTS: _Kinds = {
    "kill": (3, lambda random, who, other: (who,)),
    "cut": (2, lambda random, who, other: (who,)),
    "cut_after": (4, lambda random, who, other: (who, random.randrange(60))),
    "kill_after": (2, lambda random, who, other: (who, random.randrange(60))),
    "leave": (1.5, lambda random, who, other: (who,)),
    "start": (3, lambda random, who, other: (who,)),
    "hang": (1, lambda random, who, other: (who, round(random.random() * 10, 3))),
    "jump": (1, lambda random, who, other: (who, random.choice((-1, 1)) * random.choice(JUMPS))),
    "weather": (2, _weather),
    "part": (1, lambda random, who, other: (who, other)),
    "isolate": (1, lambda random, who, other: (who,)),
    "heal": (1.5, lambda random, who, other: ()),
    "fill": (0.7, lambda random, who, other: (who,)),
    "make_room": (1, lambda random, who, other: (who,)),
    "fail_syncs": (0.7, lambda random, who, other: (who, random.choice((1, 1, 2, 20)))),
    "fail_reads": (0.5, lambda random, who, other: (who, random.choice((1, 1, 3)))),
    "copy": (0.5, lambda random, who, other: (who,)),
    "restore": (0.7, lambda random, who, other: (who,)),
}
_KINDS: _Kinds = _FAULTS | {
    "stop": (0.7, lambda random, who, other: (who,)),
    "accept": (1, lambda random, who, other: (who,)),
    "refuse": (0.3, lambda random, who, other: (who,)),
    "silence": (0.3, lambda random, who, other: (who,)),
    "deceive": (0.4, lambda random, who, other: (who, other)),
    "rotate": (0.5, lambda random, who, other: (who,)),
    "upgrade": (0.5, lambda random, who, other: (who, random.choice(list(WIRE)))),
    "upgrade_all": (0.2, lambda random, who, other: ()),
    "downgrade": (0.5, lambda random, who, other: (who,)),
}
_ABSENCES = ("kill", "cut", "isolate", "silence")
_COLLECTOR_KINDS: _Kinds = _FAULTS | {
    "report": (25, lambda random, who, other: (random.choice((1, 1, 2, 5)), random.random() < 0.5)),
    "repeat": (4, lambda random, who, other: (random.randrange(MOST),)),
    "withdraw": (6, lambda random, who, other: (random.randrange(MOST),)),
    "take_out": (2, lambda random, who, other: (random.randrange(MOST),)),
    "invite": (3, lambda random, who, other: (random.choice((1, 3, 8)),)),
    "export": (1.5, lambda random, who, other: (random.random() < 0.5,)),
    "open_or_close": (1.5, lambda random, who, other: (random.random() < 0.6,)),
    "purge": (0.3, lambda random, who, other: ()),
    "pass_days": (1.5, lambda random, who, other: (random.choice((1, 5, 20)),)),
    "confirm_date": (0.5, lambda random, who, other: ()),
    "copy": (4, lambda random, who, other: (who,)),
    "restore_database": (2.5, lambda random, who, other: ()),
}


class Run:
    """One schedule in one world."""

    def __init__(self, schedule: Schedule, world: World, observer: Observer) -> None:
        self.schedule, self.world, self.observer = schedule, world, observer
        self.scene = observer.scene
        self.faults: Counter[str] = Counter()
        self.offers = 0
        self.studies = [self.scene.study]  # its revisions
        self.collector: Collector | None = None

    def lay_out(self, folder: Path) -> None:
        """The machines, with what is on their disks."""
        schedule = self.schedule
        self.observer.timeout = schedule.timeout
        if schedule.method:
            self.scene.lay_out(folder)
            for name in NAMES:
                options = {"noise": NOISE, "fresh_noise": schedule.fresh_noise}
                node = Node(self.world, name, folder / name, **options)
                if name in schedule.asking:
                    node.directory.save(accept="ask")
        if schedule.collects:
            self.collector = Collector(
                self.world, folder / NAME, require_tokens=schedule.require_tokens
            )

    def execute(self) -> None:
        for machine in self.world.machines.values():
            machine.start()
        self._run(0.5)
        for machine in self.world.machines.values():
            machine.save_copy()
        for gap, name, *arguments in self.schedule.operations:
            self._run(gap)
            self.world.note("operation", name, *arguments)
            getattr(self, name)(*arguments)
            self._check()
        self._run(0.5)
        self._settle()
        if self.collector is not None:
            self._settle_collection(self.collector)
        if self.schedule.must_succeed:
            self._check_success()
        if self.world.nodes and not self.observer.dishonest:
            self._finale()
        self.observer.finish()
        self._check()

    def _check(self) -> None:
        if self.observer.violation is not None:
            raise self.observer.violation

    def _run(self, seconds: float, ended: Callable[[], bool] = lambda: False) -> bool:
        observer = self.observer
        done = self.world.run_until(
            self.world.time + seconds, lambda: observer.violation is not None or ended()
        )
        self._check()
        return done

    def _settle(self) -> None:
        """Nothing fails any more: everything ends."""
        self.heal()
        hung = [machine.hung_until - self.world.time for machine in self.world.machines.values()]
        self._run(max(0.0, *hung))
        for machine in self.world.machines.values():
            machine.disk.calm()
            machine.start()
        newest = set().union(*(node.newer for node in self.world.nodes.values()))
        for node in self.world.nodes.values():
            node.is_silent = False
            node.install(newest)
            node.join(self.studies, template.render(self.studies[-1]))
        limit = self.world.time + LONGEST
        while self.world.time < limit:
            if self._is_quiet():
                return
            for machine in self.world.machines.values():
                machine.start()  # whoever was about to end
            for name in self.world.nodes:
                self.accept(name)
            self._run(0.5)
        where = {node.name: self._open(node) for node in self.world.nodes.values()}
        raise Violation("every job ends", f"after {LONGEST:g} s without a fault: {where}")

    def _is_quiet(self) -> bool:
        return all(
            machine.is_up and not machine.is_leaving for machine in self.world.machines.values()
        ) and not any(self._open(node) for node in self.world.nodes.values())

    def _open(self, machine: Node) -> list[str]:
        if not machine.is_up:
            return ["down"]
        daemon = machine.daemon
        commands = daemon.control_db._db.row("SELECT count(*) FROM commands")[0]
        attempts = daemon.control_db.attempts()
        states = [f"{one.job} {one.state}" for one in attempts if one.state not in ENDED]
        work = daemon.admission.work
        return states + ["work"] * (work is not None) + ["command"] * commands

    def _check_success(self) -> None:
        """What has begun everywhere goes on after restarts."""
        machines = self.world.nodes.values()
        for attempt, members in sorted(self.observer.begun.items()):
            for machine in machines if len(members) == len(machines) else ():
                one = machine.daemon.control_db.attempt(attempt)
                if one is None or one.state != OfferState.DONE:
                    what = "nothing" if one is None else f"{one.job} {one.state}: {one.sentence}"
                    raise Violation("what has begun goes on", f"{machine.name}: {what}")

    def _finale(self) -> None:
        """What was left unfinished can be resumed, and else a new job be done."""
        daemons = [node.daemon for node in self.world.nodes.values()]
        unfinished = {
            job.job
            for daemon in daemons
            for job in daemon.committed.jobs()
            if job.state != JobState.FINISHED
        }
        if unfinished and len(self.studies) == 1 and not self.observer.set_back:
            job = sorted(unfinished)[-1]
            by, attempt = "alice", self._offer("alice", job, resume=True)
        else:
            by, attempt = "bob", self._offer("bob", "last", resume=False)
        self._run(0.5)
        limit = self.world.time + LONGEST
        while self.world.time < limit and not self._is_quiet():
            for name in self.world.nodes:
                self.accept(name)
            self._run(0.5)
        known = self.world.nodes[by].daemon.control_db.attempt(attempt)
        if self.observer.set_back:
            return  # its neighbours may refuse whoever was set back
        done = known is not None and known.state == OfferState.DONE
        sentence = "" if known is None else known.sentence
        if not done and not (self.schedule.tight and "budget" in sentence):
            raise Violation("a job without faults is done", f"{known and known.job}: {sentence}")

    # Operations

    def _machine(self, name: str) -> Machine:
        return self.world.machines[name]

    def _offer(self, by: str, job: str, *, resume: bool) -> str:
        machine = self.world.nodes[by]
        self.offers += 1
        attempt = f"{self.offers:032x}"
        if machine.is_up:
            with _trouble(), closing(ControlDatabase(machine.folder)) as control_db:
                control_db.push_command(
                    CommandKind.OFFER,
                    attempt,
                    job=job,
                    plan=self.scene.study.plan.to_dict(),
                    resume=resume,
                    start_timeout=self.schedule.timeout,
                    round_timeout=self.schedule.timeout,
                )
        machine.after_step()
        return attempt

    def offer(self, by: str, job: int, resume: bool) -> None:
        self._offer(by, f"job{job}", resume=resume)

    def accept(self, who: str) -> None:
        self._decide(who, offers.accept)

    def refuse(self, who: str) -> None:
        self._decide(who, offers.refuse)

    def _decide(self, who: str, decide: Callable[[NodeDirectory, str], object]) -> None:
        machine = self.world.nodes[who]
        if not machine.is_up:
            return
        with machine.disk.reliable():
            attempts = machine.daemon.control_db.attempts()
        pending = [attempt for attempt in attempts if attempt.state == OfferState.PENDING]
        if pending:
            with _trouble():
                decide(machine.directory, pending[0].digest)
            machine.after_step()

    def stop(self, who: str) -> None:
        machine = self.world.nodes[who]
        if machine.is_up:
            with _trouble():
                offers.stop(machine.directory)
            machine.after_step()

    def kill(self, who: str) -> None:
        self.faults["kill"] += self._machine(who).is_up
        self._machine(who).kill()

    def cut(self, who: str) -> None:
        self.faults["power cut"] += self._machine(who).is_up
        self._machine(who).cut_power()

    def cut_after(self, who: str, writes: int) -> None:
        self.faults["power cut in a write"] += self._machine(who).is_up
        self._machine(who).disk.cut_after = writes

    def kill_after(self, who: str, writes: int) -> None:
        self.faults["kill in a write"] += self._machine(who).is_up
        self._machine(who).disk.kill_after = writes

    def leave(self, who: str) -> None:
        self.faults["leave"] += self._machine(who).is_up
        self._machine(who).leave()

    def start(self, who: str) -> None:
        self._machine(who).start()

    def hang(self, who: str, seconds: float) -> None:
        self.faults["hang"] += 1
        self.observer.disturbed.add(who)
        self._machine(who).hung_until = self.world.time + seconds

    def jump(self, who: str, seconds: float) -> None:
        self.faults["clock jump"] += 1
        self._machine(who).clock.jumped += seconds

    def weather(self, drop: float, duplicate: float, delay: float, *others: float) -> None:
        now = self.world.network.weather
        corrupt, lie = others or (0.0, 0.0)
        self.world.network.weather = Weather(
            drop, duplicate, delay, corrupt, lie, now.cut, now.parted
        )

    def part(self, one: str, other: str) -> None:
        self.world.network.weather.parted.add(frozenset((one, other)))

    def isolate(self, who: str) -> None:
        self.world.network.weather.cut.add(who)

    def fill(self, who: str) -> None:
        """Its disk takes nothing more."""
        self.faults["full disk"] += 1
        self._machine(who).disk.full = True

    def make_room(self, who: str) -> None:
        self._machine(who).disk.full = False

    def fail_syncs(self, who: str, count: int) -> None:
        self.faults["failing sync"] += count
        self._machine(who).disk.failing_syncs = count

    def fail_reads(self, who: str, count: int) -> None:
        self.faults["failing read"] += count
        self._machine(who).disk.failing_reads = count

    def copy(self, who: str) -> None:
        self._machine(who).save_copy()

    def restore(self, who: str) -> None:
        self.faults["restored old copy"] += 1
        self._machine(who).restore_copy()

    def wait(self, seconds: float) -> None:
        """Whatever fails goes on failing."""
        self._run(seconds)

    def silence(self, who: str) -> None:
        """It hears everything and says nothing."""
        self.observer.disturbed.add(who)
        self.world.nodes[who].is_silent = True

    def deceive(self, who: str, other: str) -> None:
        """From now on ``other`` is sent other releases than everybody else, signed all the same."""
        if self.observer.dishonest:
            return  # of two deceivers nobody could tell more than of one
        self.faults["deceiver"] += 1
        self.observer.dishonest.add(who)
        self.world.nodes[who].bend = Deceiver(self.world.nodes[who], other)

    def rotate(self, who: str) -> None:
        """New keys, and a revision of the study that pins them: each member joins it in its time."""
        self.faults["new keys"] += 1
        self.observer.disturbed |= set(NAMES)
        node, study = self.world.nodes[who], self.studies[-1]
        node.kill()
        card = NodeDirectory.renew(node.folder).card()
        servers = (card.entry(one.url) if one.name == who else one for one in study.servers)
        self.studies.append(replace(study, servers=tuple(servers), replaces=study.hash))
        studies, text = list(self.studies), template.render(self.studies[-1])
        for other in self.world.nodes.values():
            late = 0.0 if other is node else self.world.random.choice((0.0, 0.5, 5.0))
            self.world.later(late, lambda other=other: self._join(other, studies, text))

    def _join(self, node: Node, studies: list, text: str) -> None:
        if len(studies) == len(self.studies):  # else a later one
            node.join(studies, text)
            node.start()

    def upgrade(self, who: str, format: str) -> None:
        self.faults["another version"] += 1
        self.observer.disturbed.add(who)
        self.world.nodes[who].install(self.world.nodes[who].newer | {format})

    def upgrade_all(self) -> None:
        for name in NAMES:
            for format in WIRE:
                self.upgrade(name, format)

    def downgrade(self, who: str) -> None:
        self.observer.disturbed.add(who)
        self.world.nodes[who].install(set())

    def heal(self) -> None:
        self.world.network.weather = Weather()

    # Operations of a collection

    def report(self, count: int, together: bool) -> None:
        """So many people, each for themselves or by an organisation that sends for all."""
        promises, random = self.collector.promises, self.world.random
        people = []
        for _ in range(min(count, MOST - len(promises.people))):
            token = random.choice([*promises.tokens, ""]) if random.random() < 0.9 else "f" * 32
            if self.schedule.require_tokens or random.random() < 0.2:
                people.append(Person(len(promises.people), token))
            else:
                people.append(Person(len(promises.people)))
            promises.people.append(people[-1])
        for group in [people] if together else [[person] for person in people]:
            if group:
                Delivery(self.collector, group)

    def _person(self, number: int) -> Person | None:
        people = self.collector.promises.people
        return people[number % len(people)] if people else None

    def repeat(self, number: int) -> None:
        if (person := self._person(number)) is not None:
            Delivery(self.collector, [person])

    def withdraw(self, number: int) -> None:
        if (person := self._person(number)) is not None:
            Delivery(self.collector, [person], withdraw=True)

    def take_out(self, number: int) -> None:
        """The operator withdraws a report, asked by its receipt."""
        if (person := self._person(number)) is not None:
            self.collector.withdraw(person)

    def invite(self, count: int) -> None:
        self.collector.invite(count)

    def export(self, force_small: bool) -> None:
        self.collector.export(force_small=force_small)

    def open_or_close(self, is_open: bool) -> None:
        self.collector.set_open(is_open)

    def purge(self) -> None:
        self.collector.purge()

    def pass_days(self, weeks: int) -> None:
        """The service runs on, by steps that are believed."""
        for _ in range(weeks):
            self.collector.clock.jumped += 6.5 * 86400
            self._run(61.0)

    def confirm_date(self) -> None:
        self.collector.confirm_date()

    def restore_database(self) -> None:
        self.faults["restored old copy"] += 1
        self.collector.restore_copy(with_keys=False)

    def _settle_collection(self, collector: Collector) -> None:
        """Everybody asks once more and is answered, and what is exported is what was promised."""
        people = collector.promises.people
        for person in [person for person in people if not person.is_answered]:
            Delivery(collector, [person])
        self._run(1.0)
        self._run(65.0, lambda: not collector.deliveries)
        if collector.is_late:
            self._run(65.0)  # the service looks at the clock once a minute
        collector.finish()
        for force_small in (False, True):
            collector.export(force_small=force_small)
        self._check()


def _trouble() -> suppress:
    """An operator's command may fail, by the disk say: it is told so."""
    return suppress(PDMLError, sqlite3.Error)


class Deceiver:
    """Bends what a member sends to one other: each release is a little larger there."""

    def __init__(self, machine: Node, other: str) -> None:
        self.machine, self.other = machine, other

    def __call__(self, kind: str, job: str, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        if kind != RequestKind.RELEASE or self.other not in messages:
            return messages
        message = msgspec.msgpack.decode(messages[self.other], type=wire_messages.Vector)
        first = np.frombuffer(message.payload[:8], dtype=message.dtype)
        step = first.dtype.type(1 if message.dtype != FLOATS else 2.0**-40)
        changed = msgspec.structs.replace(
            message, payload=(first + step).tobytes() + message.payload[8:]
        )
        signed = wire_messages._signed(self.machine.directory.identity(), changed)
        return {**messages, self.other: signed}


def execute(schedule: Schedule, *, trace: bool = False) -> Outcome:
    """Run it; a violation is in the outcome."""
    folder = folder_of_runs()
    violation = None
    laid = scene(schedule.method or "sums", schedule.tight)
    observer = Observer(laid, fresh_noise=schedule.fresh_noise)
    jobs: Counter[str] = Counter()
    try:
        with simulated_world(observer, seed=schedule.seed) as world:
            world.trace, world.restart = [] if trace else None, schedule.restart
            run = Run(schedule, world, observer)
            try:
                run.lay_out(folder)
                run.execute()
                for node in world.nodes.values():
                    jobs.update(one.state for one in node.daemon.control_db.attempts())
            except Violation as error:
                violation = error
            except Exception as error:  # of the simulation itself, most likely
                where = traceback.extract_tb(error.__traceback__)[-1]
                violation = Violation("no unexpected exception", f"{error!r} in {where}")
        faults = run.faults + Counter(world.network.faults)
        return Outcome(
            history=world.history.hexdigest(),
            violation=violation,
            states=frozenset(observer.states),
            faults=faults,
            jobs=jobs,
            seconds=world.time,
            trace=tuple(world.trace or ()),
        )
    finally:
        shutil.rmtree(folder)


def shrink(schedule: Schedule, invariant: str, *, most: int = 200) -> Schedule:
    """Without whatever the same invariant fails without."""
    tries = 0
    changed = True
    while changed and tries < most:
        changed = False
        for smaller in _smaller(schedule):
            tries += 1
            found = execute(smaller).violation
            if found is not None and found.invariant == invariant:
                schedule, changed = smaller, True
                break
            if tries >= most:
                break
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    operations = schedule.operations
    for size in (len(operations) // 2, 2, 1):
        for i in range(0, len(operations), max(1, size)):
            left = operations[:i] + operations[i + max(1, size) :]
            if left != operations and left:
                yield replace(schedule, operations=left)
    if schedule.asking:
        yield replace(schedule, asking=())
    if schedule.fresh_noise:
        yield replace(schedule, fresh_noise=False)
    if schedule.tight:
        yield replace(schedule, tight=False)
