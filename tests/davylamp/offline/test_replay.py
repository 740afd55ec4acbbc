from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core.model import Phase, Reason, Ruling, Weight
from davylamp.errors import SpecError
from davylamp.offline.history import History
from davylamp.offline.replay import counted, replay
from davylamp.offline.rivals import Thresholds, rivals
from tests.davylamp.offline.pasts import BEGINS, CALM, Past, subject
from tests.simulation_statistics.generator import Scraping
from tests.simulation_statistics.traffic import Buckets, Truth

HEALTHY = Truth(100, drift=1.0)
FAILING = Truth(100, drift=1.0, error_odds=6.0)
SLOW = Truth(100, drift=1.0, slowdown=1.3)


def test_an_equal_candidate_would_have_been_promoted() -> None:
    rollout, past = subject(), Past(HEALTHY)
    result = replay(rollout, past.history(rollout), BEGINS, past.ends)
    assert result.ruling is Ruling.PROMOTE
    assert result.moments[-1].phase is Phase.PROMOTED
    assert [weight.percent for weight in dict.fromkeys(m.weight for m in result.moments)] == [0, 10, 50, 100]


@pytest.mark.parametrize(("truth", "gate"), [(FAILING, "errors"), (SLOW, "latency")])
def test_a_worse_candidate_would_have_been_rolled_back_for_what_is_worse(truth: Truth, gate: str) -> None:
    rollout, past = subject(), Past(truth)
    result = replay(rollout, past.history(rollout), BEGINS, past.ends)
    assert result.ruling is Ruling.ROLLBACK
    assert result.culprits == (gate,)
    assert result.moments[-1].phase is Phase.ROLLED_BACK
    assert result.moments[-1].weight == Weight(0)
    assert result.began_at is not None
    assert result.ruled_at is not None
    assert timedelta(0) < result.ruled_at - result.began_at < timedelta(minutes=5)


def test_the_ladder_begins_with_the_candidates_first_requests() -> None:
    rollout, past = subject(), Past(HEALTHY, weights=((500.0, 10),))
    result = replay(rollout, past.history(rollout), BEGINS, past.ends)
    waiting = [m for m in result.moments if m.reason is Reason.CANDIDATE_NOT_READY]
    assert waiting
    assert "first requests in the history" in waiting[0].message
    assert result.began_at is not None
    assert result.began_at > BEGINS + timedelta(seconds=320)


def test_without_the_candidates_requests_nothing_begins_and_nothing_is_decided() -> None:
    rollout, past = subject(), Past(HEALTHY, weights=())
    result = replay(rollout, past.history(rollout), BEGINS, past.ends)
    assert result.began_at is None
    assert result.ruling is Ruling.CONTINUE
    assert {m.weight for m in result.moments} == {Weight(0)}


def test_the_share_that_was_observed_is_shown_beside_the_weight_that_was_asked_for() -> None:
    rollout, past = subject(), Past(HEALTHY, weights=((240.0, 30),))
    result = replay(rollout, past.history(rollout), BEGINS, past.ends)
    seen = [m for m in result.moments if m.share is not None and m.weight == Weight(10)]
    assert seen
    assert all(0.2 < (m.share or 0) < 0.4 for m in seen)


def test_resets_and_missed_scrapes_do_no_harm() -> None:
    rough = Scraping(buckets=Buckets.FINE, missed=0.1, restarts=0.05)
    for seed in range(3):
        rollout, past = subject(), Past(HEALTHY, scraping=rough, seed=seed)
        result = replay(rollout, past.history(rollout), BEGINS, past.ends)
        assert result.ruling is not Ruling.ROLLBACK


def test_a_replay_is_the_same_every_time() -> None:
    rollout, past = subject(), Past(FAILING)
    history = past.history(rollout)
    assert replay(rollout, history, BEGINS, past.ends) == replay(rollout, history, BEGINS, past.ends)


def test_what_came_after_a_look_changes_nothing_of_it() -> None:
    rollout, past = subject(), Past(FAILING)
    history = past.history(rollout)
    half = BEGINS + timedelta(seconds=100)
    cut = History(
        history.begin,
        half,
        {
            selector: tuple(
                replace(track, values=[pair for pair in track.values if pair[0] <= half.timestamp()])
                for track in tracks
            )
            for selector, tracks in history.tracks.items()
        },
    )
    short = replay(rollout, cut, BEGINS, half)
    assert short.moments == replay(rollout, history, BEGINS, past.ends).moments[: len(short.moments)]


def test_a_silent_candidate_is_held_and_not_blamed() -> None:
    rollout, past = subject(), Past(HEALTHY)
    history = past.history(rollout)
    silent_from = (BEGINS + timedelta(seconds=120)).timestamp()
    silenced = {
        selector: tuple(
            replace(track, values=[pair for pair in track.values if pair[0] < silent_from])
            if track.labels["service"] == "int8"
            else track
            for track in tracks
        )
        for selector, tracks in history.tracks.items()
    }
    result = replay(rollout, replace(history, tracks=silenced), BEGINS, past.ends)
    assert result.ruling is Ruling.CONTINUE
    assert result.moments[-1].phase is Phase.HELD
    assert result.moments[-1].reason is Reason.NO_DATA


def test_other_rules_see_the_counts_that_davylamp_saw() -> None:
    rollout, past = subject(), Past(FAILING, scraping=CALM)
    history = past.history(rollout)
    result = replay(rollout, history, BEGINS, past.ends)
    assert result.began_at is not None
    looks = list(counted(rollout, history, result.baselines, (result.began_at, past.ends)))
    assert all({"errors", "latency"} >= look.pairs.keys() for look in looks)
    rules = rivals(rollout.plan, Thresholds(), result.baselines)
    alarms = {name.partition(":")[0]: rule(looks) for name, rule in rules.items()}
    assert all(alarm is not None and alarm.gate == "errors" for alarm in alarms.values())


@pytest.mark.parametrize(("seconds", "words"), [(5, "holds 0 looks"), (2_000_000, "must hold 1 to 100000")])
def test_a_range_without_looks_or_with_too_many_is_refused(seconds: int, words: str) -> None:
    rollout = subject()
    with pytest.raises(SpecError, match=words):
        replay(rollout, History(BEGINS, BEGINS, {}), BEGINS, BEGINS + timedelta(seconds=seconds))


def test_a_recording_of_other_signals_is_refused() -> None:
    rollout, past = subject(), Past(HEALTHY)
    with pytest.raises(SpecError, match="made for other signals"):
        replay(rollout, replace(past.history(rollout), tracks={'{a="b"}': ()}), BEGINS, past.ends)


def test_the_ladder_can_begin_when_a_person_says_so() -> None:
    rollout, past = subject(), Past(HEALTHY)
    result = replay(rollout, past.history(rollout), BEGINS, past.ends, ladder_at=BEGINS + timedelta(seconds=100))
    assert result.began_at is not None
    assert timedelta(seconds=100) <= result.began_at - BEGINS <= timedelta(seconds=101)
