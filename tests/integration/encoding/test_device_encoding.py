"""The encoding on the device: exact vectors, norm at most 1 however it is summed, and an
inverse.
"""

import json
import math
import random
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import answers, column, encoders

from pdml.encoding import device_encoding
from pdml.encoding.attributes import Menu
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.scaling import CONSTANT
from pdml.errors import DataError, InvalidInput
from pdml.study import Study, study_summary
from pdml.study.messages import (
    Report,
    acceptable,
    decode_report,
    encode_report,
    features_of,
    pack_features,
)
from pdml.tables import Table

PATH = Path(__file__).parents[2] / "vectors" / "encoding.json"
VECTORS = json.loads(PATH.read_text(encoding="utf-8"))
CASES = [(study, case) for study in VECTORS["studies"] for case in study["cases"]]
PAIR = Encoder(
    attributes=(Number(name="age", low=18, high=100), Category(name="sex", levels=("f", "m")))
)


def test_the_vectors_are_those_of_their_maker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PATH.parent))
    import make_encoding

    assert make_encoding.text() == PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize("study, case", CASES, ids=[f"{i}" for i in range(len(CASES))])
def test_vectors(study: dict[str, Any], case: dict[str, Any]) -> None:
    """Made from rationals without this package: the entries' bits, the report's bytes, the answers
    shown again.
    """
    contract = Study.from_canonical(study["canonical"].encode())
    drawn = tuple(map(tuple, case.get("drawn", ())))
    features = contract.encode(case["answers"], drawn)
    assert device_encoding.read_draws(contract.encoder, features) == drawn
    assert features.astype("<f4").tobytes().hex() == case["features_hex"]
    summary = contract.decode(features)
    assert {each.name: summary[each.name] for each in contract.encoder.clear} == case["decoded"]
    for each, (level, _) in zip(contract.encoder.sensitive, drawn, strict=True):
        assert summary[each.name] == each.choices[level]
    assert pack_features(features) == case["report"]["features"]
    report = Report(**case["report"])
    assert encode_report(report).decode() == case["report_bytes"]
    assert decode_report(case["report_bytes"].encode()) == report
    assert features_of(report).tobytes() == features.tobytes()
    if drawn:  # a table of true answers would be drawn anew
        return
    columns = {
        name: np.array([value], dtype=None if isinstance(value, (int, float)) else object)
        for name, value in case["answers"].items()
    }
    assert contract.encode_table(Table(columns=columns)).tobytes() == features.tobytes()


SCRIPT = """
const { readFileSync } = require("fs");
const files = process.argv.slice(1, -1), scripts = files.slice(1).map((file) => readFileSync(file, "utf8"));
globalThis.localStorage = undefined;
new Function(scripts.join("\\n") + `
  const CATALOGUES = { en: JSON.parse(process.argv.at(-1)) };
  return async (studies) => {
    const found = [];
    for (const { canonical, cases } of studies) {
      const coder = await coderOf(JSON.parse(canonical));
      for (const { answers, drawn } of cases) {
        const features = encode(coder, answers, drawn);
        const told = [{ ...decode(coder, features) }, drawnIn(coder, features)];
        found.push([hex(new Uint8Array(features.buffer)), ...told, coder.maps.map(mapInWords)]);
      }
    }
    console.log(JSON.stringify(found));
  };`)()(JSON.parse(readFileSync(files[0])).studies);
"""
SOURCES = [
    Path(device_encoding.__file__).parents[1] / "device" / name
    for name in ("device.js", "encoding.js", "i18n.js", "notice.js")
]
ENGLISH = SOURCES[0].with_name("languages").joinpath("en.json").read_text("utf-8")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs a JavaScript engine (node)")
def test_the_page_gives_the_same_bits_and_words() -> None:
    """The scripts themselves, in another engine than the browser's tests have."""
    done = subprocess.run(
        ["node", "-e", SCRIPT, str(PATH), *map(str, SOURCES), ENGLISH],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = json.loads(done.stdout)
    for (study, case), (bits, decoded, drawn, words) in zip(CASES, found, strict=True):
        assert bits == case["features_hex"] and drawn == case.get("drawn", [])
        contract = Study.from_canonical(study["canonical"].encode())
        assert words == [study_summary.describe_map(each) for each in contract.encoder.maps]
        for attribute in contract.encoder.clear:
            mine, theirs = decoded[attribute.name], case["decoded"][attribute.name]
            if isinstance(attribute, Number) and isinstance(theirs, float):
                width = attribute.high - attribute.low
                assert mine == pytest.approx(theirs, abs=1.01e-5 * width, rel=1e-12)
            else:
                assert mine == theirs


@given(st.data())
def test_norm_at_most_one_in_any_order_of_summation(data: st.DataObject) -> None:
    encoder = data.draw(encoders())
    features = device_encoding.encode(encoder, data.draw(answers(encoder)))
    squares = [float(x) * float(x) for x in features]
    assert sum(map(Fraction, squares)) < 1
    for _ in range(5):
        random.Random(data.draw(st.integers(0, 99))).shuffle(squares)
        total = 0.0
        for square in squares:
            total += square
        assert total <= 1
    assert acceptable(features[None]).all()
    assert features[-1] <= np.float32(CONSTANT) and math.sqrt(sum(squares)) >= features[-1]


@pytest.mark.parametrize("ones", [1, 10, 3_000])
def test_the_margin_holds_for_the_widest_reports(ones: int) -> None:
    numbers = Encoder(attributes=tuple(Number(name=f"x{i}", low=0, high=1) for i in range(ones)))
    features = device_encoding.encode(numbers, {f"x{i}": 1.0 for i in range(ones)})
    assert sum(Fraction(float(x)) ** 2 for x in features) < 1 and acceptable(features[None]).all()


@given(st.data())
def test_a_table_has_the_bits_of_its_rows(data: st.DataObject) -> None:
    encoder = data.draw(encoders())
    people = data.draw(st.lists(answers(encoder), min_size=1, max_size=4))
    table = Table(columns={a.name: column(a, people) for a in encoder.attributes})
    rows = device_encoding.encode_table(encoder, table)
    assert rows.dtype == np.float32 and rows.shape == (len(people), encoder.n_features + 1)
    assert rows.tobytes() == b"".join(
        device_encoding.encode(encoder, person).tobytes() for person in people
    )


def test_long_tables_go_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(columns={"age": np.arange(100.0), "sex": np.array(["f", "m"] * 50, dtype=object)})
    whole = device_encoding.encode_table(PAIR, table)
    monkeypatch.setattr(device_encoding, "_CHUNK", 7)
    assert device_encoding.encode_table(PAIR, table).tobytes() == whole.tobytes()


@given(st.data())
@settings(max_examples=200)
def test_decoding_gives_the_answers_back(data: st.DataObject) -> None:
    """Levels exactly; numbers to a millionth of their range, and what has few digits exactly."""
    encoder = data.draw(encoders())
    person = data.draw(answers(encoder, wild=False))
    shown = device_encoding.decode(encoder, device_encoding.encode(encoder, person))
    for attribute in encoder.attributes:
        given_, summary = person[attribute.name], shown[attribute.name]
        if isinstance(attribute, Category) or given_ is None:
            assert summary == given_
            continue
        low, high = attribute.visible_range
        tolerance = 6e-6 * (high - low) + 4 * np.spacing(max(abs(low), abs(high)))
        if isinstance(summary, str):  # three spreads away or more, which is all that a reader sees
            end, side = float(summary.split()[0]), 1 if summary.endswith("or more") else -1
            assert side * (given_ - end) >= -tolerance
            assert abs(end - (high if side > 0 else low)) <= tolerance + attribute.whole
        else:
            assert abs(float(summary) - given_) <= tolerance


def test_an_open_end_keeps_every_digit_that_its_range_can_show() -> None:
    """Fifteen digits were 4e-7 off, a tenth of what one step of this range means."""
    number = Number(
        name="x", low=435839765.0, high=435839766.0, average=435839765.7414889, spread=0.00260416
    )
    encoder = Encoder(attributes=(number,))
    for given_, side in ((number.high, "or more"), (number.low, "or less")):
        end = number.visible_range[side == "or more"]
        shown = device_encoding.decode(encoder, device_encoding.encode(encoder, {"x": given_}))
        assert shown == {"x": f"{round(end, 7)!r} {side}"}


def test_bins_that_differ_in_the_last_digit_have_names_of_their_own() -> None:
    edges = (0.1, math.nextafter(0.1, 1))
    menu = Menu(menu=(1.0,), default=1.0)
    number = Number(name="x", low=0, high=1, bins=edges, epsilon=menu)
    assert len(set(number.choices)) == 3


@given(st.integers(18, 100), st.sampled_from("fm"))
def test_whole_ages_are_shown_as_they_were_given(age: int, sex: str) -> None:
    assert device_encoding.decode(PAIR, device_encoding.encode(PAIR, {"age": age, "sex": sex})) == {
        "age": age,
        "sex": sex,
    }


def test_numbers_as_text_and_spaces_are_understood() -> None:
    assert (
        device_encoding.encode(PAIR, {"age": " 34 ", "sex": " m"})
        == device_encoding.encode(PAIR, {"age": 34, "sex": "m"})
    ).all()
    assert (
        device_encoding.encode(PAIR, {"age": np.float32(34), "sex": "m"})
        == device_encoding.encode(PAIR, {"age": np.int64(34), "sex": "m"})
    ).all()


@pytest.mark.parametrize(
    "age",
    [
        None,
        True,
        "",
        "NA",
        "old",
        "1_0",
        "nan",
        math.nan,
        math.inf,
        "1e999",
        10**400,
        1 << 20_000,
        [3],
        1j,
    ],
    ids=lambda age: type(age).__name__,
)
def test_answers_that_are_no_finite_numbers(age: Any) -> None:
    with pytest.raises(DataError, match="'age' must be a finite number, got"):
        device_encoding.encode(PAIR, {"age": age, "sex": "f"})


@pytest.mark.parametrize(
    "given_, summary",
    [
        ({"age": 3}, "no answer to 'sex'"),
        ({"age": 3, "sex": "f", "town": "x"}, "got 'town': they are 'age', 'sex'"),
        ({"age": 3, "sex": "x"}, "'sex' must be one of 'f', 'm', got 'x'"),
        ({"age": 3, "sex": ["f"]}, "'sex' must be one of"),
    ],
)
def test_answers_that_do_not_fit(given_: dict[str, Any], summary: str) -> None:
    with pytest.raises(DataError, match=summary):
        device_encoding.encode(PAIR, given_)


@pytest.mark.parametrize(
    "features, summary",
    [
        ([0.5, 0, 0.5], "vector of 4 entries"),
        ([[0.5, 0.5, 0, 0.5]], "vector of 4 entries"),
        ([0.5, 0.5, 0, 0], "positive constant"),
        ([0.5, math.nan, 0, 0.5], "finite"),
        ([9.0, -0.5, 0.5, 0.2], "must be those of an answer"),
        ([0.1, 0.5, 0.5, 0.5], "must be those of a single level"),
    ],
)
def test_features_that_no_answers_have(features: Any, summary: str) -> None:
    with pytest.raises(InvalidInput, match=summary):
        device_encoding.decode(PAIR, np.array(features, dtype=np.float32))
