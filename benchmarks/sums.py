"""One exchange of sums against one ordinary fit of the pooled data: Adult, and 5,000,000 records in
bounded memory. Noise is always secure.
"""

import json
import subprocess
import sys

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.problems import adult_records, federation, reference
from benchmarks.timing import interleaved
from pdml import Encoding, PDMLClassifier
from pdml.mechanisms.randomness import Secure
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine, sums_fit

PLAN = TrainingPlan(method="sums")

MEMORY = """
import json, resource
from benchmarks.sums import exchanged, many
from benchmarks.problems import federation
from pdml.planning.training_plan import TrainingPlan
problem = federation(*many({count}), plan=TrainingPlan(method="sums"))
x = problem.pooled
data = (x.data.nbytes + x.indices.nbytes + x.indptr.nbytes) / 1e9
open('/proc/self/clear_refs', 'w').write('5')  # forget the peak of making the data
before = int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize() / 1e9
exchanged(problem)()
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
print(json.dumps([data, int(status['VmHWM'].split()[0]) * 1024 / 1e9 - before]))
"""


def many(count):
    """Adult's records drawn again and again, CSR."""
    x, y = adult_records("csr")
    pick = np.random.default_rng(1).integers(0, len(y), count)
    return sp.csr_array(x[pick]), y[pick]


def exchanged(problem):
    """From dealt records to the model: sums, secure noise, total, weights."""
    run = local_engine.Run(PLAN, problem.run.servers, Secure())
    spec = problem.run.servers[0].spec
    return lambda: sums_fit.weights(local_engine.exchange(run).total, PLAN, spec, intercept=False)


def sums_speed():
    """Rows of a table: storage, records, what is measured, ms, ms of the reference, ratio."""
    for storage in ("csr", "dense"):
        x, y = adult_records(storage)
        settings = {"encoding": Encoding(intercept=False), "plan": PLAN, "random_state": 0}
        whole = PDMLClassifier(1.0, randomness="secure", **settings)
        sides = {
            "reference": lambda x=x, y=y: reference(x, y),
            "sums and model": exchanged(federation(x, y, plan=PLAN)),
            "PDMLClassifier.fit, all of it": lambda x=x, y=y, whole=whole: whole.fit(x, y),
        }
        with threadpool_limits(1):
            medians = interleaved(sides, 21)
        once = medians.pop("reference")
        for name, seconds in medians.items():
            yield storage, f"{len(y):,}", name, seconds * 1e3, once * 1e3, seconds / once


def sums_rows():
    """The same for many records, and the memory above what stood before (Linux)."""
    for count in (500_000, 5_000_000):
        x, y = many(count)
        work = exchanged(federation(x, y, plan=PLAN))
        sides = {"reference": lambda x=x, y=y: reference(x, y), "sums": work}
        with threadpool_limits(1):
            medians = interleaved(sides, 5 if count < 1_000_000 else 1)
        del x, y, work, sides
        code = [sys.executable, "-c", MEMORY.format(count=count)]
        out = subprocess.run(code, check=True, capture_output=True, text=True).stdout
        data, above = json.loads(out.splitlines()[-1])
        ratio = medians["sums"] / medians["reference"]
        yield f"{count:,}", medians["sums"], medians["reference"], ratio, data, above
