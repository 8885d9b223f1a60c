"""`PDMLClassifier().fit` with nothing set, beside one ordinary fit: the first in a process, and
again.
"""

import json
import subprocess
import sys
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.problems import adult_records, reference
from benchmarks.timing import interleaved
from pdml import PDMLClassifier
from pdml.errors import PrivacyUtilityWarning


def embeddings():
    """20,000 x 768, dense."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 768))
    y = (x @ rng.normal(size=768) / np.sqrt(768) + rng.normal(size=len(x)) > 0).astype(np.int64)
    return x / np.linalg.norm(x, axis=1).max(), y


def one_hot():
    """40,000 records of 20 questions with five answers each: easy for the reference, too."""
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 5, size=(40_000, 20)) + 5 * np.arange(20)
    places = (np.repeat(np.arange(40_000), 20), answers.ravel())
    x = sp.csr_array((np.full(answers.size, 1 / np.sqrt(20)), places), shape=(40_000, 100))
    return x, (x @ rng.normal(size=100) + rng.normal(size=40_000) > 0).astype(np.int64)


def ordinary(x, y):
    return LogisticRegression(tol=1e-8, max_iter=10_000).fit(x, y)


PROBLEMS = {
    "Adult, 45,000 x 105, CSR": (lambda: adult_records("csr"), reference),
    "20,000 x 768, dense": (embeddings, ordinary),
    "one-hot, 40,000 x 100, CSR": (one_hot, ordinary),
}
FIRST = """
import json, sys, time, warnings
from threadpoolctl import threadpool_limits
from benchmarks.defaults import PROBLEMS
from pdml import PDMLClassifier
warnings.simplefilter("ignore")
x, y = PROBLEMS[sys.argv[1]][0]()
with threadpool_limits(1):
    start, used = time.perf_counter(), time.process_time()
    PDMLClassifier(random_state=0).fit(x, y)
    print(json.dumps([time.perf_counter() - start, time.process_time() - used]))
"""


def measured(repeats=7):
    """A line for each problem."""
    for name, (made, ref) in PROBLEMS.items():
        done = subprocess.run(
            [sys.executable, "-c", FIRST, name], check=True, capture_output=True, text=True
        )
        first, processor = json.loads(done.stdout.splitlines()[-1])
        x, y = made()
        ours = PDMLClassifier(random_state=0)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyUtilityWarning)
            medians = interleaved(
                {"fit": lambda: ours.fit(x, y), "reference": lambda: ref(x, y)},  # noqa: B023
                repeats,
            )
        again, ordinary_fit = medians["fit"], medians["reference"]
        method = ours.proposal_.plan.method
        yield name, method, first, processor, again, ordinary_fit, again / ordinary_fit
