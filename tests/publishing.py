"""`make package`: build what could be published, twice, and use each kind of installation in an empty
environment.

    python tests/publishing.py [--quick]

--quick builds and compares, and installs nothing: what tests/integration/project/test_package.py does too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EPOCH = "1767225600"  # 2026-01-01, as any fixed date would do

_CLIENT = """
import importlib.util, sys
import pdml
from pdml import Study
from pdml.device.client import prepare
from pdml.device.memo import Memory
from pathlib import Path
from pdml.study.messages import decode_report
study = Study.from_text(Path("study.toml").read_text())
sent = prepare(study, Memory(Path("memory")), {"age": 40, "sex": "male"}, 1, 1_000_000)
assert decode_report(sent).study == study.hash
"""
_COLLECT = """
from pathlib import Path
from pdml import Study
from pdml.collector.http.application import create
from pdml.collector.intake.report_rules import Rules, collection_id
from pdml.collector.storage.sqlite import SqliteStore
from pdml.device.client import prepare
from pdml.device.memo import Memory
study = Study.from_text(Path("study.toml").read_text())
sent = prepare(study, Memory(Path("memory")), {"age": 40, "sex": "male"}, 1, 1_000_000)
(entry,) = Rules.of(study, require_tokens=False).read([sent], 1_780_000_000.0)
store = SqliteStore(Path("reports.db"), collection_id(study, "alice"))
store.commit([entry])
assert store.totals().reports == 1
store.close()
"""
_NODE = """
from pathlib import Path
from pdml.node.crypto.signing import Card
from pdml.node.storage.node_dir import NodeDirectory
from pdml.node.daemon import daemon, nats_transport
from pdml.node.job import coordinator, participant
from pdml.node.protocol import signed_statement
home = NodeDirectory.create(Path("node"), "alice")
assert Card.load(Path("node/alice.card")).name == "alice"
"""
_ALL = """
import numpy as np
from pdml import PDMLClassifier, load_model
from pdml.research.datasets import twonorm
x, y = twonorm(2000, np.random.default_rng(0))
fitted = PDMLClassifier(n_servers=4, random_state=0).fit(x, y)
assert fitted.score(x, y) > 0.8
fitted.model_.save("model.json")
model = load_model("model.json")
assert len(model.privacy["rows"]) == 6
assert (model.to_sklearn().predict(x) == fitted.predict(x)).all()
model.to_onnx("model.onnx")
import pdml.model.export.mlflow, mlflow.pyfunc
"""
# What is installed, how it is used, and what must not have come along.
KINDS = {
    "": (_CLIENT, ("sklearn", "scipy", "matplotlib", "networkx", "starlette", "nats", "ray")),
    "collect": (_COLLECT, ("sklearn", "matplotlib", "networkx", "nats", "ray")),
    "node": (_NODE, ("sklearn", "matplotlib", "networkx", "starlette", "ray")),
    "all": (_CLIENT + _COLLECT.replace("memory", "more") + _NODE + _ALL, ()),
}


def build(folder: Path, source: Path = ROOT) -> dict[str, bytes]:
    """Wheel and sdist of the files under version control, by name."""
    copy = folder / "source"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=source,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if (source / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, copy / name)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder / "dist")]
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(command, cwd=copy, check=True, capture_output=True, env=environment)
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


def built_twice(folder: Path) -> dict[str, bytes]:
    """The same bytes from two folders at two times, or an error."""
    places = (folder / "one", folder / "another one")
    for place in places:
        place.mkdir()
    one, other = map(build, places)
    assert one == other, "two builds of the same source differ"
    return one


def use(wheel: Path, extra: str) -> str:
    """Install one kind into an empty environment, and use it there."""
    script, without = KINDS[extra]
    named = f"pdml[{extra}]" if extra else "pdml"
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-m", "venv", f"{place}/venv"], check=True)
        python = f"{place}/venv/bin/python"
        install = [
            python,
            "-m",
            "pip",
            "install",
            "-qq",
            "--no-compile",
            f"{named} @ {wheel.as_uri()}",
        ]
        subprocess.run(install, check=True)
        size = sum(p.stat().st_size for p in Path(place, "venv/lib").rglob("*") if p.is_file())
        shutil.copy(ROOT / "tests" / "vectors" / "formats" / "study-1.toml", f"{place}/study.toml")
        absent = f"import importlib.util as u\nfor n in {without!r}: assert not u.find_spec(n), n\n"
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        subprocess.run([python, "-I", "-c", absent + script], cwd=place, check=True, env=clean)
        shown = subprocess.run(
            [f"{place}/venv/bin/pdml", "--version"], check=True, capture_output=True, text=True
        ).stdout.strip()
        return f"{named}: {shown}, {size / 1e6:.0f} MB with pip"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        made = built_twice(Path(place))
        (ROOT / "dist").mkdir(exist_ok=True)
        for name, content in made.items():
            (ROOT / "dist" / name).write_bytes(content)
            print(f"dist/{name}: {len(content):,} bytes, twice the same", flush=True)
        (wheel,) = (ROOT / "dist" / name for name in made if name.endswith(".whl"))
        for extra in [] if "--quick" in sys.argv else KINDS:
            print(use(wheel, extra), flush=True)
