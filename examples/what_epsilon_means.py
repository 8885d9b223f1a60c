# %% [markdown]
# # What epsilon means
#
# Somebody wants to know one thing about one person, and before the data arrive has no idea: even
# odds. Then they see everything that leaves the person's device, or everything that leaves the
# server. How often do they guess right?
#
# A ledger row (ε, δ) answers for *every* attacker, however clever and whatever else they know:
# at most (e^ε + δ)/(e^ε + 1) of the time. At ε = 0 that is 50%, at ε = 1 it is 73%, at ε = 4 it
# is 98%. Here two attackers try, against the code that devices and servers run.

# %%
from math import inf

import matplotlib.pyplot as plt
import numpy as np

from pdml.accounting import Ledger
from pdml.audit import confidence, sums_attacks
from pdml.audit.rounds_attacks import label_victim
from pdml.audit.sums_attacks import records, sums_victim, with_noise
from pdml.mechanisms.label_flip import LabelFlip, flip_labels


def most(epsilon, delta=0.0):
    """How often anybody guesses right, at most."""
    return (np.exp(epsilon) + delta) / (np.exp(epsilon) + 1)


# %% [markdown]
# ## The label: randomised response on the device
#
# A device flips the true answer with probability 1/(1 + e^ε) and sends what comes out. The best
# guess is to believe it, and it meets the bound: what is counted here lies within half a point of
# it, above or below, because 20,000 answers are counted and not all that could be given.

# %%
rng = np.random.default_rng(1)
asked = np.array([0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 4.0])
truth = rng.integers(0, 2, 20_000)
believed = [(flip_labels(truth, np.full(len(truth), e), 2, rng) == truth).mean() for e in asked]
for epsilon, right in zip(asked, believed, strict=True):
    print(f"label, ε = {epsilon:.1f}: right {right:.1%} of the time, at most {most(epsilon):.1%}")

# %% [markdown]
# ## The features: noise on a server's sums
#
# The server adds Gaussian noise to the sums over its records and sends them to the others, once.
# The attacker knows every record but one, and of that one that it is one of two as different as
# records can be. It lives through hundreds of exchanges of either kind, learns the best linear test
# for them (with Gaussian noise there is no better one), and is then counted on others.
#
# The ledger says how much noise there is as an ε at δ = 10⁻⁶. That is a cautious way to say it:
# it has to hold for all but one in a million outcomes, and in an ordinary one the attacker learns
# far less.

# %%
RUNS, DELTA = 1500, 1e-6
spent, guessed = [], []
for louder in (0.05, 0.15, 0.3, 0.5, 0.8, 1.2):  # how many deviations one record moves the sums
    victim = with_noise(sums_victim(label_victim()), louder, louder / 10)
    pair = records("a record or its opposite", victim, np.pi)
    events = (LabelFlip(inf).event(), *victim.events())
    line = Ledger((events,), delta=DELTA).row("features", "other servers", 0)
    seen = [
        sums_attacks.releases(v, RUNS, 7, k, 1).reshape(RUNS, -1) for k, v in enumerate(pair.worlds)
    ]
    found = confidence.separate(*seen, delta=0.02)
    spent.append(line.epsilon)
    guessed.append(found.accuracy)
    print(
        f"features, ε = {line.epsilon:.2f}: right {found.accuracy:.1%} of the time, "
        f"at most {most(line.epsilon, DELTA):.1%}"
    )

# %% [markdown]
# ## The picture
#
# Above the line nobody can get. The label's attacker sits on it; the other one stays below. Reading
# it the other way round is what ε is for: if a guess that is right in three of four cases is too
# good for you, stay at ε = 1 or below.

# %%
figure, axes = plt.subplots(figsize=(7, 4.2))
grid = np.linspace(0, 6, 200)
axes.plot(grid, most(grid), color="black", label="the most that ε allows")
axes.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")
axes.text(6, 0.505, "a guess without any data", ha="right", va="bottom", color="grey")
axes.plot(asked, believed, "o", color="tab:blue", label="label: randomised response")
axes.plot(spent, guessed, "s", color="tab:orange", label="features: noisy sums, δ = 10⁻⁶")
axes.set(xlabel="ε of the ledger", ylabel="how often the attacker is right", ylim=(0.47, 1.01))
axes.legend(loc="center right", bbox_to_anchor=(1, 0.68), frameon=False)
figure.tight_layout()
figure.savefig("what_epsilon_means.svg")

# %% [markdown]
# `pdml audit` does this against every part of the product, with a bound on its own errors: see
# [the audit](../guide/audit.md).
