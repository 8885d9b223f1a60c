"""The page's verifier, another implementation of docs/reference/result-format.md: it agrees with
`verify_result` on every stored result, good and bad, on results of the product's own defaults, and
on altered ones. Its script runs in Node.js here, and in browsers in tests/browser.
"""

import hashlib
import re
import shutil
from base64 import b64encode
from html import unescape

import numpy as np
import pytest
from alterations import RESULTS, altered
from bad_vectors import VECTORS, listed, replaced, spoilt
from results import Studied, verified
from scipy import special
from second_verifier import NODE, run_script, second_verifier

from pdml.pages.verifier_page import verifier_page, verifier_script
from pdml.planning.training_plan import TrainingPlan

pytestmark = pytest.mark.skipif(NODE is None, reason="needs a JavaScript engine (node)")
QUICK = ("sums", "masked-of-classes", "rounds-of-classes")  # seconds: no table of the response
SLOW = ("answers", "masked", "rounds")


@pytest.fixture(scope="module")
def verifier():
    with second_verifier() as running:
        yield running


def kinds_of(answer):
    """As the product names them: what it would refuse for last digits is a problem of the model."""
    return set(answer["kinds"]) | ({"model"} if answer["near"] else set())


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
)
def test_stored_results_are_accepted_to_the_byte(verifier, name):
    answer = verifier.check(RESULTS / name)
    assert (answer["state"], answer["problems"], answer["near"]) == ("accepted", [], [])
    assert answer["study"]["agreed"] is False
    agreed = verifier.check(RESULTS / name, agreed=answer["study"]["hash"])
    assert agreed["state"] == "accepted" and agreed["study"]["agreed"] is True
    other = verifier.check(RESULTS / name, agreed="0" * 64)
    assert other["kinds"] == ["study"]


PLANS = {
    "sums": TrainingPlan(method="sums"),
    "sums, any other one colludes": TrainingPlan(method="sums", colluding=1),
    "sums, all others collude": TrainingPlan(method="sums", colluding=3),
    "rounds": TrainingPlan(),
}


@pytest.mark.parametrize("name", PLANS)
def test_results_by_the_defaults_of_a_plan_are_accepted_to_the_byte(verifier, name, tmp_path):
    consortium = Studied(tmp_path, plan=PLANS[name], budget=1e6)
    consortium.run()
    consortium.write(tmp_path / "result")
    consortium.close()
    assert verified(tmp_path / "result").ok
    answer = verifier.check(tmp_path / "result")
    assert (answer["verdict"][:8], answer["near"]) == ("Accepted", [])


def test_it_lists_what_the_product_lists(verifier):
    """All but the page, which it cannot draw, and what it says beside."""
    for name in ("sums", "rounds-of-classes"):
        answer, verification = verifier.check(RESULTS / name), verified(RESULTS / name)
        checked = [one for one in verification.checked if not one.startswith("report.html")]
        assert [one for one in answer["checked"] if one in checked] == checked
        assert len(answer["checked"]) == len(checked) + 1
        assert set(verification.not_checked) < set(answer["notChecked"])
        assert any(one.startswith("report.html: only pdml verify") for one in answer["notChecked"])


def test_bad_results_are_refused_for_their_reasons(verifier, tmp_path):
    """All but a changed page, which only the product can refuse."""
    for row in listed("results")["bad"]:
        answer = verifier.check(spoilt(tmp_path / row["name"].replace("/", " "), row))
        wanted = set() if row["edits"][0].get("old") == "</html>\n" else set(row["kinds"])
        assert kinds_of(answer) == wanted, row["name"]


def test_results_of_bad_studies_are_refused(verifier, tmp_path):
    folder = shutil.copytree(RESULTS / "sums", tmp_path / "sums")
    good = (VECTORS / listed("studies")["base"]).read_bytes()
    for row in listed("studies")["bad"]:
        (folder / "study.toml").write_bytes(replaced(good, row))
        assert verifier.check(folder)["state"] == "refused", row


def disagreements(verifier, folder, seeds, bases=()):
    """Altered results that one accepts and the other refuses."""
    found = []
    for seed in seeds:
        base = bases[seed % len(bases)] if bases else ""
        target, change = altered(folder, seed, base)
        refused = not verified(target).ok
        answer = verifier.check(target)
        if (answer["state"] != "accepted") is not refused:
            found.append((seed, change, answer["verdict"]))
        shutil.rmtree(target)
    return found


def test_they_agree_on_a_hundred_altered_results(verifier, tmp_path):
    assert disagreements(verifier, tmp_path, range(100), QUICK) == []


@pytest.mark.slow
def test_they_agree_on_a_thousand_altered_results(verifier, tmp_path):
    assert disagreements(verifier, tmp_path, range(1000, 2000)) == []


def test_the_page_runs_its_own_script_alone():
    page = verifier_page().decode()
    policy = unescape(re.search(r'Policy" content="([^"]*)"', page)[1])
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for tag in ("script", "style"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, flags=re.S)
        digest = b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"(?:src|href)=\"(?!data:,)", page)
    assert not re.findall(r"\b(?:fetch|XMLHttpRequest|WebSocket|eval|innerHTML|import)\b", page)
    assert page == verifier_page().decode()


def test_the_script_has_no_number_of_the_product():
    """It is another implementation: nothing in it is drawn from the package when it is written."""
    assert "{{" not in verifier_script() and "pdml" in verifier_script()


LACKING = """
crypto.subtle.importKey = () => Promise.reject(new DOMException("no", "NotSupportedError"));
"""


def test_without_ed25519_nothing_is_claimed():
    with second_verifier(LACKING + verifier_script()) as lacking:
        answer = lacking.check(RESULTS / "rounds-of-classes")
    assert answer["state"] == "unable" and "cannot check Ed25519" in answer["verdict"]
    assert not {"checked", "statements", "model"} & set(answer)


RUN_SIGNED = """
const { isSigned } = modules["statement.js"];
const { keys, signature } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const bytes = Uint8Array.from(Buffer.from(signature, "hex"));
Promise.all(keys.map((key) => isSigned(key, new Uint8Array(), bytes)))
  .then((answers) => console.log(JSON.stringify(answers)));
"""


def test_keys_of_small_order_sign_nothing():
    """R the neutral point and s = 0 sign every message under the neutral key, by the formula."""
    neutral = "01" + "00" * 31
    keys = [neutral, "01" + "00" * 30 + "80", "00" * 32, "ec" + "ff" * 30 + "7f"]
    question = {"keys": keys, "signature": neutral + "00" * 32}
    assert run_script(RUN_SIGNED, question) == [False] * 4


RUN_NUMBERS = """
const { phi, logPhi, phiInverse, betaInc } = modules["numerics/special.js"];
const { eigen, inverse, cholesky } = modules["numerics/matrix.js"];
const { doubleText } = modules["bytes.js"];
const { xs, chances, betas, matrix, doubles } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const rows = matrix.map((row) => Float64Array.from(row));
console.log(JSON.stringify({
  phi: xs.map(phi), log: xs.map(logPhi), inverse: chances.map(phiInverse),
  beta: betas.map(([b, x]) => betaInc(0.5, b, x)),
  values: [...eigen(rows).values], vectors: eigen(rows).vectors.map((row) => [...row]),
  back: inverse(rows).map((row) => [...row]), lower: cholesky(rows).map((row) => [...row]),
  texts: doubles.map(doubleText),
}));
"""


def test_its_numbers_are_those_of_scipy_and_python():
    rng = np.random.default_rng(0)
    xs = np.concatenate([np.linspace(-37, 9, 400), [0.0]])
    chances = np.concatenate([10.0 ** -np.arange(1, 300), np.linspace(0.001, 0.999, 200)])
    betas = [(b, x) for b in (1.5, 6.0, 51.0, 501.0) for x in (1e-6, 0.01, 0.3, 0.8, 0.99)]
    factor = rng.normal(size=(12, 12))
    matrix = factor @ factor.T + np.diag([*[1.0] * 6, *[2.0] * 6])
    doubles = [*rng.normal(size=200) * 10.0 ** rng.integers(-30, 30, 200), 0.0, -0.0, 1e16, 1e-5]
    question = {
        "xs": xs.tolist(),
        "chances": chances.tolist(),
        "betas": betas,
        "matrix": matrix.tolist(),
        "doubles": [float(x) for x in doubles],
    }
    found = run_script(RUN_NUMBERS, question)
    np.testing.assert_allclose(found["phi"], special.ndtr(xs), rtol=1e-12)
    np.testing.assert_allclose(found["log"], special.log_ndtr(xs), rtol=1e-14)
    np.testing.assert_allclose(found["inverse"], special.ndtri(chances), rtol=1e-13, atol=1e-15)
    wanted = [special.betainc(0.5, b, x) for b, x in betas]
    np.testing.assert_allclose(found["beta"], wanted, rtol=1e-11)
    np.testing.assert_allclose(found["values"], np.linalg.eigvalsh(matrix), rtol=1e-12)
    vectors = np.array(found["vectors"])
    np.testing.assert_allclose(vectors * found["values"] @ vectors.T, matrix, atol=1e-11)
    np.testing.assert_allclose(found["back"], np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["lower"], np.linalg.cholesky(matrix), rtol=1e-11, atol=1e-13)
    assert found["texts"] == [repr(float(x)) for x in doubles]
