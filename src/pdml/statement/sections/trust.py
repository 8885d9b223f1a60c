"""Whom people must trust, and what parties learn who put together what they see."""

from math import isinf

from pdml.accounting.budget import any_of
from pdml.formatting import numbers
from pdml.pages import ledger_table
from pdml.statement.document import Items, Part, Section, Sheet
from pdml.statement.facts import LIMITED, TOGETHER, Facts
from pdml.statement.sections import randomised_response
from pdml.statement.sections.guarantee import epsilon


def trust(facts: Facts) -> Section:
    return Section(
        "trust",
        "Whom people must trust",
        "What is the trust model, and what if parties collude?",
        (_parties(facts), *_domain(facts), *_coalitions(facts)),
    )


def _parties(facts: Facts) -> Sheet:
    label = "randomised, as the person chose" if facts.devices else "see who randomised it, below"
    total = "one total of all organisations' sums" if facts.masked else "what training releases"
    released = f"only {total}: see the figures"
    answers = _describe_answers(facts)
    device = ("The person's own device", "as it is", "as they are", "running unchanged software")
    model = ("Whoever gets the model", "only the model", "only the model", "nothing")
    rows: tuple[tuple[str, ...], ...]
    if facts.single_domain:
        whoever = "Whoever ran the training, as one trust domain"
        rows = (device, (whoever, label, answers, "all of it"), model)
    else:
        rows = (
            device,
            (
                "The organisation that receives the report",
                label,
                answers,
                f"{_entrusted(facts)}serving the true page; adding its noise",
            ),
            (
                "The other organisations",
                released,
                released,
                "adding their noise" if facts.masked else "nothing of these records",
            ),
            (
                "The relay between organisations",
                "messages that it cannot read",
                "the same; it sees who sends, when, and how much",
                "nothing: it can only stop the training",
            ),
            model,
        )
    columns = ("Who", "The sensitive answer", "The other answers", "Is trusted with")
    return Sheet("Who sees what", columns, rows)


def _entrusted(facts: Facts) -> str:
    """What whoever receives a report reads of it."""
    encoder = facts.study.encoder
    if not encoder.sensitive or not facts.devices:
        return "the other answers; "
    return "the other answers that are not randomised; " if encoder.clear else ""


def _describe_answers(facts: Facts) -> str:
    """How answers beside the label reach whoever receives them."""
    encoder = facts.study.encoder
    if not encoder.sensitive or not facts.devices:
        return "as they were given"
    if not encoder.clear:
        return "randomised, as the person chose"
    return "as they were given, but for those that devices randomise"


def _domain(facts: Facts) -> tuple[Part, ...]:
    if not facts.single_domain:
        return ()
    return (
        "In this training one trust domain held every organisation's records: against whoever ran "
        "it nothing but the sensitive answers has any protection, and those only as the line "
        "against the receiving organisation says. Lines against other organisations say what "
        "these would have learnt had each run its own node, and hold for whoever gets the model.",
    )


def _coalitions(facts: Facts) -> tuple[Part, ...]:
    if not facts.coalitions:
        k = facts.budget.colluding
        others = f"the {numbers.count(facts.others, 'other organisation')}"
        limit = any_of(k, others) if k else f"all of {others} together"
        return (
            "The study has no plan, so that nothing is known of coalitions but the budget, which "
            f"holds against {limit}.",
        )
    rows = []
    for k in facts.sizes:
        cells = [_size(k, facts.others)]
        for data in LIMITED:
            line = facts.coalition(data, k)
            cells += [] if line is None else [epsilon(line), ledger_table.sure(line)]
        rows.append(tuple(cells))
    alone = facts.line("label", TOGETHER)
    label_cells = [] if alone is None else [epsilon(alone), ledger_table.sure(alone)]
    rows.append(("the receiving organisation and any others", *label_cells, *_nothing(facts)))
    columns = ("Who colludes", "ε, sensitive answer", "How sure", "ε, all answers", "How sure")
    return (
        Sheet("What a coalition learns about one person", columns, tuple(rows)),
        *_of_randomised(facts),
        Items(tuple(_assumed(facts))),
    )


def _of_randomised(facts: Facts) -> tuple[Sheet, ...]:
    """The same of randomised answers."""
    rows = []
    for data in (kind for kind in facts.kinds if kind not in LIMITED):
        named = randomised_response.title(randomised_response.describe_data(facts.study, data))
        coalitions = [(_size(k, facts.others), facts.coalition(data, k)) for k in facts.sizes]
        coalitions.append(("the receiving organisation and any others", facts.line(data, TOGETHER)))
        rows += [
            (named, whom, epsilon(line), ledger_table.sure(line))
            for whom, line in coalitions
            if line is not None
        ]
    columns = ("Data", "Who colludes", "ε", "How sure")
    caption = "What a coalition learns of answers that devices randomise"
    return (Sheet(caption, columns, tuple(rows)),) if rows else ()


def _nothing(facts: Facts) -> tuple[str, str]:
    line = facts.line("features", TOGETHER)
    if line is None:
        return "", ""
    of = (
        f" of {randomised_response.describe_data(facts.study, 'features', TOGETHER)}"
        if isinf(line.epsilon)
        else ""
    )
    return epsilon(line), ledger_table.sure(line) + of


def _size(k: int, others: int) -> str:
    if others == 1:
        return "the other organisation"
    if k == others:
        return "all other organisations together"
    return any_of(k, f"the {numbers.count(others)} other organisations")


def _assumed(facts: Facts) -> list[str]:
    """What the lines of coalitions rest on."""
    sentences = []
    plan, k = facts.plan, facts.budget.colluding
    if plan is not None and plan.colluding is not None:
        sentences.append(
            f"The noise is made for {plan.colluding} of the {facts.others} other organisations "
            "colluding: sums appear in one total of all organisations, and each adds its share of "
            "the noise. Where more collude, less noise is left between them and a record, as the "
            "rows say."
        )
        sentences.append(
            "That only the total can be read rests on a key agreement and a cipher (X25519, HKDF, "
            "ChaCha20), which is a computational assumption, and on the organisations outside the "
            "coalition having added their noise: nobody can see from outside whether they did."
        )
        if facts.single_domain:
            sentences.append("Inside one trust domain the sums were added up without masks.")
    elif facts.coalitions:
        sentences.append(
            "Every coalition of other organisations learns the same, because whatever an "
            "organisation releases is counted as if everybody saw it."
        )
    if k is not None:
        sentences.append(
            f"The budget holds against {any_of(k, f'the {facts.others} other organisations')}, and "
            "not against more."
        )
    least = (
        "Whoever leaves out its noise counts as one of those who collude."
        if facts.masked
        else "It cannot make the noise of another smaller."
    )
    sentences.append(
        f"An organisation that lies about what it computed can spoil the model. {least}"
    )
    return sentences
