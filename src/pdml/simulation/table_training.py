"""A table of people's records: trained on, predicted, evaluated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget
from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.encoding import declarations
from pdml.encoding.encoder import Attribute, Encoder
from pdml.encoding.maps import FeatureMap
from pdml.encoding.pipeline import Pipeline
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.count_release import BINS, Counting
from pdml.mechanisms.label_flip import LabelFlip
from pdml.mechanisms.randomness import Source
from pdml.model.evaluation import Evaluation, evaluate
from pdml.model.model import Features, Model
from pdml.model.private_evaluation import CountedEvaluation, count
from pdml.planning.resolve_plan import AUTO
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation.simulation import FitContext, OnRound, SimulationSettings, Topology, simulate
from pdml.tables import Frame, Readable, Table, columns, open_table, read_table
from pdml.tables.columns import Roles
from pdml.training.result import TrainingResult, measure

CLASSES_LEAK = (
    "the set of classes was taken from the label column (--classes declares it), also a class that "
    "one person alone has: a release no noise protects"
)
SERVERS = 10  # by default


def train_table(
    table: Readable,
    label: str,
    *,
    attributes: Iterable[Attribute] = (),
    from_data: bool = False,
    classes: Sequence[str] = (),
    ignore: Sequence[str] = (),
    missing: Sequence[str] = (),
    missing_values: Sequence[str] = (),
    maps: Sequence[FeatureMap] = (),
    epsilon_column: str = "",
    server_column: str = "",
    test: Readable | None = None,
    test_fraction: float = 0.0,
    epsilon: float | None = 1.0,
    features_epsilon: float | None = 1.0,
    delta: float = 1e-6,
    colluding: int | None = None,
    plan: TrainingPlan | str | Mapping[str, Any] = AUTO,
    budget: Budget | None = None,
    norm_bound: float = 1.0,
    intercept: bool = True,
    n_servers: int | None = None,
    topology: Topology = "random",
    engine: str = "local",
    randomness: str = "simulated",
    random_state: int | None = None,
    open_ended: bool = False,
    local_models: bool = False,
    diagnostics: bool = False,
    on_round: OnRound | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> TrainingResult:
    """Train on a table, with simulated people and servers in one process.

    Parameters
    ----------
    table : Table, path or DataFrame
        One row for each person (.csv, .csv.gz or .parquet).
    label : str
        The column to predict.
    attributes : iterable of Number or Category
        Declared ranges, averages and levels of the columns to predict from.
    from_data : bool
        Take what is not declared from the data: a release no noise protects.
    classes : sequence of str
        The classes of the label, in order; by default those in the data, which is such a release.
    ignore : sequence of str
        Columns that are no features.
    missing : sequence of str
        Columns in which cells may hold no value: one more level of a category, and a feature of its
        own beside a number, which then counts as its average.
    missing_values : sequence of str
        What stands for no value there beside empty cells and nulls, such as "NA" or "?".
    maps : sequence of maps
        Further features, made of the others: `pdml.encoding.maps`.
    epsilon_column : str
        The column of each person's own ε.
    server_column : str
        The column of each record's server; by default they are assigned at random.
    test : Table, path or DataFrame, optional
        Records to measure the accuracy on.
    test_fraction : float
        Or the share of the table that is kept for it.
    epsilon, features_epsilon, delta, colluding, plan, budget, topology, engine, randomness, \
random_state, open_ended, local_models, diagnostics
        As `PDMLClassifier` has them.
    norm_bound : float
        Records longer than this are clipped to it, one by one; every guarantee rests on it.
    intercept : bool
        Whether every row has a constant.
    n_servers : int, optional
        By default 10, or as many as the server column names.
    on_round : callable, optional
        Hears (rounds done, of how many), for progress bars.
    clock : Clock
        Says the day that the model names.

    Returns
    -------
    TrainingResult
        With ``model``, ``ledger``, ``history`` and ``accuracy``.

    Raises
    ------
    UndeclaredColumns
        If a column has neither range nor levels; its ``columns`` say which.
    DataError
        If the table cannot be used as it is: with the row, never with somebody's label.
    InvalidInput
        If a setting lies outside its domain.

    Guarantees
    ----------
    - ``model`` and ``history`` are functions of noisy releases and public settings, except for what
      ``model.provenance["leaks"]`` names.
    - The ledger says what a deployment with these settings would give away; this run itself, one
      process that plays every party, protects nobody.

    Examples
    --------
    >>> from pdml.encoding.encoder import Category, Number
    >>> age = Number(name="age", low=18, high=100, average=45, spread=20)
    >>> sex = Category(name="sex", levels=("f", "m"))
    >>> trained = train_table("people.csv", "diagnosis", attributes=[age, sex])
    >>> trained.model.save("model.json")
    """
    _refuse_early(epsilon, test, test_fraction)
    read = open_table(table)
    roles = Roles(label=label, epsilon=epsilon_column, server=server_column, ignored=tuple(ignore))
    people = read_records(
        read,
        roles,
        classes,
        attributes=attributes,
        from_data=from_data,
        missing=missing,
        missing_values=missing_values,
        maps=maps,
    )
    trained, tested = people, None
    if test is not None:
        tested = read_labelled(people, open_table(test), label)
    elif test_fraction:
        trained, tested = split_test(people, test_fraction, random_state)
    settings = SimulationSettings(
        epsilon=epsilon,
        features_epsilon=features_epsilon,
        delta=delta,
        colluding=colluding,
        plan=plan,
        budget=budget,
        n_servers=_server_count(people, n_servers),
        topology=topology,
        classes=range(len(people.classes)),
        engine=engine,
        randomness=randomness,
        random_state=random_state,
        open_ended=open_ended,
        local_models=local_models,
        diagnostics=diagnostics,
    )
    training = simulate(
        settings,
        Pipeline(encoder=people.encoder, norm_bound=norm_bound, intercept=bool(intercept)),
        trained.x,
        trained.codes,
        epsilons=trained.epsilons,
        servers=trained.owners,
        on_round=on_round,
        names=people.names,
        inputs={"classes": people.classes, "label": label},
        context=FitContext(clock=clock),
    )
    result = training.result.replaced(
        leaks=(*training.result.leaks, *people.leaks),
        label_epsilon=epsilon,
        source=read.source,
        epsilon_column=epsilon_column,
    )
    if tested is None:
        return result
    training_records = (Features(trained.x), trained.codes)
    return measure(result, Features(tested.x), tested.codes, training_records=training_records)


def predict_table(model: Model, table: Readable, *, proba: bool = False) -> dict[str, NDArray[Any]]:
    """Predict the class of each record, in the order of the table.

    Parameters
    ----------
    model : Model
        Trained on a table, or on named columns.
    table : Table, path or DataFrame
        With the columns of the training; others are passed over.
    proba : bool
        Also the probability of every class.

    Returns
    -------
    dict of str to array
        "prediction", and "probability NAME" for each class: `pdml.tables.write_predictions` takes
        it.

    Raises
    ------
    DataError
        If a column is missing, or holds what the model has no feature for.
    """
    return model.prediction_columns(model.features(_named(table)), proba=proba)


def evaluate_table(model: Model, table: Readable, label: str = "") -> Evaluation:
    """Measure a model on records whose labels are known.

    Parameters
    ----------
    model : Model
        As for `predict_table`.
    table : Table, path or DataFrame
        With the columns of the training, and the label's.
    label : str
        The column of labels, by default the model's own.

    Returns
    -------
    Evaluation
        How often it is right, where it is not, and how sure it was. Computed without noise: do not
        publish it, or release it with noise by `evaluate_privately`.

    Raises
    ------
    DataError
        If a label is none of the model's classes: with its row, never with the label.
    InvalidInput
        If nobody says which column holds the labels.
    """
    return evaluate(model, *labelled_rows(model, table, label))


def evaluate_privately(
    model: Model,
    table: Readable,
    label: str = "",
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    bins: int = BINS,
    source: Source | None = None,
) -> CountedEvaluation:
    """Measure a model on private records whose labels are known, and release the figures with
    noise.

    Parameters
    ----------
    model, table, label
        As for `evaluate_table`; true labels, which whoever calls this has.
    epsilon, delta : float
        What the release may tell about one record, its label included.
    bins : int
        Of the model's confidence; 1 leaves the confusion matrix alone, with less noise.
    source : Source, optional
        Of the noise; by default the operating system's entropy.

    Returns
    -------
    CountedEvaluation
        Accuracy and recall with 95% intervals, and what they tell of the people
        (`CountedEvaluation.ledger`, `pdml.model.private_evaluation.privacy_charge`).

    Raises
    ------
    DataError, InvalidInput
        As for `evaluate_table`, and for ε or δ not above 0.

    Guarantees
    ----------
    - (``epsilon``, ``delta``) for replacing one record, against whoever sees the figures and the
      model; each call is one more release, and their costs add up.
    - The number of records is released as it is.
    """
    counting = Counting.within(epsilon, delta, classes=len(model.classes), bins=bins)
    return count(model, *labelled_rows(model, table, label), counting, source=source)


def labelled_rows(model: Model, table: Readable, label: str = "") -> tuple[Features, IntArray]:
    """Records as a model reads them, and the indices of their true classes."""
    table, name = _named(table), label or model.label
    if not name:
        raise InvalidInput(
            "label must name a column, got nothing: the model does not say which", setting="label"
        )
    truth = columns.positions(
        open_table(table), name, model.classes, what="the classes", private=True
    )
    return model.features(table), truth


def _named(table: Readable) -> Readable:
    """Records with named columns: a file is read once, a DataFrame as the model wants it."""
    return table if Frame.of(table) is not None else open_table(table)


def _refuse_early(epsilon: float | None, test: Readable | None, fraction: float) -> None:
    """What is wrong whatever the table holds."""
    if epsilon is not None:
        _ = LabelFlip(epsilon).threshold
    why = "something must be left to train on"
    _validate.real("test_fraction", fraction, low=0, high=1, open_high=True, why=why)
    if test is not None and fraction:
        raise InvalidInput(
            "test_fraction must be left out beside a table of test records: what is measured on "
            "comes from one place",
            setting="test_fraction",
        )


# Records of a table. A label is never shown: errors name its row alone.


@dataclass(frozen=True, kw_only=True)
class Records:
    """Encoded records with their labels as indices into ``classes``."""

    encoder: Encoder
    classes: tuple[Any, ...]
    x: Matrix  # as `Pipeline.rows` takes it
    codes: IntArray
    epsilons: Array | None = None
    owners: IntArray | None = None  # each record's server
    names: tuple[str, ...] = ()  # of the servers, if the table names them
    leaks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: IntArray) -> "Records":
        epsilons = None if self.epsilons is None else self.epsilons[rows]
        owners = None if self.owners is None else self.owners[rows]
        return replace(
            self, x=self.x[rows], codes=self.codes[rows], epsilons=epsilons, owners=owners
        )


def read_records(
    table: Table,
    roles: Roles,
    classes: Sequence[str] = (),
    *,
    attributes: Iterable[Attribute] = (),
    **settings: Any,
) -> Records:
    """Every record of a table, encoded by declarations and ``settings`` of `encoder_for`."""
    features, declared = roles.features(table), declarations.by_name(attributes)
    encoder, guessed = declarations.encoder_for(table, declared, features=features, **settings)
    class_names, codes = columns.labels(table, roles.label, classes)
    names, owners = columns.owners(table, roles.server) if roles.server else ((), None)
    leaks = ([declarations.leak(guessed)] if guessed else []) + ([] if classes else [CLASSES_LEAK])
    return Records(
        encoder=encoder,
        classes=class_names,
        x=Pipeline(encoder=encoder).read(table),
        codes=codes,
        epsilons=columns.epsilons(table, roles.epsilon) if roles.epsilon else None,
        owners=owners,
        names=names,
        leaks=tuple(leaks),
    )


def public_records(
    path: str | Path, label: str, *, norm_bound: float = 1.0
) -> tuple[Matrix, IntArray, int]:
    """Public records as they would be trained on; ranges, levels and classes come from them."""
    read = read_records(read_table(path), Roles(label=label), from_data=True)
    rows, _ = Pipeline(encoder=read.encoder, norm_bound=norm_bound).rows(read.x)
    return rows, read.codes, len(read.classes)


def read_labelled(records: Records, table: Table, label: str) -> Records:
    """Records of another table, by the same declarations and classes."""
    codes = columns.positions(table, label, records.classes, what="the classes", private=True)
    return replace(records, x=Pipeline(encoder=records.encoder).read(table), codes=codes)


def split_test(records: Records, fraction: float, seed: int | None) -> tuple[Records, Records]:
    """Records to train on, and a random share of them to measure on."""
    # independent of all other randomness of the same seed
    source = np.random.default_rng(None if seed is None else [seed, 0x7E57])
    order = source.permutation(len(records))
    test_size = round(fraction * len(records))
    if not 0 < test_size < len(records):
        raise InvalidInput(
            f"test_fraction {fraction:g} of {len(records)} records leaves none to measure "
            "on or none to train on",
            setting="test_fraction",
        )
    rest = records.take(np.sort(order[test_size:]))
    servers = np.arange(len(records.names))
    if rest.owners is not None and (empty := np.setdiff1d(servers, rest.owners)).size:
        raise DataError(
            f"test_fraction {fraction:g} held back every record of server "
            f"{records.names[int(empty[0])]!r}: hold back fewer, or draw with another seed",
            setting="test_fraction",
        )
    return rest, records.take(np.sort(order[:test_size]))


def _server_count(records: Records, n_servers: int | None) -> int:
    n = len(records.names) or (SERVERS if n_servers is None else n_servers)
    if n_servers not in (None, n):
        raise InvalidInput(
            f"n_servers must be left out or be {n}, as many as the server column names, got "
            f"{n_servers}",
            setting="n_servers",
        )
    return n
