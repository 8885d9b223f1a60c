"""A collecting organisation in a simulated world: its service, its operator's commands and its disk."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from disks import SimulatedKeyDisk
from event_loop import SimulatedLoop
from people import STUDY, Delivery, Person, Promises
from world import Machine, World

from pdml.collector.collection import Collection
from pdml.collector.intake.service import Service
from pdml.collector.storage import store
from pdml.collector.storage.records import CollectionState, Totals
from pdml.collector.storage.retention import ends
from pdml.errors import DataError, PDMLError
from pdml.study.frozen_dataset import open_frozen

NAME = "collector"


class Collector(Machine):
    """It collects for one server of a study."""

    def __init__(self, world: World, folder: Path, *, require_tokens: bool) -> None:
        folder.mkdir(mode=0o700)
        super().__init__(world, NAME, folder)
        self.require_tokens = require_tokens
        self.promises = Promises(self)
        self.deliveries: list[Delivery] = []
        self.copies: list[list[Person]] = []  # beside `old_copies`
        self.service: Service | None = None
        self.loop: SimulatedLoop | None = None
        self._collection: Collection | None = None
        self.is_serving = False  # the service has started
        self._files = 0

    def _open(self, *, create: bool = False) -> Collection:
        """As a process of its own does."""
        machine = store.Machine(
            clock=self.clock,
            entropy=lambda count: os.urandom(count),
            disk=SimulatedKeyDisk(self.disk),
        )
        database = str(self.folder / "reports.db")
        return Collection(STUDY, "alice", database=database, create=create, machine=machine)

    def begin(self) -> None:
        self.loop = SimulatedLoop(self)
        self._collection = self._open(create=True)
        self.service = Service(
            STUDY,
            "alice",
            self._collection.store,
            clock=self.clock,
            require_tokens=self.require_tokens,
        )
        self.check()
        self.is_serving = False
        self.loop.create_task(self._serve())

    async def _serve(self) -> None:
        await self.service.start()
        self.is_serving = True

    def drop(self) -> None:
        collection, self._collection, self.service = self._collection, None, None
        self.loop.end()
        if collection is not None:
            with suppress(Exception):
                collection.store.close()

    def describe(self) -> tuple:
        people, promises = self.promises.people, self.promises
        waiting = self.service.writer.queued if self.is_up and self.is_serving else 0
        return (
            self.is_up,
            promises.shut,
            promises.may_be_erased,
            min(waiting, 4),
            tuple(
                min(sum(getattr(person, what) for person in people), 4)
                for what in ("has_arrived", "is_acknowledged", "is_out", "is_excused")
            ),
        )

    def after_step(self) -> None:
        self.promises.look_at_clock()
        super().after_step()

    def leave(self) -> None:
        """SIGTERM."""
        if self.is_up and self.is_serving and not self.is_leaving:
            self.world.note("leave", self.name)
            self.is_leaving = True
            self.loop.create_task(self._leave())

    async def _leave(self) -> None:
        await self.service.stop()
        if not self.disk.dead:
            self.life.is_over, self.is_up = True, False
            self._collection = self.service = None
            self.world.observer.ended(self)

    def remember(self) -> None:
        self.copies.append(self.promises.save())

    def restore_copy(self, *, with_keys: bool = True) -> None:
        """The database of the newest copy, with the keys of then or those of now."""
        self.kill()
        files = self.old_copies[-1]
        if not with_keys:
            now = {name: content for name, content in self.disk.copy().items() if "/" in name}
            files = {name: content for name, content in files.items() if "/" not in name} | now
        self.promises.restore(self.copies[-1], with_keys=with_keys)
        self.disk.restore(files)
        self.start()

    def check(self) -> None:
        """What is stored, as the service finds it."""
        kept = self._collection.store
        try:
            with self.disk.reliable():
                totals = kept.totals()
                rows = [row for chunk in kept.rows(1000) for row in chunk]
        except DataError as error:
            self.promises.unreadable(error)
        else:
            self.promises.check(rows, totals, "the collection")

    @property
    def is_late(self) -> bool:
        """Whether the retention has ended, by its clock."""
        return self.clock.now() >= ends(STUDY)

    def finish(self) -> None:
        """Once nothing fails any more: everybody has an answer, and the retention is kept."""
        promises = self.promises
        for person in promises.people:
            if not (person.is_answered or promises.is_restored):
                sentence = f"person {person.number} has {person.refusal or 'none'}"
                promises._refuse("a calm service answers", sentence)
        state = self._collection.store.totals().state
        if self.is_late and state is not CollectionState.ERASED and not self.service._clock_jump:
            promises._refuse("the retention is kept", f"the collection is {state}")
        self.check()

    # What the operator does, each time by a process of its own

    def command(self, do: Callable[[Collection], Any]) -> Any:
        """Whether it was done; an operator reads one sentence if it was not."""
        with self.world.acting(self):
            is_new = not self.is_up
            if is_new:
                self.disk.start()
            try:
                with self._open() as collection:
                    result = do(collection)
            except PDMLError as error:
                self.world.note("command refused", type(error).__name__)
                result = error
            if is_new and self.disk.dead:
                self.disk.restore()
        return result

    def export(self, *, force_small: bool) -> Any:
        self._files += 1
        self.promises.may_be_frozen = True
        folder = self.folder / f"data-{self._files}"

        def do(collection: Collection) -> Totals:
            collection.export(folder, force_small=force_small)
            with self.disk.reliable():
                return collection.store.totals()

        totals = self.command(do)
        if not isinstance(totals, PDMLError):
            self.promises.exported(open_frozen(folder, study_hash=STUDY.hash), totals)
        return totals

    def invite(self, count: int) -> None:
        self._files += 1
        file = self.folder / f"invitations-{self._files}.csv"
        self.command(lambda one: one.invite(count, file))
        if file.exists():
            lines = file.read_text().splitlines()[1:]
            self.promises.tokens += [line.partition(",")[0] for line in lines]

    def purge(self) -> None:
        self.promises.may_be_erased = True
        if not isinstance(self.command(lambda one: one.purge(early=True)), PDMLError):
            self.promises.shut = "erased"

    def set_open(self, is_open: bool) -> None:
        promises = self.promises
        if is_open:
            promises.openings += 1
            if promises.shut == "closed":
                promises.shut = ""
        done = not isinstance(self.command(lambda one: one.set_open(is_open)), PDMLError)
        if done and not is_open and not promises.shut:
            promises.shut = "closed"

    def withdraw(self, person: Person) -> None:
        person.wants_out = True
        if not isinstance(self.command(lambda one: one.withdraw(person.id)), PDMLError):
            person.is_out = True

    def confirm_date(self) -> None:
        self.promises.latest = max(self.promises.latest, int(self.clock.now() // 3600))
        self.command(lambda one: one.confirm_clock())
