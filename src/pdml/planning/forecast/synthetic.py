"""Records to forecast a training on: public ones of the same kind, or up to 24 simulated data sets.

Where nothing is known of the data no single population would be honest: the same sizes suit some
data far better than others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf

import numpy as np

from pdml._types import Array, IntArray, Matrix
from pdml.encoding import scaling
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import Stream
from pdml.numerics import coded_rows
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX, Loss
from pdml.numerics.admm.solver import PrimalSolver
from pdml.numerics.coded_rows import Block
from pdml.planning.forecast import yardstick
from pdml.planning.sizes import PlannedAnswer, Sizes, blocks_of

WIDEST = 300  # columns of a simulated data set: wider data are forecast as if they had so many
_TESTED = 800  # records to judge by
_TRAINED, _PER_COLUMN, _MOST = 1500, 30, 6000  # and to train on: so many, or more of many columns
_SIGNALS = ("in all columns", "in few columns", "in hidden traits", "classes are clusters")
_MARGINS = (0.5, 1.5, 4.0)  # how clear: from labels that are nearly luck to nearly certain ones
_COLUMNS = ("one common factor", "many factors", "one-hot blocks")
_MANY = ((80, 24), (160, 12))  # up to so many columns, so many populations; else 4
_FEWEST = 12  # public records
_GOLDEN = (5**0.5 - 1) / 2  # its multiples fill an interval evenly, whatever kinds seeds stand for
_RIDGE = 1e-3  # of the unprotected model, per record


@dataclass(frozen=True, kw_only=True)
class Population:
    """Records of norm <= 1 with their constant column: some to train on, others to judge by.

    All have true answers, also where ``answers`` are randomised before they are trained on.
    """

    x: Matrix
    y: IntArray
    test_x: Matrix
    test_y: IntArray
    classes: int
    answers: tuple[PlannedAnswer, ...] = ()

    @property
    def loss(self) -> Loss:
        """Of the unprotected model."""
        return LOGISTIC if self.classes == 2 else SOFTMAX

    @cached_property
    def label_moment(self) -> Array:
        """q (C, d), of true labels; for K > 2 of codes about their mean."""
        codes = labels.codes(self.y, inf, self.classes)
        centred = codes if self.classes == 2 else codes - 1 / self.classes
        return labels.label_mean(self.x, centred, self.loss)

    @cached_property
    def square_moment(self) -> Array:
        """S (d, d)."""
        return np.asarray(rows.gram(self.x) / self.x.shape[0])

    @cached_property
    def reported_moment(self) -> Array:
        """E[x̂x̂ᵀ] of what devices report: S itself where no answer is randomised."""
        if not self.answers:
            return self.square_moment
        mean = np.asarray(self.x.mean(axis=0)).ravel()
        return reported_moment(self.square_moment, mean, self.answers)

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues of E[x̂x̂ᵀ], none below 0, and their vectors."""
        values, vectors = np.linalg.eigh(self.reported_moment)
        return np.maximum(values, 0.0), vectors

    @cached_property
    def powers(self) -> Array:
        """E of true records' squares along those vectors."""
        values, vectors = self.spectrum
        if not self.answers:
            return values
        return np.asarray(np.einsum("dk,dk->k", vectors, self.square_moment @ vectors))

    @cached_property
    def unprotected(self) -> Array:
        """Weights (C, d) of a slight ridge regression on true labels and answers, whatever scale
        randomisation leaves to answers.
        """
        codes, x, back = labels.codes(self.y, inf, self.classes), self.x, np.ones(self.x.shape[1])
        for answer in self.answers:
            back[answer.block.columns] = answer.loudest
        if self.answers:
            x = x * back
        q = labels.label_mean(x, codes, self.loss)
        weights, _ = PrimalSolver(x, self.loss, _RIDGE, codes=len(q)).solve(q[None], 1e-6)
        return np.asarray(weights[0] * back)

    @cached_property
    def _reference(self) -> IntArray:
        return choices(self.test_x @ self.unprotected.T)

    def score(self, weights: Array) -> tuple[float, ...]:
        """What a model is worth on the test records, by every `Yardstick`."""
        return self._score(np.asarray(self.test_x @ weights.T))

    def score_majority(self) -> tuple[float, ...]:
        """`score` of the majority-class baseline, which puts nobody before anybody."""
        margins = np.zeros((len(self.test_y), max(self.classes, 2)))
        margins[:, np.bincount(self.y, minlength=self.classes).argmax()] = 1.0
        return self._score(margins[:, 1:] - 0.5 if self.classes == 2 else margins)

    def _score(self, margins: Array) -> tuple[float, ...]:
        by_class = yardstick.score_classes(choices(margins), self.test_y, self._reference)
        classes = range(self.classes) if self.classes > 2 else (1,)
        orders = [
            yardstick.score_order(score, self.test_y == k)
            for k, score in zip(classes, margins.T, strict=True)
        ]
        return (*by_class, *np.mean(orders, axis=0).tolist())


def choices(margins: Array) -> IntArray:
    """The class that margins (m, C) choose."""
    classes = margins[:, 0] > 0 if margins.shape[1] == 1 else margins.argmax(axis=1)
    return np.asarray(classes, dtype=np.int64)


def populations(
    sizes: Sizes, like: tuple[Matrix, IntArray] | None = None
) -> tuple[Population, ...]:
    """The data sets to forecast on."""
    if like is None:
        answers = _shift_answers(sizes)
        width = answers[-1].block.columns.stop + 1 if answers else min(sizes.width, WIDEST)
        trained = min(max(_TRAINED, _PER_COLUMN * width), _MOST)
        kinds = width, sizes.classes, sizes.prevalence, answers
        return _first_of_populations(*kinds, trained, min(trained, sum(sizes.records)))
    return (_public(sizes, *like),)


def _shift_answers(sizes: Sizes) -> tuple[PlannedAnswer, ...]:
    """Answers where they stand beside as many other columns as a simulated data set has."""
    if not sizes.answers:
        return ()
    first = sizes.answers[0].block.start
    left = min(first, max(0, sizes.width - WIDEST))  # columns left out
    blocks = (replace(block, start=block.start - left) for block in blocks_of(sizes.answers))
    pairs = zip(sizes.answers, blocks, strict=True)
    return tuple(replace(answer, block=block) for answer, block in pairs)


def _public(sizes: Sizes, x: Matrix, y: IntArray) -> Population:
    clipped, _ = rows.clip(rows.as_rows(x), sizes.norm_bound)
    targets = np.asarray(y, dtype=np.int64)
    if clipped.shape != (len(targets), sizes.width) or len(targets) < _FEWEST:
        must = f"like must be at least {_FEWEST} records of width {sizes.width} and as many labels"
        got = f"shape {clipped.shape} and {len(targets)}"
        raise InvalidInput(f"{must}, got {got}", setting="like")
    if targets.min() < 0 or targets.max() >= sizes.classes or (targets == targets[0]).all():
        must = f"like must have labels of several classes, each an index below {sizes.classes}"
        raise InvalidInput(must, setting="like")
    order = np.random.default_rng(0).permutation(len(targets))
    scaled = rows.scale(clipped, np.full(len(targets), 1 / sizes.norm_bound))
    test, kept = order[: len(targets) // 3], order[len(targets) // 3 :][: sum(sizes.records)]
    return Population(
        x=rows.as_rows(scaled[kept]),
        y=targets[kept],
        test_x=rows.as_rows(scaled[test]),
        test_y=targets[test],
        classes=sizes.classes,
        answers=sizes.answers,
    )


Prevalence = tuple[float, float] | None
"""Between which shares of the people the second of two classes may lie."""


@lru_cache(maxsize=4)
def _first_of_populations(
    width: int,
    classes: int,
    prevalence: Prevalence,
    answers: tuple[PlannedAnswer, ...],
    trained: int,
    people: int,
) -> tuple[Population, ...]:
    """So many of each data set's people: who trains with more has all of those, and others."""
    whole = _generate_populations(width, classes, prevalence, answers, trained)
    return tuple(replace(one, x=one.x[:people], y=one.y[:people]) for one in whole)


@lru_cache(maxsize=2)  # those with the answers of now, and with other epsilons
def _generate_populations(
    width: int,
    classes: int,
    prevalence: Prevalence,
    answers: tuple[PlannedAnswer, ...],
    trained: int,
) -> tuple[Population, ...]:
    many = next((count for widest, count in _MANY if width <= widest), 4)
    many = many if classes == 2 else min(many, 12)  # a model of more rows takes longer
    kinds = width, classes, prevalence, answers, trained
    return tuple(_population(*kinds, seed) for seed in range(many))


def _population(
    width: int,
    classes: int,
    prevalence: Prevalence,
    answers: tuple[PlannedAnswer, ...],
    trained: int,
    seed: int,
) -> Population:
    """One shape: any twelve in a row have every kind of signal with every clearness. People,
    answers and classes are the same however answers are randomised.
    """
    rng = np.random.default_rng(seed)
    signal, margin = _SIGNALS[seed % 4], _MARGINS[seed % 3]
    columns = _COLUMNS[(seed + seed // 12) % 3]
    many, wide = trained + _TESTED, width - 1
    traits = rng.normal(size=(many, max(1, wide // 3) if columns == "many factors" else 1))
    x = _correlate(traits, wide, rng)
    share = None if prevalence is None else np.interp(seed * _GOLDEN % 1, (0, 1), prevalence)
    y = rng.integers(0, classes, many) if share is None else (rng.random(many) < share).astype(int)
    if signal == "classes are clusters":
        apart = rng.normal(size=(classes, wide))
        x += margin * (apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9))[y]
    clear = answers[0].block.start if answers else wide
    if columns == "one-hot blocks":
        x[:, :clear] = _indicator_columns(x[:, :clear], rng)
    levels = [_draw_levels(x[:, answer.block.columns], rng) for answer in answers]
    for block, level in zip(blocks_of(answers), levels, strict=True):
        loud = 1.0 if columns == "one-hot blocks" else scaling.level_mass(block.levels) ** -0.5
        x[:, block.columns] = loud * scaling.centred(level, block.levels)  # as loud as others
    if signal != "classes are clusters":
        inputs = traits if signal == "in hidden traits" else x
        weights = rng.normal(size=(inputs.shape[1], classes))
        if signal == "in few columns":
            weights *= rng.random(size=(wide, 1)) < max(0.2, 2 / max(wide, 1))
        scores = inputs @ weights
        scores *= margin / max(float(scores.std()) if scores.size else 0.0, 1e-9)
        scores += rng.normal(size=classes) * 0.5 + rng.gumbel(size=scores.shape)
        y = scores.argmax(axis=1)
        if share is not None:
            ahead = scores[:, 1] - scores[:, 0]
            y = (ahead > np.quantile(ahead, 1 - share)).astype(int)
    prepared = _assemble_rows(x[:, :clear], levels, answers)
    return Population(
        x=prepared[:trained],
        y=y[:trained].astype(np.int64),
        test_x=prepared[trained:],
        test_y=y[trained:].astype(np.int64),
        classes=classes,
        answers=answers,
    )


def _assemble_rows(
    clear: Array, levels: Sequence[IntArray], answers: tuple[PlannedAnswer, ...]
) -> Array:
    """Rows with their constant, of norm at most 1: codes have the room of the study."""
    blocks = blocks_of(answers)
    longest = scaling.room(blocks) if blocks else 1.0
    prepared, _ = rows.clip(rows.append_bias(clear), longest, in_place=True)
    codes = [encode_levels(level, block) for level, block in zip(levels, blocks, strict=True)]
    dense = np.asarray(prepared)
    return np.hstack([dense[:, :-1], *codes, dense[:, -1:]]) if codes else dense


def _correlate(traits: Array, width: int, rng: np.random.Generator) -> Array:
    """Columns of variance 1, each with its own share of the traits."""
    loadings = rng.normal(size=(traits.shape[1], width))
    loadings /= np.sqrt(np.sum(loadings**2, axis=0, keepdims=True))
    shared = rng.beta(1.2, 1.2, size=width)
    columns = rng.normal(size=(len(traits), width))
    columns *= np.sqrt(1 - shared)
    columns += (traits @ loadings) * np.sqrt(shared)
    return columns


def _indicator_columns(latent: Array, rng: np.random.Generator) -> Array:
    """Blocks of two to six columns, of which the largest entry becomes 1 and the others 0."""
    result, start, width = np.zeros_like(latent), 0, latent.shape[1]
    while start < width:
        stop = min(width, start + int(rng.integers(2, 7)))
        result[np.arange(len(latent)), start + _draw_levels(latent[:, start:stop], rng)] = 1.0
        start = stop
    return result


def _draw_levels(latent: Array, rng: np.random.Generator) -> IntArray:
    """The level of the largest entry; some answers are rarer than others."""
    return np.asarray((latent + rng.normal(size=latent.shape[1])).argmax(axis=1))


def encode_levels(levels: IntArray, block: Block, weight: float = 1.0) -> Array:
    """The columns of a block for people at these levels; with weight 1 answers as they are."""
    return np.asarray(scaling.centred(levels, block.levels) * (block.scale * weight))


def randomise_rows(x: Array, answers: Sequence[PlannedAnswer], stream: Stream) -> Array:
    """Rows of true answers as devices would report them, each randomised by itself."""
    rows = np.array(x, dtype=float)
    for answer in answers:
        block = answer.block
        true = rows[:, block.columns].argmax(axis=1)
        levels = flip_labels(true, np.full(len(x), answer.epsilon), block.levels, stream)
        rows[:, block.columns] = encode_levels(levels, block, answer.weight)
    return rows


def reported_moment(square: Array, mean: Array, answers: Sequence[PlannedAnswer]) -> Array:
    """E[x̂x̂ᵀ] of reported rows, which exceeds that of true ones where a code meets itself: a
    reported level has the distribution 1/L + (p - 1/L)/w, and its code is w times as long.
    """
    moment = square.copy()
    for answer in answers:
        block_moment = coded_rows.unbiased(square, mean / answer.weight, 1.0, [answer.block])
        at = answer.block.columns
        moment[at, at] = answer.weight**2 * block_moment[at, at]
    return moment
