"""Every key of a study file and what it says. The rules know no other, and the reference of the
site is made from this.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pdml.mechanisms.label_flip import MILLION, WEAK_ABOVE

# below, a label weighs hundreds of times one that is told; above, nothing is randomised
EPSILONS = (0.01, 20.0)
MOST_DELTA = 1e-3
MOST_CHOICES = 10
MOST_CLASSES = 100
MOST_LEVELS = 1_000
MOST_SERVERS = 1_000
MOST_ATTRIBUTES = 1_000
MOST_FEATURES = 10_000  # a report of 53 kB
MOST_RECORDS = 10**9
MOST_MAPS = 20
MOST_DIRECTIONS = 20_000  # numbers that a device draws for waves: a second in a slow browser
MOST_SPELLINGS = 20
TOPOLOGIES = ("ring", "complete")
LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "ar")  # those of the contributor's page


@dataclass(frozen=True)
class Key:
    """One key of a table."""

    says: str
    required: bool = False


_LIMIT = {
    "epsilon": Key("The limit; positive.", True),
    "delta": Key(
        f"The chance for which nothing is promised, at most {MOST_DELTA:g} and at most one in "
        "`min_records`; by default 1e-6."
    ),
}

TABLES: Mapping[str, Mapping[str, Key]] = {
    "": {
        "study": Key("Its name, and when people can take part.", True),
        "label": Key("The sensitive question.", True),
        "attributes": Key(
            f"What the model predicts from, 1 to {MOST_ATTRIBUTES:,} tables of at most "
            f"{MOST_FEATURES:,} features together. Their order numbers the features.",
            True,
        ),
        "encoder": Key(
            "How answers become features: version 2. Left out, it is version 1, for studies that "
            "were written before there was another."
        ),
        "maps": Key(
            f"Further features that devices make of the answers, at most {MOST_MAPS} tables; for "
            "version 2 of the encoder."
        ),
        "servers": Key(
            f"Who collects and trains, 2 to {MOST_SERVERS:,} tables. Their order numbers them.",
            True,
        ),
        "topology": Key(
            "Who talks to whom: edges, or a kind. All servers must be connected.", True
        ),
        "budget": Key(
            "The most that all other servers together, or `colluding` of them, may learn from all "
            "trainings. Organisations "
            "train only under a study whose budget ends."
        ),
        "plan": Key("How to train: settings of a plan. Left out, each job brings its own."),
        "relay": Key("Where nodes meet."),
        "languages": Key(
            "The texts in other languages, a table for each; they are part of the contract. A "
            "translation is whole: it says all that the study says in its own."
        ),
        "organiser": Key(
            "Who answers for the study. People are asked only by a study with this, `notice` and "
            "`consent`."
        ),
        "notice": Key("What people are told of what becomes of their answers."),
        "consent": Key("What people agree to before they answer."),
    },
    "study": {
        "id": Key(
            "1 to 63 lower-case letters, digits, dots, dashes or underscores, the first a letter "
            "or digit.",
            True,
        ),
        "title": Key("What people read first.", True),
        "description": Key("More of it; it may have paragraphs."),
        "language": Key(
            "The language of its texts: " + ", ".join(f"`{code}`" for code in LANGUAGES) + ". "
            "Needed beside [[languages]]; left out, nobody is told."
        ),
        "format": Key(
            "The version of this file's format; by default 1. It leaves no trace in the hash."
        ),
        "opens": Key("A time with its zone, to the second: reports are taken from then on."),
        "closes": Key("A later time: no reports are taken from then on."),
        "min_records": Key("A server trains with so many reports or more; by default 50."),
        "replaces": Key(
            "The hash of the revision before this one, in which keys and relay alone differ."
        ),
    },
    "label": {
        "question": Key("What is kept secret.", True),
        "classes": Key(f"Its 2 to {MOST_CLASSES} possible answers.", True),
        "epsilon": Key("How private people may be.", True),
    },
    "label.epsilon": {
        "menu": Key(
            f"1 to {MOST_CHOICES} values in [{EPSILONS[0]:g}, {EPSILONS[1]:g}], ascending, of at "
            "most six decimals.",
            True,
        ),
        "default": Key("The one that is suggested.", True),
        "accept_weak": Key(
            f"`true` is needed, and allowed, only if the menu holds one above "
            f"{WEAK_ABOVE / MILLION}."
        ),
    },
    "attributes": {
        "name": Key("Also the column's name in tables.", True),
        "kind": Key("`number` or `category`.", True),
        "range": Key(
            "Of a number, which needs it: [low, high]. Answers outside are moved to the ends; form "
            "and client refuse them."
        ),
        "whole": Key(
            "Of a number: `true` refuses fractions, in form, client and tables alike. Both ends of "
            "the range must be whole."
        ),
        "typical": Key(
            "Of a number: what you would expect of a typical person; by default the middle of the "
            "range."
        ),
        "spread": Key(
            "Of a number: most people lie within typical ± spread; by default a sixth of the "
            "range's width. What lies more than three spreads away looks like three."
        ),
        "levels": Key(
            f"Of a category, which needs it: 1 to {MOST_LEVELS:,} texts. Others cannot be given."
        ),
        "missing": Key(
            "People may leave the question out: `level` of a category, no answer is one more "
            "level; `typical` of a number, it counts as typical and one more feature says that "
            "there was no answer. Left out, everybody answers."
        ),
        "epsilon": Key(
            "The answer is sensitive: devices report what chance has decided, never the answer. A "
            "table as that of the label. For version 2 of the encoder."
        ),
        "bins": Key(
            "Of a sensitive number, which needs them: where its bins meet, ascending and inside "
            "the range. A report tells a bin, not the number."
        ),
        "label": Key("How the form puts it."),
        "help": Key("What the form says below it."),
    },
    "encoder": {
        "version": Key("1 or 2.", True),
        "missing_values": Key(
            "What stands for no answer in tables, such as `NA` or `?`. An empty cell and a null "
            "always do."
        ),
    },
    "maps": {
        "map": Key("`squares`, `products`, `bins` or `fourier`.", True),
        "columns": Key(
            "Names of the features that it is made of; by default all numbers. Not of products."
        ),
        "pairs": Key('Of products, which need it: pairs of features, such as `["age", "bmi"]`.'),
        "count": Key(
            "Of bins: how many (by default 5). Of fourier: how many waves (by default 20)."
        ),
        "edges": Key(
            "Of bins, instead of count: where they meet, in spreads from the typical value."
        ),
        "scale": Key(
            "Of fourier: what lies closer than so many spreads looks alike; by default 0.7."
        ),
        "seed": Key("Of fourier: a whole number that fixes the directions; by default 0."),
        "keep": Key("`true`: the features themselves stay, so that people can read them back."),
    },
    "servers": {
        "name": Key("Spelt like the study's id.", True),
        "url": Key("Its collection service: `https`, or `http` on the same machine only.", True),
        "signing_key": Key("The public key of its node; `pdml study add-server` takes both."),
        "sealing_key": Key("The public key with which others seal messages for it."),
    },
    "relay": {
        "address": Key("HOST:PORT.", True),
        "fingerprint": Key(
            "The sha256 of its certificate's public key; left out, any authority of the system "
            "vouches."
        ),
    },
    "organiser": {
        "name": Key("Of the person or organisation.", True),
        "address": Key("Where it is.", True),
        "contact": Key("Where people write to: an address, a telephone number.", True),
        "data_protection_contact": Key("The same for questions about data; by default `contact`."),
    },
    "notice": {
        "purpose": Key("What the answers, and the model, are for.", True),
        "legal_basis": Key("On what the processing rests.", True),
        "who_sees": Key("Who sees what of an answer, in the organiser's words.", True),
        "retention": Key(
            "A time with its zone, later than `closes`: collection services erase all reports "
            "then.",
            True,
        ),
        "text": Key("The whole notice, if it says more; it may have paragraphs."),
        "link": Key("Where the whole notice can be read: `https`."),
    },
    "consent": {
        "text": Key("What people tick; it may have paragraphs.", True),
        "version": Key(
            "1 to 16 letters, digits, dots, dashes or underscores. Reports carry it, with the "
            "sha256 of the text.",
            True,
        ),
    },
    "topology": {
        "edges": Key("Pairs of names of servers."),
        "kind": Key(f"Instead of them: {' or '.join(f'`{kind}`' for kind in TOPOLOGIES)}."),
    },
    "budget": {
        "features": Key(
            "What they may learn of people's records. Where every attribute has an `epsilon`, it "
            "must lie below the sum of the smallest ones of all menus, the label's included."
        ),
        "labels": Key("What they may learn of people's labels."),
        "colluding": Key("How many others together both limits hold against; by default all."),
    },
    "languages": {
        "code": Key("Which language, another than the study's own.", True),
        "title": Key("The study's title in it.", True),
        "description": Key("Its description, if it has one."),
        "question": Key("The secret question.", True),
        "classes": Key("The possible answers, in the order of the study's.", True),
        "attributes": Key("A table for each attribute, `[[languages.attributes]]`.", True),
        "notice": Key("What `[notice]` says, if the study has one: `[languages.notice]`."),
        "consent": Key("What `[consent]` says, if the study has one: `[languages.consent]`."),
    },
    "languages.notice": {
        "purpose": Key("What answers are used for."),
        "legal_basis": Key("By what right."),
        "who_sees": Key("Who sees what."),
        "text": Key("The whole notice, if the study has it."),
        "link": Key("Where it can be read in this language; by default the study's link."),
    },
    "languages.consent": {
        "text": Key("What people agree to. Reports carry the version and hash of the study's own."),
    },
    "languages.attributes": {
        "name": Key("Which attribute, by its name, which is the same in all languages.", True),
        "label": Key("How the form puts it.", True),
        "help": Key("What the form says below it, if the study has that."),
        "levels": Key("Of a category, which needs it: its levels, in the order of the study's."),
    },
    "budget.features": _LIMIT,
    "budget.labels": _LIMIT,
}


def of(table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys that a table must have, and those that it may have."""
    keys = TABLES[table]
    required = tuple(name for name, key in keys.items() if key.required)
    return required, tuple(name for name in keys if name not in required)
