"""How numbers are written for people: one small place, so that a page, a card and a figure say the
same thing."""

from math import ceil, floor, isfinite, isinf, isnan, log10

NO_PROTECTION = "no protection"
MISSING = "not measured"

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def significant(value: float, digits: int = 3) -> str:
    """``digits`` significant digits: 0.325, 16.7, 1,230, and 1.2 × 10⁻⁷ where zeros would be hard
    to count."""
    if not isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else MISSING
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    exponent = floor(log10(abs(rounded)))
    if -4 <= exponent < 6:
        return _minus(f"{rounded:,.{max(0, digits - 1 - exponent)}f}")
    return _minus(f"{rounded / 10.0**exponent:.{digits - 1}f} × {_power(exponent)}")


def epsilon(value: float) -> str:
    """ε with three significant digits; infinity is said in words, because a symbol reads like a
    large guarantee."""
    if isnan(value):
        return MISSING
    return NO_PROTECTION if isinf(value) else significant(value)


def delta(value: float) -> str:
    """δ as a power of ten once it is small: 10⁻⁶, 2.5 × 10⁻⁷."""
    if not isfinite(value) or value == 0 or value >= 1e-3:
        return MISSING if isnan(value) else f"{value:.3g}"
    lead, exponent = f"{value:.2e}".split("e")
    power = _power(int(exponent))
    return power if float(lead) == 1 else f"{float(lead):g} × {power}"


def tick(value: float) -> str:
    """A label of an axis: as short as it can be."""
    if 0 < value < 1e-3:
        return delta(value)
    return significant(value) if abs(value) >= 1e6 else _minus(f"{value:,g}")


def percent_tick(value: float) -> str:
    """A share as a label of an axis, with as few decimals as it takes."""
    return f"{round(100 * value, 3):g}%"


def percent(value: float | None) -> str:
    """A share with one decimal."""
    return MISSING if value is None or not isfinite(value) else f"{100 * value:.1f}%"


def difference(value: float) -> str:
    """A gain or a loss between two shares, in words."""
    size = f"{abs(100 * value):.1f}"
    return (
        "makes no difference"
        if float(size) == 0
        else f"{'gains' if value > 0 else 'loses'} {size} percentage points"
    )


def certainty(value: float) -> str:
    """A share that is never rounded up to certainty: "over 99.9%" says less than "100%" does."""
    return "over 99.9%" if value >= 0.9995 else percent(value)


def count(value: int, noun: str = "") -> str:
    """A whole number with thousands set apart: 1 link, 1,300 links."""
    return f"{value:,}" + (f" {noun}{'' if value == 1 else 's'}" if noun else "")


def coalition(colluding: int, *, all_others: bool = False) -> str:
    """So many other servers: any of them, or all that there are."""
    if colluding == 1:
        return "any 1 other server"
    return f"{'all' if all_others else 'any'} {colluding:,} other servers together"


def sizes(noun: str, parties: int, links: int, rounds: int) -> str:
    """Who trained together and how: along links in rounds, or, without any, in one exchange."""
    if not rounds:
        return f"{count(parties, noun)}, one exchange of sums"
    return f"{count(parties, noun)}, {count(links, 'link')}, {count(rounds, 'round')}"


def at_most(value: float) -> str:
    """One decimal, rounded up: for what is called the most that can be."""
    return f"{ceil(10 * value) / 10:,.1f}"


def duration(seconds: float) -> str:
    """In the largest unit of which there are two at least."""
    minutes = int(seconds // 60)
    for size, noun in ((1440, "day"), (60, "hour")):
        if minutes >= 2 * size:
            return count(minutes // size, noun)
    return count(minutes, "minute")


def setting(value: object) -> str:
    """A public setting as it is typed: 0.3, or one for each server."""
    if isinstance(value, (tuple, list)):
        return ", ".join(map(setting, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def machine(value: float) -> str:
    """Twelve digits for machines: in the last ones those differ."""
    return repr(float(f"{value:.12g}"))


def _power(exponent: int) -> str:
    return "10" + str(exponent).translate(_RAISED)


def _minus(text: str) -> str:
    return text.replace("-", "−")
