"""Divergences of the scores as they are shown, against scipy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2, entropy

from davylamp.shadow.comparison import Comparison, Kind
from davylamp.shadow.exchange import Answer, Outcome
from davylamp.shadow.telemetry import Pair, Tallies, Telemetry

ANSWERED = Outcome(Answer(200, (), b""), 0.1)
BINS = np.linspace(0, 1, 21)
FEW = [(0.12, 0.12), (0.12, 0.31), (0.52, 0.52), (0.52, 0.77)]


def scores(seed: int, shift: float, number: int = 4000) -> list[tuple[float, float]]:
    first = np.random.default_rng(seed).beta(2, 2, number)
    return list(zip(first.tolist(), np.clip(first + shift, 0.001, 0.999).tolist(), strict=True))


def telemetry(
    counted: Iterable[tuple[float, float]], pair: Pair = Pair.CANDIDATE, rollout: str = "credit"
) -> Telemetry:
    made = Telemetry()
    count(made, counted, pair, rollout)
    return made


def count(
    made: Telemetry, counted: Iterable[tuple[float, float]], pair: Pair = Pair.CANDIDATE, rollout: str = "credit"
) -> None:
    comparison = Comparison(Kind.TENSORS, scores=tuple(counted))
    Tallies(made, "ml", rollout).compared(pair, comparison, (ANSWERED, ANSWERED), 0.1)


def shown(made: Telemetry, measure: str, suffix: str = "", rollout: str = "credit") -> float | None:
    labels = {"namespace": "ml", "rollout": rollout, "measure": measure}
    return made.registry.get_sample_value(f"davylamp_shadow_score_divergence{suffix}", labels)


def shares(counted: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return both variants' counts in the bins that one of them fills; a score on an edge is below it."""
    first, second = (np.histogram(np.nextafter(side, 0), BINS)[0] for side in np.array(counted).T)
    filled = first + second > 0
    return first[filled], second[filled]


@pytest.mark.parametrize("counted", [scores(1, 0.1), scores(2, -0.02), FEW], ids=["raised", "lowered", "few"])
def test_divergences_are_those_of_scipy(counted: list[tuple[float, float]]) -> None:
    first, second = shares(counted)
    made = telemetry(counted)

    assert shown(made, "JS") == pytest.approx(jensenshannon(first, second) ** 2)
    assert shown(made, "KL") == pytest.approx(entropy(second + 0.5, first + 0.5))


def test_the_stability_index_is_that_of_merged_bins_with_its_limit_under_no_shift() -> None:
    # Five bins of 200 scores each, so that none is merged with another.
    counted = [(0.1 + 0.2 * (n % 5), 0.1 + 0.2 * (n % 5 if n % 10 else 1)) for n in range(1000)]
    first, second = shares(counted)
    p, q = ((side + 0.5) / (side + 0.5).sum() for side in (first, second))
    made = telemetry(counted)

    assert first.tolist() == [200] * 5
    assert shown(made, "PSI") == pytest.approx(entropy(p, q) + entropy(q, p))
    assert shown(made, "PSI", "_limit") == pytest.approx(chi2.isf(0.01, 4) * (1 / 1000 + 1 / 1000))
    assert [shown(made, measure, "_limit") for measure in ("KL", "JS")] == [None, None]


def test_a_shift_exceeds_the_limit_and_none_does_not() -> None:
    shifted, same = telemetry(scores(3, 0.05)), telemetry(scores(3, 0.0))

    for made, exceeds in ((shifted, True), (same, False)):
        value, limit = shown(made, "PSI"), shown(made, "PSI", "_limit")
        assert value is not None
        assert limit is not None
        assert (value > limit) is exceeds


@pytest.mark.parametrize("counted", [[], [(0.42, 0.44)]], ids=["no scores", "all in one bin"])
def test_without_enough_scores_nothing_is_shown(counted: list[tuple[float, float]]) -> None:
    made = telemetry(counted)

    assert [shown(made, measure) for measure in ("PSI", "KL", "JS")] == [None] * 3
    assert shown(made, "PSI", "_limit") is None


def test_what_the_baseline_does_to_itself_is_no_divergence() -> None:
    assert shown(telemetry(scores(4, 0.3), Pair.BASELINE), "PSI") is None


def test_each_rollout_has_its_own_and_takes_them_with_it() -> None:
    made = telemetry(FEW)
    count(made, scores(5, 0.2), rollout="fraud")

    first, second = shares(scores(5, 0.2))
    assert shown(made, "JS", rollout="fraud") == pytest.approx(jensenshannon(first, second) ** 2)
    made.forget("ml", "fraud")
    assert shown(made, "JS", rollout="fraud") is None
    assert shown(made, "JS") is not None
