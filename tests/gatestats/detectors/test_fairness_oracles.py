"""Every number on fairness is the one that Fairlearn and scikit-learn give for the same predictions."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from fairlearn import metrics as fairlearn
from numpy.typing import NDArray
from sklearn import calibration as sklearn_calibration
from sklearn import metrics as sklearn

from gatestats.detectors.calibration import ConfidenceBin, calibration_error, error_range
from gatestats.detectors.group_rates import (
    Confusion,
    EqualisedOdds,
    GroupRate,
    RateSpread,
    demographic_parity,
    equalised_odds,
    rate_spread,
)
from gatestats.detectors.inputs import NoData
from gatestats.detectors.ranking import RankingArea, ranking_area
from gatestats.paired_precision import PairedPrecisionDesign
from gatestats.paired_relative import RelativePairedDesign
from gatestats.ticks import Estimate, PairedOutcomes, PrecisionCounts

Decisions = NDArray[np.int64]
ORACLES: Mapping[GroupRate, Callable[..., Any]] = {
    GroupRate.TRUE_POSITIVE: fairlearn.true_positive_rate,
    GroupRate.FALSE_POSITIVE: fairlearn.false_positive_rate,
    GroupRate.SELECTION: fairlearn.selection_rate,
    GroupRate.PRECISION: sklearn.precision_score,
    GroupRate.ACCURACY: sklearn.accuracy_score,
}
SEEDS = range(12)


class Data:
    """Labels, decisions and groups of some requests; some groups are tiny, one has nobody, scores are tied."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        size = int(random.integers(30, 200))
        self.groups = random.choice(["a", "b", "c", "tiny"], size, p=[0.5, 0.3, 0.17, 0.03])
        self.labels: Decisions = (random.random(size) < random.uniform(0.1, 0.9)).astype(np.int64)
        self.scores = np.round(random.beta(1 + 2 * self.labels, 2), 1)
        self.decisions: Decisions = (self.scores >= 0.5).astype(np.int64)
        self.others: Decisions = np.where(random.random(size) < 0.15, 1 - self.decisions, self.decisions)

    def confusions(self) -> dict[str, Confusion]:
        found = {"nobody": Confusion(0, 0, 0, 0)}
        for group in np.unique(self.groups):
            inside = self.groups == group
            table = sklearn.confusion_matrix(self.labels[inside], self.decisions[inside], labels=[0, 1])
            (true_negatives, false_positives), (false_negatives, true_positives) = table.tolist()
            found[str(group)] = Confusion(true_positives, false_negatives, false_positives, true_negatives)
        return found

    def spread_of(self, rate: GroupRate, groups: Mapping[str, float]) -> Any:
        """Fairlearn's frame over the groups that have the rate."""
        inside = np.isin(self.groups, list(groups))
        return fairlearn.MetricFrame(
            metrics=ORACLES[rate],
            y_true=self.labels[inside],
            y_pred=self.decisions[inside],
            sensitive_features=self.groups[inside],
        )


@pytest.mark.parametrize("rate", list(GroupRate))
@pytest.mark.parametrize("seed", SEEDS)
def test_rates_of_groups_and_their_differences_are_those_of_fairlearn(seed: int, rate: GroupRate) -> None:
    data = Data(seed)
    result = rate_spread(data.confusions(), rate)
    frame = data.spread_of(rate, result.by_group)
    assert dict(result.by_group) == pytest.approx(frame.by_group.to_dict(), abs=1e-12)
    assert result.difference == pytest.approx(frame.difference(method="between_groups"), abs=1e-12)
    assert {"nobody"} <= {each.name.rpartition(" ")[2] for each in result.undefined}
    if result.ratio is not None:
        assert result.ratio == pytest.approx(frame.ratio(method="between_groups"), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_equalised_odds_and_demographic_parity_are_those_of_fairlearn(seed: int) -> None:
    data, groups = Data(seed), Data(seed).confusions()
    odds, parity = equalised_odds(groups), demographic_parity(groups)
    assert isinstance(odds, EqualisedOdds)
    assert isinstance(parity, RateSpread)
    parity_difference = fairlearn.demographic_parity_difference(
        data.labels, data.decisions, sensitive_features=data.groups
    )
    assert parity.difference == pytest.approx(parity_difference, abs=1e-12)
    # Fairlearn takes a rate that does not exist for 0: compared are the groups that have both
    complete = set(odds.true_positive.by_group) & set(odds.false_positive.by_group)
    inside = np.isin(data.groups, list(complete))
    some = equalised_odds({name: groups[name] for name in complete})
    assert isinstance(some, EqualisedOdds)
    for agg, mine in (("worst_case", some.worst_difference), ("mean", some.mean_difference)):
        theirs = fairlearn.equalized_odds_difference(
            data.labels[inside], data.decisions[inside], sensitive_features=data.groups[inside], agg=agg
        )
        assert mine == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_area_is_that_of_scikit_learn_if_bins_are_the_scores_and_holds_it_if_they_are_coarser(seed: int) -> None:
    data = Data(seed)
    exact = sklearn.roc_auc_score(data.labels, data.scores)
    for edges in (np.arange(12) / 10 - 0.05, np.array([-0.1, 0.25, 0.45, 0.75, 1.1])):
        counts = [np.histogram(data.scores[data.labels == label], edges)[0].tolist() for label in (0, 1)]
        result = ranking_area(*counts)
        assert isinstance(result, RankingArea)
        assert result.low - 1e-12 <= exact <= result.high + 1e-12
        if len(edges) > 10:
            assert result.area == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_calibration_error_is_that_of_scikit_learns_curve(seed: int) -> None:
    data, edges = Data(seed), np.linspace(0, 1, 11)
    scores = data.scores**1.1
    true, confident = sklearn_calibration.calibration_curve(data.labels, scores, n_bins=10)
    places = np.searchsorted(edges[1:-1], scores)
    totals = np.bincount(places, minlength=10)
    expected = (totals[totals > 0] * np.abs(true - confident)).sum() / len(scores)
    sums = np.bincount(places, scores, 10)
    outcomes = np.bincount(places, data.labels, 10).astype(int)
    bins = [ConfidenceBin(*each) for each in zip(totals.tolist(), sums.tolist(), outcomes.tolist(), strict=True)]
    result = calibration_error(bins, draws=99)
    assert not isinstance(result, NoData)
    assert result.error == pytest.approx(expected, abs=1e-12)
    within = error_range(totals.tolist(), outcomes.tolist(), edges.tolist())
    assert not isinstance(within, NoData)
    assert within.low - 1e-12 <= expected <= within.high + 1e-12
    assert within.low <= within.middle <= within.high


def shown(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_paired_tests_show_of_both_variants_is_what_scikit_learn_gives(seed: int) -> None:
    data = Data(seed)
    right = data.decisions == data.labels, data.others == data.labels

    def outcomes(label: int) -> PairedOutcomes:
        baseline, candidate = (each[data.labels == label] for each in right)
        kinds = (baseline & candidate, baseline & ~candidate, ~baseline & candidate)
        both, worse, better = (int(kind.sum()) for kind in kinds)
        return PairedOutcomes(both, worse, better, baseline.size)

    positives, negatives = outcomes(1), outcomes(0)
    recall, precision = RelativePairedDesign(), PairedPrecisionDesign()
    recalled = shown(recall.estimate(recall.update(recall.start(), positives)))
    precise = shown(precision.estimate(precision.update(precision.start(), PrecisionCounts(positives, negatives))))
    for who, decisions in (("baseline", data.decisions), ("candidate", data.others)):
        expected = sklearn.recall_score(data.labels, decisions), sklearn.precision_score(data.labels, decisions)
        assert (getattr(recalled, who), getattr(precise, who)) == pytest.approx(expected, abs=1e-12)
