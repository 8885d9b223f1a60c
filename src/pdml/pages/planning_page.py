"""The page on which a board sees how many people a consortium needs: sliders over one forecast."""

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from pdml._version import __version__
from pdml.formatting import numbers
from pdml.formatting.markup import Markup, policy_hash
from pdml.pages import render
from pdml.planning.forecast.people_needed import MOST_SERVERS, PeopleForecast
from pdml.planning.forecast.yardstick import Yardstick

_MEASURES = {
    Yardstick.AUC: (
        "AUC",
        "the chance that somebody who has it gets a higher score than somebody who does not; 50% "
        "is pure chance",
    ),
    Yardstick.TOP_FIFTH: (
        "found in the top fifth",
        "how many of those who have it are among the 20% with the highest score; 20% is pure "
        "chance",
    ),
    Yardstick.SENSITIVITY: (
        "sensitivity",
        "how many of those who have it lie above the line that 10% of the others exceed; 10% is "
        "pure chance",
    ),
    Yardstick.ACCURACY: ("right answers", "how often the model says the right class"),
    Yardstick.AGREEMENT: (
        "agreement",
        "how often the model says what one made without privacy would say",
    ),
}


@dataclass(frozen=True)
class _Page:
    """What the template asks for."""

    forecast: PeopleForecast
    target: float

    most_servers = MOST_SERVERS
    version = f"pdml {__version__}"

    @property
    def measure(self) -> str:
        return _MEASURES[self.forecast.yardstick][0]

    @property
    def meaning(self) -> str:
        return _MEASURES[self.forecast.yardstick][1]

    @property
    def without_privacy(self) -> str:
        return f"{self.forecast.without_privacy:.1%}"

    @property
    def questions(self) -> str:
        return numbers.count(self.forecast.sizes.width - 1, "column")

    @property
    def prevalence(self) -> str:
        shares = self.forecast.sizes.prevalence
        if shares is None:
            return "classes of many sizes"
        low, high = (f"{share:.3g}" for share in (100 * shares[0], 100 * shares[1]))
        return f"{low}% have it" if low == high else f"{low}% to {high}% have it"

    @property
    def features(self) -> str:
        delta = numbers.delta(self.forecast.delta)
        return f"ε = {self.forecast.features_epsilon:g}, δ = {delta}"

    @property
    def data_sets(self) -> int:
        return int(self.forecast.scores.shape[-1])

    @cached_property
    def style(self) -> Markup:
        return Markup(_asset("page.css") + _asset("planning.css"))

    @cached_property
    def script(self) -> Markup:
        facts = self.forecast.to_dict() | {"target": self.target}
        data = json.dumps(facts, sort_keys=True).replace("<", "\\u003c")
        return Markup(f'"use strict";\nconst forecast = {data};\n\n{_asset("planning.js")}')

    @property
    def policy(self) -> str:
        return (
            f"default-src 'none'; script-src {policy_hash(self.script)}; "
            f"style-src {policy_hash(self.style)}; img-src data:; form-action 'none'; "
            "base-uri 'none'"
        )


def planning_page(forecast: PeopleForecast, target: float) -> bytes:
    """How many people are needed, with sliders for organisations, who may collude, ε and people.

    Parameters
    ----------
    forecast : PeopleForecast
    target : float
        What is to be reached, by the forecast's yardstick.

    Returns
    -------
    bytes
        HTML; nothing is loaded or sent.
    """
    return render.document("planning.html", _Page(forecast, target)).encode("utf-8")


def _asset(name: str) -> str:
    return resources.files("pdml.pages").joinpath(f"templates/{name}").read_text("utf-8")
