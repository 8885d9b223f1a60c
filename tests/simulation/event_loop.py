"""What the collector's service asks of its event loop, by the world's clock: each callback is a step
of its machine, and what would be done by a thread is a step of its own.
"""

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any

from world import Machine

_LONGEST_WAIT = 0.02  # seconds until a thread has time


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process: nothing of it is called once that has ended."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._life = machine, machine.life
        self._tasks: list[asyncio.Task] = []

    def time(self) -> float:
        return self._machine.world.time

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable, *arguments: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, arguments, self, context)
        self._step(self.time(), handle)
        return handle

    def call_later(self, delay: float, callback: Callable, *arguments: Any, context: Any = None):
        return self.call_at(self.time() + delay, callback, *arguments, context=context)

    def call_at(self, when: float, callback: Callable, *arguments: Any, context: Any = None):
        handle = asyncio.TimerHandle(when, callback, arguments, self, context)
        self._step(when, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """The step finds it cancelled."""

    def create_future(self) -> asyncio.Future:
        return asyncio.Future(loop=self)

    def create_task(self, steps: Coroutine, **options: Any) -> asyncio.Task:
        task = asyncio.Task(steps, loop=self, **options)
        task._log_destroy_pending = False  # a process that is killed leaves some behind
        self._tasks = [one for one in self._tasks if not one.done()] + [task]
        return task

    def end(self) -> None:
        """Nothing of what was begun goes on."""
        for task in self._tasks:
            task.get_coro().close()
        self._tasks = []

    def run_in_executor(self, executor: Any, function: Callable, *arguments: Any) -> asyncio.Future:
        future = self.create_future()

        def compute() -> None:
            try:
                result = function(*arguments)
            except Exception as error:
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)

        self.call_later(_LONGEST_WAIT * self._machine.world.random.random(), compute)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._life.is_over and (error := context.get("exception")) is not None:
            self._machine.world.observer.unexpected(self._machine, error)

    def _step(self, when: float, handle: asyncio.Handle) -> None:
        self._machine.world.at(when, lambda: self._run(handle))

    def _run(self, handle: asyncio.Handle) -> None:
        machine = self._machine
        if self._life.is_over or handle.cancelled():
            return
        if machine.is_hung:
            self._step(machine.hung_until, handle)
            return
        with machine.world.acting(machine):
            events._set_running_loop(self)
            try:
                handle._run()
            finally:
                events._set_running_loop(None)
