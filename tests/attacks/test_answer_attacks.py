"""What is wrong with randomised answers must be found: one mistake in the real code at a time.

Devices draw from the operating system, so that no seed is fixed: without a mistake each finding
alarms with a chance below 1e-6, and with one it is found with room to spare.
"""

from dataclasses import replace

import pytest

from pdml.accounting import randomized_attributes as rows
from pdml.audit import answer_attacks as attacks
from pdml.device import answers as answer_rules
from pdml.device import memo
from pdml.numerics import coded_rows
from pdml.planning import server_spec
from pdml.training import sums_release

DEVICES, RUNS = 1_000, 1_500


def result(name, devices=DEVICES):
    """What a report tells of one pair."""
    pair = next(each for each in attacks.report_pairs() if each.name == name)
    return attacks.from_report(pair, devices)


def told_apart(name, runs=RUNS, trainings=1):
    pair = next(each for each in attacks.sums_pairs() if each.name == name)
    worlds = tuple(replace(one, trainings=trainings) for one in pair.worlds)
    return attacks.from_sums(replace(pair, worlds=worlds), runs, 7, 1)


def test_nothing_is_found_where_nothing_is_wrong():
    assert result("status").passed and result("habit").passed and result("label and answers").passed
    assert told_apart("one answer", trainings=4).passed  # one draw for all of them


def test_one_draw_for_all_answers(monkeypatch):
    """Whoever knows one answer knows how the draw fell for the others."""

    def alike(label, micro_epsilon, classes, answers):
        said = memo.draw(label, micro_epsilon, classes)
        fell = memo.draw(0, micro_epsilon, 2)
        return said, tuple(((level + fell) % many, micro) for level, micro, many in answers)

    monkeypatch.setattr(memo, "randomise", alike)
    assert not result("status").passed and not result("habit").passed


def test_the_epsilon_of_another_answer(monkeypatch):
    real = answer_rules.on_menus

    def first(study, epsilons):
        chosen = real(study, epsilons)
        return dict.fromkeys(chosen, next(iter(chosen.values())))

    monkeypatch.setattr(answer_rules, "on_menus", first)
    assert not result("habit", 3_000).passed


def test_a_draw_of_the_wrong_epsilon(monkeypatch):
    real = memo.draw
    twice = lambda level, micro, many, by: real(level, 2 * micro, many, by)  # noqa: E731
    monkeypatch.setattr(memo, "draw", twice)
    assert not result("status").passed and not result("habit", 3_000).passed
    assert not told_apart("one of two").passed


def test_a_ledger_that_counts_the_largest_epsilon_for_all(monkeypatch):
    largest = lambda row, sent: max(each.epsilon for each in row.answers)  # noqa: E731
    monkeypatch.setattr(rows.AnswerRow, "epsilon", largest)
    assert not result("label and answers", 4_000).passed


def test_a_ledger_that_counts_too_many_levels(monkeypatch):
    real = server_spec.answers_of
    many = lambda blocks: tuple(each._replace(levels=16) for each in real(blocks))  # noqa: E731
    monkeypatch.setattr(server_spec, "answers_of", many)
    assert not told_apart("one answer", 3_000).passed


def test_half_the_noise(monkeypatch):
    real = sums_release._stddevs
    monkeypatch.setattr(sums_release, "_stddevs", lambda *args: real(*args) / 2)
    assert not told_apart("one answer", 3_000).passed


def test_a_fresh_coin_for_every_training(monkeypatch):
    """The ledger counts one report, however often it is trained on."""
    once = attacks.Person.reported

    def anew(person, count, source):
        often = replace(person, trainings=1)
        return once(often, 4 * count, source).reshape(count, 4)

    monkeypatch.setattr(attacks.Person, "reported", anew)
    assert not told_apart("one answer", 3_000, trainings=4).passed


@pytest.mark.parametrize("name", ["one answer", "one of two", "label and answers"])
def test_a_code_that_is_not_debiased_tells_nobody_more(monkeypatch, name):
    """It makes the model wrong, not the ledger: tests/unit/numerics/test_coded_rows.py sees it."""
    monkeypatch.setattr(coded_rows, "weight", lambda micro_epsilon, levels: 1.0)
    assert told_apart(name, 500).passed
