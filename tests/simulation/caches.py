"""What every schedule would compute again from the same arguments: pure functions, remembered."""

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pdml.node.crypto import hpke
from pdml.node.job import participant
from pdml.node.protocol import requests, signed_statement, wire_messages
from pdml.study import Study

_from_text, _from_canonical = Study.from_text.__func__, Study.from_canonical.__func__
_last_safe_round = participant.last_safe_round
_study = lru_cache(maxsize=None)(lambda text, source: _from_text(Study, text, source))
_canonical = lru_cache(maxsize=None)(lambda data, source: _from_canonical(Study, data, source))
_safe = lru_cache(maxsize=None)(
    lambda planned, budget, classes, already: _last_safe_round(
        planned, budget=budget, classes=classes, already=already
    )
)
_verify_signature = lru_cache(maxsize=1 << 12)(hpke.verify_signature)


def _from_text_once(cls: type[Study], text: str, source: str = "") -> Study:
    return _study(text, "")


def _from_canonical_once(cls: type[Study], data: bytes, source: str = "") -> Study:
    return _canonical(data, "")


def _last_safe_round_once(planned: Any, *, budget: Any, classes: int, already: Any) -> int:
    return _safe(tuple(map(tuple, planned)), budget, classes, tuple(map(tuple, already)))


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    changes: list[tuple[Any, str, Any]] = [
        (Study, "from_text", classmethod(_from_text_once)),
        (Study, "from_canonical", classmethod(_from_canonical_once)),
        (participant, "last_safe_round", _last_safe_round_once),
    ]
    modules = (hpke, requests, signed_statement, wire_messages)
    changes += [(module, "verify_signature", _verify_signature) for module in modules]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
