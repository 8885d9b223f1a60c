"""What makes a document a study: every rule, applied to all of it, so that every mistake is told at
once.

A document is what `tomllib` makes of study.toml, or what JSON makes of the canonical form. `read`
returns the arguments of `Study` and the mistakes; the arguments are whole only if there are none.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from pdml.accounting import Budget
from pdml.accounting.budget import MOST_ROUNDS
from pdml.errors import InvalidInput
from pdml.formats import Format
from pdml.planning.training_plan import METHODS, SETTINGS, TrainingPlan
from pdml.study import participant_notice
from pdml.study.schema import fields
from pdml.study.schema.fields import (
    MOST_CLASSES,
    MOST_DELTA,
    MOST_RECORDS,
    MOST_SERVERS,
    TOPOLOGIES,
)
from pdml.study.schema.parse_menus import read_menu
from pdml.study.schema.parse_questions import read_encoder
from pdml.study.schema.parse_servers import fingerprint, read_relay, read_servers
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import ABSENT, Mistake, ValidationErrors, format_path
from pdml.study.translations import build_texts, read_language, read_languages
from pdml.tables import quote_names

FORMAT = Format(name="study", version=1)


def read(document: object) -> tuple[dict[str, Any], list[Mistake]]:
    """The arguments of `Study`, and every mistake as (path, sentence)."""
    f = ValidationErrors()
    if why := _other_format(document):
        f.add(("study", "format"), why)
        return {}, f.mistakes
    tables = f.table((), document, *fields.of(""))
    servers = read_servers(f, tables.get("servers", ABSENT), MOST_SERVERS)
    head = _head(f, tables.get("study", ABSENT))
    label = _label(f, tables.get("label", ABSENT))
    before = len(f.mistakes)
    questions = read_encoder(f, tables)
    sound = questions["encoder"] is not None and len(f.mistakes) == before
    notices = participant_notice.read(f, tables, head["closes"])
    texts = build_texts(
        code=head["language"],
        title=head.get("title", ""),
        description=head["description"],
        question=label["question"],
        classes=label["classes"],
        attributes=questions["encoder"].attributes if sound else (),
        wording=questions["wording"],
        notice=notices["notice"],
        consent=notices["consent"],
    )
    values = {
        **head,
        **label,
        **questions,
        "languages": read_languages(f, tables.get("languages", ABSENT), texts),
        "servers": servers,
        "edges": _topology(f, tables.get("topology", ABSENT), [server.name for server in servers]),
        "budget": _budget(
            f, tables.get("budget", ABSENT), max(1, len(servers) - 1), head["min_records"]
        ),
        **_plan(
            f, tables.get("plan", ABSENT), tables.get("servers", ABSENT), len(label["classes"])
        ),
        "relay": read_relay(f, tables.get("relay", ABSENT)),
        **notices,
    }
    return values, f.mistakes


def _other_format(document: object) -> str:
    """Why a study of another version cannot be read: its other settings would only confuse."""
    head = document.get("study") if isinstance(document, Mapping) else None
    version = head.get("format", 1) if isinstance(head, Mapping) else 1
    return FORMAT.refusal(version, "the study") if type(version) is int else ""


def _head(f: ValidationErrors, value: object) -> dict[str, Any]:
    at: Path = ("study",)
    table = f.table(at, value, *fields.of("study"))
    values: dict[str, Any] = {"description": "", "min_records": 50, "replaces": ""}
    values |= {"opens": None, "closes": None, "language": ""}
    checks: dict[str, Callable[[Path, Any], Any]] = {
        "id": f.name,
        "title": lambda path, value: f.text(path, value, 200),
        "description": lambda path, value: f.text(path, value, 5_000, paragraphs=True),
        "format": lambda path, value: f.whole_number(path, value, 1, FORMAT.version),
        "language": lambda path, value: read_language(f, path, value),
        "opens": f.time,
        "closes": f.time,
        "min_records": lambda path, value: f.whole_number(path, value, 1, MOST_RECORDS),
        "replaces": lambda path, value: fingerprint(f, path, value),
    }
    values |= {key: check((*at, key), table[key]) for key, check in checks.items() if key in table}
    values.pop("format", None)  # version 1 leaves no trace: studies keep their hashes
    if values["opens"] and values["closes"] and values["closes"] <= values["opens"]:
        f.reject((*at, "closes"), "be later than opens", table["closes"], "nobody could contribute")
    return values


def _label(f: ValidationErrors, value: object) -> dict[str, Any]:
    at: Path = ("label",)
    table = f.table(at, value, *fields.of("label"))
    values: dict[str, Any] = {"question": "", "classes": (), "menu": ()}
    values |= {"default_epsilon": math.nan, "accept_weak": False}
    if "question" in table:
        values["question"] = f.text(("label", "question"), table["question"], 500)
    if "classes" in table:
        at, classes = ("label", "classes"), table["classes"]
        values["classes"] = f.texts(at, classes, least=2, most=MOST_CLASSES)
    at = ("label", "epsilon")
    epsilon_menu = read_menu(f, at, table.get("epsilon", ABSENT))
    menu, default, values["accept_weak"] = epsilon_menu
    return values | {"menu": menu, "default_epsilon": default}


def _topology(
    f: ValidationErrors, value: object, names: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    at: Path = ("topology",)
    table = f.table(at, value, *fields.of("topology"))
    if isinstance(value, Mapping) and len(table) != 1:
        f.add(at, f"topology must have either edges or a kind ({' or '.join(TOPOLOGIES)})")
    elif "kind" in table:
        if table["kind"] not in TOPOLOGIES:
            kinds, why = " or ".join(map(repr, TOPOLOGIES)), "anything else is said by edges"
            f.reject((*at, "kind"), f"be {kinds}", table["kind"], why)
        elif table["kind"] == "complete":
            return tuple(combinations(names, 2))
        elif len(names) > 1:
            return _ordered(zip(names, (*names[1:], names[0]), strict=True), names)
    elif "edges" in table:
        return _edges(f, (*at, "edges"), table["edges"], names)
    return ()


def _edges(
    f: ValidationErrors, at: Path, value: object, names: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, (list, tuple)) or not value:
        f.reject(at, "be a list of pairs of servers", value)
        return ()
    before, servers = len(f.mistakes), set(names)
    links: set[frozenset[str]] = set()
    for i, pair in enumerate(value):
        two = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not two or not all(isinstance(end, str) for end in pair):
            f.reject((*at, i), "be a pair of names of servers", pair)
            continue
        for j, end in enumerate(pair):
            if end not in servers:
                f.reject((*at, i, j), "be the name of a server", end, f.suggest(end, names))
        if pair[0] == pair[1]:
            f.reject((*at, i), "link two different servers", pair)
        elif set(pair) <= servers:
            if frozenset(pair) in links:
                f.reject((*at, i), "link servers that are not linked yet", pair)
            links.add(frozenset(pair))
    edges = _ordered((tuple(pair) for pair in links), names)
    # a misspelt name would be told twice
    if len(f.mistakes) == before and (lonely := _cut_off(names, edges)):
        apart = f"but {quote_names(lonely)} cannot be reached from {names[0]!r}"
        f.add(at, f"{format_path(at)} must connect all servers, {apart}")
    return edges


def _cut_off(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    """The servers that the first one cannot reach."""
    linked: dict[str, set[str]] = {name: set() for name in names}
    for a, b in edges:
        linked[a].add(b)
        linked[b].add(a)
    reached: set[str] = set()
    front = list(names[:1])
    while front:
        name = front.pop()
        reached.add(name)
        front += linked[name] - reached
    return [name for name in names if name not in reached]


def _ordered(edges: Iterable[Sequence[str]], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Each link once, servers in the study's order: the same graph is the same text."""
    place = {name: i for i, name in enumerate(names)}
    pairs = sorted({(min(place[a], place[b]), max(place[a], place[b])) for a, b in edges})
    return tuple((names[a], names[b]) for a, b in pairs)


def _budget(
    f: ValidationErrors, value: object, most_colluding: int, min_records: int | None
) -> Budget | None:
    if value is ABSENT:
        return None
    rows = dict(f.table(("budget",), value, *fields.of("budget")))
    colluding = rows.pop("colluding", None)
    if colluding is not None:
        colluding = f.whole_number(("budget", "colluding"), colluding, 1, most_colluding)
    if isinstance(value, Mapping) and not rows:
        f.add(("budget",), "budget must limit features or labels, or be left out")
    limits: dict[str, float] = {}
    for row in rows:
        at: Path = ("budget", row)
        table = f.table(at, rows[row], *fields.of(f"budget.{row}"))
        for key, number in ({"delta": Budget.features_delta} | table).items():
            limit = f.number((*at, key), number)
            most = _most_delta(min_records) if key == "delta" else math.inf
            if limit is not None and limit > most:
                f.reject((*at, key), f"be at most {most:g}", number, _WHY_SMALL)
            elif limit is not None and not limit > 0:
                f.reject((*at, key), "be positive", number)
            elif limit is not None:
                limits[f"{row}_{key}"] = limit
    return Budget(**limits, colluding=colluding)


_WHY_SMALL = "with a chance of delta nothing is promised, and whoever shows one of n people's "
_WHY_SMALL += "records, chosen by lot, keeps to a delta of 1/n"


def _most_delta(min_records: int | None) -> float:
    """Of a study whose servers train with so few people."""
    return min(MOST_DELTA, 1 / (min_records or 1))


def _plan(f: ValidationErrors, value: object, servers: object, classes: int) -> dict[str, Any]:
    """Each setting by itself, so that every mistake is told; then all of them together."""
    before = len(f.mistakes)
    settings: dict[str, Any] = {}
    table = f.table(("plan",), value, (), tuple(SETTINGS))
    method = {"method": table["method"]} if table.get("method") in METHODS else {}
    for key, item in table.items():
        path: Path = ("plan", key)
        setting, count = SETTINGS[key], len(f.mistakes)
        if setting.per_server and isinstance(item, (list, tuple)):
            settings[key] = tuple(f.number((*path, i), part) for i, part in enumerate(item))
            if isinstance(servers, (list, tuple)) and len(item) not in (1, len(servers)):
                f.add(
                    path,
                    f"plan.{key} must be one number or one per server ({len(servers)} of them), "
                    f"got {len(item)}",
                )
        elif setting.kind is str:
            settings[key] = f.text(path, item, 100)
        elif setting.kind is int:
            settings[key] = f.whole_number(path, item, 1, MOST_ROUNDS)
        else:
            settings[key] = f.number(path, item)
        if len(f.mistakes) == count:
            _refused(f, path, partial(TrainingPlan, **(method | {key: settings[key]})))
    if len(f.mistakes) > before or not settings:
        return {"plan": None, "plan_settings": ()}
    _refused(f, ("plan",), partial(TrainingPlan, **settings))
    if classes >= 2:
        _refused(f, ("plan", "loss"), lambda: TrainingPlan(**settings).loss_for(classes))
    plan = None if len(f.mistakes) > before else TrainingPlan(**settings)
    return {"plan": plan, "plan_settings": tuple(settings)}


def _refused(f: ValidationErrors, path: Path, make: Callable[[], object]) -> None:
    try:
        make()
    except InvalidInput as error:
        f.add(path, f"plan.{error}")
