"""What a job of sums leaves to this organisation alone: kept when the job ends, or when the node is
started again, if it was killed before.

How it is made is `pdml.consortium.job_client.write_local_model`, which a node does not import:
whoever starts the node gives it.
"""

import logging
import threading
from collections.abc import Callable

from pdml._threads import single_thread
from pdml.errors import JournalError
from pdml.node.job import build_statement
from pdml.node.job.participant import TrainingData
from pdml.node.storage.journal import FINISHED, Job, Journal
from pdml.node.storage.node_dir import NodeDirectory

Keep = Callable[[NodeDirectory, str, TrainingData], object]
"""Writes the model for the house of a job that is done: (home, job, what the node trains on)."""

log = logging.getLogger("pdml.node")


class LocalModelWriter:
    """Keeps what jobs on the node's own data set have not left yet.

    Guarantees
    ----------
    - Nothing here reaches another member, and no failure ends the node: what is missing is made
      after the next job, or at the next start.
    """

    def __init__(
        self,
        home: NodeDirectory,
        committed: Journal,
        holdings: Callable[[], TrainingData],
        keep: Keep | None,
    ) -> None:
        self._home, self._committed, self._holdings = home, committed, holdings
        self._keep, self._lock = keep, threading.Lock()

    def keep(self) -> None:
        """Write whatever is missing."""
        if self._keep is None:
            return
        with self._lock, single_thread():
            try:
                for job in filter(self._missing, self._committed.jobs()):
                    training_data = self._holdings()
                    if job.dataset == training_data.dataset:  # of another, exact sums are not known
                        self._keep(self._home, job.job, training_data)
            except Exception as error:
                log.error("a model for the house was not written: %s", error)

    def _missing(self, job: Job) -> bool:
        if job.state != FINISHED or self._home.local_model_path(job.job).exists():
            return False
        try:
            return build_statement.plan_of(job)[0].method == "sums"
        except JournalError:  # begun by a version that knew no sums
            return False
