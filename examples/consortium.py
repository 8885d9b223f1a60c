# %% [markdown]
# # A consortium in simulation: who might collude?
#
# Ten organisations with a hundred records each want one model. Each label was randomised on its
# owner's device (ε = 1); what the organisations tell each other may show at most ε = 1 of anybody's
# features. How good the model gets depends on a question that has nothing to do with statistics:
# **how many of the others might put together what they see?**
#
# - *All of them* (`colluding=None`): each organisation must hide its people behind its own noise.
# - *At most k* (`colluding=k`): organisations send masked sums of which only the total can be read,
#   and each adds only its share of the noise. Whatever k of them put together, the others' noise is
#   still in the total.
#
# All parties are played in one process here, so nobody is protected by running this: it shows what
# a deployment would do.

# %%
import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np

from pdml import Encoding, PDMLClassifier, TrainingPlan
from pdml.errors import PrivacyUtilityWarning
from pdml.research.datasets import waveform

warnings.simplefilter("ignore", PrivacyUtilityWarning)  # its sentences are printed below
SERVERS, RECORDS, SEEDS = 10, 100, 5
rng = np.random.default_rng(0)


SCALES = [(2, 2)] * 21  # an average of every column, and a spread that most lie within
x, y = waveform(SERVERS * RECORDS, rng)
others = waveform(4000, rng)  # simulated too, so that measuring on them costs nobody anything
owner = np.repeat(np.arange(SERVERS), RECORDS)

# %% [markdown]
# ## Three answers to the question
#
# `PDMLClassifier` asks the planner for the settings that lose least within the budget, from public
# sizes alone. Where it doubts that joining pays, a `PrivacyUtilityWarning` says so; `doubts_` has
# its sentences, which are printed here instead. The same plan is then tried with several seeds,
# because one training is one draw of the noise.

# %%
JOINT = {"n_servers": SERVERS, "encoding": Encoding(scales=SCALES)}
SETTINGS = {"all others": None, "5 of them": 5, "1 of them": 1}
shared, own, coalitions = {}, {}, {}
for name, colluding in SETTINGS.items():
    planned = PDMLClassifier(**JOINT, colluding=colluding, random_state=0)
    planned.fit(x, y, servers=owner)
    again = {**JOINT, "plan": planned.proposal_.plan, "local_models": True}
    trainings = [
        PDMLClassifier(**again, random_state=seed).fit(x, y, servers=owner) for seed in range(SEEDS)
    ]
    shared[name] = [fitted.score(*others) for fitted in trainings]
    own[name] = [
        np.mean(m.predict(others[0]) == others[1]) for f in trainings for m in f.local_models_
    ]
    coalitions[name] = [line.epsilon for line in planned.privacy_.coalitions("features")]
    print(f"{name} might collude: {np.mean(shared[name]):.1%} right")
    for doubt in planned.doubts_:
        print(textwrap.indent(textwrap.fill(doubt, 76), "    "))

# %% [markdown]
# ## Or not join at all
#
# An organisation that keeps its reports to itself needs no noise on sums, and has a hundred
# records. Its people's labels are randomised all the same: it never sees the true ones.
#
# There is something in between: a *local model*, from an organisation's own exact sums and what the
# others released. Using it inside releases nothing more; whoever shares it shares exact sums.

# %%
NO_NOISE = TrainingPlan(method="sums", label_noise=0, square_noise=0)
alone = [
    PDMLClassifier(n_servers=2, plan=NO_NOISE, encoding=Encoding(scales=SCALES), random_state=0)
    .fit(x[owner == server], y[owner == server])
    .score(*others)
    for server in range(SERVERS)
]
majority = max(np.mean(others[1] == label) for label in np.unique(y))
print(f"each alone: {np.mean(alone):.1%} right; majority-class baseline: {majority:.1%}")
for name in SETTINGS:
    print(f"{name} might collude: local models {np.mean(own[name]):.1%} right")

# %% [markdown]
# ## What it costs to be wrong about it
#
# The ledger has a row for every size of coalition. Where one was thought to collude and nine do,
# people's features are less protected than was promised, by as much as the right picture shows; and
# never without any protection, because the victim's own organisation still added its share.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
places = np.arange(len(SETTINGS))
left.bar(places - 0.2, [np.mean(v) for v in shared.values()], 0.38, label="the shared model")
left.bar(places + 0.2, [np.mean(v) for v in own.values()], 0.38, label="local models")
left.axhline(np.mean(alone), color="black", linestyle="--", label="each alone")
left.axhline(majority, color="grey", linestyle=":", label="majority-class baseline")
left.set_xticks(places, SETTINGS)
left.set(ylim=(0.5, 1), xlabel="who might collude", ylabel="right on new records")
left.legend(frameon=False, loc="upper left", ncols=2)
for (name, epsilons), marker in zip(coalitions.items(), "so^", strict=True):
    right.plot(np.arange(1, SERVERS), epsilons, marker=marker, label=f"planned for {name}")
right.axhline(1, color="grey", linestyle=":")
right.set(ylim=(0, None), xlabel="how many others do collude", ylabel="ε of features, δ = 10⁻⁶")
right.legend(frameon=False, loc="upper left")
figure.tight_layout()
figure.savefig("consortium.svg")

# %% [markdown]
# Between real organisations: [the consortium](../guide/consortium.md). Why a total can be hidden:
# [sufficient statistics](../concepts/sums.md).
