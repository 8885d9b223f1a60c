"""Whether a data set may begin with a whole budget: only if nobody in it is in another one of which
something was released. Only the operator can know, and says so by ``--new-participants``: of all
data sets of which something was released by then, and of none that follows.
"""

from collections.abc import Set

from pdml.errors import InvalidInput
from pdml.node.storage.journal import Journal


def refuse_fresh_budget(
    journal: Journal, name: str, dataset: str, *, apart_from: Set[str] | None
) -> None:
    """Refuse the first release of a data set whose people may have spent a budget under another.

    Of any two data sets with releases the later one was asked about: it does not matter which of
    them was imported, or had a job that only began, first.
    """
    if begins_fresh(journal, dataset, apart_from):
        raise InvalidInput(
            f"{name} has released something about another data set, and this one would begin with "
            "a whole budget: its operator gives it again with --new-participants if nobody's "
            "record is in both, or else gives the old one, which is in the node's folder, again"
        ).mark_public()


def begins_fresh(journal: Journal, dataset: str, apart_from: Set[str] | None) -> bool:
    """Whether nothing was released about a data set, but about another, without the operator's word
    that nobody is in both.
    """
    used = journal.released_datasets()
    return bool(used) and dataset not in used and not covers_releases(journal, dataset, apart_from)


def covers_releases(journal: Journal, dataset: str, apart_from: Set[str] | None) -> bool:
    """Whether the operator's word names every other data set of which something was released."""
    return apart_from is not None and set(journal.released_datasets()) - {dataset} <= apart_from
