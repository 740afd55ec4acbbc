from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from davylamp.errors import SpecError
from davylamp.offline.history import History, Track
from davylamp.offline.recording import FORMAT, covered, read_recording, write_recording
from davylamp.offline.replay import replay
from tests.davylamp.offline.pasts import BEGINS, Past, subject
from tests.simulation_statistics.traffic import Truth

HISTORY = History(
    BEGINS - timedelta(minutes=5),
    BEGINS,
    {
        "{a}": (
            Track({"__name__": "a"}, [[1.5, "1"], [2, "2"]], []),
            Track({"__name__": "h"}, [], [[1.5, {"count": "1", "sum": "2"}]]),
        ),
        "{nothing}": (),
    },
    (BEGINS - timedelta(minutes=1), BEGINS),
)


@pytest.mark.parametrize("name", ["past.jsonl", "past.jsonl.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    write_recording(tmp_path / name, HISTORY)
    assert read_recording(tmp_path / name) == HISTORY
    assert [path.name for path in tmp_path.iterdir()] == [name]
    write_recording(tmp_path / name, replace(HISTORY, looks=None))
    assert read_recording(tmp_path / name).looks is None


def test_a_replay_of_a_recording_is_that_of_the_server(tmp_path: Path) -> None:
    rollout, past = subject(), Past(Truth(100, drift=1.0, error_odds=6.0))
    history = past.history(rollout)
    write_recording(tmp_path / "past.gz", history)
    again = read_recording(tmp_path / "past.gz")
    assert replay(rollout, again, BEGINS, past.ends) == replay(rollout, history, BEGINS, past.ends)


HEAD = json.dumps(
    {"format": FORMAT, "begin": "2026-01-01T00:00:00+00:00", "end": "2026-01-01T01:00:00+00:00", "selectors": ["{a}"]}
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: this is no recording"),
        ("{}", ":1: this is no recording"),
        ("no", ":1: this is not JSON"),
        ("[" * 100_000, ":1: this is not JSON"),
        (HEAD.replace("00:00:00+00:00", "00:00:00"), "two times with an offset"),
        (HEAD.replace("T01:", "T00:"), "two times with an offset, in order"),
        (HEAD.replace('"begin"', '"began"'), "first line is damaged"),
        (f"{HEAD}\n[]", ":2: each line must be a JSON object"),
        (f'{HEAD}\n{{"selector": "b"}}', ":2: the selector is not one"),
        (f'{HEAD}\n{{"selector": "{{a}}"}}', ":2: metric must be an object of labels"),
        (f'{HEAD}\n{{"selector": "{{a}}", "metric": {{}}, "values": 1}}', ":2: values and histograms must be lists"),
        (f'{HEAD}\n{{"selector": "{{a}}", "metric": {{}}, "values": [[2, "1"], [1, "1"]]}}', ":2: samples must be"),
        (f'{HEAD}\n{{"selector": "{{a}}", "metric": {{}}, "values": [[NaN, "1"]]}}', ":2: samples must be"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "past.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=words) as raised:
        read_recording(path)
    assert str(path) in str(raised.value)


def test_a_file_that_ends_too_early_or_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "past.jsonl.gz"
    path.write_bytes(gzip.compress(HEAD.encode())[:-12])
    with pytest.raises(SpecError, match="ends too early"):
        read_recording(path)
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_recording(tmp_path / "nowhere")
    with pytest.raises(SpecError, match="cannot be written: No such file"):
        write_recording(tmp_path / "nowhere" / "past", HISTORY)


def test_a_range_outside_the_recording_is_refused_with_what_it_covers() -> None:
    covered(HISTORY, HISTORY.begin, HISTORY.end)
    for begin, end in ((HISTORY.begin - timedelta(seconds=1), HISTORY.end), (BEGINS, BEGINS + timedelta(seconds=1))):
        with pytest.raises(SpecError, match="the recording covers 2025-12-31T23:58:00Z to 2026-01-01T00:03:00Z"):
            covered(HISTORY, begin, end)
