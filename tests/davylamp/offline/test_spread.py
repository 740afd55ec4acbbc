from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as t_distribution

from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    Margin,
    OddsRatioMargin,
    RelativeMargin,
    SignalKind,
    SlowdownMargin,
)
from davylamp.offline.spread import Spread, difference, necessary, spelled, spread_of, wide_enough


def test_a_hand_worked_table() -> None:
    # Rows 1 2 3 and 3 5 4: means 2 and 4, columns 2 3.5 3.5, grand 3. Rests -.0 +-.5: squares 0 .25 .25, twice.
    # Between: 3 * (1 + 1) / 1 = 6; noise: 1 / 2 = .5; variance of pods (6 - .5) / 3.
    spread = spread_of([[1, 2, 3], [3, 5, 4]])
    assert spread is not None
    assert spread.sd == pytest.approx(math.sqrt(5.5 / 3))
    assert spread.mean == pytest.approx(3)
    assert (spread.pods, spread.blocks) == (2, 3)
    # F(1, 2) at 12: p = 1 - sqrt(12 / 14), as F(1, 2) is t(2) squared.
    assert spread.p == pytest.approx(1 - math.sqrt(12 / 14))


def test_the_spread_and_its_limit_are_right_on_average_and_in_19_of_20_cases() -> None:
    random = np.random.default_rng(1)
    variances, covered, seen = [], 0, 0
    for _ in range(400):
        pods, hour = random.normal(0, 0.5, (8, 1)), random.normal(0, 3, (1, 30))
        spread = spread_of((pods + hour + random.normal(0, 1, (8, 30))).tolist())
        assert spread is not None
        variances.append(spread.sd**2)
        covered += spread.sd_high >= 0.5
        seen += spread.seen
    assert np.mean(variances) == pytest.approx(0.25, rel=0.1)
    assert 0.92 <= covered / 400 <= 0.98
    assert seen > 380


def test_pods_that_are_alike_are_seldom_called_different() -> None:
    random = np.random.default_rng(2)
    seen = 0
    for _ in range(400):
        spread = spread_of((random.normal(0, 1, (5, 20)) + random.normal(0, 3, (1, 20))).tolist())
        assert spread is not None
        seen += spread.seen
    assert 0.03 <= seen / 400 <= 0.08


def test_fresh_pods_exceed_the_difference_as_often_as_was_asked() -> None:
    random = np.random.default_rng(3)
    beyond = 0
    for _ in range(4000):
        pods = random.normal(0, 1, 6)
        spread = Spread(6, 30, 0, float(pods.std(ddof=1)), 0, 0)
        beyond += random.normal(0, 1, 2).mean() - pods.mean() > difference(spread, 2, 0.05)
    assert beyond / 4000 == pytest.approx(0.05, abs=0.01)


def test_two_pods_leave_hardly_any_certainty() -> None:
    two, ten = (difference(Spread(pods, 30, 0, 1.0, 1.0, 0), pods, 0.01) for pods in (2, 10))
    assert two == pytest.approx(float(t_distribution.ppf(0.99, 1)))
    assert two > 20 * ten


def gate(margin: Margin, worse: Direction = Direction.HIGHER) -> Gate:
    return Gate("errors", SignalKind.ERRORS, worse, margin)


@pytest.mark.parametrize(
    ("margin", "worse", "mean", "gap", "needed"),
    [
        (OddsRatioMargin(1.25), Direction.HIGHER, 0.02, 0.01, OddsRatioMargin(0.03 / 0.97 / (0.02 / 0.98))),
        (OddsRatioMargin(1.25), Direction.LOWER, 0.5, 0.1, OddsRatioMargin(1.5)),
        (OddsRatioMargin(1.25), Direction.HIGHER, 0.99, 0.01, None),
        (OddsRatioMargin(1.25), Direction.HIGHER, 0.0, 0.01, None),
        (AbsoluteMargin(0.01), Direction.EITHER, 0.3, 0.02, AbsoluteMargin(0.02)),
        (AbsoluteMargin(0.01), Direction.EITHER, 0.3, 0.6, None),
        (RelativeMargin(0.2), Direction.HIGHER, 0.1, 0.02, RelativeMargin(0.2)),
        (RelativeMargin(0.2), Direction.HIGHER, 0.1, 0.2, None),
        (SlowdownMargin(0.1), Direction.HIGHER, -4.0, math.log(1.2), SlowdownMargin(0.2)),
        (SlowdownMargin(0.1), Direction.HIGHER, -4.0, math.log(2.1), None),
    ],
)
def test_a_difference_becomes_a_margin_of_the_gates_own_kind(
    margin: Margin, worse: Direction, mean: float, gap: float, needed: Margin | None
) -> None:
    found = necessary(gate(margin, worse), Spread(4, 10, mean, 0, 0, 1), gap)
    if needed is None:
        assert found is None
    else:
        assert found is not None
        assert type(found) is type(needed)
        assert spelled(found) == spelled(needed)
        assert wide_enough(needed, found) or wide_enough(found, needed)


@pytest.mark.parametrize(
    ("margin", "text"),
    [
        (OddsRatioMargin(1.2501), "{oddsRatio: 1.26}"),
        (OddsRatioMargin(1.0), "{oddsRatio: 1.01}"),
        (AbsoluteMargin(0.01), "{absolute: 1%}"),
        (RelativeMargin(0.1234), "{relative: 13%}"),
        (SlowdownMargin(0.00813), "{slowdown: 0.82%}"),
        (SlowdownMargin(0.0), "{slowdown: 0.01%}"),
    ],
)
def test_margins_are_spelled_as_a_spec_takes_them_and_never_narrower(margin: Margin, text: str) -> None:
    assert spelled(margin) == text


def test_tables_that_say_nothing_or_are_ragged() -> None:
    assert spread_of([]) is None
    assert spread_of([[1.0, 2.0]]) is None
    assert spread_of([[1.0], [2.0]]) is None
    with pytest.raises(ValueError, match=r"rows of \[2, 1\]"):
        spread_of([[1.0, 2.0], [1.0]])
    with pytest.raises(ValueError, match="finite"):
        spread_of([[1.0, 2.0], [1.0, math.nan]])
    flat = spread_of([[1.0, 1.0], [1.0, 1.0]])
    assert flat is not None
    assert not flat.seen
