"""A server's local model where organisations differ (docs/evaluation/accuracy.md).

    python -m benchmarks.organisations 6000 100    # the first seed, and how many of each setting

People are made up (`benchmarks.expected.people`): five servers of 60 to 700 records, labels epsilon
1, features (1, 1e-6), all others or two colluding. One server's people are like all others, have
another share of classes, other features, or labels that follow another rule.
"""

import sys

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.expected import people
from benchmarks.offsets import EXACT, TESTED, flip
from pdml.accounting import Budget
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import fit_local_model, fit_sums
from pdml.numerics.sums.local_model import fit_by_own_reports
from pdml.planning.search.sums_search import SHARES, calibrate
from pdml.planning.server_spec import ServerSpec

SERVERS = 5
SETTINGS = ("alike", "shares of classes", "features", "labels")


def choose(rng, x, y, setting, many):
    """Own people among the others' population, and their classes."""
    if setting == "shares of classes":
        ones = np.flatnonzero(y)
        zeros = np.flatnonzero(y == 0)
        count = int(np.clip(rng.beta(1.5, 1.5) * many, many - len(zeros), len(ones)))
        own = rng.permutation(np.concatenate([ones[:count], zeros[: many - count]]))
    elif setting == "features":
        score = x[:, :-1] @ rng.normal(size=x.shape[1] - 1)
        score = score / score.std() + rng.gumbel(size=len(x))
        own = rng.permutation(np.argsort(-score)[:many])
    else:
        own = np.arange(many)
    x, y = x[own], y[own]
    if setting == "labels":
        rule = np.linalg.lstsq(x, 2.0 * y - 1, rcond=None)[0]
        z, other = x @ rule, x[:, :-1] @ rng.normal(size=x.shape[1] - 1)
        z, other = ((one - one.mean()) / max(one.std(), 1e-9) for one in (z, other))
        alike = rng.uniform(-0.5, 0.7)
        margins = 2.5 * (alike * z + np.sqrt(1 - alike**2) * other)
        y = (margins + rng.logistic(size=many) > 0).astype(np.int64)
    return x, y


def compare(seed, setting):
    """Accuracy of the local model, of own and others' sums together, and of a server alone."""
    rng = np.random.default_rng(seed)
    records = int(np.exp(rng.uniform(np.log(60), np.log(700))))
    width = int(np.exp(rng.uniform(np.log(5), np.log(40))))
    away = records * (SERVERS - 1)
    x, y, constant, _ = people(rng, away + 20 * records + 6 * TESTED, width)
    others, said = x[:away], flip(rng, y[:away])
    own, truth = choose(rng, x[away:], y[away:], setting, records + TESTED)
    spec = ServerSpec(
        server=0,
        n_servers=SERVERS,
        degree=SERVERS - 1,
        records=records,
        epsilons=(1.0,),
        width=x.shape[1],
        constant=constant,
    )
    budget = Budget(
        features_epsilon=1.0, features_delta=1e-6, colluding=(None, 2)[int(rng.integers(2))]
    )
    plan = calibrate(budget, spec, float(rng.choice(SHARES)))
    noise = plan.noise_of_total(spec, parts=SERVERS - 1)
    sums = statistics.exact(others, labels.codes(said, 1.0, 2), LOGISTIC)
    square = rng.normal(size=sums.square_sum.shape) * noise.square
    sums += statistics.Sums(
        label_sum=rng.normal(size=sums.label_sum.shape) * noise.label,
        square_sum=(square + square.T) / 2,
        size=0.0,
    )
    codes = labels.codes(flip(rng, truth[:records]), 1.0, 2)
    exact = statistics.exact(own[:records], codes, LOGISTIC)
    settings = {"loss": LOGISTIC, "constant": constant}
    models = {
        "local model": fit_by_own_reports(own[:records], codes, sums, noise, **settings),
        "own and others' sums": fit_local_model(exact, sums, noise, **settings).weights,
        "own sums alone": fit_sums(exact, EXACT, **settings).weights,
    }
    return {
        name: 100 * np.mean((own[records:] @ w[0] > 0) == (truth[records:] == 1))
        for name, w in models.items()
    }


def describe(first, many):
    """Means of every setting, in sentences."""
    for setting in SETTINGS:
        found = [compare(seed, setting) for seed in range(first, first + many)]
        values = np.array([list(one.values()) for one in found])
        error = (values - values[:, :1]).std(axis=0) / np.sqrt(many)
        parts = zip(found[0], values.mean(axis=0), error, strict=True)
        yield f"{setting}: " + ", ".join(f"{k} {v:.1f} (± {e:.1f})" for k, v, e in parts)


if __name__ == "__main__":
    with threadpool_limits(1):
        for line in describe(*map(int, sys.argv[1:])):
            print(line, flush=True)
