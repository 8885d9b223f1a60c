"""An executor that lies, for a site whose operator lets it: FLARE's own path, with a neighbour that breaks the protocol.

The kit's file pdml/lie says how; without it the node is honest.
"""

import msgspec
import numpy as np

from pdml.train import wire
from pdml.train.engines.flare.exchange import RELEASE
from pdml.train.engines.flare.executor import PDMLExecutor
from pdml.train.engines.flare.site import Site

PATH = "lying.LyingExecutor"
ROUND = 3


def bent(kind, data, identity):
    message = msgspec.msgpack.decode(data, type=wire.Vector)
    if message.round != ROUND:
        return data
    if kind == "nan":
        changes = {"payload": np.full(message.shape, np.nan).tobytes()}
    elif kind == "huge":
        changes = {"payload": np.full(message.shape, 1e100).tobytes()}
    elif kind == "stale":
        changes = {"round": ROUND - 1}
    else:  # forged: signed by nobody
        return msgspec.msgpack.encode(msgspec.structs.replace(message, signature=b"\0" * 64))
    return wire._signed(identity, msgspec.structs.replace(message, **changes))


class LyingExecutor(PDMLExecutor):
    def _sender(self, fl_ctx):
        honest = super()._sender(fl_ctx)
        site = Site.open(fl_ctx.get_engine().get_workspace().get_root_dir())
        path = site.path("lie")
        kind = path.read_text() if path.exists() else ""

        def send(topic, messages, timeout):
            if kind and topic == RELEASE:
                messages = {peer: bent(kind, data, site.identity()) for peer, data in messages.items()}
            return honest(topic, messages, timeout)

        return send
