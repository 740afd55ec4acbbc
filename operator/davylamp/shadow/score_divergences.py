"""How far the scores of both variants lie apart as distributions; shown, and to alert on, but no gate reads them.

Rule 1: they are computed when they are read, from the histograms of scores that are shown beside them.
Rule 2: where there are no scores there is no number, for 0 would say that nothing has shifted.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Final

from prometheus_client import Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gatestats.detectors.divergences import PSEUDO_COUNT, jensen_shannon, kullback_leibler, population_stability
from gatestats.detectors.inputs import NoData

#: Redraws of the limits that are not shown: the fewest that are taken.
_DRAWS: Final = 99


class Divergence(StrEnum):
    """Which divergence; a label of metrics."""

    PSI = "PSI"
    #: Of the candidate from the baseline.
    KL = "KL"
    JS = "JS"


class ScoreDivergences(Collector):
    """Shows the divergences of all rollouts.

    Parameters
    ----------
    scores
        Histogram of scores, by namespace, rollout, pair and variant.
    """

    labels: Final = ("namespace", "rollout", "measure")

    def __init__(self, scores: Histogram) -> None:
        self._scores = scores

    def describe(self) -> Iterable[Metric]:
        """Return what is shown, without values."""
        return self._families()

    def collect(self) -> Iterable[Metric]:
        """Return what is shown now."""
        values, limits = self._families()
        for rollout, (baseline, candidate) in self._counts():
            stability = population_stability(baseline, candidate)
            # Smoothed as PSI is: one score where the baseline has none is no infinite shift.
            directed = kullback_leibler(baseline, candidate, pseudo_count=PSEUDO_COUNT, draws=_DRAWS)
            symmetric = jensen_shannon(baseline, candidate, draws=_DRAWS)
            found = {Divergence.PSI: stability, Divergence.KL: directed, Divergence.JS: symmetric}
            for measure, value in found.items():
                if not isinstance(value, NoData):
                    values.add_metric((*rollout, measure), value.nats)
            if not isinstance(stability, NoData):
                # For independent requests; scores of the same requests lie closer together, and exceed it less often.
                limits.add_metric((*rollout, Divergence.PSI), stability.null_threshold)
        return values, limits

    def _families(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        name = "davylamp_shadow_score_divergence"
        limit = "What it exceeds with chance 1 % if nothing has shifted."
        return (
            GaugeMetricFamily(name, "Between the scores of both variants, nats.", labels=self.labels),
            GaugeMetricFamily(f"{name}_limit", limit, labels=self.labels),
        )

    def _counts(self) -> Iterator[tuple[tuple[str, str], tuple[list[int], list[int]]]]:
        """Yield each rollout with the baseline's and the candidate's scores in each bin."""
        sums: dict[tuple[str, str], dict[str, list[int]]] = {}
        for sample in (sample for family in self._scores.collect() for sample in family.samples):
            labels = sample.labels
            if sample.name.endswith("_bucket") and labels["pair"] == "candidate":
                rollout = sums.setdefault((labels["namespace"], labels["rollout"]), {"baseline": [0], "candidate": [0]})
                rollout[labels["variant"]].append(int(sample.value))
        for name, both in sums.items():
            yield name, (_steps(both["baseline"]), _steps(both["candidate"]))


def _steps(sums: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(sums)]
