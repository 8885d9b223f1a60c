"""Any study that the rules allow."""

import math
import string
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pdml.accounting import Budget
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Bins, Fourier, Products, Splines, Squares
from pdml.planning.training_plan import SETTINGS, TrainingPlan
from pdml.study import Consent, Notice, Organiser, ServerEntry, Study, Wording
from pdml.study.schema.validation import Lookalikes, is_visible
from pdml.tables import MISSING

slugs = st.builds(
    str.__add__,
    st.sampled_from(string.ascii_lowercase),
    st.text(string.ascii_lowercase + string.digits + "._-", max_size=8),
)
letters = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf"))
texts = st.text(letters, min_size=1, max_size=12).map(str.strip).filter(is_visible)


def several_of(words: st.SearchStrategy[str], least: int, most: int):
    """Lists whose texts people can tell apart."""

    def distinct(found: list[str]) -> bool:
        seen = Lookalikes()
        return not any([seen.add(text) for text in found])

    return st.lists(words, min_size=least, max_size=most, unique=True).filter(distinct)


levels = texts.filter(lambda text: text not in MISSING)
epsilons = st.integers(10_000, 20_000_000).map(lambda micro: micro / 1e6)
times = st.datetimes(datetime(1900, 1, 1), datetime(2900, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)


def result(closes: datetime | None) -> st.SearchStrategy[dict[str, Any]]:
    """What people are told."""
    least = datetime(1900, 1, 1) if closes is None else closes.replace(tzinfo=None)
    later = st.datetimes(least, datetime(2901, 1, 1)).map(
        lambda moment: moment.replace(microsecond=0, tzinfo=UTC) + timedelta(seconds=1)
    )
    words = {"purpose": texts, "legal_basis": texts, "who_sees": texts, "retention": later}
    return st.fixed_dictionaries(
        {
            "organiser": st.builds(Organiser, name=texts, address=texts, contact=texts),
            "notice": st.builds(Notice, **words, text=st.just("") | texts),
            "consent": st.builds(Consent, text=texts, version=st.sampled_from(["1", "2.0-b"])),
        }
    )


@st.composite
def numbers(draw: st.DrawFn, name: str) -> Number:
    whole = draw(st.booleans())
    if whole:
        low = float(draw(st.integers(-(10**9), 10**9)))
        high = low + draw(st.integers(1, 10**9))
    else:
        low = draw(st.floats(-1e9, 1e9) | st.integers(-100, 100).map(float))
        high = low + draw(st.floats(1e-3, 1e9))
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["average"] = draw(st.floats(low, high))
        more["spread"] = (high - low) * draw(st.floats(1e-3, 0.999))
    more["missing"] = draw(st.sampled_from(["", "average"]))
    return Number(name=name, low=low, high=high, whole=whole, **more)


@st.composite
def encoders(draw: st.DrawFn) -> Encoder:
    names = draw(several_of(texts.filter(lambda text: "=" not in text), 1, 4))
    several = several_of(levels, 1, 5).map(tuple)
    gaps = st.sampled_from(["", "level"])
    attributes = tuple(
        draw(numbers(name))
        if draw(st.booleans())
        else Category(name=name, levels=draw(several), missing=draw(gaps))
        for name in names
    )
    spelt: tuple[str, ...] = draw(st.sampled_from([(), ("?", "NA"), ("", "-9")]))
    return Encoder(
        attributes=attributes,
        missing_values=spelt,
        maps=draw(feature_maps(attributes)),
    )


@st.composite
def feature_maps(draw: st.DrawFn, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """A few of them, each kind at most once: two of a kind may call their features the same."""
    entries = [name for one in attributes for name in one.feature_names]
    kinds = draw(st.sets(st.sampled_from(["squares", "products", "splines", "bins", "fourier"])))
    named = draw(st.lists(st.sampled_from(entries), min_size=1, max_size=3, unique=True))
    every: dict[str, Any] = {
        "squares": Squares(columns=tuple(named)),
        "products": Products(pairs=((named[0], named[-1]),)),
        "splines": Splines(columns=tuple(named)),
        "bins": Bins(columns=tuple(named), edges=draw(st.sampled_from([(), (-1.0, 0.25)]))),
        "fourier": Fourier(columns=tuple(named), count=draw(st.integers(1, 5)), seed=7),
    }
    return tuple(every[kind] for kind in sorted(kinds))


@st.composite
def answers(draw: st.DrawFn, encoder: Encoder, *, wild: bool = True) -> dict[str, Any]:
    """One person's; ``wild`` ones lie outside the ranges, too."""
    found: dict[str, Any] = {}
    for attribute in encoder.attributes:
        if attribute.missing and draw(st.booleans()):
            found[attribute.name] = None
        elif isinstance(attribute, Category):
            found[attribute.name] = draw(st.sampled_from(attribute.levels))
        elif attribute.whole:
            every = st.integers(int(attribute.low), int(attribute.high))
            outside = st.integers(-(10**12), 10**12)
            found[attribute.name] = draw(every | outside if wild else every)
        else:
            inside = st.floats(attribute.low, attribute.high)
            found[attribute.name] = draw(
                inside | st.floats(allow_nan=False, allow_infinity=False) if wild else inside
            )
    return found


def column(attribute: Any, people: list[dict[str, Any]]) -> Any:
    """Their answers as a table has them."""
    cells = [person[attribute.name] for person in people]
    if isinstance(attribute, Category):
        return np.array(["" if cell is None else cell for cell in cells], dtype=object)
    return np.array([math.nan if cell is None else float(cell) for cell in cells])


@st.composite
def studies(draw: st.DrawFn) -> Study:
    menu = tuple(sorted(draw(st.sets(epsilons, min_size=1, max_size=5))))
    names = draw(st.lists(slugs, min_size=2, max_size=5, unique=True))
    # A tree and a few more links: connected whatever is drawn.
    edges = {(names[draw(st.integers(0, i - 1))], names[i]) for i in range(1, len(names))}
    edges |= {
        (a, b)
        for a in names
        for b in names
        if names.index(a) < names.index(b) and draw(st.booleans())
    }
    encoder = draw(encoders())
    opens, closes = draw(st.none() | times), draw(st.none() | times)
    if opens and closes and closes <= opens:
        closes = None
    limit = st.floats(1e-6, 100)
    return Study(
        id=draw(slugs),
        title=draw(texts),
        description=draw(
            st.just("") | st.text(letters | st.just("\n"), max_size=30).filter(is_visible)
        ),
        question=draw(texts),
        classes=tuple(draw(several_of(texts, 2, 4))),
        menu=menu,
        accept_weak=menu[-1] > math.log(19),
        default_epsilon=draw(st.sampled_from(menu)),
        encoder=encoder,
        servers=tuple(ServerEntry(name, f"https://{i}.example") for i, name in enumerate(names)),
        edges=tuple(edges),
        budget=draw(
            st.none()
            | st.builds(Budget, features_epsilon=limit, labels_epsilon=st.just(math.inf) | limit)
        ),
        plan=draw(
            st.sampled_from(
                [
                    None,
                    TrainingPlan(rounds=3),
                    TrainingPlan(penalty=0.5, noise_scale=(1.0,) * len(names)),
                ]
            )
        ),
        plan_settings=draw(st.sampled_from([(), ("loss", "rounds"), tuple(SETTINGS)])),
        opens=opens,
        closes=closes,
        **draw(st.just({}) | result(closes)),
        min_records=draw(st.integers(1, 10**6)),
        wording={
            encoder.attributes[0].name: draw(
                st.builds(Wording, label=texts, help=st.just("") | texts)
            )
        },
    )
