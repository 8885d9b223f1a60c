# %% [markdown]
# # Contributors with different epsilon
#
# People do not agree on how private an answer is. Here each picks their own ε from a menu, the
# device flips the answer accordingly, and the training weighs every report by how much it can be
# believed. Nobody has to agree with anybody, and everybody has a ledger row of their own.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

from pdml import Encoding, PDMLClassifier
from pdml.errors import PrivacyUtilityWarning
from pdml.research.datasets import waveform

warnings.simplefilter("ignore", PrivacyUtilityWarning)  # what it warns of is measured below
SERVERS, RECORDS = 5, 2000
rng = np.random.default_rng(0)


SCALES = [(2, 2)] * 21  # an average of every column, and a spread that most lie within
x, y = waveform(RECORDS, rng)
others = waveform(4000, rng)

# %% [markdown]
# ## Everybody's own row
#
# `fit` takes one ε for each record. Against the collecting organisation, a person's ε for the label
# is what they chose, and training never weakens it. What the other servers can learn is less:
# whoever was careful is heard faintly, so that both label and features show less of them.

# %%
MENU = (0.4, 1.0, 2.0)
chosen = rng.choice(MENU, size=RECORDS, p=[0.3, 0.3, 0.4])
fitted = PDMLClassifier(n_servers=SERVERS, encoding=Encoding(scales=SCALES), random_state=0)
fitted.fit(x, y, epsilons=chosen)
print(f"{fitted.score(*others):.1%} right on new records")
own = fitted.privacy_.person_rows()
print("         label:                       features:")
print("chose    collector    other servers   other servers   people")
for epsilon in MENU:
    those = chosen == epsilon
    print(
        f"{epsilon:5.1f}    {own.label_receiving_server[those].max():10.2f}   "
        f"{own.label_other_servers[those].max():13.2f}   "
        f"{own.features_other_servers[those].max():13.2f}   {those.sum():6,}"
    )

# %% [markdown]
# ## What the mixture does to the model
#
# The same people and the same budget (features ε = 1 against all other servers together); only the
# choices change, from everybody at ε = 2 to nearly everybody at 0.4. Beside it: a study whose menu
# has 0.4 alone.

# %%
SEEDS = 5


def right(epsilons):
    """How often models are right on new records, one for each seed."""
    settings = {"n_servers": SERVERS, "encoding": Encoding(scales=SCALES)}
    planned = PDMLClassifier(**settings, random_state=0).fit(x, y, epsilons=epsilons)
    plan = planned.proposal_.plan
    return [
        PDMLClassifier(**settings, plan=plan, random_state=seed)
        .fit(x, y, epsilons=epsilons)
        .score(*others)
        for seed in range(SEEDS)
    ]


shares = np.array([0.0, 0.25, 0.5, 0.75, 0.9, 0.97])
mixed = np.array([right(np.where(np.arange(RECORDS) < s * RECORDS, 0.4, 2.0)) for s in shares])
careful = np.array(right(np.full(RECORDS, 0.4)))
majority = max(np.mean(others[1] == label) for label in np.unique(y))
for share, each in zip(shares, mixed, strict=True):
    print(
        f"{share:4.0%} careful: {each.mean():.1%} right, from {each.min():.1%} to {each.max():.1%}"
    )
print(f"everybody at 0.4: {careful.mean():.1%} right; majority-class baseline: {majority:.1%}")

# %% [markdown]
# Up to half of the people can be careful and the model hardly notices. And **a few who dare among
# many who are careful do no harm**: the servers' noise must hide the loudest report, which would
# drown the faint ones, so the planner counts reports up to an ε of the menu (`epsilon_cap`) where
# that is worth more. With nearly everybody at 0.4 the model is as good as with a menu of 0.4 alone.

# %%
figure, axes = plt.subplots(figsize=(7, 4))
axes.fill_between(shares, mixed.min(axis=1), mixed.max(axis=1), alpha=0.2, linewidth=0)
axes.plot(shares, mixed.mean(axis=1), marker="o", label="a menu of 0.4 and 2")
axes.axhline(careful.mean(), color="tab:orange", linestyle="--", label="a menu of 0.4 alone")
axes.axhline(majority, color="grey", linestyle=":", label="majority-class baseline")
axes.set(xlabel="share that picks ε = 0.4", ylabel="right on new records", ylim=(0.6, 0.86))
axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
axes.legend(frameon=False, loc="lower left")
figure.tight_layout()
figure.savefig("different_epsilons.svg")

# %% [markdown]
# A study declares the menu (`epsilon = { menu = [0.4, 1.0, 2.0] }`), and its page explains the
# choice to people: [write a study](../guide/study.md).
