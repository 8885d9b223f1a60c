"""Two executors for the figures: ours with the time of every round, and the bare exchange, which computes, signs and stores nothing."""

import json
import time

from pdml.node.exchange import Exchange
from pdml.node.flare.executor import PDMLExecutor
from pdml.node.flare.site import Site
from pdml.node.flare.terms import Terms

TIMED, BARE, TIMES = "benchmarks.bare.TimedExecutor", "benchmarks.bare.BareExecutor", "times.json"


class TimedExecutor(PDMLExecutor):
    """Writes when each round ended into the kit."""

    def _new_exchange(self, party, send, meanwhile):
        self._times = []

        def note(t):
            self._times.append(time.time())
            meanwhile(t)

        return super()._new_exchange(party, send, note)

    def _train(self, fl_ctx):
        report = super()._train(fl_ctx)
        Site.open(fl_ctx.get_engine().get_workspace().get_root_dir()).path(TIMES).write_text(json.dumps(self._times))
        return report


class Bare:
    """The steps of a party, without what a party does."""

    def __init__(self, contract, name):
        self.contract, self.name, self.neighbours, self.round = contract, name, contract.neighbours(name), 0
        self._here = {peer: set() for peer in self.neighbours}
        self._payload = bytes(8 * contract.width + 400)

    done = property(lambda self: self.round == self.contract.plan.rounds)
    ready = property(lambda self: not self.done and (self.round == 0 or all(self.round in t for t in self._here.values())))
    missing = property(lambda self: tuple(peer for peer in self.neighbours if self.round not in self._here[peer]))

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

    def resend(self, peer):
        return []


class BareExecutor(PDMLExecutor):
    """The same carrier, neighbours, sizes and waiting."""

    def _train(self, fl_ctx):
        site = Site.open(fl_ctx.get_engine().get_workspace().get_root_dir())
        party = Bare(Terms.read(self._terms).contract(site.study()), site.name)
        times = []
        limits = {"start_timeout": self._start_timeout, "round_timeout": self._round_timeout}
        exchange = Exchange(party, self._sender(fl_ctx), meanwhile=lambda t: times.append(time.time()), **limits)
        with self._opening:
            self._exchange = exchange
        exchange.run()
        site.path(TIMES).write_text(json.dumps(times))
        return b"bare"

    def _finish(self):
        from nvflare.apis.fl_constant import ReturnCode
        from nvflare.apis.shareable import make_reply

        return make_reply(ReturnCode.OK)
