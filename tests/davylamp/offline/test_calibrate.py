from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from davylamp.core.model import Variant
from davylamp.core.plan import OddsRatioMargin
from davylamp.core.reading import Reading, SignalReading, Target
from davylamp.errors import SpecError
from davylamp.offline.calibrate import Calibration, Trial, calibrate
from davylamp.offline.halves import OWN, halved, halves_of
from davylamp.offline.history import History, Track
from tests.davylamp.offline.pasts import BEGINS, CALM, Past, subject
from tests.simulation_statistics.traffic import Truth

ALIKE = Truth(100, drift=1.0, error_rate=0.02)


def past(pods: int, truth: Truth = ALIKE) -> Past:
    return Past(truth, weights=(), scraping=replace(CALM, baseline_servers=pods))


def calibrated(made: Past, history: History | None = None, **spec: Any) -> Calibration:
    rollout = subject(**spec)
    return calibrate(rollout, history or made.history(rollout), (BEGINS, made.ends), Trial(halves=3))


def test_pods_that_are_alike_need_no_wider_margin_and_raise_no_alarm() -> None:
    found = calibrated(past(6))
    errors, latency = found.gauged
    assert found.pods == tuple(f"Baseline-{number}" for number in range(6))
    assert found.cautions == ()
    assert errors.spread is not None
    assert errors.spread.mean == pytest.approx(0.02, abs=0.003)
    assert not errors.spread.seen
    assert errors.dispersion is not None
    assert errors.dispersion.phi == pytest.approx(1, abs=0.2)
    assert latency.spread is not None
    assert latency.dispersion is None
    assert latency.spread.sd < 0.02
    assert [run.alarms[OWN] for run in found.runs] == [None] * 3


def worse_pod(made: Past, factor: int) -> History:
    """Return the past with one pod whose errors are so many times as frequent."""

    def spoilt(track: Track) -> Track:
        if track.labels["__name__"] != "model_infer_request_failure_total" or track.labels["instance"] != "Baseline-0":
            return track
        return Track(track.labels, [[at, str(factor * int(value))] for at, value in track.values])

    history = made.history(subject())
    return replace(history, tracks={name: tuple(map(spoilt, tracks)) for name, tracks in history.tracks.items()})


def test_a_pod_that_fails_more_often_asks_for_a_wider_margin_and_alarms_falsely_without_it() -> None:
    made = past(4)
    gates = {"errors": {"margin": {"oddsRatio": 1.1}, "allowance": "0.1%"}, "latency": {"margin": {"slowdown": "10%"}}}
    found = calibrated(made, worse_pod(made, 5), gates=gates)
    errors = found.gauged[0]
    assert errors.spread is not None
    assert errors.spread.seen
    assert errors.spread.sd == pytest.approx(0.035, abs=0.015)  # one of four pods lies .08 above the others: sd .04
    one, two, four = (errors.margins[number] for number in (1, 2, 4))
    assert all(isinstance(margin, OddsRatioMargin) and margin.ratio > 1.1 for margin in (one, two, four))
    assert errors.margins[1] != errors.margins[4]
    bad_half = [run for run in found.runs if "Baseline-0" in run.candidate]
    assert bad_half
    assert all(run.alarms[OWN] == "errors" for run in bad_half)


def test_bursts_are_named() -> None:
    found = calibrated(past(6, replace(ALIKE, burst=6.0)))
    assert any("errors come in bursts" in caution for caution in found.cautions)


def test_one_pod_cannot_be_compared_with_itself() -> None:
    found = calibrated(past(1))
    assert found.runs == ()
    assert all(each.spread is None for each in found.gauged)
    assert "a pod is not a version" in found.cautions[0]


def test_three_pods_are_said_to_be_few() -> None:
    found = calibrated(past(3))
    assert "rests on 2 differences" in found.cautions[0]
    assert len(found.runs) == 3


def test_gateways_are_no_pods() -> None:
    rollout = subject(signals={"preset": "envoy"})
    made = past(2)
    history = History(BEGINS.replace(year=2025), made.ends, dict.fromkeys(rollout.selectors(BEGINS), ()))
    with pytest.raises(SpecError, match="errors: its series come from gateways"):
        calibrate(rollout, history, (BEGINS, made.ends), Trial())


def test_a_baseline_without_requests_is_no_baseline() -> None:
    rollout, made = subject(), past(2)
    history = History(BEGINS.replace(year=2025), made.ends, dict.fromkeys(rollout.selectors(BEGINS), ()))
    with pytest.raises(SpecError, match="no series of model_infer_request_failure_total"):
        calibrate(rollout, history, (BEGINS, made.ends), Trial())


def test_all_halves_are_tried_if_they_are_few_and_else_the_same_random_ones_each_time() -> None:
    assert halves_of(["b", "a"], 10, 1) == (("a",), ("b",))
    assert len(halves_of(list("abcd"), 6, 1)) == 6
    many = [f"pod-{number}" for number in range(12)]
    chosen = halves_of(many, 20, 1)
    assert chosen == halves_of(many[::-1], 20, 1)
    assert chosen != halves_of(many, 20, 2)
    assert len(set(chosen)) == 20
    assert all(len(half) == 6 for half in chosen)


def test_a_half_plays_the_candidate_and_the_real_one_is_left_out() -> None:
    targets = {Variant.BASELINE: (Target("a"), Target("b")), Variant.CANDIDATE: (Target("real"),)}
    reading = halved(Reading({"errors": SignalReading(targets, trouble={Variant.CANDIDATE: "silent"})}), ("b",))
    signal = reading.signals["errors"]
    assert {variant: [t.name for t in some] for variant, some in signal.targets.items()} == {
        Variant.BASELINE: ["a"],
        Variant.CANDIDATE: ["b"],
    }
    assert signal.trouble == {}


def test_a_number_of_halves_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.\.1000, got 0"):
        Trial(halves=0)
