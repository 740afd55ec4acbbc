from __future__ import annotations

from datetime import timedelta

import pytest

from davylamp.core.model import Variant
from davylamp.errors import SpecError
from davylamp.offline.history import History, Track, joined, read_past
from tests.davylamp.offline.pasts import BEGINS, Past, subject
from tests.simulation_statistics.traffic import Truth

WINDOW = (BEGINS, BEGINS + timedelta(seconds=10))


def test_a_moment_sees_samples_after_the_low_end_and_up_to_the_high_one() -> None:
    track = Track({"a": "b"}, [[1, "1"], [2.5, "2"], [4, "3"]], [[3, {}]])
    found = track.between(1, 4)
    assert found is not None
    assert list(found.values) == [[2.5, "2"], [4, "3"]]
    assert list(found.histograms) == [[3, {}]]
    assert track.between(4, 9) is None
    assert track.between(-5, 0.5) is None


def test_pieces_of_a_series_are_joined_and_a_sample_at_a_seam_counts_once() -> None:
    labels = {"__name__": "a", "instance": "x"}
    parts = [
        {"metric": labels, "values": [[1, "1"], [2, "2"]]},
        {"metric": {"__name__": "b"}, "values": [[1, "9"]]},
        {"metric": labels, "values": [[2, "2"], [3, "3"]], "histograms": [[3, {}]]},
    ]
    first, second = joined(parts)
    assert (first.values, first.histograms) == ([[1, "1"], [2, "2"], [3, "3"]], [[3, {}]])
    assert second.labels == {"__name__": "b"}


def test_what_is_missing_is_said_as_live() -> None:
    rollout = subject()
    empty = History(BEGINS - timedelta(hours=1), WINDOW[1], dict.fromkeys(rollout.selectors(BEGINS), ()))
    reading = read_past(empty, rollout.request(WINDOW), rollout.settings)
    trouble = reading.signals["errors"].trouble
    assert trouble.keys() == set(Variant)
    assert "no series of model_infer_request_failure_total" in trouble[Variant.BASELINE]


def test_a_stale_series_is_no_data_as_live() -> None:
    rollout, past = subject(), Past(Truth(100), weights=((60.0, 50),))
    history = past.history(rollout)
    silent = {
        name: tuple(
            Track(t.labels, [pair for pair in t.values if pair[0] < WINDOW[1].timestamp() - 65]) for t in tracks
        )
        for name, tracks in history.tracks.items()
    }
    reading = read_past(History(history.begin, history.end, silent), rollout.request(WINDOW), rollout.settings)
    assert "the limit is 60 s" in reading.signals["errors"].trouble[Variant.BASELINE]


@pytest.mark.parametrize("begin", [BEGINS, BEGINS - timedelta(seconds=59)])
def test_a_look_that_reaches_beyond_the_history_is_refused(begin: object) -> None:
    rollout = subject()
    history = History(begin, WINDOW[1], {})  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="needs it from 2026-01-01T00:02:00Z on"):
        read_past(history, rollout.request(WINDOW), rollout.settings)
