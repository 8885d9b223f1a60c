"""A table of people's records: trained on, predicted, evaluated."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from numpy.typing import NDArray

from pdml import _validate
from pdml._types import IntArray
from pdml.encoding.encoder import Attribute
from pdml.encoding.maps import FeatureMap
from pdml.encoding.pipeline import Pipeline
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import LabelFlip
from pdml.mechanisms.randomness import Source
from pdml.model.evaluation import Evaluation, evaluate
from pdml.model.model import Features, Model
from pdml.model.private_evaluation import CountedEvaluation, count
from pdml.simulation.simulation import Simulation
from pdml.simulation.table_records import Records, read_labelled, read_records, split_test
from pdml.simulation.training_result import TrainingResult, add_evaluation, release_model
from pdml.tables import Table, columns, read_table
from pdml.tables.roles import Roles
from pdml.training.count_release import BINS, Counting

SERVERS = 10  # where nobody says how many

Readable = Table | str | PathLike[str]


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
    **settings: Any,
) -> TrainingResult:
    """Train on a table, with simulated people and servers in one process.

    Every label is randomised before the training sees it; the servers then train together and add
    noise to what they send.

    Parameters
    ----------
    table : Table or path
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
        The column that says which server each record belongs to; by default they are dealt out.
    test : Table or path, optional
        Records to measure the accuracy on.
    test_fraction : float
        Or the share of the table that is held back for it.
    **settings
        Of `PDMLClassifier`: ``epsilon``, ``n_servers``, ``plan``, ``random_state`` and so on.

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
    _refuse_early(settings, test, test_fraction)
    read = _read(table)
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
        tested = read_labelled(people, _read(test), label)
    elif test_fraction:
        training_records, tested = split_test(people, test_fraction, settings.get("random_state"))
    done = _simulated(training_records, settings)
    trained = TrainingResult(
        simulation=done,
        model=release_model(
            done,
            leaks=people.leaks,
            classes=people.classes,
            label=label,
        ),
        servers=people.names or tuple(f"server {i + 1}" for i in range(done.graph_.n)),
        source=read.source,
        epsilon_column=epsilon_column,
    )
    return (
        trained
        if tested is None
        else add_evaluation(
            trained,
            Features(tested.x),
            tested.codes,
            training_records=(Features(training_records.x), training_records.codes),
        )
    )


def predict_table(model: Model, table: Readable, *, proba: bool = False) -> dict[str, NDArray[Any]]:
    """Predict the class of each record, in the order of the table.

    Parameters
    ----------
    model : Model
        Trained on a table, or on named columns.
    table : Table or path
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
    return model.prediction_columns(model.features(_read(table)), proba=proba)


def evaluate_table(model: Model, table: Readable, label: str = "") -> Evaluation:
    """Measure a model on records whose labels are known.

    Parameters
    ----------
    model : Model
        As for `predict_table`.
    table : Table or path
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
    read, name = _read(table), label or model.label
    if not name:
        raise InvalidInput(
            "label must name a column, got nothing: the model does not say which", setting="label"
        )
    truth = columns.positions(read, name, model.classes, what="the classes", private=True)
    return model.features(read), truth


def _read(table: Readable) -> Table:
    return table if isinstance(table, Table) else read_table(table)


def _refuse_early(settings: dict[str, Any], test: Readable | None, fraction: float) -> None:
    """What is wrong whatever the table holds is said before it is read."""
    if settings.get("epsilon") is not None:
        _ = LabelFlip(settings["epsilon"]).threshold
    why = "something must be left to train on"
    _validate.real("test_fraction", fraction, low=0, high=1, open_high=True, why=why)
    if test is not None and fraction:
        raise InvalidInput(
            "test_fraction must be left out beside a table of test records: what is measured on "
            "comes from one place",
            setting="test_fraction",
        )


def _simulated(records: Records, settings: dict[str, Any]) -> Simulation:
    n_servers = settings.get("n_servers")
    n = len(records.names) or (SERVERS if n_servers is None else n_servers)
    if n_servers not in (None, n):
        raise InvalidInput(
            f"n_servers must be left out or be {n}, as many as the server column names, got "
            f"{n_servers}",
            setting="n_servers",
        )
    chosen = {**settings, "n_servers": n, "classes": range(len(records.classes))}
    simulation = Simulation(**chosen)
    return simulation.simulate(
        Pipeline(
            encoder=records.encoder,
            norm_bound=simulation.norm_bound,
            intercept=bool(simulation.fit_intercept),
        ),
        records.x,
        records.codes,
        epsilons=records.epsilons,
        servers=records.owners,
    )
