"""The page of predictions as a document: whose words it has, what it promises, what it refuses.
What it does in a browser is tested in tests/browser/test_prediction_in_browser.py.
"""

import hashlib
import html
import re
from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest
from example_study import STUDY

from pdml.encoding.encoder import Category, Encoder, Number
from pdml.errors import InvalidInput
from pdml.model.model import Model
from pdml.numerics.interval import Range
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.pages.prediction_page import prediction_page
from pdml.study import Wording
from pdml.study.translations import Question, Texts

GERMAN = Texts(
    code="de",
    title="Wer ist gefährdet?",
    description="Eine Umfrage.",
    question="Wurden Sie diagnostiziert?",
    classes=("nein", "ja"),
    attributes=(
        Question("age", "Wie alt sind Sie?", "In Jahren."),
        Question("sex", "Geschlecht", levels=("weiblich", "männlich", "anders")),
    ),
)
ASKED = replace(
    STUDY,
    language="en",
    languages=(GERMAN,),
    wording={"age": Wording(label="How old are you?", help="In years.")},
)
EXPECTED = Expectation(
    accuracy=Range(low=0.71, middle=0.75, high=0.8),
    auc=Range(low=0.7, middle=0.8, high=0.9),
    confidence=0.83,
)


def model(encoder: Encoder = ASKED.encoder, **fields: object) -> Model:
    return Model(
        **{  # type: ignore[arg-type]
            "classes": ASKED.classes,
            "coefficients": np.ones((1, encoder.n_features)),
            "intercepts": np.zeros(1),
            "norm_bound": 1.0,
            "fit_intercept": True,
            "encoder": encoder.to_dict(),
            "label": "ill",
            "provenance": {"study_hash": ASKED.hash},
        }
        | fields
    )


def text(page: bytes) -> str:
    """What people read."""
    body = re.sub(rb"<(style|script)>.*?</\1>", b"", page, flags=re.DOTALL).decode("utf-8")
    body = re.sub(r"</?(?:data|bdi|strong|code)\b[^>]*>", "", body)  # within sentences
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def test_the_same_model_gives_the_same_bytes():
    page = prediction_page(model())
    assert page == prediction_page(model()) != prediction_page(model(), ASKED)
    assert hashlib.sha256(model().to_bytes()).hexdigest() in text(page)


def test_only_what_stands_in_it_runs():
    page = prediction_page(model(), ASKED).decode("utf-8")
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1])
    assert policy.startswith("default-src 'none'; ") and "http" not in policy
    allowed = re.findall(r"'sha256-[^']+'", policy)
    inside = [
        re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1] for tag in ("script", "style")
    ]
    hashes = [b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inside]
    assert allowed == [f"'sha256-{each}'" for each in hashes]
    assert not re.search(r"https?://|localStorage|sessionStorage|fetch\(|XMLHttp|cookie", page)


def test_it_asks_with_the_names_of_the_model_or_with_the_study_s_words():
    plain, own, german = (
        text(prediction_page(*given))
        for given in ((model(),), (model(), ASKED), (model(), ASKED, "de"))
    )
    assert "Predict ill" in plain and " age A number from 18 to 100." in plain
    assert "How old are you? In years. A number from 18 to 100." in own
    assert "Have you been diagnosed? The model’s answer:" in own
    assert "Wie alt sind Sie?" in german and "weiblich" in german and "female" not in german
    assert 'lang="de"' in prediction_page(model(), ASKED, "de").decode()


def test_what_others_wrote_is_text():
    wild = Category(name='<b onclick="x">', levels=("</script><script>alert(1)</script>", "y"))
    page = prediction_page(model(Encoder(attributes=(wild, Number(name="n", low=-1, high=1)))))
    assert page.count(b"<script>") == page.count(b"</script>") == 1
    assert b"<b onclick" not in page


def test_it_says_how_good_the_model_is_as_far_as_that_is_known():
    silent, output = text(prediction_page(model())), text(prediction_page(model(expected=EXPECTED)))
    assert "does not say how often it is right" in silent and "expected to be right" not in silent
    assert "expected to be right for 71.0% to 80.0% of people" in output
    assert "surer than it is right: on average it gives 83.0%" in output
    modest = replace(EXPECTED, confidence=0.76)
    assert "surer than" not in text(prediction_page(model(expected=modest)))
    for page in (silent, output):
        assert "no diagnosis" in page and "most frequent class" in page


def test_a_model_for_the_house_says_so():
    assert "not to be shared" in text(prediction_page(model(local="alice")))
    assert "not to be shared" not in text(prediction_page(model()))


def test_spreads_are_named_where_there_are_any():
    assert "more than 3 spreads" in text(prediction_page(model()))
    levels = tuple(one for one in ASKED.attributes if not isinstance(one, Number))
    assert "spreads" not in text(prediction_page(model(Encoder(attributes=levels))))


def test_another_study_and_a_language_that_is_not_there_are_refused():
    with pytest.raises(InvalidInput, match="study must be the one by which"):
        prediction_page(model(), replace(ASKED, title="Another"))
    with pytest.raises(InvalidInput, match="language must be one of the study's"):
        prediction_page(model(), ASKED, "fr")
    with pytest.raises(InvalidInput, match="language must be one of 'en'"):
        prediction_page(model(), language="pt")


def test_the_page_speaks_the_language_of_the_study_s_words_or_the_one_asked_for():
    german, plain = prediction_page(model(), ASKED, "de"), prediction_page(model(), language="de")
    for page in (german, plain):
        assert b'<html lang="de" dir="ltr">' in page and "Eine Zahl von 18 bis 100." in text(page)
        assert "Nichts, was Sie eingeben, verlässt diese Seite." in text(page)
    assert "Vorhersage: ill" in text(plain) and "Wer ist gefährdet?" in text(german)
    assert "derselben Studie" not in text(plain) and "derselben Studie" in text(german)
    arabic = prediction_page(model(expected=EXPECTED), language="ar")
    assert b'<html lang="ar" dir="rtl">' in arabic
    unsaid = replace(ASKED, language="", languages=())
    of_it = model(provenance={"study_hash": unsaid.hash})
    assert b'<html lang="en" dir="ltr">' in prediction_page(of_it, unsaid)


def test_numbers_can_be_read_without_the_script_and_are_marked_for_it():
    half = Number(name="n", low=-1, high=0.5)
    page = prediction_page(model(Encoder(attributes=(half,)), expected=EXPECTED), language="de")
    assert b'<data class="number" value="0.5">0,5</data>' in page
    assert b'<data class="share" value="0.71">71,0%</data>' in page
