"""The study: the public contract that devices, collection services and training servers share, and
its canonical hash.
"""

from pdml.study.contract import Study, Wording
from pdml.study.members import Relay, ServerEntry
from pdml.study.people import Consent, Notice, Organiser

__all__ = ["Consent", "Notice", "Organiser", "Relay", "ServerEntry", "Study", "Wording"]
