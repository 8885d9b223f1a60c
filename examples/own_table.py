# %% [markdown]
# # From your own table to a private model
#
# A table of measurements and a sensitive answer: scikit-learn's breast cancer data stand for it
# here, 569 people, ten measurements each. The answer is randomised as if on each person's device;
# five hospitals hold the records and train together without showing them to each other.
#
# One process plays all of them, so running this protects nobody. The ledger says what a deployment
# with these settings would give away.

# %%
import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pdml import Encoding, PDMLClassifier, load_model
from pdml.errors import PrivacyUtilityWarning

table = load_breast_cancer(as_frame=True)
answers = table.target_names[table.target]

# %% [markdown]
# ## Declare, do not look
#
# Columns have units, and a model needs to know what is much and what is little. Taking that from
# the records would publish something about them that no noise protects: the largest tumour is
# somebody's. So you write down, for each column, an **average** and a **spread** that most
# people lie within, to one digit, as somebody who knows the subject can without any data.

# %%
DECLARED = {
    "mean radius": (10, 4),
    "mean texture": (20, 4),
    "mean perimeter": (90, 20),
    "mean area": (600, 400),
    "mean smoothness": (0.1, 0.01),
    "mean compactness": (0.1, 0.05),
    "mean concavity": (0.06, 0.08),
    "mean concave points": (0.03, 0.04),
    "mean symmetry": (0.2, 0.03),
    "mean fractal dimension": (0.06, 0.007),
}
x, x_test, y, y_test = train_test_split(
    table.data[list(DECLARED)], answers, test_size=0.3, random_state=0, stratify=answers
)

# %% [markdown]
# ## Train
#
# ε = 1 for the label of each person (a device tells the truth 73% of the time), and at most ε = 1
# of anybody's measurements for the other hospitals. Everything else is left to the planner, which
# looks at public sizes alone. `classes` are declared too: which answers there are is public.
#
# Accuracy means little by itself, so it is printed beside two others: the majority-class baseline,
# and what a model would reach that protects nobody. `doubts_` is empty: neither the planner nor
# what was released says that the model may be of no use.

# %%
CLASSES = ["benign", "malignant"]
SETTINGS = {"n_servers": 5, "encoding": Encoding(scales=DECLARED), "classes": CLASSES}
fitted = PDMLClassifier(**SETTINGS, random_state=0).fit(x, y)
majority = max(np.mean(y_test == each) for each in CLASSES)
unprotected = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y).score(x_test, y_test)
print(f"right on {fitted.score(x_test, y_test):.1%} of the records that were held back")
print(f"majority-class baseline: {majority:.1%}; without any protection: {unprotected:.1%}")
print(f"doubts: {fitted.doubts_}")

# %% [markdown]
# ## Who can learn what
#
# The ledger: of each piece of data, against each adversary, ε and δ, and how sure somebody who
# started from even odds can become. Read the features' rows: nothing hides a person's measurements
# from the hospital that took them.

# %%
print(fitted.privacy_)
for leak in fitted.leaks_:
    print(f"not protected: {leak}")

# %% [markdown]
# ## A warning, and what it means
#
# Ask for much more privacy with so few records, and `fit` still fits, with a
# `PrivacyUtilityWarning`; `doubts_` says why. Its first sentence speaks before anything is
# released, from public sizes alone: the planner has tried plans on simulated data sets, compared
# with what each hospital could do alone, and names what would make joining pay. The second speaks
# afterwards, from what was released alone.  Neither has seen a record. So a model may be better
# than they dare to say, as this one is. Other draws of the same noise are worse, as the figure
# below shows, and nobody outside could tell them apart without spending more privacy to find out.

# %%
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always", PrivacyUtilityWarning)
    tight = PDMLClassifier(**SETTINGS, features_epsilon=0.1, random_state=0).fit(x, y)
for text in [*(f"{one.category.__name__}: {one.message}" for one in told), *tight.doubts_]:
    print(textwrap.fill(text, 76))
print(f"right on {tight.score(x_test, y_test):.1%} of the records that were held back")

# %% [markdown]
# ## What the budget buys
#
# The same with other limits for the features, five trainings each: one training is one draw of the
# noise, and with few records draws differ.

# %%
SEEDS = 5
warnings.simplefilter("ignore", PrivacyUtilityWarning)  # what it warns of is measured here
loose = PDMLClassifier(**SETTINGS, features_epsilon=3, random_state=0).fit(x, y)
LIMITS = {0.1: tight, 1.0: fitted, 3.0: loose}
right = []
for limit, planned in LIMITS.items():
    again = {**SETTINGS, "plan": planned.proposal_.plan}
    right.append(
        [
            PDMLClassifier(**again, random_state=seed).fit(x, y).score(x_test, y_test)
            for seed in range(SEEDS)
        ]
    )
    print(f"features ε = {limit:g}: {np.mean(right[-1]):.1%} right")

figure, axes = plt.subplots(figsize=(7, 4))
axes.plot(list(LIMITS), right, ".", color="tab:blue", alpha=0.5)
axes.plot(
    list(LIMITS), np.mean(right, axis=1), color="tab:blue", marker="o", label="private, five draws"
)
axes.axhline(unprotected, color="black", linestyle="--", label="without any protection")
axes.axhline(majority, color="grey", linestyle=":", label="majority-class baseline")
axes.set_xscale("log")
axes.set_xticks(list(LIMITS), [f"{limit:g}" for limit in LIMITS])
axes.minorticks_off()
axes.set(xlabel="limit for features, ε", ylabel="right on new records", ylim=(0.4, 1))
axes.legend(frameon=False, loc="lower right")
figure.tight_layout()
figure.savefig("own_table.svg")

# %% [markdown]
# ## Keep it, use it
#
# The file holds the coefficients, how records become rows, the plan and the ledger. It is made of
# noisy releases alone, so whoever gets it learns no more than the ledger says.

# %%
fitted.model_.save("model.json")
model = load_model("model.json")
print(model.predict(model.features(x_test))[:5])

# %% [markdown]
# On a file, from the command line: [a table on your own machine](../guide/tutorial-table.md). In
# scikit-learn without pdml, as ONNX, or in MLflow: [use a model elsewhere](../guide/export.md).
