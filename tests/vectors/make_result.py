"""Write result-1/: a small result for tests/unit/consortium/test_stored_result.py.

    PYTHONPATH=tests/support python tests/vectors/make_result.py

Its statements were signed once and stay: every version must read them (without the folder they are
signed anew). Model and page are made of them again; once a version was released with the old ones,
that is right only together with another `pdml.node.job.job_result.RESULT` and another folder here.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

from consortium import NAMES
from results import SHORT, Studied

from pdml.consortium.result_folder import write_result
from pdml.node.job.job_result import assemble
from pdml.node.protocol import signed_statement
from pdml.node.protocol.job_terms import JobTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study


def sign_anew(folder: Path) -> None:
    """Two jobs of four nodes whose keys anybody can make."""
    for name in NAMES:
        secret = hashlib.sha256(name.encode()).hexdigest()
        (folder / f"{name}.key").write_text(secret)
        (folder / f"{name}.key").chmod(0o600)
    for job, until in (("first", 2), ("second", None)):
        consortium = Studied(folder, plan=SHORT, job=job)
        consortium.run(until=until)
        if until is None:
            consortium.write(folder / "result")
        consortium.close()


def made_again(stored: Path, folder: Path) -> None:
    """Model and page from what was signed."""
    study = Study.load(stored / "study.toml")
    signed = {name: (stored / "statements" / f"{name}.statement").read_bytes() for name in NAMES}
    said = signed_statement.signed_by(signed[NAMES[0]], NAMES[0], study.signing_keys)
    job_terms = JobTerms.for_study(study, TrainingPlan.from_dict(dict(said.plan)), said.job)
    write_result(folder / "result", assemble(study, job_terms, signed))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        stored = Path(__file__).parent / "result-1"
        if stored.exists():
            made_again(stored, Path(place))
            shutil.rmtree(stored)
        else:
            sign_anew(Path(place))
        shutil.copytree(Path(place) / "result", stored)
