"""A model as an ONNX file, for programs in any language: the recipe as a graph in double precision.

In goes ``rows`` of shape (m, d) or, if the model was trained on a table, each of its columns as
(m, 1) under its own name: text where it has levels; a gap is NaN, or empty text. Out come ``label``
of shape (m,) and ``probabilities`` of shape (m, K).
"""

import json
from math import pi, sqrt
from typing import Any

import numpy as np

from pdml import extras
from pdml._types import Array
from pdml._version import __version__
from pdml.encoding import scaling
from pdml.encoding.expansion import Expansion
from pdml.encoding.maps import Bins, Products, Squares
from pdml.errors import InvalidInput
from pdml.model.model import Model
from pdml.model.prediction_pipeline import Column, Recipe, recipe, turns_of

with extras.needed():
    import onnx
    from onnx import TensorProto, helper, numpy_helper

# Old enough for the runtimes that people have, new enough for every operator here.
_OPSETS = {"": 18, "ai.onnx.ml": 3}
_IR = 8
_LABEL, _CHANCES = "label", "probabilities"
_TOLD = ("plan", "privacy", "provenance", "expected")  # fields of the model's file


def to_onnx(model: Model) -> bytes:
    """The same classes and probabilities by any program that runs ONNX.

    Parameters
    ----------
    model : Model
        Any.

    Returns
    -------
    bytes
        Of the file, the same for the same model. Its metadata hold what the model's own file says
        of plan, privacy and provenance, as JSON under ``pdml.plan``, ``pdml.privacy`` and so on.

    Raises
    ------
    InvalidInput
        If a column has the name of something that comes out, or the model does something with a
        record that is no step of a recipe.

    Guarantees
    ----------
    - Labels, and probabilities to rounding (waves: to 1e-9), are the model's on every record that
      the model takes. A level that is not declared makes a run fail; fractions of whole numbers and
      numbers that are not finite are not noticed.
    """
    told, graph = recipe(model), _Graph()
    rows = _numbers(graph, told)
    if told.scaled is not None:
        moved = graph.add("Sub", rows, graph.constant(told.scaled.origin))
        units = graph.add("Div", moved, graph.constant(told.scaled.unit))
        rows = graph.limited(units, told.scaled.low, told.scaled.high)
    if told.expansion is not None:
        rows = _maps(graph, told.expansion, rows)
    _outputs(graph, _margins(graph, told, rows), np.asarray(model.classes))
    made = helper.make_model(
        helper.make_graph(graph.nodes, "pdml", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid(*each) for each in _OPSETS.items()],
        ir_version=_IR,
        producer_name="pdml",
        producer_version=__version__,
    )
    file = json.loads(model.to_bytes())
    facts = {f"pdml.{name}": json.dumps(file[name]) for name in _TOLD if file.get(name)}
    helper.set_model_props(made, facts)
    onnx.checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString(deterministic=True))


class _Graph:
    """What an ONNX graph is made of, in the order in which it was added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *values: str, name: str = "", **settings: Any) -> str:
        """The name of an operator's outcome."""
        name = name or f"pdml.step {len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(values), [name], **settings))
        return name

    def constant(self, values: Any) -> str:
        """The name of public numbers or texts."""
        name, held = f"pdml.constant {len(self.constants)}", np.asarray(values)
        held = held.astype(object) if held.dtype.kind == "U" else held
        self.constants.append(numpy_helper.from_array(held, name))
        return name

    def limited(self, values: str, low: Any, high: Any) -> str:
        """Values within limits of their own."""
        return self.add("Max", self.add("Min", values, self.constant(high)), self.constant(low))

    def input(self, name: str, kind: int, width: int) -> str:
        """The name of what is given."""
        if name in (_LABEL, _CHANCES):
            raise InvalidInput(
                f"columns must not be called {_LABEL!r} or {_CHANCES!r} in ONNX, got {name!r}: "
                "that is what comes out"
            )
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["m", width]))
        return name


def _numbers(graph: _Graph, told: Recipe) -> str:
    """What is given, as numbers (m, width)."""
    if not told.columns:
        return graph.input("rows", TensorProto.DOUBLE, told.width)
    return graph.add("Concat", *(_cells(graph, column) for column in told.columns), axis=1)


def _cells(graph: _Graph, column: Column) -> str:
    if not column.levels:
        given = graph.input(column.name, TensorProto.DOUBLE, 1)
        return _filled(graph, given, column.fill) if column.gaps else given
    text = graph.input(column.name, TensorProto.STRING, 1)
    known = [*column.levels, ""] if column.gaps else list(column.levels)
    hot = graph.add(  # zeros=0: any other text fails
        "OneHotEncoder", text, domain="ai.onnx.ml", cats_strings=known, zeros=0
    )
    flat = graph.add("Reshape", hot, graph.constant([-1, column.width]))
    return graph.add("Cast", flat, to=TensorProto.DOUBLE)


def _filled(graph: _Graph, given: str, fill: float) -> str:
    """A number with another one in gaps, and an entry that says where they were."""
    silent = graph.add("IsNaN", given)
    number = graph.add("Where", silent, graph.constant(fill), given)
    return graph.add("Concat", number, graph.add("Cast", silent, to=TensorProto.DOUBLE), axis=1)


def _maps(graph: _Graph, expansion: Expansion, rows: str) -> str:
    """The entries that stay, and what maps make of them."""

    def taken(which: Any) -> str:
        places = graph.constant(np.array(which, dtype=np.int64))
        return graph.add("Gather", rows, places, axis=1)

    made = [taken(expansion.kept)]
    for each in expansion.maps:
        used = each.uses(expansion.inputs)
        if isinstance(each, Products):
            product = graph.add("Mul", taken(used[::2]), taken(used[1::2]))
            made.append(graph.limited(product, -scaling.LIMIT, scaling.LIMIT))
        elif isinstance(each, Squares):
            entries = taken(used)
            squares = graph.add("Sub", graph.add("Mul", entries, entries), graph.constant(1.0))
            scaled = graph.add("Mul", squares, graph.constant(sqrt(0.5)))
            made.append(graph.limited(scaled, -scaling.LIMIT, scaling.LIMIT))
        elif isinstance(each, Bins):
            made.append(_bins(graph, taken(used), each, len(used)))
        else:
            made.append(_waves(graph, taken(used), *turns_of(each, expansion.inputs)))
    return graph.add("Concat", *made, axis=1)


def _bins(graph: _Graph, entries: str, each: Bins, many: int) -> str:
    """Which interval of each entry it lies in, centred."""
    apart = graph.add("Unsqueeze", entries, graph.constant([2]))
    above = graph.add("GreaterOrEqual", apart, graph.constant([-np.inf, *each.inner]))
    below = graph.add("Less", apart, graph.constant([*each.inner, np.inf]))
    hot = graph.add("Cast", graph.add("And", above, below), to=TensorProto.DOUBLE)
    centred = graph.add("Sub", hot, graph.constant(1 / each.count))
    return graph.add("Reshape", centred, graph.constant([-1, many * each.count]))


def _waves(graph: _Graph, entries: str, turns: Array, phases: Array) -> str:
    """√2·cos(2π t) as a sine a quarter of a turn later: runtimes have that in double precision."""
    angles = graph.add("MatMul", entries, graph.constant(2 * pi * turns.T))
    later = graph.add("Add", angles, graph.constant(2 * pi * (phases + 0.25)))
    return graph.add("Mul", graph.add("Sin", later), graph.constant(sqrt(2)))


def _margins(graph: _Graph, told: Recipe, rows: str) -> str:
    """Of rows z with their constant c, shrunk to the norm B: (w·z + b·c)·B/max(√(‖z‖² + c²), B)."""
    constant, weights, shift = 0.0, told.weights, np.zeros(len(told.weights))
    if told.constant is not None:
        constant, weights = told.constant, told.weights[:, :-1]
        shift = told.weights[:, -1] * constant
    squares = graph.add("ReduceSumSquare", rows, graph.constant([1]))
    norms = graph.add("Sqrt", graph.add("Add", squares, graph.constant(constant**2)))
    bound = graph.constant(told.bound)
    factor = graph.add("Div", bound, graph.add("Max", norms, bound))
    product = graph.add("MatMul", rows, graph.constant(weights.T))
    return graph.add("Mul", graph.add("Add", product, graph.constant(shift)), factor)


def _outputs(graph: _Graph, margins: str, classes: Any) -> None:
    """From margins (m, C) to a label and the probability of every class."""
    if len(classes) == 2:
        second = graph.add("Reshape", margins, graph.constant([-1]))
        chosen = graph.add("Greater", second, graph.constant(0.0))
        index = graph.add("Cast", chosen, to=TensorProto.INT64)
        both = graph.add("Concat", graph.add("Neg", margins), margins, axis=1)
        graph.add("Sigmoid", both, name=_CHANCES)
    else:
        index = graph.add("ArgMax", margins, axis=1, keepdims=0)
        graph.add("Softmax", margins, axis=1, name=_CHANCES)
    names = graph.constant(classes)
    graph.add("Gather", names, index, name=_LABEL)
    kind, chance = graph.constants[-1].data_type, TensorProto.DOUBLE
    graph.outputs.append(helper.make_tensor_value_info(_LABEL, kind, ["m"]))
    graph.outputs.append(helper.make_tensor_value_info(_CHANCES, chance, ["m", len(classes)]))
