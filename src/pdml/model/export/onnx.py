"""A model as an ONNX file, for programs in any language: its steps in double precision.

In goes ``rows`` (m, d), or each column (m, 1) under its own name: text where it has levels; a gap
is NaN or empty text. Out come ``label`` (m,) and ``probabilities`` (m, K).
"""

import json
from math import pi, sqrt
from typing import Any

import numpy as np

from pdml import extras
from pdml._types import Array
from pdml._version import __version__
from pdml.encoding import scaling
from pdml.encoding.maps import HAT_MEANS, KNOTS, Bins, Products, Splines, Squares
from pdml.encoding.row_steps import (
    AppendConstant,
    ClipRows,
    Column,
    ExpandMaps,
    Expansion,
    Multiply,
    ReadColumns,
    ReadNumbers,
    ScaleNumbers,
)
from pdml.errors import InvalidInput
from pdml.model.model import Model

with extras.needed():
    import onnx
    from onnx import TensorProto, helper, numpy_helper

# Old enough for the runtimes that people have, new enough for every operator here.
_OPSETS = {"": 18, "ai.onnx.ml": 3}
_IR = 8
_LABEL, _CHANCES = "label", "probabilities"
_METADATA = ("plan", "privacy", "provenance", "expected")  # fields of the model's file


def to_onnx(model: Model) -> bytes:
    """The same classes and probabilities by any program that runs ONNX.

    Guarantees
    ----------
    - Labels, and probabilities to rounding (waves: to 1e-9), are the model's on every record that
      the model takes. A level that is not declared makes a run fail; fractions of whole numbers and
      numbers that are not finite are not noticed.
    """
    graph = _Graph()
    _outputs(graph, _margins(graph, model), np.asarray(model.classes))
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "pdml", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid(*opset) for opset in _OPSETS.items()],
        ir_version=_IR,
        producer_name="pdml",
        producer_version=__version__,
    )
    file = json.loads(model.to_bytes())
    facts = {f"pdml.{name}": json.dumps(file[name]) for name in _METADATA if file.get(name)}
    helper.set_model_props(proto, facts)
    onnx.checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString(deterministic=True))


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
        name, array = f"pdml.constant {len(self.constants)}", np.asarray(values)
        array = array.astype(object) if array.dtype.kind == "U" else array
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def clip(self, values: str, low: Any, high: Any) -> str:
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


def _margins(graph: _Graph, model: Model) -> str:
    """From records to margins. All factors are left to the weights, and constant and bound are in
    units of the factor before them: runtimes would merge a factor in single precision.
    """
    rows, constant, unit = "", 0.0, 1.0
    for step in model.translatable_steps():
        match step:
            case ReadNumbers():
                rows = graph.input("rows", TensorProto.DOUBLE, step.width)
            case ReadColumns():
                cells = (_cells(graph, column) for column in step.columns)
                rows = graph.add("Concat", *cells, axis=1)
            case ScaleNumbers():
                moved = graph.add("Sub", rows, graph.constant(step.origin))
                units = graph.add("Div", moved, graph.constant(step.unit))
                rows = graph.clip(units, step.low, step.high)
            case ExpandMaps():
                rows = _maps(graph, step.expansion, rows)
            case Multiply():
                unit *= step.factor
            case AppendConstant():
                constant = step.value / unit
            case ClipRows():
                factor = _clip_factor(graph, rows, constant, step.bound / unit)
            case _:
                raise InvalidInput(f"ONNX has no translation of the step {step!r}")
    shift = model.intercepts * constant * unit
    product = graph.add("MatMul", rows, graph.constant(model.coefficients.T * unit))
    return graph.add("Mul", graph.add("Add", product, graph.constant(shift)), factor)


def _clip_factor(graph: _Graph, rows: str, constant: float, bound: float) -> str:
    """Of rows z with their constant c: B/max(√(‖z‖² + c²), B)."""
    squares = graph.add("ReduceSumSquare", rows, graph.constant([1]))
    norms = graph.add("Sqrt", graph.add("Add", squares, graph.constant(constant**2)))
    longest = graph.constant(bound)
    return graph.add("Div", longest, graph.add("Max", norms, longest))


def _cells(graph: _Graph, column: Column) -> str:
    if not column.levels:
        number = graph.input(column.name, TensorProto.DOUBLE, 1)
        return _filled(graph, number, column.fill) if column.gaps else number
    text = graph.input(column.name, TensorProto.STRING, 1)
    levels = [*column.levels, ""] if column.gaps else list(column.levels)
    hot = graph.add(  # zeros=0: any other text fails
        "OneHotEncoder", text, domain="ai.onnx.ml", cats_strings=levels, zeros=0
    )
    flat = graph.add("Reshape", hot, graph.constant([-1, column.width]))
    return graph.add("Cast", flat, to=TensorProto.DOUBLE)


def _filled(graph: _Graph, cells: str, fill: float) -> str:
    """A number with another one in gaps, and an entry that says where they were."""
    silent = graph.add("IsNaN", cells)
    number = graph.add("Where", silent, graph.constant(fill), cells)
    return graph.add("Concat", number, graph.add("Cast", silent, to=TensorProto.DOUBLE), axis=1)


def _maps(graph: _Graph, expansion: Expansion, rows: str) -> str:
    def taken(which: Any) -> str:
        places = graph.constant(np.array(which, dtype=np.int64))
        return graph.add("Gather", rows, places, axis=1)

    outputs = [taken(expansion.kept)]
    for feature_map in expansion.maps:
        used = feature_map.uses(expansion.inputs)
        if isinstance(feature_map, Products):
            product = graph.add("Mul", taken(used[::2]), taken(used[1::2]))
            outputs.append(graph.clip(product, -scaling.LIMIT, scaling.LIMIT))
        elif isinstance(feature_map, Squares):
            entries = taken(used)
            squares = graph.add("Sub", graph.add("Mul", entries, entries), graph.constant(1.0))
            scaled = graph.add("Mul", squares, graph.constant(sqrt(0.5)))
            outputs.append(graph.clip(scaled, -scaling.LIMIT, scaling.LIMIT))
        elif isinstance(feature_map, Splines):
            outputs.append(_hats(graph, taken(used), len(used)))
        elif isinstance(feature_map, Bins):
            outputs.append(_bins(graph, taken(used), feature_map, len(used)))
        else:
            turns, phases = feature_map.waves(len(used))
            outputs.append(_waves(graph, taken(used), turns, phases))
    return graph.add("Concat", *outputs, axis=1)


def _hats(graph: _Graph, entries: str, many: int) -> str:
    """How near each entry is to each knot, centred."""
    inside = graph.clip(entries, KNOTS[0], KNOTS[-1])
    column = graph.add("Unsqueeze", inside, graph.constant([2]))
    away = graph.add("Abs", graph.add("Sub", column, graph.constant(np.array(KNOTS))))
    hats = graph.clip(graph.add("Sub", graph.constant(1.0), away), 0.0, 1.0)
    centred = graph.add("Sub", hats, graph.constant(HAT_MEANS))
    return graph.add("Reshape", centred, graph.constant([-1, many * len(KNOTS)]))


def _bins(graph: _Graph, entries: str, bins: Bins, many: int) -> str:
    """Which interval of each entry it lies in, centred."""
    column = graph.add("Unsqueeze", entries, graph.constant([2]))
    above = graph.add("GreaterOrEqual", column, graph.constant([-np.inf, *bins.inner]))
    below = graph.add("Less", column, graph.constant([*bins.inner, np.inf]))
    hot = graph.add("Cast", graph.add("And", above, below), to=TensorProto.DOUBLE)
    centred = graph.add("Sub", hot, graph.constant(1 / bins.count))
    return graph.add("Reshape", centred, graph.constant([-1, many * bins.count]))


def _waves(graph: _Graph, entries: str, turns: Array, phases: Array) -> str:
    """√2·cos(2π t) as a sine a quarter of a turn later: runtimes have that in double precision."""
    angles = graph.add("MatMul", entries, graph.constant(2 * pi * turns.T))
    later = graph.add("Add", angles, graph.constant(2 * pi * (phases + 0.25)))
    return graph.add("Mul", graph.add("Sin", later), graph.constant(sqrt(2)))


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
