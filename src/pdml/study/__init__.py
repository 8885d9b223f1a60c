"""The study: the public contract that devices, collection services and training servers share, and
its canonical hash.
"""

from pdml.study.contract import Study, Wording
from pdml.study.members import Relay, ServerEntry

__all__ = ["Relay", "ServerEntry", "Study", "Wording"]
