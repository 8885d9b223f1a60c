"""Several coins in the page's own script: decisions as in Python for the same words, levels as
often as each ε says, no coin shared.
"""

import json
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from pdml.device import memo, page
from pdml.mechanisms.label_flip import WORD, threshold
from pdml.mechanisms.randomness import SecureStream
from pdml.study.messages import report_id

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
DEVICE = (Path(page.__file__).parent / "device.js").read_text("utf-8")
DEVICES, FALSE_ALARM = 2_000, 1e-6  # of one count, two-sided and exact
# Three levels, five levels and the label: micro-ε and how many answers there are.
COINS = [(1_000_000, 3), (2_000_000, 5), (1_000_000, 2)]


def run(script: str, given: object, source: str = DEVICE) -> Any:
    """What ``script`` returns, a function body after ``source``; ``given`` is its argument."""
    whole = f"globalThis.localStorage = undefined;\nconst given = {json.dumps(given)};\n"
    whole += f"const found = (() => {{ {source}\n{script} }})();\n"
    done = subprocess.run(
        ["node", "-"],
        input=whole + "Promise.resolve(found).then((all) => console.log(JSON.stringify(all)));",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def words(rng: Random, micro: int, levels: int) -> list[int]:
    """A word for the coin, near its threshold now and then, and words for another level, of which
    the first are to be drawn again now and then.
    """
    bound = threshold(micro, levels)
    coin = rng.choice([rng.randrange(WORD), rng.randrange(bound), bound - 1, bound])
    again = rng.choice([0, 0, 1, 2]) if WORD % (levels - 1) else 0
    last = WORD - WORD % (levels - 1)
    return [coin, *(rng.randrange(last, WORD) for _ in range(again)), rng.randrange(last)]


def test_the_same_words_make_the_same_of_an_answer() -> None:
    rng, cases = Random(3), []
    for _ in range(1_500):
        micro, levels = rng.choice([10_000, 333_333, 1_000_000, 5_000_000]), rng.randint(2, 60)
        drawn = words(rng, micro, levels)
        cases.append((rng.randrange(levels), micro, levels, list(map(str, drawn))))
    found = run(
        """return given.map(([level, micro, levels, words]) => {
          const left = words.map(BigInt);
          return randomise(level, micro, levels, () => left.shift());
        });""",
        cases,
    )
    for (level, micro, levels, texts), mine in zip(cases, found, strict=True):
        left = [np.array([int(text)], dtype=np.uint64) for text in texts]
        stream = SecureStream(lambda count, left=left: left.pop(0))
        assert memo.draw(level, micro, levels, stream) == mine


SETTLED = """
return Array.from({ length: given.devices }, (_, i) => {
  const truth = given.coins.map(([micro, levels]) => [i % levels, micro, levels]);
  const ids = { id: "", nonce: "", code: "" };
  const drawn = drawOnce(`study ${i}`, ids, ...truth.at(-1), truth.slice(0, -1));
  const again = drawOnce(`study ${i}`, ids, 0, 1, 2, [[0, 1, 3], [0, 1, 5]]);
  if (JSON.stringify(drawn) !== JSON.stringify(again)) throw new Error("drawn twice");
  const kept = JSON.stringify(Object.keys(recall(`study ${i}`)).sort());
  if (kept !== '["answers","code","epsilon","id","label","nonce"]') throw new Error(`kept ${kept}`);
  return [...drawn.answers, [drawn.label, drawn.epsilon]];
});"""


def settled(source: str = DEVICE) -> np.ndarray:
    """By device and question, how far the level that the page's `drawOnce` drew is from the truth."""
    drawn = np.array(run(SETTLED, {"devices": DEVICES, "coins": COINS}, source))
    assert (drawn[..., 1] == [micro for micro, _ in COINS]).all()
    levels = np.array([levels for _, levels in COINS])
    return np.asarray((drawn[..., 0] - np.arange(DEVICES)[:, None]) % levels)


def plausible(count: int, of: int, chance: float) -> bool:
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], of, chance)
    return bool(low <= count <= high)


def kept(micro: int, levels: int) -> float:
    return 1 - threshold(micro, levels) / WORD


@pytest.fixture(scope="module")
def shifts() -> np.ndarray:
    return settled()


def test_levels_are_drawn_as_often_as_each_epsilon_says(shifts: np.ndarray) -> None:
    """Seven counts: a false alarm has a chance of at most 7e-6. Half the ε and twice the ε are
    rejected, but for one run in ten million: they keep 0.1 fewer or more of the answers, which is
    10 standard errors."""
    for k, (micro, levels) in enumerate(COINS):
        stands = int(np.count_nonzero(shifts[:, k] == 0))
        assert plausible(stands, DEVICES, kept(micro, levels))
        assert not plausible(stands, DEVICES, kept(2 * micro, levels))
        assert not plausible(stands, DEVICES, kept(micro // 2, levels))
        for other in range(1, levels - 1):  # each other level equally often
            count = int(np.count_nonzero(shifts[:, k] == other))
            assert plausible(count, DEVICES - stands, 1 / (levels - 1))


def together(shifts: np.ndarray) -> list[bool]:
    """For each two questions, whether both answers stand as often as independent coins let them."""
    found = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        both = int(np.count_nonzero((shifts[:, a] == 0) & (shifts[:, b] == 0)))
        found.append(plausible(both, DEVICES, kept(*COINS[a]) * kept(*COINS[b])))
    return found


def test_every_answer_has_a_coin_of_its_own(shifts: np.ndarray) -> None:
    """Three counts, 3e-6; one word for all of a device's coins is noticed."""
    assert together(shifts) == [True] * 3
    fresh = "const randomWord = () => crypto.getRandomValues(new BigUint64Array(1))[0];"
    assert fresh in DEVICE
    shared = "let calls = 0, last = 0n;\nconst randomWord = () => {\n"
    shared += "  if (calls++ % 3 === 0) last = crypto.getRandomValues(new BigUint64Array(1))[0];\n"
    shared += "  return last;\n};"
    source = DEVICE.replace(fresh, shared).replace(
        "word() < threshold(micro, classes) ? otherClass(label, classes, word) : label",
        "word() < threshold(micro, classes) ? (label + 1) % classes : label",
    )
    assert not all(together(settled(source)))


def test_codes_of_withdrawal_cannot_be_guessed() -> None:
    """128 random bits: each bit of 300 codes is set in 61 to 239 of them, a false alarm in
    10^-23 of runs; and a number is the hash of its code, as in Python.
    """
    found = run("return Promise.all(Array.from({ length: 300 }, drawNumbers));", None)
    bits = np.array([list(bytes.fromhex(one["code"])) for one in found], dtype=np.uint8)
    counts = np.unpackbits(bits, axis=1).sum(axis=0)
    assert counts.shape == (128,) and 60 < counts.min() <= counts.max() < 240
    assert all(one["id"] == report_id(one["code"]) for one in found)
