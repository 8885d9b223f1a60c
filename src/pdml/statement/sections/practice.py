"""What a guarantee rests on in practice: what it leaves out, where its randomness comes from, what
else could tell, and how data are gathered.
"""

from pdml.accounting.provenance import note
from pdml.formatting import numbers
from pdml.statement.document import Blank, Items, Part, Section, Sheet
from pdml.statement.facts import Facts
from pdml.statement.sections import randomised_response
from pdml.study import study_summary


def outside(facts: Facts) -> Section:
    spent, sentences = facts.spent, []
    if spent is not None:
        sentences = [
            f"Taken from records without noise, and published: {leak}" for leak in spent.leaks
        ]
        if not sentences:
            sentences = [
                "The model's file names nothing that was taken from records without noise."
            ]
        sentences += filter(None, (note(name, by) for name, by in spent.randomised_by.items()))
    return Section(
        "outside",
        "What is outside the guarantee",
        "What is not covered?",
        (
            Items(
                (
                    *sentences,
                    *_read(facts),
                    "That somebody took part, at which hour and from which network address: the "
                    "receiving organisation knows.",
                    "The number of records, the choices of ε in use, who is linked with whom, and "
                    "when messages travel: these are public between the organisations.",
                    "Conclusions about people like those who took part: they can be drawn about "
                    "whoever never took part, too.",
                    "An organisation that runs other software, keeps copies or leaves out its "
                    "noise: each answers for its own machine.",
                    "A false page: the receiving organisation serves it. Its fingerprint is "
                    "published, and the client “pdml contribute” needs no page.",
                    "What was released before a withdrawal, and anything once a data set is "
                    "frozen: it cannot be called back.",
                    "Whatever the organisations publish beside the model, such as an accuracy "
                    "that was measured on people's records.",
                )
            ),
        ),
    )


def _read(facts: Facts) -> tuple[str, ...]:
    """What has no protection from whoever receives it."""
    encoder, reads = facts.study.encoder, "from the organisation that receives them: it reads them."
    if not encoder.sensitive:
        return (f"The other answers, {reads}",)
    return (f"The other answers that are not randomised, {reads}",) if encoder.clear else ()


def randomness(facts: Facts) -> Section:
    spent = facts.spent
    also = ", and of each other answer that is randomised, by a coin of its own"
    device_sentence = (
        "Devices decide by the operating system's or the browser's entropy, in whole numbers, "
        "what is reported in place of the sensitive answer"
        f"{also if facts.study.encoder.sensitive else ''}, and remember it: nothing is drawn "
        "twice for one study on one device."
    )
    if not facts.devices:
        device_sentence = (
            "Not every sensitive answer is known to have been randomised on a person's device: "
            "the section before says whose are not. Where devices did it, it was done by the "
            "operating system's or the browser's entropy, in whole numbers."
        )
    if spent is None:
        noise = (
            "Nodes draw their noise from the operating system's entropy. A training inside one "
            "trust domain can be given a seed, to try things out: such a training protects "
            "nobody, and its model says that its noise was simulated."
        )
    elif spent.simulated:
        noise = (
            "The noise of this training was simulated: it came from a seeded generator, whose "
            "seed can be guessed and whose last digits tell. The run protects nobody."
        )
    else:
        noise = (
            f"The model's file names the source of the noise: {spent.source}, which is the "
            "operating system's entropy. That noise was drawn, and from there, is the word of "
            "whoever ran the training: nobody can see it from outside."
        )
    parts: list[Part] = [device_sentence, noise]
    if facts.plan is not None:
        parts.append(_settings(facts))
    return Section(
        "randomness",
        "Where randomness comes from",
        "What are the sources of randomness, and how much noise is there?",
        tuple(parts),
    )


def _settings(facts: Facts) -> Sheet:
    """Of the plan, as it is agreed on in public."""
    assert facts.plan is not None
    settings = facts.plan.to_dict()
    rows = tuple(
        (name.replace("_", " "), numbers.setting(value))
        for name, value in settings.items()
        if value is not None
    )
    return Sheet("The plan: public settings, noise included", ("Setting", "Value"), rows)


def channels(facts: Facts) -> Section:
    grid = (
        "What randomises an answer compares whole numbers. Secure noise is drawn exactly, on "
        "a grid, and added to numbers on the same grid, so that the last digits of a release tell "
        "nothing; rounding is counted as part of what a record can move."
    )
    if facts.simulated:
        grid = (
            "The last digits of simulated noise can tell what it was added to: nothing guards "
            "against it in this run. In a deployment noise lies on a grid, and rounding is "
            "counted."
        )
    solver: tuple[str, ...] = ()
    if facts.plan is not None and facts.plan.method == "rounds":
        solver = (
            "Training in rounds solves a problem in every round, never exactly: each solve "
            "certifies how far it is off, which is counted, and one that cannot ends the job. "
            "That a node ended, and in which round, is seen by the others; not why.",
        )
    return Section(
        "channels",
        "What else could tell",
        "Which side channels are there, and what of floating point?",
        (
            Items(
                (
                    grid,
                    *solver,
                    "Timing is not covered: when an organisation sends, and how long it takes, is "
                    "seen by the others and by whoever carries the messages.",
                    "The collection service logs no addresses, answers or invitations; what "
                    "stands in front of it may.",
                    "“pdml audit” attacks the real code and compares what it can prove with what "
                    "the ledger claims. It does not attack timing, logs, files or the wire.",
                )
            ),
        ),
    )


def exposure(facts: Facts) -> Section:
    study = facts.study
    rows = [(study.question, ", ".join(study.classes), _secret(facts, study.menu))]
    for attribute in study.attributes:
        rows.append(
            (
                randomised_response.question_text(study, attribute),
                study_summary.domain(attribute, study.encoder.version),
                _secret(facts, attribute.epsilon.menu) if attribute.epsilon else "as it was given",
            )
        )
    return Section(
        "exposure",
        "How data are gathered and kept",
        "What is exposed by collecting the data at all?",
        (
            Sheet(
                "What is asked, and how it reaches the receiving organisation",
                ("Question", "Possible answers", "How it is sent"),
                tuple(rows),
            ),
            _when(facts),
            "Ranges and levels are declared in the study, and answers are scaled by them one by "
            "one.",
            Blank("whether ranges and levels were chosen without looking at people's records"),
            "Where reports are collected with “pdml collect”, each is stored sealed under a key "
            "of its own, which a withdrawal destroys. A withdrawal is possible until the data set "
            "is frozen for training. The frozen data set holds no ids, hours or invitations; it "
            "is not sealed, and its file is readable by its owner alone.",
            Blank(
                "who may read the collected answers at each organisation, how access is "
                "controlled, and where backups are kept"
            ),
        ),
    )


def _secret(facts: Facts, menu: tuple[float, ...]) -> str:
    choices = ", ".join(f"{value:g}" for value in menu)
    if facts.devices:
        return f"randomised on the device, with an ε the person chooses from {choices}"
    return f"randomised with an ε of {choices}; by whom is said above, organisation by organisation"


def _when(facts: Facts) -> str:
    study = facts.study
    opens = f"from {study.opens:%Y-%m-%d %H:%M} UTC" if study.opens else "without a first day"
    closes = f"until {study.closes:%Y-%m-%d %H:%M} UTC" if study.closes else "without an end"
    return f"The study takes reports {opens}, {closes}."
