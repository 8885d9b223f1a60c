"""The study: the public contract that devices, collection services and training servers share, and its canonical hash."""

from pdml.study.contract import ServerEntry, Study, Wording

__all__ = ["ServerEntry", "Study", "Wording"]
