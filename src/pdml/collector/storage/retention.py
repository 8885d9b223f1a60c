"""The end of retention: when all reports are erased, and whether the machine's date is believed.

A restored machine with a wrong date must not destroy a study. The store keeps the latest hour at
which the collection was used, and a date more than a week after it erases nothing until a person
confirms it. This is no guard against whoever sets the clock at will: steps of a week are believed.
"""

import sys
from datetime import UTC, datetime

from pdml.collector.storage.records import CollectionState
from pdml.collector.storage.store import Store
from pdml.errors import InvalidInput, StorageUnavailable
from pdml.study import Study

WEEK = 7 * 24  # hours by which a date may be later than the latest one, and is still believed
_LAST = 253_402_300_799  # the last second that a date can be written for: of the year 9999


class ClockJump(InvalidInput):
    """The clock is more than a week ahead of the latest hour of use, and the end of retention has
    passed by it (``over``) or is less than a week away."""

    def __init__(self, *, now: float, latest: int, end: float, reports: int) -> None:
        self.over = now >= end
        days = int(now // 3600 - latest) // 24
        count = f"{reports:,} report" + ("" if reports == 1 else "s")
        would = (
            f"ended at {_text(end)}: {count} would be erased, and nothing was"
            if self.over
            else f"ends at {_text(end)}: {count} will not be erased then unless the date is "
            "confirmed"
        )
        super().__init__(
            f"the clock says {_text(now)}, {days:,} days after the latest time that this "
            f"collection has seen ({_text(latest * 3600)}). By it the retention {would}. If the "
            "date is wrong, set the clock right. If it is right, because nothing ran for so long, "
            "say so with `pdml collect clock --confirm`, for the same study, server and database"
            + (": that erases them" if self.over else "")
        )


def ends(study: Study) -> float:
    """When all reports are erased, in seconds since 1970; infinity if the study does not say."""
    return float("inf") if study.notice is None else study.notice.retention.timestamp()


def keep_retention(study: Study, store: Store, now: float) -> int | None:
    """Note the hour, and erase all reports if their retention has ended: how many, None before.
    Raises `ClockJump`, and `StorageUnavailable` if what is due cannot be erased."""
    end, hour = ends(study), int(now // 3600)
    if study.notice is None:
        return None
    # what erases nothing, and will not for a week, needs no confirmation: a pause is no mistake
    is_harmless = hour + WEEK < end // 3600
    try:
        latest = store.observe(hour, jump=sys.maxsize if is_harmless else WEEK)
    except StorageUnavailable:
        if now >= end:
            raise
        return None  # an hour that is not noted makes a later date less believable, never more
    if latest < hour:
        totals = store.totals()
        if totals.state is not CollectionState.ERASED:
            raise ClockJump(now=now, latest=latest, end=end, reports=totals.reports)
    return store.erase(hour) if now >= end else None


def _text(seconds: float) -> str:
    return f"{datetime.fromtimestamp(min(seconds, _LAST), UTC):%Y-%m-%d %H:%M} UTC"
