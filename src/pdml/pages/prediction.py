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

import pdml
from pdml.core.scaling import LIMIT
from pdml.errors import InvalidInput
from pdml.markup import Markup, policy_hash
from pdml.pages import numbers
from pdml.pages.html import document
from pdml.release.model import Model
from pdml.release.worksheet import ANY, Worksheet, worksheet
from pdml.study import Study
from pdml.study.languages import Question, Texts

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

    @property
    def hint(self) -> str:
        """What can be entered."""
        if self.shape != "text":
            return ""
        if self.attribute["range"][1] == ANY:
            return "Any number."
        low, high = (f"{end:.15g}" for end in self.attribute["range"])
        kind = "whole number" if self.attribute.get("whole") else "number"
        return f"A {kind} from {low} to {high}."

    @property
    def optional(self) -> bool:
        return bool(self.attribute.get("missing"))

    @property
    def randomised(self) -> bool:
        """Whether chance decided in the study what was reported."""
        return "epsilon" in self.attribute


@dataclass(frozen=True, kw_only=True)
class PredictionPage:
    """Everything that the page shows: the context of ``prediction.html``."""

    model: Model
    texts: Texts | None = None  # the study's, if it was given

    @cached_property
    def sheet(self) -> Worksheet:
        return worksheet(self.model)

    @property
    def title(self) -> str:
        if self.texts is not None:
            return self.texts.title
        return f"Predict {self.model.label}" if self.model.label else "Predict"

    @property
    def language(self) -> str:
        """Of the study's words; "": it is not known."""
        return self.texts.code if self.texts is not None else ""

    @property
    def question(self) -> str:
        """What is predicted."""
        return self.texts.question if self.texts is not None else self.model.label or ""

    @property
    def classes(self) -> tuple[str, ...]:
        shown = self.texts.classes if self.texts is not None else self.model.classes
        return tuple(map(str, shown))

    @cached_property
    def fields(self) -> list[Field]:
        asked = self.sheet.attributes
        plain = [Question(one["name"], one["name"], "", one.get("levels", ())) for one in asked]
        wording: Sequence[Question] = plain if self.texts is None else self.texts.attributes
        return [
            Field(attribute=one, wording=said) for one, said in zip(asked, wording, strict=True)
        ]

    @property
    def randomised(self) -> bool:
        return any(field.randomised for field in self.fields)

    @property
    def limit(self) -> str:
        """How many spreads from what is typical a number counts, in the encoder that has them."""
        scaled = any(field.shape == "text" and not field.randomised for field in self.fields)
        return f"{LIMIT:g}" if self.sheet.version > 1 and scaled else ""

    @property
    def quality(self) -> Iterator[str]:
        """How good the model is, as far as its file says so."""
        told = self.model.expected
        if told is None:
            yield (
                "The model's file does not say how often it is right. Whoever published it should, "
                "measured on people of whom it knew nothing."
            )
        else:
            low, high = map(numbers.percent, (told.accuracy.low, told.accuracy.high))
            yield (
                f"By what was released in its training, the model is expected to be right for "
                f"{low} to {high} of people like those it was made from. In about one "
                "training of five the truth lies outside of such an interval."
            )
            if told.confidence > told.accuracy.high:
                sure = numbers.percent(told.confidence)
                yield (
                    f"It is surer than it is right: on average it gives {sure} to the class that "
                    "it names."
                )
        yield (
            "Whoever always names the most frequent class is right as often as that class occurs, "
            "without looking at anybody: a model is worth as much as it does better than that. "
            "Its file does not say how frequent the classes are."
        )

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.model.to_bytes()).hexdigest()

    @property
    def version(self) -> str:
        return pdml.__version__

    @cached_property
    def style(self) -> Markup:
        """The contributor's page's, and what only this one has."""
        return Markup(
            _asset("contribute", "page.css") + _asset("pages", "templates/prediction.css")
        )

    @cached_property
    def script(self) -> Markup:
        told = {"sheet": self.sheet.to_dict(), "classes": self.classes}
        given = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        data = given.replace("<", "\\u003c")  # no tag ends the script
        parts = (
            '"use strict";\n',
            _asset("contribute", "encoding.js"),
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
        Of the study's words: one that it has; by default its own.

    Returns
    -------
    bytes
        HTML, a function of the arguments and of the version of pdml alone.

    Raises
    ------
    InvalidInput
        If the model does not say what to ask, was not trained by the study, or the study has no
        such language.

    Guarantees
    ----------
    - Probabilities are those of `Model.predict_proba`, to rounding.
    - Only the script and the style inside run, by their hashes, and the browser may connect to
      nothing. Nothing is stored.
    - What the model and the study say appears as text, never as markup.
    """
    if language and study is None:
        raise InvalidInput(
            f"language must come with study, whose words it chooses, got {language!r} alone",
            setting="language",
        )
    if study is not None and model.provenance.get("study_hash") != study.hash:
        raise InvalidInput(
            f"study must be the one by which the model was trained, got {study.id!r} with another "
            "hash: its words would ask for something else",
            setting="study",
        )
    texts = None if study is None else study.texts(language)
    return document("prediction.html", PredictionPage(model=model, texts=texts)).encode("utf-8")


def _asset(room: str, name: str) -> str:
    return resources.files(f"pdml.{room}").joinpath(name).read_text(encoding="utf-8")
