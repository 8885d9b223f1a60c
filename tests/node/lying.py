"""An executor that lies, for a site whose operator lets it: FLARE's own path, with a neighbour that breaks the protocol.

The kit's file pdml/lie says how; without it the node is honest.
"""

import msgspec
import numpy as np
from nvflare.apis.shareable import Shareable

from pdml.node import wire
from pdml.node.exchange import RELEASE
from pdml.node.flare.executor import PDMLExecutor
from pdml.node.flare.site import Site
from pdml.node.flare.topics import SENTENCE, STOP

PATH = "lying.LyingExecutor"
ROUND = 3
FRAMING, SLANDER = "framing", "bob stole the till"
LIES = {  # what is said of carol
    "nan": r"carol sent a vector of round 3 that is not finite",
    "huge": r"carol sent a vector of length 2e\+100 in round 3: no honest one exceeds",
    "stale": r"carol sent two different releases for round 2",
    "ahead": r"carol sent a release of round 5 while (alice|bob) stands at round [23]",
    "forged": r"carol sent a message whose signature is not carol's",
    "replayed": r"(alice|bob) waited \d+ s for carol to send their release of round 3",  # the same again is no error, but no news either
}


def bent(kind, message, before, identity):
    """What is sent in place of the release of `ROUND`; ``before`` is that of the round before, as it was sent."""
    if kind == "replayed":
        return before
    if kind == "forged":
        return msgspec.msgpack.encode(msgspec.structs.replace(message, signature=b"\0" * 64))
    changes = {
        "nan": {"payload": np.full(message.shape, np.nan).tobytes()},
        "huge": {"payload": np.full(message.shape, 1e100).tobytes()},
        "stale": {"round": ROUND - 1},
        "ahead": {"round": ROUND + 2},
    }
    return wire._signed(identity, msgspec.structs.replace(message, **changes[kind]))


class LyingExecutor(PDMLExecutor):
    def __init__(self, *, round_timeout, **settings):
        super().__init__(round_timeout=3 * round_timeout, **settings)  # more patient than those it deceives: they speak first

    def _sender(self, fl_ctx):
        honest = super()._sender(fl_ctx)
        site = Site.open(fl_ctx.get_engine().get_workspace().get_root_dir())
        path = site.path("lie")
        kind, sent = path.read_text() if path.exists() else "", {}

        def said(peer, data):
            message = msgspec.msgpack.decode(data, type=wire.Vector)
            sent[peer, message.round] = data
            return bent(kind, message, sent.get((peer, ROUND - 1)), site.identity()) if message.round == ROUND else data

        def send(topic, messages, timeout):
            if kind == FRAMING and topic == RELEASE:  # not a word to the relay's controller, which alone should say this
                request = Shareable()
                request[SENTENCE] = SLANDER
                fl_ctx.get_engine().send_aux_request(targets=["alice"], topic=STOP, request=request, timeout=5.0, fl_ctx=fl_ctx)
            elif kind and topic == RELEASE:
                messages = {peer: said(peer, data) for peer, data in messages.items()}
            return honest(topic, messages, timeout)

        return send
