"""The operator's page: one collection at a glance, from totals alone. It runs no script, and
reloads itself.
"""

from datetime import UTC, datetime
from importlib import resources
from math import ceil, isinf

from pdml.collect.summary import Summary
from pdml.mechanisms.label_flip import MILLION
from pdml.messages import PROBLEMS
from pdml.report import html, numbers
from pdml.report.html import Cell, exact, text
from pdml.report.operator_preview import LEAST, Estimate, Preview, Spending

RELOAD = 30  # seconds
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
_ESTIMATE = (
    "Chance changes answers on people’s devices with known probabilities. Taking these out "
    "leaves an estimate of how many of the "
    "people who reported hold each answer. In brackets stands the range that holds the "
    "true share in about 95 of 100 such "
    "collections. It is about the group, not about a person."
)
_TOO_FEW = (
    f"What people’s true answers are is estimated from {LEAST} reports on: of fewer, "
    "chance would tell more than they do."
)


def render(summary: Summary, preview: Preview) -> str:
    """The whole document: the same totals give the same page."""
    styles = "".join(
        resources.files("pdml.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "operator.css")
    )
    body = (
        _cards(summary),
        _minutes(summary),
        _trainable(preview),
        _answers(summary, preview),
        _problems(summary),
    )
    taken = f"{datetime.fromtimestamp(summary.taken_at, UTC):%Y-%m-%d %H:%M:%S}"
    style = " open" if summary.state == "open" and summary.in_window else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta http-equiv="refresh" content="{RELOAD}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{numbers.count(summary.reports)} reports · {text(summary.server)} · {text(preview.title)}</title>
<style>
{styles}</style>
</head>
<body>
<header>
<h1>{text(preview.title)} <span class="state{style}">{text(_state(summary))}</span></h1>
<p class="lead">Collection at <strong>{text(summary.server)}</strong>, {taken} UTC. Up for {_duration(summary.uptime)}.</p>
</header>
<main>
{"".join(part + chr(10) for part in body)}</main>
<footer>Study {text(summary.study_id)}, contract <code>{text(summary.study_hash)}</code>. This page runs no script, knows totals only, and
reloads every {RELOAD} seconds.</footer>
</body>
</html>
"""


def _state(summary: Summary) -> str:
    return (
        "outside its opening times"
        if summary.state == "open" and not summary.in_window
        else str(summary.state)
    )


def _duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    for size, noun in ((1440, "day"), (60, "hour")):
        if minutes >= 2 * size:
            return numbers.count(minutes // size, noun)
    return numbers.count(minutes, "minute")


def _card(name: str, value: int, below: str) -> str:
    return (
        f'<div class="card"><dt>{text(name)}</dt><dd '
        f'class="big">{exact(value, numbers.count(value))}</dd><dd>{text(below)}</dd></div>'
    )


def _cards(summary: Summary) -> str:
    issued = numbers.count(summary.invitations, "invitation")
    invited = (
        f"of {issued}; reports need one"
        if summary.require_tokens
        else f"of {issued}; reports need none"
    )
    cards = (
        _card(
            "Reports stored",
            summary.reports,
            f"{numbers.count(sum(summary.per_minute))} in the last hour",
        ),
        _card("Invitations used", summary.invitations_used, invited),
        _card("Withdrawn", summary.withdrawn, "by people who asked for it"),
        _card("Sent again", summary.replayed, "and counted once, since the start"),
    )
    return html.section("summary", "In short", "", f'<dl class="cards four">{"".join(cards)}</dl>')


def _minutes(summary: Summary) -> str:
    counts, most = summary.per_minute, max(summary.per_minute, default=0)
    top = _round_up(most)
    width, height, left, base = 900, 190, 68, 160
    step = (width - left) / len(counts)
    parts = []
    for value in (0, top // 2, top) if top > 1 else (0, 1):
        y = base - 140 * value / top
        parts.append(f'<line class="rule" x1="{left}" x2="{width}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(
            f'<text x="{left - 8}" y="{y + 4:g}" text-anchor="end">{numbers.count(value)}</text>'
        )
    for i, count in enumerate(counts):
        if count:
            tall, x = 140 * count / top, left + i * step + 1
            running = " running" * (i == len(counts) - 1)
            parts.append(
                f'<rect class="bar{running}" x="{x:.1f}" y="{base - tall:.1f}" '
                f'width="{step - 2:.1f}" height="{tall:.1f}" rx="2"/>'
            )
    for ago in (60, 45, 30, 15, 0):
        x = left + (len(counts) - ago) * step
        words, anchor = (
            (f"{ago} min ago", "start" if ago == 60 else "middle") if ago else ("now", "end")
        )
        style = ' class="between"' * (0 < ago < 60)
        parts.append(
            f'<text x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}"{style}>{words}</text>'
        )
    extent = f"{numbers.count(sum(counts))} in all, at most {numbers.count(most)} in one"
    told = f"Reports stored in each of the last {len(counts)} minutes: {extent}."
    picture = (
        f'<svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{text(told)}">{"".join(parts)}</svg>'
    )
    intro = "Counted in memory since the service started: the disk keeps the hour only."
    return html.section(
        "minutes", "Reports per minute", intro, f'<div class="minutes">{picture}</div>'
    )


def _round_up(value: int) -> int:
    """The least of 1, 2, 4, 10, 20, 40, ... that is not below, so that half of it is whole."""
    scale = 1
    while True:
        for lead in (1, 2, 4):
            if lead * scale >= value:
                return lead * scale
        scale *= 10


def _trainable(preview: Preview) -> str:
    intro = "If the data set were frozen now and the study’s plan carried out with it."
    weight = "answers without chance is the most that one report, true or false, can count for"
    facts = [
        (
            "Records",
            exact(preview.records, numbers.count(preview.records)),
            f"at least {numbers.count(preview.min_records)} are asked for",
        ),
        (
            "Worth",
            f"{exact(preview.worth, numbers.count(round(preview.worth)))}",
            "answers without chance would be about as exact",
        ),
        ("One report", _weight(preview), weight if preview.records else "no report yet"),
        ("Last safe round", _rounds(preview), _rounds_words(preview)),
    ]
    cards = "".join(
        f'<div class="card"><dt>{name}</dt><dd '
        f'class="big{" missing" * (big == "–")}">{big}</dd><dd>{text(small)}</dd></div>'
        for name, big, small in facts
    )
    style, verdict = _verdict(preview)
    content = f'<p class="verdict{style}">{text(verdict)}</p><dl class="cards four">{cards}</dl>'
    if preview.spending:
        columns = (("Data", ""), ("Planned ε", "number"), ("Budget ε", "number"), ("δ", "number"))
        table = html.table(
            "What all other servers together could learn",
            columns,
            [_spending(row) for row in preview.spending],
        )
        content += table
    return html.section("trainable", "What can be trained now", intro, content)


def _weight(preview: Preview) -> str:
    """Rounded up, because it says at most."""
    return (
        exact(preview.weight, f"{ceil(10 * preview.weight) / 10:,.1f}") if preview.records else "–"
    )


def _verdict(preview: Preview) -> tuple[str, str]:
    if not preview.enough:
        missing = preview.min_records - preview.records
        return (
            " not",
            f"Not enough yet: {numbers.count(missing, 'report')} more until this server may train.",
        )
    if preview.rounds is None:
        return (
            "",
            "Enough reports. The study settles no plan yet: pdml plan finds one for its budget.",
        )
    over = [row.data for row in preview.spending if row.planned > row.allowed]
    if over:
        return (
            " not",
            "Enough reports, but the plan would exceed the budget for "
            f"{' and '.join(over)}: training would refuse to start.",
        )
    return (
        "",
        f"Ready: {numbers.count(preview.rounds, 'round')} with these reports stay within "
        "the budget.",
    )


def _rounds(preview: Preview) -> str:
    return (
        "–"
        if preview.last_safe_round is None
        else exact(preview.last_safe_round, numbers.count(preview.last_safe_round))
    )


def _rounds_words(preview: Preview) -> str:
    if preview.rounds is None:
        return "the study settles no plan" if preview.records else "no report yet"
    planned = f"{numbers.count(preview.rounds)} are planned"
    return f"{planned}; the study sets no budget" if preview.last_safe_round is None else planned


def _spending(row: Spending) -> tuple[Cell, ...]:
    over = row.planned > row.allowed
    planned = (
        text(numbers.NO_PROTECTION)
        if isinf(row.planned)
        else exact(row.planned, numbers.epsilon(row.planned))
    )
    allowed = "no limit" if isinf(row.allowed) else exact(row.allowed, numbers.epsilon(row.allowed))
    return (
        Cell(text(row.data.capitalize()), header=True),
        Cell(planned, "number none" if over else "number"),
        Cell(allowed, "number"),
        Cell(exact(row.delta, numbers.delta(row.delta)), "number"),
    )


def _share(part: int, whole: int) -> str:
    share = part / whole if whole else 0.0
    meter = (
        f'<span class="meter" aria-hidden="true"><i style="width: {100 * share:.1f}%"></i></span>'
    )
    return f'<span class="share">{exact(share, numbers.percent(share))}{meter}</span>'


def _answers(summary: Summary, preview: Preview) -> str:
    levels = [
        (
            Cell(exact(epsilon / MILLION, f"{epsilon / MILLION:g}"), header=True),
            Cell(exact(count, numbers.count(count)), "number"),
            Cell(_share(count, summary.reports)),
        )
        for epsilon, count in sorted(summary.per_epsilon.items())
    ]
    enough = summary.reports >= LEAST
    answers = [
        (
            Cell(text(one.name), header=True),
            Cell(exact(one.reported, numbers.count(one.reported)), "number"),
            Cell(_share(one.reported, summary.reports)),
            Cell(_estimated(one) if enough else "–", "number"),
        )
        for one in preview.estimates
    ]
    chosen = html.table(
        "Which ε people chose", (("ε", ""), ("Reports", "number"), ("Share", "")), levels
    )
    columns = (("Answer", ""), ("Reports", "number"), ("Share", ""), ("Truth, estimated", "number"))
    told = html.table(f"{preview.question} As reported, after chance", columns, answers)
    return html.section(
        "answers",
        "What people reported",
        "",
        f'{told}<p class="reading">{_ESTIMATE if enough else _TOO_FEW}</p>{chosen}',
    )


def _estimated(one: Estimate) -> str:
    """A share that can be, never without its range."""
    low, high = (exact(end, numbers.percent(end)) for end in one.interval)
    return (
        f'{exact(one.share, numbers.percent(one.likely))} <span class="range">({low} to '
        f"{high})</span>"
    )


def _problems(summary: Summary) -> str:
    if not summary.problems:
        return html.section(
            "problems", "Problems", "Nothing was refused since the service started.", ""
        )
    rows = [
        (
            Cell(f"<code>{text(code)}</code>", header=True),
            Cell(text(PROBLEMS[code].title if code in PROBLEMS else "")),
            Cell(exact(count, numbers.count(count)), "number"),
        )
        for code, count in sorted(summary.problems.items(), key=lambda item: (-item[1], item[0]))
    ]
    table = html.table(
        "Refused since the service started",
        (("Code", ""), ("Meaning", ""), ("Times", "number")),
        rows,
    )
    return html.section("problems", "Problems", "", table)
