"""What is wrong with an exchange of sums must be found: one mistake in the real code at a time.

Seeds are fixed. Without a mistake each finding would alarm with a chance below 1e-6.
"""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from pdml.accounting import bounds, ledger, per_release_loss
from pdml.accounting.events import EventGroups, group_events
from pdml.audit import Effort, coalitions
from pdml.audit import sums_attacks as attacks
from pdml.audit.victim import Victim
from pdml.mechanisms import integer_gaussian, masks
from pdml.numerics.sums import statistics as core
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release

EFFORT = Effort(transcripts=4_000, labels=0, pairs=0)
NAMES = (
    "2 classes",
    "2 classes, jointly",
    "3 classes, jointly",
    "opposite, 2 classes",
    "opposite, 3 classes",
    "across",
    "randomised response",
    "randomised response, four trainings",
)


def told_apart(pair, runs=1_500):
    seen = [attacks.releases(one, runs, 7, world, 1) for world, one in enumerate(pair.worlds)]
    return attacks.distinguish("sums", pair, seen, pair.worlds[0].claims(pair.data))


def found(name, runs=1_500):
    """A pair by its name."""
    every = (*attacks.label_pairs(), *attacks.record_pairs())
    return told_apart(next(each for each in every if each.name == name), runs)


def noise(name="across", runs=300):
    """The width of the noise in one world of a pair."""
    pair = next(each for each in attacks.record_pairs() if each.name == name)
    victim = pair.worlds[0]
    return attacks.width("noise", [(victim, attacks.releases(victim, runs, 7, 0, 1), 1.0)])


def violated(attack=coalitions.coalition, effort=EFFORT):
    return {finding.name for finding in attack(effort, 7) if not finding.passed}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_where_nothing_is_wrong(name):
    assert found(name).passed
    assert noise().passed


def scaled(change):
    """`sums._stddevs` with other deviations than the plan's: ``change`` of their kind and value."""
    real = sums_release._stddevs

    def stddevs(plan, n_servers, label_size, width):
        each = real(plan, n_servers, label_size, width)
        rows, columns = np.triu_indices(width)
        kinds = np.concatenate([np.zeros(label_size), np.where(rows == columns, 1, 2), [-1]])
        return np.array([change(int(kind), one) for kind, one in zip(kinds, each, strict=True)])

    return stddevs


@pytest.mark.parametrize(
    ("kind", "name"), [(0, "2 classes"), (0, "opposite, 3 classes"), (1, "across")]
)
def test_half_the_noise(monkeypatch, kind, name):
    halved = scaled(lambda which, one: one / 2 if which == kind else one)
    monkeypatch.setattr(sums_release, "_stddevs", halved)
    assert not found(name).passed
    assert not noise().passed and attacks.KINDS[kind] in noise().sentence


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda which, one: one / 2 if which == 2 else one, "S beside it"),
        (lambda which, one: one * {1: 1 / sqrt(2), 2: sqrt(2)}.get(which, 1), "the diagonal of S"),
    ],
    ids=["half beside the diagonal", "the diagonal's beside it and the other way round"],
)
def test_the_wrong_noise_in_a_part_of_s(monkeypatch, change, where):
    monkeypatch.setattr(sums_release, "_stddevs", scaled(change))
    assert not noise().passed and noise().sentence.endswith(where)


def test_squares_that_are_not_weighted(monkeypatch):
    real = core.exact

    def unweighted(x, *arguments, **options):
        return replace(real(x, *arguments, **options), square_sum=x.T @ x)

    monkeypatch.setattr(core, "exact", unweighted)
    assert not found("across").passed


def test_labels_that_are_not_weighted(monkeypatch):
    monkeypatch.setattr(core, "report_weights", lambda codes, _: np.ones(len(codes)))
    assert not found("2 classes").passed
    assert not found("opposite, 2 classes").passed


def test_the_ledger_forgets_what_a_record_does_to_q(monkeypatch):
    real = TrainingPlan.events

    def forgetful(plan, place):
        return tuple(replace(event, record_shift=0.0) for event in real(plan, place))

    monkeypatch.setattr(TrainingPlan, "events", forgetful)
    assert not found("opposite, 2 classes").passed


def test_a_coin_of_the_wrong_epsilon(monkeypatch):
    real = EventGroups.epsilon.fget
    monkeypatch.setattr(EventGroups, "epsilon", property(lambda self: real(self) / 2))
    assert not found("2 classes, jointly", 4_000).passed


def test_a_coin_of_the_wrong_epsilon_for_a_record(monkeypatch):
    real = bounds.response_profile
    half = lambda epsilon, *mu, **more: real(epsilon / 2, *mu, **more)  # noqa: E731
    monkeypatch.setattr(bounds, "response_profile", half)
    assert not found("randomised response, four trainings", 2_000).passed


def test_a_coin_that_shows_one_of_four_exchanges(monkeypatch):
    real = per_release_loss._response_loss

    def first(sent, loud, rest, sums, classes):
        return real(sent, loud, rest, sums[:1], classes)

    monkeypatch.setattr(per_release_loss, "_response_loss", first)
    assert not found("randomised response, four trainings", 2_000).passed


def test_a_fresh_coin_for_every_training(monkeypatch):
    """The ledger counts one report, however often it is trained on."""
    loud = attacks.with_noise(attacks.label_pairs()[0].worlds[0], 4.0, 1.0)
    pair = attacks.flipped("often", replace(loud, randomise=True, trainings=4))
    assert told_apart(pair).passed
    once = Victim.reported

    def anew(victim, count, source):
        often = replace(victim, trainings=1)
        return once(often, 4 * count, source).reshape(count, 4)

    monkeypatch.setattr(Victim, "reported", anew)
    assert not told_apart(pair).passed


def test_a_second_exchange_that_is_not_charged(monkeypatch):
    real = group_events
    monkeypatch.setattr(ledger, "group_events", lambda events: real(tuple(dict.fromkeys(events))))
    (plain, *_) = attacks.label_pairs()
    often = tuple(replace(one, trainings=4) for one in plain.worlds)
    assert not told_apart(replace(plain, worlds=often)).passed


WORDS = {"coalition: single words"}


def test_nothing_is_found_in_a_coalition_where_nothing_is_wrong():
    assert violated() == set()


def test_masks_that_do_not_belong_to_their_job(monkeypatch):
    real = masks.derive_seed
    monkeypatch.setattr(
        masks,
        "derive_seed",
        lambda shared, *, job, server, other: real(shared, job="any", server=server, other=other),
    )
    assert violated() == WORDS


def test_a_mask_with_the_wrong_sign(monkeypatch):
    """Both of a pair add: nobody learns the total, and two together learn each other's
    difference.
    """

    def masked(units, me, servers, seeds):
        found = units.view(np.uint64).copy()
        for name in servers:
            found = found + masks.words(seeds[name], found.size) if name != me else found
        return found

    monkeypatch.setattr(masks, "add_masks", masked)
    assert violated() >= WORDS


def test_noise_that_gets_lost_on_the_way_to_the_mask(monkeypatch):
    monkeypatch.setattr(
        integer_gaussian, "sample", lambda stddevs, stream: np.zeros(stddevs.shape, "i8")
    )
    assert violated() >= {"coalition: noise", "coalition of 1: label", "coalition of 1: record"}


def test_noise_for_another_number_of_honest_servers(monkeypatch):
    """A share of n servers where n - k must do, at each server: its event says otherwise."""
    n = len(coalitions.SERVERS)
    share = sqrt((n - coalitions.COLLUDING) / n)
    monkeypatch.setattr(sums_release, "_stddevs", scaled(lambda which, one: share * one))
    assert "coalition: noise" in violated()


def test_a_plan_that_shares_the_noise_among_all(monkeypatch):
    """Its events are as wrong as its noise: what the plan says in words is missed."""
    monkeypatch.setattr(
        TrainingPlan,
        "sum_stddevs",
        lambda self, n: (self.label_noise / sqrt(n), self.square_noise / sqrt(n)),
    )
    assert violated() == {"coalition: noise"}


def test_a_ledger_that_counts_one_server_too_many_as_honest(monkeypatch):
    real = TrainingPlan._sums_event
    monkeypatch.setattr(
        TrainingPlan,
        "_sums_event",
        lambda self, place: replace(real(self, place), hidden_among=place.n_servers + 1),
    )
    assert "coalition of 3: label" in violated(effort=replace(EFFORT, transcripts=16_000))
