"""A table of people's records: trained on, predicted, evaluated."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from pdml import _validate
from pdml._types import IntArray
from pdml.accounting import Budget
from pdml.encoding.encoder import Attribute
from pdml.encoding.maps import FeatureMap
from pdml.encoding.pipeline import Pipeline
from pdml.errors import InvalidInput
from pdml.mechanisms.count_release import BINS, Counting
from pdml.mechanisms.label_flip import LabelFlip
from pdml.mechanisms.randomness import Source
from pdml.model.evaluation import Evaluation, evaluate
from pdml.model.model import Features, Model
from pdml.model.private_evaluation import CountedEvaluation, count
from pdml.planning.resolve_plan import AUTO
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation.simulation import OnRound, SimulationSettings, Topology, simulate
from pdml.simulation.table_records import Records, read_labelled, read_records, split_test
from pdml.tables import Readable, columns, open_table
from pdml.tables.columns import Roles
from pdml.training.result import TrainingResult, measure

SERVERS = 10  # where nobody says how many


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
) -> TrainingResult:
    """Train on a table, with simulated people and servers in one process.

    Every label is randomised before the training sees it; the servers then train together and add
    noise to what they send.

    Parameters
    ----------
    table : Table, path or DataFrame
        One row for each person (.csv, .csv.gz or .parquet).
    label : str
        The column to predict.
    attributes : iterable of Number or Category
        Declared ranges, typical values and levels of the columns to predict from.
    from_data : bool
        Take what is not declared from the data: a release no noise protects.
    classes : sequence of str
        The classes of the label, in order; by default those in the data, which is such a release.
    ignore : sequence of str
        Columns that are no features.
    missing : sequence of str
        Columns in which cells may hold no value: one more level of a category, and a feature of its
        own beside a number, which then counts as typical. The model predicts such records, too.
    missing_values : sequence of str
        What stands for no value there, such as "NA" or "?"; an empty cell and a null always do.
    maps : sequence of maps
        Further features, made of the others: `pdml.encoding.maps`.
    epsilon_column : str
        The column of each person's own ε.
    server_column : str
        The column that says which server each record belongs to; by default they are assigned at
        random.
    test : Table, path or DataFrame, optional
        Records to measure the accuracy on.
    test_fraction : float
        Or the share of the table that is held back for it.
    epsilon, features_epsilon, delta, colluding, plan, budget, topology, engine, randomness, \
random_state, open_ended, local_models, diagnostics
        As `PDMLClassifier` has them.
    norm_bound : float
        Records longer than this are clipped to it, one by one; every guarantee rests on it.
    intercept : bool
        Whether every row has a constant.
    n_servers : int, optional
        How many servers the records are assigned to, by default 10; as many as the server column
        names, if there is one.
    on_round : callable, optional
        Hears (rounds done, of how many), for progress bars.

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
    - One process plays every party and draws simulated noise: the ledger says what a deployment
      with these settings would give away, while this run itself protects nobody.

    Examples
    --------
    >>> from pdml.encoding.encoder import Category, Number
    >>> age = Number(name="age", low=18, high=100, typical=45, spread=20)
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
        attributes=attributes,
        from_data=from_data,
        classes=classes,
        missing=missing,
        missing_values=missing_values,
        maps=maps,
    )
    training_records, tested = people, None
    if test is not None:
        tested = read_labelled(people, open_table(test), label)
    elif test_fraction:
        training_records, tested = split_test(people, test_fraction, random_state)
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
        Pipeline(
            encoder=training_records.encoder, norm_bound=norm_bound, intercept=bool(intercept)
        ),
        training_records.x,
        training_records.codes,
        epsilons=training_records.epsilons,
        servers=training_records.owners,
        on_round=on_round,
        names=people.names,
        inputs={"classes": people.classes, "label": label},
    )
    result = training.result.replaced(
        leaks=(*training.result.leaks, *people.leaks),
        label_epsilon=epsilon,
        source=read.source,
        epsilon_column=epsilon_column,
    )
    if tested is None:
        return result
    known = (Features(training_records.x), training_records.codes)
    return measure(result, Features(tested.x), tested.codes, training_records=known)


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
    return model.prediction_columns(model.features(open_table(table)), proba=proba)


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
        How often it is right, where it is not, and how sure it was. Computed without noise: keep it
        inside, or release it with noise: `evaluate_privately`.

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
        Into how many bins the model's confidence falls. 1 leaves the confusion matrix alone, with
        less noise in the accuracy.
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
    - The number of records is told as it is.
    """
    counting = Counting.within(epsilon, delta, classes=len(model.classes), bins=bins)
    return count(model, *labelled_rows(model, table, label), counting, source=source)


def labelled_rows(model: Model, table: Readable, label: str = "") -> tuple[Features, IntArray]:
    """Records as a model has read them, and of each the index of its true class."""
    read, name = open_table(table), label or model.label
    if not name:
        raise InvalidInput(
            "label must name a column, got nothing: the model does not say which", setting="label"
        )
    truth = columns.positions(read, name, model.classes, what="the classes", private=True)
    return model.features(read), truth


def _refuse_early(epsilon: float | None, test: Readable | None, fraction: float) -> None:
    """What is wrong whatever the table holds is said before it is read."""
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


def _server_count(records: Records, n_servers: int | None) -> int:
    """As many as the server column names, or as are asked for."""
    n = len(records.names) or (SERVERS if n_servers is None else n_servers)
    if n_servers not in (None, n):
        raise InvalidInput(
            f"n_servers must be left out or be {n}, as many as the server column names, got "
            f"{n_servers}",
            setting="n_servers",
        )
    return n
