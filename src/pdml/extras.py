"""What `pip install pdml` leaves out: which extra brings it, and one sentence where it is missing.

The base is what a device needs. Whoever trains, collects, runs a node or looks at figures names the
extra: ``pip install 'pdml[science]'``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

from pdml.errors import MissingExtra

EXTRAS = MappingProxyType(
    {  # import name -> (what pip calls it, the extra that brings it)
        "scipy": ("scipy", "science"),
        "sklearn": ("scikit-learn", "science"),
        "joblib": ("joblib", "science"),
        "threadpoolctl": ("threadpoolctl", "science"),
        "matplotlib": ("matplotlib", "science"),
        "jinja2": ("jinja2", "science"),
        "networkx": ("networkx", "science"),
        "pooch": ("pooch", "science"),
        "starlette": ("starlette", "collect"),
        "uvicorn": ("uvicorn", "collect"),
        "httptools": ("httptools", "collect"),
        "psycopg": ("psycopg", "collect"),
        "cryptography": ("cryptography", "node"),
        "nats": ("nats-py", "node"),
        "numba": ("numba", "fast"),
        "pyarrow": ("pyarrow", "parquet"),
        "onnx": ("onnx", "onnx"),
        "mlflow": ("mlflow-skinny", "mlflow"),
        "pandas": ("pandas", "frames"),
        "ray": ("ray", "ray"),
    }
)


@contextmanager
def needed(extra: str = "") -> Iterator[None]:
    """Around an import of what an extra brings: `MissingExtra` where it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_extra(error, extra)
        if missing is None:
            raise
        raise missing from None


def missing_extra(error: BaseException, extra: str = "") -> MissingExtra | None:
    """The same as a value: what ``error`` means to people, None if it is no missing extra."""
    if isinstance(error, MissingExtra):
        return error
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name not in EXTRAS:
        return None
    package, usual = EXTRAS[name]
    return MissingExtra(package, extra or usual)
