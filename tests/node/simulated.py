"""Several nodes in one thread: a clock that stands still until everybody waits, and a transport that
hands requests over directly.
"""

import secrets

from pdml.mechanisms.randomness import Simulated
from pdml.node.crypto.hpke import Context
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.job.activity import Ask

LATENCY = 0.01  # seconds for a request and its answer


class SimulatedClock:
    """Goes on by sleeping, and a little by asking."""

    def __init__(self):
        self.time, self.sleeps = 0.0, 0

    def now(self):
        return 1_780_000_000.0 + self.time

    def monotonic(self):
        return self.time

    def sleep(self, seconds):
        self.time, self.sleeps = self.time + seconds, self.sleeps + 1

    def wait(self, event, timeout):
        if not event.is_set():
            self.sleep(timeout)
        return event.is_set()


class Tasks:
    """The activities of one node, run by the simulation."""

    def __init__(self, simulation, name):
        self.simulation, self.name = simulation, name

    def spawn(self, steps):
        self.simulation.ready.append((self.name, steps, None))

    def join(self, seconds):
        pass


class Transport:
    """Whoever has started can be reached."""

    def __init__(self, simulation, name):
        self.simulation, self.name = simulation, name

    def start(self, handle, changed):
        self.simulation.handles[self.name] = handle
        changed(True, "")

    def ask(self, kind, messages, *, job="", timeout):
        """Right now: for activities that do not wait."""
        study, replies = self.simulation.study, {}
        for peer, content in messages.items():
            if peer in self.simulation.handles:
                context = Context(study, job, kind, self.name, peer, secrets.token_hex(8))
                replies[peer] = self.simulation.handles[peer](context, content)
        return replies if timeout else {}

    def certificate_end(self):
        return None

    def close(self):
        self.simulation.handles.pop(self.name, None)


class Simulation:
    """Daemons of one study, driven step by step in this thread."""

    def __init__(self, directories, *, seed):
        self.clock, self.handles = SimulatedClock(), {}
        self.ready, self.waiting = (
            [],
            [],
        )  # (node, steps, what to send), (until, event, node, steps)
        self.study = next(iter(directories.values())).study().hash
        self.daemons = {
            name: NodeDaemon(
                directory,
                Simulated(seed),
                Transport(self, name),
                clock=self.clock,
                tasks=Tasks(self, name),
            )
            for name, directory in directories.items()
        }
        for name, daemon in self.daemons.items():
            self.ready.append((name, daemon.serve(), None))

    def run(self, ended, *, limit=600.0):
        """Until ``ended()``; an hour of simulated waiting takes no time."""
        while not ended():
            assert self.clock.time < limit, "the simulation does not end"
            self._step()

    def _step(self):
        due = [wait for wait in self.waiting if wait[1] is not None and wait[1].is_set()]
        if not self.ready and not due:
            due = [min(self.waiting, key=lambda wait: wait[0])]
            self.clock.time = max(self.clock.time, due[0][0])
        for wait in due:
            self.waiting.remove(wait)
            self.ready.append((wait[2], wait[3], wait[4]))
        name, steps, value = self.ready.pop(0)
        try:
            step = next(steps) if value is None else steps.send(value)
        except StopIteration:
            return
        if isinstance(step, Ask):
            replies = self.daemons[name].transport.ask(
                step.kind, step.messages, job=step.job, timeout=step.timeout
            )
            missing = step.timeout and len(replies) < len(step.messages)
            seconds = step.timeout if missing else LATENCY
            self.waiting.append((self.clock.time + seconds, None, name, steps, replies))
        else:
            self.waiting.append((self.clock.time + step.seconds, step.event, name, steps, {}))

    def close(self):
        for daemon in self.daemons.values():
            daemon.close()
