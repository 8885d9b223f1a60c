"""The study: what devices, collection services and servers agreed on, and its canonical hash."""

from pdml.study.definition import Study
from pdml.study.participant_notice import Consent, Notice, Organiser
from pdml.study.schema.questions import Wording
from pdml.study.schema.servers import Relay, ServerEntry

__all__ = ["Consent", "Notice", "Organiser", "Relay", "ServerEntry", "Study", "Wording"]
