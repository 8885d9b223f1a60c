"""The page of predictions: a person's answers in, the model's probabilities out, on the person's
own device.

One HTML document with its style, its script and the model inside. Its policy lets the browser
connect to nothing, so that it works from a disk and without a network; the same model gives the
same bytes.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from pdml import _validate
from pdml._version import __version__
from pdml.device.languages import constant
from pdml.encoding.scaling import LIMIT
from pdml.errors import InvalidInput
from pdml.formatting.markup import Markup, policy_hash
from pdml.model.export.javascript import ANY, DevicePipeline, device_pipeline
from pdml.model.model import Model
from pdml.pages import languages
from pdml.pages.languages import Share, catalogues
from pdml.pages.render import document
from pdml.study import Study
from pdml.study.translations import Question, Texts

_FEW = 5  # levels that are shown as buttons; more are a list


@dataclass(frozen=True, kw_only=True)
class Field:
    """One question of the form."""

    attribute: dict[str, Any]
    wording: Question

    @property
    def shape(self) -> str:
        """A text field for numbers, buttons for few levels, a list for many."""
        if self.attribute["kind"] == "number":
            return "text"
        return "radio" if len(self.attribute["levels"]) <= _FEW else "list"

    @property
    def keys(self) -> str:
        """What a phone shows to type with."""
        if self.attribute["range"][0] < 0:
            return "text"  # a keyboard of digits may lack the minus
        return "numeric" if self.attribute.get("whole") else "decimal"

    def hint(self, language: str) -> str:
        """What can be entered."""
        if self.shape != "text":
            return ""
        low, high = self.attribute["range"]
        if high == ANY:
            return languages.translate(language, "number.hint.any")
        key = "number.hint.whole" if self.attribute.get("whole") else "number.hint"
        return languages.translate(language, key, low=low, high=high)

    @property
    def optional(self) -> bool:
        return bool(self.attribute.get("missing"))

    @property
    def randomised(self) -> bool:
        """Whether the study's devices randomised it."""
        return "epsilon" in self.attribute


@dataclass(frozen=True, kw_only=True)
class PredictionPage:
    """Everything that the page shows: the context of ``prediction.html``."""

    model: Model
    texts: Texts | None = None  # the study's, if it was given
    code: str = "en"  # of the page's own words

    @cached_property
    def sheet(self) -> DevicePipeline:
        return device_pipeline(self.model)

    def say(self, key: str, **values: str | float) -> Markup:
        """A sentence of the page's own."""
        return languages.translate(self.code, key, **values)

    @property
    def direction(self) -> str:
        """In which its language is written."""
        return catalogues()[self.code]["language.direction"]

    @property
    def title(self) -> str:
        if self.texts is not None:
            return self.texts.title
        if not self.model.label:
            return self.say("page.title.plain")
        return self.say("page.title", label=str(self.model.label))

    @property
    def tab(self) -> str:
        """The title without tags, which a browser's tab would show."""
        return Markup(self.title).striptags() if self.texts is None else self.texts.title

    @property
    def language(self) -> str:
        """Of the study's words; "": the study does not say."""
        return self.texts.code if self.texts is not None else ""

    @property
    def question(self) -> str:
        """What is predicted."""
        return self.texts.question if self.texts is not None else self.model.label or ""

    @property
    def classes(self) -> tuple[str, ...]:
        names = self.texts.classes if self.texts is not None else self.model.classes
        return tuple(map(str, names))

    @cached_property
    def fields(self) -> list[Field]:
        attributes = self.sheet.attributes
        plain = [
            Question(attribute["name"], attribute["name"], "", attribute.get("levels", ()))
            for attribute in attributes
        ]
        wording: Sequence[Question] = plain if self.texts is None else self.texts.attributes
        return [
            Field(attribute=attribute, wording=question)
            for attribute, question in zip(attributes, wording, strict=True)
        ]

    @property
    def randomised(self) -> bool:
        return any(field.randomised for field in self.fields)

    @property
    def limit(self) -> str:
        """How many spreads from its average a number counts, in the encoder that has them."""
        scaled = any(field.shape == "text" and not field.randomised for field in self.fields)
        return self.say("trust.limit", limit=LIMIT) if scaled else ""

    @property
    def quality(self) -> Iterator[Markup]:
        """How good the model is, as far as its file says so."""
        expectation = self.model.expected
        if expectation is None:
            yield self.say("trust.silent")
        else:
            low, high = Share(expectation.accuracy.low), Share(expectation.accuracy.high)
            yield self.say("trust.expected", low=low, high=high)
            if expectation.confidence > expectation.accuracy.high:
                yield self.say("trust.surer", sure=Share(expectation.confidence))
        yield self.say("trust.largest")

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.model.to_bytes()).hexdigest()

    @property
    def version(self) -> str:
        return f"pdml {__version__}"

    @cached_property
    def style(self) -> Markup:
        """The contributor's page's, and what only this one has."""
        return Markup(_asset("device", "page.css") + _asset("pages", "templates/prediction.css"))

    @property
    def spoken(self) -> dict[str, str]:
        """The sentences that its script says."""
        starts = ("language.", "number.", "share.", "field.none")
        words = catalogues()[self.code].items()
        return {key: text for key, text in words if key.startswith(starts)}

    @cached_property
    def script(self) -> Markup:
        payload = {"sheet": self.sheet.to_dict(), "classes": self.classes, "language": self.code}
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        data = text.replace("<", "\\u003c")  # no tag ends the script
        parts = (
            '"use strict";\n',
            _asset("device", "encoding.js"),
            _asset("device", "i18n.js"),
            constant({self.code: self.spoken}),
            _asset("pages", "templates/predicting.js"),
            f"const MODEL = {data};\n",
            _asset("pages", "templates/prediction.js"),
        )
        return Markup("".join(parts))

    @property
    def policy(self) -> str:
        return (
            f"default-src 'none'; script-src {policy_hash(self.script)}; "
            f"style-src {policy_hash(self.style)}; img-src data:; form-action 'none'; "
            "base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )


def prediction_page(model: Model, study: Study | None = None, language: str = "") -> bytes:
    """A page on which a person has a model predict, without sending anything.

    Parameters
    ----------
    model : Model
        Trained by a study or on a table, so that it says what its columns are.
    study : Study, optional
        By which the model was trained: the page asks with its words; by default with the names of
        attributes, classes and levels.
    language : str, optional
        Of the page's own words, and of the study's, which must have it; by default the study's own,
        and English for what the page says of itself where the study does not say which, or where
        the page does not speak it.

    Returns
    -------
    bytes
        HTML, a function of the arguments and of the version of pdml alone.

    Raises
    ------
    InvalidInput
        If the model does not say what to ask, was not trained by the study, or the page or the
        study has no such language.

    Guarantees
    ----------
    - Probabilities are those of `Model.predict_proba`, to rounding.
    - Only the script and the style inside run, by their hashes, and the browser may connect to
      nothing. Nothing is stored.
    - What the model and the study say appears as text, never as markup.
    """
    if language and study is None:
        _validate.choice("language", language, tuple(catalogues()))
    if study is not None and model.provenance.get("study_hash") != study.hash:
        raise InvalidInput(
            f"study must be the one by which the model was trained, got {study.id!r} with another "
            "hash: its words would ask for something else",
            setting="study",
        )
    texts = None if study is None else study.texts(language)
    code = texts.code if texts is not None else language
    page = PredictionPage(model=model, texts=texts, code=code if code in catalogues() else "en")
    return document("prediction.html", page).encode("utf-8")


def _asset(room: str, name: str) -> str:
    return resources.files(f"pdml.{room}").joinpath(name).read_text(encoding="utf-8")
