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

from pdml.mechanisms.randomness import Simulated
from pdml.node.crypto.hpke import Context
from pdml.node.daemon import __main__
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.job.round_exchange import Exchange
from pdml.node.storage.node_dir import NodeDirectory

TIMES = "times.json"


class Timed(NodeDaemon):
    """Writes when each round ended."""

    def _train(self, work):
        self.times = []
        super()._train(work)
        self.home.path(TIMES).write_text(json.dumps(self.times))

    def _progress(self, contract, t, *, last=False):
        if not last:
            self.times.append(time.time())
        super()._progress(contract, t, last=last)


class Bare:
    """The steps of a party, without what a party does."""

    def __init__(self, contract, name):
        self.contract, self.name, self.neighbours, self.round = (
            contract,
            name,
            contract.neighbours(name),
            0,
        )
        self._here = {peer: set() for peer in self.neighbours}
        self._payload = bytes(8 * contract.width + 400)

    done = property(lambda self: self.round == self.contract.plan.rounds)
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

    def owed(self, peer):
        return self.resend(peer)

    def resend(self, peer):
        return [self.message(peer, t) for t in range(max(1, self.round), self.round + 1)]


class Open:
    """In place of a sealer: everything travels as it is."""

    def __init__(self, name):
        self.name = name

    def seal(self, context, content):
        return (
            json.dumps([context.job, context.round, context.kind, context.request]).encode()
            + b"\n"
            + content
        )

    def open(self, sender, data):
        head, content = data.split(b"\n", 1)
        job, round, kind, request = json.loads(head)
        return Context(self.study, job, round, kind, sender, self.name, request), content, b""

    def answer(self, context, session, content):
        return b"." + content

    def open_answer(self, request, data):
        return data[1:]

    def forget(self, peer, job):
        pass


class BareOffice(NodeDaemon):
    """The same carrier, neighbours, sizes and waiting."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.transport._sealer = Open(self.name)
        self.transport._sealer.study = self.study.hash

    def _train(self, work):
        times = []
        limits = {
            "start_timeout": work.offer.start_timeout,
            "round_timeout": work.offer.round_timeout,
        }
        party = Bare(work.contract, self.name)
        exchange = Exchange(
            party,
            self._sender(work.contract),
            meanwhile=lambda t: times.append(time.time()),
            **limits,
        )
        with self.lock:
            work.exchange = exchange
        exchange.run()
        self.home.path(TIMES).write_text(json.dumps(times))

    def _gather(self, work):
        time.sleep(1.0)  # neighbours may still ask


def main():
    mode, folder, *rest = sys.argv[1:]
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    kind = {"timed": Timed, "bare": BareOffice}[mode]
    office = kind(
        NodeDirectory.open(Path(folder)),
        Simulated(int(options["--simulated-noise"])),
        relay=options.get("--relay", ""),
    )
    __main__._obey_signals(office)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    office.run()


if __name__ == "__main__":
    main()
