"""Two programs for the figures: `python -m benchmarks.bare MODE FOLDER --simulated-noise SEED
[--relay HOST:PORT]`.

``timed`` is a node that writes when each round ended into its folder; ``bare`` exchanges as many
bytes with the same neighbours over the same relay, and computes, signs, seals and stores nothing.
"""

import json
import os
import sys
import time
from pathlib import Path

from pdml.clock import SYSTEM_CLOCK
from pdml.mechanisms.randomness import Simulated
from pdml.node.crypto.hpke import Context
from pdml.node.daemon import daemon as node_process
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.daemon.nats_transport import NatsTransport
from pdml.node.job.activity import Wait
from pdml.node.job.round_exchange import Exchange
from pdml.node.storage.control_db import OfferState
from pdml.node.storage.node_dir import NodeDirectory

TIMES = "times.json"


class Timed(NodeDaemon):
    """Writes when each round ended."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        run, enter = self.job_runner.run, self.admission.enter_exchange
        times = []

        def timed_enter(work, exchange):
            after = exchange._after_round
            exchange._after_round = lambda t: (times.append(time.time()), after(t))
            enter(work, exchange)

        def timed_run(work):
            times.clear()
            yield from run(work)
            self.directory.path(TIMES).write_text(json.dumps(times))

        self.admission.enter_exchange, self.job_runner.run = timed_enter, timed_run


class Bare:
    """The steps of a participant, without what it does."""

    def __init__(self, terms, name):
        self.terms, self.name, self.neighbours, self.round = (
            terms,
            name,
            terms.neighbours(name),
            0,
        )
        self._here = {peer: set() for peer in self.neighbours}
        self._payload = bytes(8 * terms.width + 400)

    done = property(lambda self: self.round == self.terms.plan.rounds)
    complete = property(lambda self: self.done and not self.missing)
    ready = property(lambda self: not self.done and (self.round == 0 or not self.missing))
    missing = property(
        lambda self: tuple(peer for peer in self.neighbours if self.round not in self._here[peer])
    )

    def advance(self):
        self.round += 1
        return self.round

    def message(self, peer, t):
        return t.to_bytes(8, "little") + self._payload

    def accept(self, peer, data):
        self._here[peer].add(int.from_bytes(data[:8], "little"))

    def hello(self, peer):
        return b"hello"

    def welcome(self, peer, data):
        return True

    def met(self, peer):
        return True

    def save(self):
        pass

    def resend_recent(self, peer):
        return self.resend(peer)

    def resend(self, peer):
        return [self.message(peer, t) for t in range(max(1, self.round), self.round + 1)]


class Open:
    """In place of a sealer: everything travels as it is."""

    def __init__(self, name):
        self.name = name

    def seal(self, context, content):
        return json.dumps([context.job, context.kind, context.request]).encode() + b"\n" + content

    def open(self, sender, data):
        head, content = data.split(b"\n", 1)
        job, kind, request = json.loads(head)
        return Context(self.study, job, kind, sender, self.name, request), content, b""

    def answer(self, context, session, content):
        return b"." + content

    def open_answer(self, request, data):
        return data[1:]

    def forget(self, peer, job):
        pass


class BareNode(NodeDaemon):
    """The same transport, neighbours, sizes and waiting."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.transport._sealer = Open(self.member.name)
        self.transport._sealer.study = self.member.study.hash
        self.job_runner.run = self._run

    def _run(self, work):
        times = []
        exchange = Exchange(
            Bare(work.terms, self.member.name),
            clock=SYSTEM_CLOCK,
            start_timeout=work.offer.start_timeout,
            round_timeout=work.offer.round_timeout,
            after_round=lambda t: times.append(time.time()),
        )
        self.admission.enter_exchange(work, exchange)
        yield from exchange.run()
        self.directory.path(TIMES).write_text(json.dumps(times))
        yield Wait(1.0)  # neighbours may still ask
        self.admission.end(work, OfferState.DONE)


def main():
    mode, folder, *rest = sys.argv[1:]
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    kind = {"timed": Timed, "bare": BareNode}[mode]
    directory = NodeDirectory.open(Path(folder))
    transport = NatsTransport.of_node(directory, SYSTEM_CLOCK, relay=options.get("--relay", ""))
    source = Simulated(int(options["--simulated-noise"]))
    daemon = kind(directory, source, transport, clock=SYSTEM_CLOCK)
    node_process.leave_on_signal(daemon)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    daemon.run()


if __name__ == "__main__":
    main()
