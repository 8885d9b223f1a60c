"""Run the benchmarks named on the command line, or all of them."""

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import scipy.optimize
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.defaults import measured
from benchmarks.doubts import HEAD as DOUBTS
from benchmarks.doubts import doubts_rows
from benchmarks.forecast import forecast, strangers
from benchmarks.noise import noise_speed
from benchmarks.problems import HARD, adult_records, federation, reference
from benchmarks.sums import many, sums_rows, sums_speed
from benchmarks.table import table_speed
from benchmarks.timing import fresh_process, interleaved
from pdml import Encoding, PDMLClassifier
from pdml.accounting import Budget, Ledger
from pdml.mechanisms.randomness import ITERATES, Simulated
from pdml.numerics.admm import steps
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.admm.solver import compiled_loops
from pdml.planning.server_spec import ServerSpec
from pdml.training import local_engine

console = Console(width=160)
HARD_LEDGER = replace(HARD, objective_noise="truncated_gaussian", noise_decay=0.95)
TIGHT, LOOSE = "1e-8 of the first gradient", "1% of the sensitivity"


def show(title, columns, lines):
    table = Table(*columns, title=title, title_justify="left")
    for line in lines:
        table.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in line))
    console.print(table)


def ratios(problems, fit, repeats, **options):
    """Medians of each training and of the reference, measured in turn, and their ratios."""
    sides = {"reference": fit}
    last = {}
    for name, problem in problems.items():

        def work(name=name, problem=problem):
            last[name] = local_engine.train(problem.graph, problem.run, **options)

        sides[name] = work
    with threadpool_limits(1):
        medians = interleaved(sides, repeats)
    return medians, last


def adult_speed():
    """Adult, n = 10, 13 links, T = 100, HARD: compiled and not, dense and CSR, two tolerances; and
    the whole estimator.
    """
    lines = []
    for storage in ("csr", "dense"):
        x, y = adult_records(storage)
        problems = {TIGHT: federation(x, y, relative=1e-8), LOOSE: federation(x, y)}
        modes = (
            {"numba": True, "without numba": False}
            if compiled_loops()
            else {"without numba": False}
        )
        for mode, use_numba in modes.items():
            medians, last = ratios(
                problems,
                lambda x=x, y=y: reference(x, y),
                9 if use_numba else 3,
                use_numba=use_numba,
            )
            for name in problems:
                trained = last[name]
                servers_rounds = 10 * HARD.rounds
                cells = (
                    medians[name] * 1e3,
                    medians["reference"] * 1e3,
                    medians[name] / medians["reference"],
                )
                work = (trained.solver.passes / servers_rounds, trained.solver.hessians / 10)
                lines.append((storage, mode, name, *cells, *work))
        whole = PDMLClassifier(1.0, encoding=Encoding(intercept=False), plan=HARD, random_state=0)
        with threadpool_limits(1):
            medians = interleaved(
                {
                    "fit": lambda x=x, y=y, whole=whole: whole.fit(x, y),
                    "reference": lambda x=x, y=y: reference(x, y),
                },
                7,
            )
        cells = (
            medians["fit"] * 1e3,
            medians["reference"] * 1e3,
            medians["fit"] / medians["reference"],
        )
        lines.append((storage, "PDMLClassifier.fit, all of it", LOOSE, *cells, "", ""))
    head = (
        "storage",
        "",
        "certified to",
        "ms",
        "reference ms",
        "ratio",
        "passes/solve",
        "Hessians/server",
    )
    show("Adult 45,000 x 105, ten private servers against one ordinary fit (HARD)", head, lines)


def author_way():
    """The way a paper's author would write it: scipy's L-BFGS for every server and round, to the
    same tolerance.
    """
    x, y = adult_records("csr")
    problem = federation(x, y, relative=1e-8)
    plan, graph, run = problem.run.plan, problem.graph, problem.run

    def author():
        n, source = graph.n, run.source
        linear = [server.linear(plan, LOGISTIC, source) for server in run.servers]
        streams = [source.stream(ITERATES, i) for i in range(n)]
        sent = [np.zeros((1, x.shape[1])) for _ in range(n)]
        dual, point = [np.zeros_like(s) for s in sent], [np.zeros(x.shape[1]) for _ in range(n)]
        for t in range(1, plan.rounds + 1):
            heard = [
                steps.sum_messages([sent[j] for j in graph.neighbours(i)], sent[i])
                for i in range(n)
            ]
            for i, server in enumerate(run.servers):
                where = {"degree": server.spec.degree, "penalty": plan.penalty}
                dual[i] = steps.dual_step(dual[i], sent[i], heard[i], **where)
                b = steps.primal_target(linear[i], dual[i], sent[i], heard[i], **where)[0]
                ridge, m = plan.ridge(server.spec.degree, n), server.spec.records

                def objective(w, matrix=server.matrix, b=b, ridge=ridge, m=m):
                    z = matrix @ w
                    value = LOGISTIC.value(z[:, None]).mean() + ridge / 2 * w @ w - b @ w
                    return value, matrix.T @ (np.tanh(z / 2) / 2) / m + ridge * w - b

                tight = {
                    "maxiter": 10_000,
                    "maxfun": 20_000,
                    "gtol": plan.tolerance_for(server.spec) / np.sqrt(len(b)),
                    "ftol": 0,
                }
                point[i] = scipy.optimize.minimize(
                    objective, point[i], jac=True, method="L-BFGS-B", options=tight
                ).x
            for i in range(n):
                noise = plan.iterates(i, n).draw(t, np.empty((1, x.shape[1])), streams[i])
                sent[i] = steps.release_step(point[i][None], noise)
        return np.array(sent)

    ours = local_engine.train(graph, run)
    difference = float(np.abs(author() - ours.released).max())
    with threadpool_limits(1):
        medians = interleaved({"author": author, "pdml": lambda: local_engine.train(graph, run)}, 3)
    cells = (
        medians["author"] * 1e3,
        medians["pdml"] * 1e3,
        medians["author"] / medians["pdml"],
        difference,
    )
    show(
        "An author's way (scipy L-BFGS per server and round, CSR, HARD)",
        ("author ms", "pdml ms", "times faster", "largest difference"),
        [cells],
    )


def sweep_speed():
    """Sixteen trainings on the same records (ε, R and seeds differ), batched."""
    lines = []
    for storage in ("csr", "dense"):
        x, y = adult_records(storage)
        for name, relative in ((TIGHT, 1e-8), (LOOSE, None)):
            base = federation(x, y, relative=relative)
            runs = [
                replace(
                    base.run,
                    source=Simulated(seed),
                    plan=replace(base.run.plan, objective_bound=0.1 * (1 + seed % 4)),
                )
                for seed in range(16)
            ]
            with threadpool_limits(1):
                medians = interleaved(
                    {
                        "sweep": lambda b=base, r=runs: local_engine.sweep(b.graph, r),
                        "reference": lambda x=x, y=y: reference(x, y),
                    },
                    3,
                )
            lines.append(
                (
                    storage,
                    name,
                    medians["sweep"] * 1e3,
                    medians["sweep"] / 16 / medians["reference"],
                )
            )
    show(
        "Sweep of 16 trainings on Adult (HARD)",
        ("storage", "certified to", "ms for 16", "ratio per training"),
        lines,
    )


def rows_speed():
    """Scaling in m: Adult's records drawn again and again, to 5,000,000."""
    lines = []
    for count in (50_000, 500_000, 5_000_000):
        x, y = many(count)
        problems = {TIGHT: federation(x, y, relative=1e-8), LOOSE: federation(x, y)}
        medians, _ = ratios(
            problems, lambda x=x, y=y: reference(x, y), 5 if count < 5_000_000 else 1
        )
        for name in problems:
            lines.append(
                (
                    f"{count:,}",
                    name,
                    medians[name],
                    medians["reference"],
                    medians[name] / medians["reference"],
                )
            )
    show(
        "Scaling in records (CSR, 105 features, ten servers, T = 100, HARD)",
        ("records", "certified to", "s", "reference s", "ratio"),
        lines,
    )


def width_speed():
    """Scaling in d: 20,000 dense records."""
    lines = []
    rng = np.random.default_rng(0)
    for width in (10, 50, 200, 800):
        x = rng.normal(size=(20_000, width))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = (x @ rng.normal(size=width) + 0.1 * rng.normal(size=len(x)) > 0).astype(np.int64)
        problems = {TIGHT: federation(x, y, relative=1e-8), LOOSE: federation(x, y)}
        medians, _ = ratios(problems, lambda x=x, y=y: reference(x, y), 3)
        for name in problems:
            lines.append(
                (
                    width,
                    name,
                    medians[name] * 1e3,
                    medians["reference"] * 1e3,
                    medians[name] / medians["reference"],
                )
            )
    show(
        "Scaling in features (20,000 dense records, ten servers, T = 100, HARD)",
        ("features", "certified to", "ms", "reference ms", "ratio"),
        lines,
    )


def servers_speed():
    """Scaling in n: servers of 1,000 records each, to 1,000 servers; HARD as it is, and with the
    ridge a/n kept at 0.001.
    """
    lines = []
    for n in (10, 100, 1000):
        x, y = many(1000 * n)
        for kept, plan in {
            "a = 0.01": HARD,
            "a/n = 0.001": replace(HARD, regularization=0.001 * n),
        }.items():
            if n == 10 and kept != "a = 0.01":
                continue  # the same
            problems = {
                TIGHT: federation(x, y, n, relative=1e-8, plan=plan),
                LOOSE: federation(x, y, n, plan=plan),
            }
            medians, _ = ratios(
                problems,
                lambda x=x, y=y, n=n, plan=plan: reference(x, y, plan, n),
                3 if n < 1000 else 1,
            )
            for name in problems:
                lines.append(
                    (
                        n,
                        kept,
                        name,
                        medians[name],
                        medians["reference"],
                        medians[name] / medians["reference"],
                    )
                )
    head = ("servers", "regularization", "certified to", "s", "reference s", "ratio")
    show("Scaling in servers (1,000 records each, CSR, T = 100, HARD)", head, lines)


MEMORY = """
import json, resource, sys
import numpy as np
from benchmarks.__main__ import many, federation, reference
from pdml.training import local
x, y = many({count})
data = (x.data.nbytes + x.indices.nbytes + x.indptr.nbytes) / 1e9
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
def now(): return int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize() / 1e9
problem = federation(x, y)
open('/proc/self/clear_refs', 'w').write('5')  # forget the peak of making the data
before = now()
local.train(problem.graph, problem.run)
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
print(json.dumps([data, before, int(status['VmHWM'].split()[0]) * 1024 / 1e9]))
"""


def memory():
    """Peak memory above the data while training (Linux)."""
    lines = []
    for count in (50_000, 500_000, 5_000_000):
        out = subprocess.run(
            [sys.executable, "-c", MEMORY.format(count=count)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        data, before, peak = json.loads(out.splitlines()[-1])
        lines.append((f"{count:,}", data, peak, peak - before))
    show(
        "Memory in GB (CSR, ten servers, T = 100, HARD)",
        ("records", "data", "peak of the process", "above what stood before training"),
        lines,
    )


def start_up():
    """`import pdml` and `pdml --help` in a fresh process, and what numba costs the first time."""
    lines = []
    for name, code in {
        "import pdml": "import pdml",
        "from pdml import PDMLClassifier": "from pdml import PDMLClassifier",
        "pdml --help": "import sys; sys.argv = ['pdml', '--help']; from pdml.cli import "
        "main; main()",
    }.items():
        whole, above = fresh_process(code)
        lines.append((name, whole, above))
    if compiled_loops():
        code = """
import os, sys, time, numpy as np
from pdml import PDMLClassifier, TrainingPlan
x = np.random.default_rng(0).normal(size=(3000, 40)); y = x[:, 0] > 0
start = time.perf_counter(); PDMLClassifier(plan=TrainingPlan(rounds=400), random_state=0).fit(x, y); print(time.perf_counter() - start)
"""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            for name in (
                "first compiled training on a new machine",
                "first compiled training of a process",
            ):
                done = subprocess.run(
                    [sys.executable, "-c", code],
                    check=True,
                    capture_output=True,
                    text=True,
                    env={**os.environ, "NUMBA_CACHE_DIR": folder},
                )
                lines.append((name, float(done.stdout), ""))
    show("Start-up in seconds", ("", "wall", "above an empty python"), lines)


def ledger_speed():
    """The ledger of a 100-round plan for ten servers: six lines, spending by round and the last
    safe round.
    """

    def whole():
        sizes = {"n_servers": 10, "degree": 2, "records": 4500, "epsilons": (1.0,), "width": 105}
        places = [ServerSpec(server=i, **sizes) for i in range(10)]
        ledger = Ledger(tuple((p.flip(), *HARD_LEDGER.events(p)) for p in places))
        ledger.rows()
        ledger.epsilons("features")
        ledger.last_safe_round(Budget(features_epsilon=1.0, labels_epsilon=0.1))

    show(
        "Ledger of 100 rounds, ten servers",
        ("ms",),
        [(interleaved({"ledger": whole}, 15)["ledger"] * 1e3,)],
    )


def sums():
    """One exchange of sums: Adult, then many records."""
    head = ("storage", "records", "", "ms", "reference ms", "ratio")
    show("One exchange of sums against one ordinary fit, secure noise", head, sums_speed())
    head = ("records", "s", "reference s", "ratio", "data GB", "memory above it GB")
    show("Scaling in records (CSR, ten servers)", head, sums_rows())


def table_command():
    """`pdml train people.csv` and its page."""
    head = ("", "s by the clock", "ratio", "s of the processor", "ratio")
    show("45,000 rows of CSV, whole processes", head, table_speed())


def default_speed():
    """Nothing set: the planner's work is in the first fit of a size."""
    head = ("", "chosen", "first s", "of the processor", "again s", "reference s", "ratio")
    show("PDMLClassifier().fit, all at its defaults", head, measured())


def doubts_after():
    """Of which models of one exchange what was released leaves doubts, and how rightly."""
    show("The check after an exchange", DOUBTS, list(doubts_rows()))


ALL = {
    "defaults": default_speed,
    "adult": adult_speed,
    "author": author_way,
    "sums": sums,
    "sweep": sweep_speed,
    "rows": rows_speed,
    "width": width_speed,
    "servers": servers_speed,
    "memory": memory,
    "start": start_up,
    "ledger": ledger_speed,
    "noise": noise_speed,
    "forecast": forecast,
    "strangers": strangers,
    "table": table_command,
    "doubts": doubts_after,
}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(ALL)
    if unknown := set(wanted) - set(ALL):
        sys.exit(f"benchmarks: no benchmark {sorted(unknown)[0]!r}; there are {', '.join(ALL)}")
    machine = (
        f"{platform.processor() or platform.machine()}, "
        f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
    )
    print(f"{machine}, load {os.getloadavg()[0]:.2f}")
    start = time.perf_counter()
    for name in wanted:
        ALL[name]()
    print(f"total {time.perf_counter() - start:.0f} s")
