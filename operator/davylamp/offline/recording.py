"""History in a file: JSON lines, the first of which says what is inside; with gzip if the name ends in .gz.

A recording is somebody else's file: it is read within limits, and what is wrong is named by its line.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, cast

from davylamp.errors import SpecError
from davylamp.offline.history import History, Track, shown

FORMAT: Final = "davylamp.dev/recording-1"
MOST_BYTES: Final = 2 << 30
_LONGEST_LINE: Final = 256 << 20
_GZIP: Final = b"\x1f\x8b"


def write_recording(path: Path, history: History) -> None:
    """Write a history to a file, whole or not at all.

    Raises
    ------
    SpecError
        If it cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(part, "wt", encoding="utf-8") as stream:
            stream.writelines(f"{json.dumps(line, separators=(',', ':'))}\n" for line in _lines(history))
        part.replace(path)
    except OSError as error:
        raise SpecError(f"{path} cannot be written: {error.strerror or error}") from error


def read_recording(path: Path) -> History:
    """Read a file that `write_recording` wrote.

    Raises
    ------
    SpecError
        If it cannot be read, or is no recording; the message names the line.
    """
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == _GZIP
            raw.seek(0)
            if not zipped:
                return _read(path, raw)
            with gzip.open(raw, "rb") as stream:
                return _read(path, cast("IO[bytes]", stream))
    except EOFError as error:
        raise SpecError(f"{path} ends too early: write it anew") from error
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror or error}") from error


def _lines(history: History) -> Iterator[Mapping[str, Any]]:
    yield {
        "format": FORMAT,
        "begin": history.begin.isoformat(),
        "end": history.end.isoformat(),
        "looks": history.looks and [moment.isoformat() for moment in history.looks],
        "selectors": sorted(history.tracks),
    }
    for selector in sorted(history.tracks):
        for track in history.tracks[selector]:
            line: dict[str, Any] = {"selector": selector, "metric": dict(track.labels)}
            if track.values:
                line["values"] = list(track.values)
            if track.histograms:
                line["histograms"] = list(track.histograms)
            yield line


def _read(path: Path, stream: IO[bytes]) -> History:
    lines = _parsed(path, stream)
    _, head = next(lines, (1, {}))
    if head.get("format") != FORMAT:
        raise SpecError(f"{path}:1: this is no recording: its first line must have the format {FORMAT!r}")
    try:
        begin, end = _range((head["begin"], head["end"]))
        looks = None if head.get("looks") is None else _range(head["looks"])
        tracks: dict[str, list[Track]] = {str(selector): [] for selector in head["selectors"]}
    except (KeyError, TypeError, ValueError) as error:
        raise SpecError(f"{path}:1: the first line is damaged: {error}") from error
    for number, line in lines:
        if line.get("selector") not in tracks:
            raise SpecError(f"{path}:{number}: the selector is not one of those in the first line")
        tracks[line["selector"]].append(_track(line, f"{path}:{number}"))
    return History(begin, end, {selector: tuple(found) for selector, found in tracks.items()}, looks)


def _range(texts: Sequence[str]) -> tuple[datetime, datetime]:
    begin, end = (datetime.fromisoformat(text) for text in texts)
    if begin.tzinfo is None or end.tzinfo is None or not begin < end:
        raise ValueError(f"a range must be two times with an offset, in order, got {texts[0]} and {texts[1]}")
    return begin, end


def _parsed(path: Path, stream: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    size, number = 0, 0
    while text := stream.readline(_LONGEST_LINE + 1):
        size, number = size + len(text), number + 1
        if len(text) > _LONGEST_LINE or size > MOST_BYTES:
            raise SpecError(
                f"{path}:{number}: a line has at most {_LONGEST_LINE} bytes and a recording {MOST_BYTES}, and this one "
                "has more: record a shorter range"
            )
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"{path}:{number}: this is not JSON ({error})") from error
        if not isinstance(line, dict):
            raise SpecError(f"{path}:{number}: each line must be a JSON object")
        yield number, line


def _track(line: Mapping[str, Any], place: str) -> Track:
    labels, values, histograms = line.get("metric"), line.get("values", []), line.get("histograms", [])
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise SpecError(f"{place}: metric must be an object of labels")
    for pairs in (values, histograms):
        if not isinstance(pairs, list):
            raise SpecError(f"{place}: values and histograms must be lists")
        before = float("-inf")
        for pair in pairs:
            timed = isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in {int, float}
            if not timed or not pair[0] > before:
                raise SpecError(f"{place}: samples must be pairs of time and value, each later than the one before")
            before = pair[0]
    return Track(labels, values, histograms)


def covered(history: History, begin: datetime, end: datetime) -> None:
    """Raise SpecError unless a history covers a range; the message says what it covers."""
    if begin < history.begin or end > history.end:
        raise SpecError(
            f"the recording covers {shown(history.begin)} to {shown(history.end)}, and this needs {shown(begin)} to "
            f"{shown(end)}, since the first looks reach back: choose a later --from, or record a longer range"
        )
