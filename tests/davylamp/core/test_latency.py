import json
import math
from typing import Any

import pytest

from davylamp.core.latency import ENOUGH, Baseline, latency_design
from gatestats.bracketed import BracketedOddsRatioDesign
from gatestats.histogram import HistogramDesign
from gatestats.ticks import TwoArmCounts, TwoArmHistogram
from tests.davylamp.core.readings import COARSE, FINE, spread


def known(edges: tuple[float, ...], middle: int, requests: int = 1000) -> Baseline:
    return Baseline(edges, tuple(spread(edges, middle, requests)))


def test_fine_buckets_are_tested_as_a_shift_of_the_whole_distribution() -> None:
    design = latency_design(known(FINE, 15), 1.1)
    assert design is not None
    assert isinstance(design.process, HistogramDesign)
    assert design.beyond is None
    assert design.sentence == "whole distribution, at most 10.0% slower"
    look = TwoArmHistogram(FINE, known(FINE, 15).counts, known(FINE, 16).counts)
    assert design.tick(look) is look


def test_the_sentence_names_the_slowdown_that_the_buckets_can_express() -> None:
    design = latency_design(known(FINE, 15), 1.22)
    assert design is not None
    assert design.sentence == "whole distribution, at most 21.0% slower"


def test_coarse_buckets_are_tested_beyond_the_edge_nearest_to_the_95th_percentile() -> None:
    baseline = known(COARSE, 2)
    design = latency_design(baseline, 1.1)
    assert design is not None
    assert isinstance(design.process, BracketedOddsRatioDesign)
    assert design.beyond == 2
    assert 1 <= design.process.low <= design.process.high
    assert "buckets too coarse for 10%: share beyond the edge 10, 20.00% before the rollout" in design.sentence
    assert design.tick(TwoArmHistogram(COARSE, baseline.counts, (0, 0, 0, 0, 9))) == TwoArmCounts(200, 1000, 9, 9)


def test_a_range_of_odds_without_end_is_cut_to_what_can_be_tested() -> None:
    design = latency_design(known((1.0, 1.0001, 10.0, math.inf), 1), 2.0)
    assert design is not None
    assert isinstance(design.process, BracketedOddsRatioDesign)
    assert design.process.high == 16


def test_too_few_requests_or_one_bucket_show_nothing() -> None:
    assert latency_design(known(FINE, 15, ENOUGH - 1), 1.1) is None
    assert latency_design(known(FINE, 15, ENOUGH), 1.1) is not None
    assert latency_design(Baseline((1.0, math.inf), (500, 500)), 1.1) is None
    assert latency_design(Baseline(COARSE, (0, 0, 1000, 0, 0)), 1.1) is None


def test_a_histogram_is_stored_and_read_back_bit_for_bit() -> None:
    baseline = known(FINE, 15)
    text = json.dumps(baseline.to_plain(), allow_nan=False)
    assert Baseline.from_plain(json.loads(text)) == baseline
    assert baseline.total == 1000


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"edges": ["1", "2", "inf"]},
        {"edges": None, "counts": [1, 2, 3]},
        {"edges": ["1", "2", "inf"], "counts": 3},
        {"edges": ["1", "2", "inf"], "counts": [1, 2]},
        {"edges": ["1", "2", "inf"], "counts": [1, 2, None]},
        {"edges": ["1", "2", "inf"], "counts": [1, 2, math.inf]},
        {"edges": ["1", "2", "inf"], "counts": [1, 2, -3]},
        {"edges": ["1", "two", "inf"], "counts": [1, 2, 3]},
        {"edges": ["1", "nan", "inf"], "counts": [1, 2, 3]},
        {"edges": ["0", "1", "inf"], "counts": [1, 2, 3]},
        {"edges": ["2", "1", "inf"], "counts": [1, 2, 3]},
        {"edges": [10**400, "1", "inf"], "counts": [1, 2, 3]},
        {"edges": ["1"], "counts": [1]},
        {"edges": [str(edge) for edge in range(1, 258)], "counts": [1] * 257},
    ],
)
def test_a_damaged_histogram_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Baseline.from_plain(plain)
