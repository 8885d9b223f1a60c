"""A whole study file: every table in its order, and every rule; all mistakes are found at once.

A document is what `tomllib` makes of study.toml, or what JSON makes of the canonical form.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pdml.accounting import Budget
from pdml.accounting.budget import MOST_ROUNDS
from pdml.accounting.kinds import Data
from pdml.errors import InvalidInput
from pdml.formats import Format
from pdml.planning.training_plan import METHODS, SETTINGS, TrainingPlan
from pdml.study.participant_notice import Consent, Notice, Organiser
from pdml.study.schema import questions, servers
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import (
    ABSENT,
    Key,
    Mistake,
    TableSpec,
    ValidationErrors,
    as_fields,
    declared_keys,
    names_of,
    plain,
    read_table,
    whole_number,
    write_fields,
)
from pdml.study.translations import Question, Texts, build_texts, read_languages, translated_keys

FORMAT = Format(name="study", version=1)
MOST_DELTA = 1e-3
_WHY_SMALL = "with a chance of delta nothing is promised, and whoever shows one of n people's "
_WHY_SMALL += "records, chosen by lot, keeps to a delta of 1/n"

_LIMIT = {
    "epsilon": Key(help="The limit; positive.", read=ValidationErrors.number, required=True),
    "delta": Key(
        help=f"The chance for which nothing is promised, at most {MOST_DELTA:g} and at most one in "
        "`min_records`; by default 1e-6.",
        read=ValidationErrors.number,
    ),
}

# In the order in which a new file has them.
TABLES: dict[str, TableSpec] = {
    "study": TableSpec(
        help="Its name, and when people can take part.",
        required=True,
        keys={
            "format": Key(
                help="The version of this file's format; by default 1. It leaves no trace in the "
                "hash.",
                read=whole_number(1, FORMAT.version),
            )
        },
    ),
    "organiser": TableSpec(
        help="Who answers for the study. People are asked only by a study with this, `notice` and "
        "`consent`.",
        record=Organiser,
        comment="Who answers for the study: people read it first, and it stands on their receipt.",
    ),
    "notice": TableSpec(
        help="What people are told of what becomes of their answers.",
        record=Notice,
        comment="What people are told of what becomes of their answers. When retention comes, "
        "collection services\nerase all reports, as if everybody had withdrawn.",
    ),
    "consent": TableSpec(
        help="What people agree to before they answer.",
        record=Consent,
        comment="What people tick before they answer. Every report carries the version, and the "
        "sha256 of the text.",
    ),
    "label": TableSpec(
        help="The sensitive question.",
        required=True,
        keys={"epsilon": Key(help="How private people may be.", required=True)},
        comment="""\
What people keep secret: the device randomises the answer before it is sent. The smaller
epsilon, the more seldom it is the true answer. The first on the menu is the floor, because a
report with a small epsilon weighs more in training. Above 2.944438 a report can make people more
than 95% sure: a study that wants that says accept_weak = true.""",
    ),
    "label.epsilon": TableSpec(),
    "encoder": TableSpec(
        help="How answers become features, and what stands for no answer in tables. It may be left "
        "out.",
        keys=questions.ENCODER,
        comment="""\
How answers become features. missing_values = ["NA", "?"] says what stands for no answer in
tables, besides an empty cell.""",
    ),
    "attributes": TableSpec(
        help=f"What the model predicts from, 1 to {questions.MOST_ATTRIBUTES:,} tables of at most "
        f"{questions.MOST_FEATURES:,} features together. Their order numbers the features.",
        required=True,
        many=True,
        keys=questions.ATTRIBUTES,
        comment="""\
What the model predicts from. The collecting organisation can read these answers. Ranges and levels
are decided beforehand, never taken from people's records: answers outside a range are moved to its
ends, other levels cannot be given. A number with whole = true takes no fractions.
Most people lie within average ± spread (by default the middle of the range and a sixth of its
width): the nearer to the truth, the better the model. Write what you expect without looking.
People may skip a question with missing = "average" (a number) or missing = "level" (a category).
""",
    ),
    "maps": TableSpec(
        help=f"Further features that devices make of the answers, at most {questions.MOST_MAPS} "
        "tables.",
        many=True,
        keys=questions.MAPS,
        comment="Further features that devices make of the answers; the collecting "
        "organisation can read these, too.",
    ),
    "languages": TableSpec(
        help="The texts in other languages, a table for each; they are part of the study. A "
        "translation is whole: it says all that the study says in its own.",
        many=True,
        record=Texts,
        comment="""\
The texts in other languages, for the form. Each says all that the study says in its own; names,
classes and levels stay what they are in reports and tables.""",
    ),
    "languages.attributes": TableSpec(record=Question, many=True),
    "languages.notice": TableSpec(),
    "languages.consent": TableSpec(),
    "servers": TableSpec(
        help=f"Who collects and trains, 2 to {servers.MOST_SERVERS:,} tables. Their order numbers "
        "them.",
        required=True,
        many=True,
        record=servers.ServerEntry,
        comment="Who collects and trains. The order numbers the servers.",
    ),
    "topology": TableSpec(
        help="Who talks to whom: edges, or a kind. All servers must be connected.",
        required=True,
        keys=servers.TOPOLOGY,
        comment='Who talks to whom in training: edges = [["a", "b"], ...], or kind = "ring" or '
        '"complete".',
    ),
    "budget": TableSpec(
        help="The most that all other servers together, or `colluding` of them, may learn from all "
        "trainings. Organisations train only under a study whose budget ends.",
        keys={
            "features": Key(
                help="What they may learn of people's records. Where every attribute has an "
                "`epsilon`, it must lie below the sum of the smallest ones of all menus, the "
                "label's included.",
                example="{ epsilon = 1, delta = 1e-6 }",
            ),
            "labels": Key(help="What they may learn of people's labels."),
            "colluding": Key(
                help="How many others together both limits hold against; by default all."
            ),
        },
        comment="""\
The most that all other servers together may learn about one person, from all trainings; a job
that would exceed it is refused. It must end: limit features (or labels, below the menu's floor).
colluding = k limits what any k of them together may learn, instead of all: only for sums.""",
    ),
    "budget.features": TableSpec(keys=_LIMIT),
    "budget.labels": TableSpec(keys=_LIMIT),
    "plan": TableSpec(
        help="How to train: settings of a plan. Left out, each job brings its own.",
        keys={name: Key(help="", example="30" if name == "rounds" else "") for name in SETTINGS},
        comment="How to train. `pdml plan` proposes settings that meet a budget.",
    ),
    "relay": TableSpec(
        help="Where nodes meet.",
        record=servers.Relay,
        comment="Where nodes meet; the fingerprint is that of the public key in its certificate.",
    ),
}


def keys_of(name: str, study: type) -> dict[str, Key]:
    """The keys of a table of such studies; of the whole file for ""."""
    if not name:
        return {
            inner: Key(help=table.help, required=table.required)
            for inner, table in TABLES.items()
            if "." not in inner
        }
    parent, _, inner = name.partition(".")
    if parent == "languages" and inner in ("notice", "consent"):
        record = TABLES[inner].record
        return {} if record is None else translated_keys(record)
    table = TABLES[name]
    own = declared_keys(study, name) if table.record is None else declared_keys(table.record)
    return own | dict(table.keys)


def read(document: object, study: type) -> tuple[dict[str, Any], list[Mistake]]:
    """The arguments of such a study, whole without mistakes; every mistake as (path, sentence)."""
    errors = ValidationErrors()
    if why := _refuse_other_format(document):
        errors.add(("study", "format"), why)
        return {}, errors.mistakes
    tables = errors.table((), document, *names_of(keys_of("", study)))

    def raw(name: str) -> Any:
        return tables.get(name, ABSENT)

    def read_keys(name: str) -> dict[str, Any]:
        return read_table(errors, (name,), raw(name), keys_of(name, study))

    entries = servers.read_servers(errors, raw("servers"))
    head = as_fields(study, read_keys("study"), "study")
    opens, closes = head["opens"], head["closes"]
    if opens and closes and closes <= opens:
        path, got = ("study", "closes"), raw("study")["closes"]
        errors.reject(path, "be later than opens", got, "nobody could contribute")
    label, menu_keys = read_keys("label"), keys_of("label.epsilon", study)
    menu_path: Path = ("label", "epsilon")
    menu = questions.read_menu(errors, menu_path, label.pop("epsilon", ABSENT), menu_keys)
    head |= as_fields(study, label, "label") | as_fields(study, menu, "label.epsilon")
    before = len(errors.mistakes)
    asked = questions.read_questions(errors, tables, menu_keys)
    sound = asked["encoder"] is not None and len(errors.mistakes) == before
    records = {
        name: None if name not in tables else table.record(**_with_gaps(read_keys(name), table))
        for name, table in TABLES.items()
        if table.record is not None and not table.many
    }
    notice = records["notice"]
    if closes and notice and notice.retention and notice.retention <= closes:
        why, got = "reports would be erased while people still answer", raw("notice")["retention"]
        errors.reject(("notice", "retention"), "be later than study.closes", got, why)
    values = head | asked | records | {"servers": entries}
    texts = build_texts(values, asked["encoder"].attributes if sound else ())
    texts_of = {"notice": Notice, "consent": Consent}
    values["languages"] = read_languages(errors, raw("languages"), texts, texts_of)
    names, most_colluding = [entry.name for entry in entries], max(1, len(entries) - 1)
    values["edges"] = servers.read_topology(errors, raw("topology"), names)
    values["budget"] = _read_budget(errors, raw("budget"), most_colluding, head["min_records"])
    values |= _read_plan(errors, raw("plan"), raw("servers"), len(head.get("classes", ())))
    return values, errors.mistakes


def write(study: Any) -> dict[str, Any]:
    """The tables of a study, in their order, as plain JSON types."""
    document: dict[str, Any] = questions.write_questions(study.encoder, study.wording)
    for name in ("study", "label"):
        document[name] = write_fields(study, name)
    document["label"]["epsilon"] = write_fields(study, "label.epsilon")
    document["topology"] = {"edges": [list(edge) for edge in study.edges]}
    for name, table in TABLES.items():
        if table.record is not None and "." not in name and getattr(study, name):
            document[name] = plain(getattr(study, name))
    if study.budget is not None:
        document["budget"] = _write_budget(study.budget)
    if study.plan is not None:
        document["plan"] = plain(study.plan.written(study.plan_settings))
    return {name: document[name] for name in TABLES if name in document}


def _refuse_other_format(document: object) -> str:
    """Why a study of another version cannot be read: its other settings would only confuse."""
    head = document.get("study") if isinstance(document, Mapping) else None
    version = head.get("format", 1) if isinstance(head, Mapping) else 1
    return FORMAT.refusal(version, "the study") if type(version) is int else ""


def _with_gaps(values: dict[str, Any], table: TableSpec) -> dict[str, Any]:
    """Something empty for what is required and missing, which is a mistake already."""
    required, _ = names_of(declared_keys(table.record)) if table.record else ((), ())
    return dict.fromkeys(required, "") | values


def _read_budget(
    errors: ValidationErrors, value: object, most_colluding: int, min_records: int | None
) -> Budget | None:
    if value is ABSENT:
        return None
    rows = read_table(errors, ("budget",), value, TABLES["budget"].keys)
    colluding = rows.pop("colluding", None)
    if colluding is not None:
        colluding = errors.whole_number(("budget", "colluding"), colluding, 1, most_colluding)
    if isinstance(value, Mapping) and not rows:
        errors.add(("budget",), "budget must limit features or labels, or be left out")
    most_delta = min(MOST_DELTA, 1 / (min_records or 1))
    limits: dict[str, float] = {}
    for row in rows:
        at: Path = ("budget", row)
        raw = rows[row]
        table = read_table(errors, at, raw, TABLES[f"budget.{row}"].keys)
        for key, limit in ({"delta": Budget.features_delta} | table).items():
            got = raw.get(key, limit) if isinstance(raw, Mapping) else limit
            if limit is not None and limit > (most_delta if key == "delta" else math.inf):
                errors.reject((*at, key), f"be at most {most_delta:g}", got, _WHY_SMALL)
            elif limit is not None and not limit > 0:
                errors.reject((*at, key), "be positive", got)
            elif limit is not None:
                limits[f"{row}_{key}"] = limit
    return Budget(**limits, colluding=colluding)


def _write_budget(budget: Budget) -> dict[str, Any]:
    rows = {"features": budget.limit(Data.FEATURES), "labels": budget.limit(Data.LABEL)}
    colluding = {} if budget.colluding is None else {"colluding": budget.colluding}
    return colluding | {
        row: {"epsilon": epsilon, "delta": delta}
        for row, (epsilon, delta) in rows.items()
        if epsilon != math.inf
    }


def _read_plan(
    errors: ValidationErrors, value: object, entries: object, classes: int
) -> dict[str, Any]:
    """Each setting by itself, so that every mistake is found; then all of them together."""
    before = len(errors.mistakes)
    settings: dict[str, Any] = {}
    table = read_table(errors, ("plan",), value, TABLES["plan"].keys)
    method = {"method": table["method"]} if table.get("method") in METHODS else {}
    for name, item in table.items():
        path: Path = ("plan", name)
        setting, count = SETTINGS[name], len(errors.mistakes)
        if setting.per_server and isinstance(item, (list, tuple)):
            settings[name] = tuple(errors.number((*path, i), part) for i, part in enumerate(item))
            if isinstance(entries, (list, tuple)) and len(item) not in (1, len(entries)):
                must = f"be one number or one per server ({len(entries)} of them)"
                errors.add(path, f"plan.{name} must {must}, got {len(item)}")
        elif setting.kind is str:
            settings[name] = errors.text(path, item, 100)
        elif setting.kind is int:
            settings[name] = errors.whole_number(path, item, 1, MOST_ROUNDS)
        else:
            settings[name] = errors.number(path, item)
        if len(errors.mistakes) == count:
            _check_plan(errors, path, partial(TrainingPlan, **(method | {name: settings[name]})))
    if len(errors.mistakes) > before or not settings:
        return {"plan": None, "plan_settings": ()}
    _check_plan(errors, ("plan",), lambda: TrainingPlan(**settings).check_shared())
    if classes >= 2:
        _check_plan(errors, ("plan", "loss"), lambda: TrainingPlan(**settings).loss_for(classes))
    plan = None if len(errors.mistakes) > before else TrainingPlan(**settings)
    return {"plan": plan, "plan_settings": tuple(settings)}


def _check_plan(errors: ValidationErrors, path: Path, make: Callable[[], object]) -> None:
    try:
        make()
    except InvalidInput as error:
        errors.add(path, f"plan.{error}")
