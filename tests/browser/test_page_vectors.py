"""The page's arithmetic in a real browser, held to the vectors that Python is held to."""

import json
from pathlib import Path
from typing import Any

import pytest
from browsing import Visitor

VECTORS = Path(__file__).parents[1] / "vectors"
FLIPS = json.loads((VECTORS / "label_flip.json").read_text())
ENCODING = json.loads((VECTORS / "encoding.json").read_text())


def test_thresholds_and_decisions_are_the_vectors(visitor: Visitor) -> None:
    wrong: list[Any] = visitor.browser.execute_script(
        """
        const wrong = [];
        for (const {micro_epsilon, classes, threshold: bound, cases} of arguments[0]) {
          if (String(threshold(micro_epsilon, classes)) !== bound) wrong.push([micro_epsilon, classes]);
          for (const {word, flip} of cases) {
            const words = [BigInt(word), 0n];
            if ((randomise(0, micro_epsilon, classes, () => words.shift()) !== 0) !== flip) wrong.push([micro_epsilon, classes, word]);
          }
        }
        return wrong""",
        FLIPS["flips"],
    )
    assert wrong == []
    assert len(FLIPS["flips"]) > 50


def test_another_class_is_chosen_without_bias(visitor: Visitor) -> None:
    shifts: list[int] = visitor.browser.execute_script(
        """return arguments[0].map(({classes, words}) => {
          const drawn = words.map(BigInt);
          const shift = otherClass(classes - 1, classes, () => drawn.shift()) + 1;
          return drawn.length === 0 || words.length > 1 ? shift : -1;
        })""",
        FLIPS["other_class"],
    )
    assert shifts == [case["shift"] for case in FLIPS["other_class"]]


@pytest.mark.parametrize(
    "case", ENCODING["studies"], ids=lambda case: str(json.loads(case["canonical"])["study"]["id"])
)
def test_encoding_and_report_are_the_vectors_to_the_bit(
    visitor: Visitor, case: dict[str, Any]
) -> None:
    assert case["cases"]
    found = visitor.browser.execute_async_script(
        """
        const [canonical, cases, done] = arguments, study = JSON.parse(canonical);
        const of = ([hash, coder]) => ({hash, cases: cases.map(({answers, drawn, report}) => {
          const given = JSON.parse(answers), features = encode(coder, given, drawn);
          return {text: reportText(hash, report, features, report.token, report),
                  hex: hex(new Uint8Array(features.buffer)),
                  drawn: drawnIn(coder, unpack(pack(features))),
                  decoded: decode(coder, unpack(pack(features)))};
        })});
        Promise.all([sha256(canonical), coderOf(study)]).then(of).then(done)""",
        case["canonical"],
        [
            {**one, "answers": json.dumps(one["answers"]), "drawn": one.get("drawn", [])}
            for one in case["cases"]
        ],  # as text: -0 survives
    )
    assert found["hash"] == case["hash"]
    study = json.loads(case["canonical"])
    for mine, theirs in zip(found["cases"], case["cases"], strict=True):
        assert mine["hex"] == theirs["features_hex"]
        assert mine["text"] == theirs["report_bytes"]
        assert mine["drawn"] == theirs.get("drawn", [])
        for attribute in (one for one in study["attributes"] if "epsilon" not in one):
            got, expected = (one["decoded"][attribute["name"]] for one in (mine, theirs))
            if not isinstance(expected, float):
                assert got == expected
            else:  # what people see is rounded to six digits of the range
                low, high = attribute["range"]
                assert got == pytest.approx(expected, abs=1.01e-5 * (high - low), rel=1e-12)


def test_whose_memory_it_is_is_the_vectors(visitor: Visitor) -> None:
    """Another invitation is another person, in every study; nobody's key is another's."""
    given = [
        (keys[""], token)
        for case in ENCODING["studies"]
        for keys in [case["memory_keys"]]
        for token in keys
    ]
    found = visitor.browser.execute_async_script(
        """const [given, done] = arguments;
        Promise.all(given.map(([study, token]) => memoryKey(study, token))).then(done)""",
        given,
    )
    expected = [key for case in ENCODING["studies"] for key in case["memory_keys"].values()]
    assert found == expected and len(set(expected)) == len(expected) > 10
