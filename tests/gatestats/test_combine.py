import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatestats.combine import (
    adjust,
    anytime_p,
    attempt_alpha,
    calibrate,
    calibrate_any,
    culprits,
    discoveries,
    equal_weights,
    guarded_weights,
    intersection_union,
    log_threshold,
    quorum,
    weighted_mean,
)

EVIDENCE = st.dictionaries(st.sampled_from("abcdef"), st.floats(-50, 50) | st.just(-math.inf), min_size=1)


def test_the_mean_is_weighted_in_linear_space() -> None:
    log_e = {"a": math.log(8), "b": math.log(2)}
    assert weighted_mean(log_e, {"a": 0.25, "b": 0.75}) == pytest.approx(math.log(3.5), abs=1e-12)
    assert weighted_mean(log_e, {"a": 0.25, "b": 0.25}) == pytest.approx(math.log(2.5), abs=1e-12)
    assert weighted_mean(log_e, {"a": 1.0, "b": 0.0}) == pytest.approx(math.log(8), abs=1e-12)
    assert weighted_mean({"a": -math.inf, "b": 3.0}, {"a": 0.5, "b": 0.5}) == pytest.approx(3 - math.log(2))
    assert weighted_mean({"a": -math.inf}, {"a": 1.0}) == -math.inf
    assert weighted_mean({"a": 5000.0, "b": 0.0}, equal_weights(["a", "b"])) == pytest.approx(5000 - math.log(2))


@given(EVIDENCE)
def test_culprits_are_the_least_mean_of_every_subset_with_them(log_e: dict[str, float]) -> None:
    for name, closed in culprits(log_e).items():
        subsets = [
            subset
            for size in range(1, len(log_e) + 1)
            for subset in itertools.combinations(log_e, size)
            if name in subset
        ]
        means = [weighted_mean({n: log_e[n] for n in subset}, equal_weights(subset)) for subset in subsets]
        assert closed == pytest.approx(min(means), abs=1e-9)


@given(EVIDENCE, st.data())
def test_a_quorum_is_the_least_mean_of_any_set_that_large(log_e: dict[str, float], data: st.DataObject) -> None:
    least = data.draw(st.integers(1, len(log_e)))
    means = [
        weighted_mean({n: log_e[n] for n in subset}, equal_weights(subset))
        for subset in itertools.combinations(log_e, len(log_e) - least + 1)
    ]
    assert quorum(log_e, least) == pytest.approx(min(means), abs=1e-9)
    assert quorum(log_e, len(log_e)) == intersection_union(log_e)


def test_discoveries_are_those_of_the_step_up_rule() -> None:
    log_e = {name: math.log(value) for name, value in {"a": 100.0, "b": 45.0, "c": 30.0, "d": 1.0}.items()}
    # bars at .05: 80, 40, 26.7, 20
    assert discoveries(log_e, 0.05) == {"a", "b", "c"}
    assert discoveries(log_e, 0.01) == frozenset()
    # the third lifts the second over its bar even though the second alone would not be reported
    assert discoveries({"a": math.log(70), "b": math.log(41), "c": 0.0, "d": 0.0}, 0.05) == {"a", "b"}


def test_p_values_come_and_go_by_their_rules() -> None:
    assert math.exp(calibrate(0.01, 0.5)) == pytest.approx(5.0, abs=1e-9)  # vector 28
    assert anytime_p(math.log(20)) == pytest.approx(0.05)
    assert anytime_p(-3.0) == 1.0
    # a calibrator is an e-variable: its mean over uniform p is at most 1
    grid = (np.arange(2000) + 0.5) / 2000
    for kappa in (0.2, 0.5, 0.9):
        mean = np.mean([math.exp(calibrate(float(p), kappa)) for p in grid])
        assert 0.7 < mean <= 1.0


def test_a_calibrator_for_any_p_is_the_mean_over_all_kappas() -> None:
    kappas = (np.arange(20_000) + 0.5) / 20_000
    for p_value in (1e-9, 0.003, 0.2, 0.9):
        mean = float(np.mean(kappas * p_value ** (kappas - 1)))
        assert calibrate_any(p_value) == pytest.approx(math.log(mean), abs=1e-6)
    assert calibrate_any(1.0) == pytest.approx(math.log(0.5))
    below, above = calibrate_any(math.exp(-0.99999e-4)), calibrate_any(math.exp(-1.00001e-4))
    assert below == pytest.approx(above, abs=1e-7)
    grid = (np.arange(20_000) + 0.5) / 20_000
    assert 0.8 < np.mean([math.exp(calibrate_any(float(p))) for p in grid]) <= 1.0


def test_an_adjusted_process_expects_at_most_one_wherever_it_is_stopped() -> None:
    # fair doubling: the value at the best of all looks is far above 1 on average, its adjusted value is not
    paths = list(itertools.product((0.0, 2.0), repeat=12))
    best = [max(0.0, *(math.log(v) for v in np.cumprod(path) if v > 0), 0.0) for path in paths]
    assert np.mean(np.exp(best)) > 3
    for kappa in (0.2, 0.5, 0.8):
        assert np.mean([math.exp(adjust(value, kappa)) for value in best]) <= 1 + 1e-12
    assert adjust(math.log(100)) == pytest.approx(calibrate(anytime_p(math.log(100))))
    assert adjust(-3.0) == pytest.approx(math.log(0.5))


def test_half_the_weight_guards_the_whole_and_half_the_slices() -> None:
    weights = guarded_weights(["errors", "latency"], {"a": True, "b": True, "c": False, "d": False}, floor=0.4)
    assert weights == pytest.approx({"errors": 0.25, "latency": 0.25, "a": 0.2, "b": 0.2, "c": 0.05, "d": 0.05})
    assert guarded_weights(["errors"], {"a": False, "b": False}) == pytest.approx({"errors": 0.5, "a": 0.25, "b": 0.25})
    assert guarded_weights(["errors"], {}) == {"errors": 1.0}
    assert guarded_weights([], {"a": True, "b": False}) == pytest.approx({"a": 0.9, "b": 0.1})
    assert weighted_mean(dict.fromkeys(weights, 0.0), weights) == pytest.approx(0.0, abs=1e-12)


def test_attempts_share_one_budget() -> None:
    assert attempt_alpha(0.05, 1) == 0.025
    assert sum(attempt_alpha(0.05, attempt) for attempt in range(1, 60)) <= 0.05
    assert log_threshold(0.01) == pytest.approx(math.log(100))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weighted_mean({}, {}), "at least one stream"),
        (lambda: weighted_mean({"a": 0.0}, {"b": 1.0}), r"differ: \['a', 'b'\]"),
        (lambda: weighted_mean({"a": math.nan}, {"a": 1.0}), "below infinity"),
        (lambda: weighted_mean({"a": math.inf}, {"a": 1.0}), "below infinity"),
        (lambda: weighted_mean({"a": 0.0, "b": 0.0}, {"a": 0.8, "b": 0.3}), r"sum of 1\.1"),
        (lambda: weighted_mean({"a": 0.0}, {"a": -0.1}), r"sum of -0\.1"),
        (lambda: weighted_mean({"a": 0.0}, {"a": math.nan}), "sum of nan"),
        (lambda: weighted_mean({"a": 0.0}, {"a": 0.0}), r"sum of 0\.0"),
        (lambda: equal_weights([]), "got none"),
        (lambda: culprits({}), "at least one stream"),
        (lambda: quorum({"a": 0.0}, 2), r"1\.\.1 signals, got 2"),
        (lambda: quorum({"a": 0.0}, 0), "got 0"),
        (lambda: intersection_union({}), "at least one stream"),
        (lambda: calibrate(0.0), "above 0"),
        (lambda: calibrate(0.5, 1.0), "kappa"),
        (lambda: calibrate_any(0.0), r"above 0 and at most 1, got 0\.0"),
        (lambda: calibrate_any(math.nan), "got nan"),
        (lambda: adjust(1.0, 0.0), "kappa"),
        (lambda: adjust(math.nan), "below infinity"),
        (lambda: guarded_weights([], {}), r"got \[\]"),
        (lambda: guarded_weights(["a"], {"a": True}), "each once"),
        (lambda: guarded_weights(["a"], {}, floor=1.5), r"0\.\.1, got 1\.5"),
        (lambda: discoveries({"a": 0.0}, 0.0), "alpha"),
        (lambda: attempt_alpha(0.05, 0), "at least 1, got 0"),
        (lambda: log_threshold(1.0), "alpha"),
        (lambda: anytime_p(math.nan), "below infinity"),
    ],
)
def test_refuses_what_makes_no_sense(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
