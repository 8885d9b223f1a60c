"""The appendix: the same in formulas, with the study's own numbers in them."""

from math import exp

from pdml.formatting import numbers
from pdml.numerics import coded_rows
from pdml.numerics.admm.labels import keep_weight
from pdml.statement.document import Exact, Part, Section, Sheet
from pdml.statement.facts import Facts
from pdml.statement.sections import randomised_response
from pdml.study import study_summary


def appendix(facts: Facts) -> tuple[Section, ...]:
    """Definition, the device's coin, the noise, and how they compose."""
    sections = [_definition(), _label_randomisation(facts)]
    if facts.study.encoder.sensitive:
        sections.append(_attribute_randomisation(facts))
    if facts.plan is not None:
        sections.append(_sums(facts) if facts.plan.method == "sums" else _rounds(facts))
    return (*sections, _together(facts))


def _definition() -> Section:
    return Section(
        "definition",
        "Definition",
        "What is proved?",
        (
            Exact(
                (
                    "P[M(D) ∈ A] ≤ e^ε · P[M(D') ∈ A] + δ   for all A, and all D, D' of the same",
                    "                                       size, different in one record or label",
                    "δ(ε) = sup ∫ max(0, p − e^ε q)         the profile of M; each line has one",
                )
            ),
            "How sure somebody can become from even odds, but for a chance of δ (privacy.md, "
            "section 11):",
            Exact(("e^L/(1 + e^L),  L = inf over ε' of ε' − ln(1 − δ(ε')/δ)",)),
        ),
    )


def _label_randomisation(facts: Facts) -> Section:
    study, classes = facts.study, len(facts.study.classes)
    rows = tuple(
        (
            f"{epsilon:g}",
            study_summary.share(study_summary.keep_probability(micro, classes)),
            numbers.significant(exp(epsilon)),
            numbers.significant(float(keep_weight(epsilon, classes))),
        )
        for epsilon, micro in zip(study.menu, study.epsilon_micro, strict=True)
    )
    return Section(
        "coin",
        "The device's coin",
        "What randomises the sensitive answer? (privacy.md, sections 2 and 6)",
        (
            Exact(
                (
                    f"K = {classes} classes",
                    "P[report = truth] = e^ε/(e^ε + K − 1),  each other class (1 − that)/(K − 1)",
                    "against the own server: ε, with δ = 0",
                    "then a mechanism with profile δ_M:  δ(e') ≤ α δ_M(ln(1 + (e^e' − 1)/α)),",
                    "                                    α = (e^ε − e^e')/(e^ε + K − 1)",
                )
            ),
            Sheet("For every ε of the menu", ("ε", "truth is sent", "e^ε", "κ(ε)"), rows),
        ),
    )


def _attribute_randomisation(facts: Facts) -> Section:
    rows = []
    for attribute in facts.study.encoder.sensitive:
        assert attribute.epsilon is not None
        many, question = (
            len(attribute.choices),
            randomised_response.question_text(facts.study, attribute),
        )
        rows += [
            (
                question,
                f"{many}",
                f"{epsilon:g}",
                study_summary.share(study_summary.keep_probability(micro, many)),
                numbers.significant(exp(epsilon)),
                numbers.significant(coded_rows.weight(micro, many)),
            )
            for epsilon, micro in zip(
                attribute.epsilon.menu, attribute.epsilon.millionths, strict=True
            )
        ]
    return Section(
        "coins",
        "The coins of other answers",
        "What randomises them, and what do all coins tell together? (attributes.md)",
        (
            Exact(
                (
                    "L levels:  P[report = truth] = e^ε/(e^ε + L − 1),  each other 1/(e^ε + L − 1)",
                    "against the own server: ε, with δ = 0; all coins together: Σε",
                    "then what hides the record, δ_M:  δ(e') ≤ α δ_M(ln(1 + (e^e' − 1)/α)),",
                    "    α = (e^ε − e^e')/(e^ε + L − 1);  together with Σε for ε, and L = 2",
                    "what servers compute with:  w(ε)·(e_l' − 1/L),  w = (e^ε + L − 1)/(e^ε − 1)",
                )
            ),
            Sheet(
                "For every ε of their menus",
                ("Question", "L", "ε", "truth is sent", "e^ε", "w(ε)"),
                tuple(rows),
            ),
        ),
    )


def _rounds(facts: Facts) -> Section:
    plan, n = facts.plan, len(facts.study.servers)
    assert plan is not None
    scales = sorted({plan.iterates(i, n).scale for i in range(n)})
    noise = plan.objective()
    return Section(
        "rounds",
        "Training in rounds",
        "What is released, with which noise? (privacy.md, sections 1 to 5, 13 and 16)",
        (
            Exact(
                (
                    "w̃_i(t) = w_i(t) + θ_i(t),  θ_i(t) ~ N(0, ρ^(t−1) V_i² I),  t = 1, …, T",
                    "u_i = q_i − η_i/n,  fixed once;  μ_i = a/n + 2βN_i",
                    f"n = {n}, T = {plan.rounds}, ρ = {plan.noise_decay:g}, "
                    f"V = {', '.join(f'{scale:g}' for scale in scales)}",
                    f"η: {noise.kind}, R = {noise.bound:g}, σ_η = {noise.stddev:g}; "
                    f"a = {plan.regularization:g}, β = {plan.penalty:g}",
                    "one record moves w_i(t) by at most (s + g + 2 tol)/μ_i and rounding,",
                    "s = 2cκB/m_i by its label, g = 2 sup|g'|B/m_i by its other answers",
                    "Gaussian noise: μ² = min over λ of λ²s²/σ_q² +",
                    "                     ((1 − λ)s + g + 2 tol)² Σ_t 1/(μ_i σ_t)²",
                    "δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)",
                )
            ),
        ),
    )


def _sums(facts: Facts) -> Section:
    plan, n = facts.plan, len(facts.study.servers)
    assert plan is not None
    label, square = plan.sum_stddevs(n)
    parts: list[Part] = [
        Exact(
            (
                "Q_i = Σ v c ŷ xᵀ and S_i = Σ v x xᵀ, each sent once with Gaussian noise",
                f"each of n = {n} organisations adds σ_Q = {numbers.significant(label)}, "
                f"σ_S = {numbers.significant(square)} (S: on the diagonal, beside it σ_S/√2)",
                "label:     μ = D_label/σ_Q, then the coin",
                "features:  μ² = (D_record/σ_Q)² + (D_S/σ_S)², or less with the coin (section 13)",
                "δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)",
            )
        )
    ]
    if plan.colluding is not None:
        parts.append(
            Exact(
                (
                    "masked: z_i = sums + noise + Σ_{l>i} PRG(s_il) − Σ_{l<i} PRG(s_il)  mod 2^64",
                    f"k colluding leave h = {n} − k organisations' noise:  μ = D/(σ√h)",
                    f"made for k = {plan.colluding}",
                )
            )
        )
    return Section(
        "sums",
        "One exchange of sums",
        "What is released, with which noise? (privacy.md, sections 13 to 15)",
        tuple(parts),
    )


def _together(facts: Facts) -> Section:
    limits = []
    for data, name in (("features", "features"), ("label", "labels")):
        limit, delta = facts.budget.limit(data)
        if facts.limited(data):
            limits.append(f"{name}: δ({limit:g}) ≤ {numbers.delta(delta)}")
    counted = numbers.count(facts.trainings, "training") if facts.spent is None else "all counted"
    return Section(
        "together",
        "Over several trainings",
        "How do trainings compose? (privacy.md, sections 5, 8 and 13)",
        (
            Exact(
                (
                    "squares of μ add up, also if each training is chosen after the one before",
                    "the coin is tossed once: they add up inside the same coin",
                    f"here: {counted}",
                    "budget: "
                    + (f"{'; '.join(limits)}, against {facts.budget.whom}" if limits else "none"),
                )
            ),
        ),
    )
