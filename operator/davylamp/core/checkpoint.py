"""Take stored evidence up again after a restart. What is stored is untrusted: it is used whole, or not at all."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from typing import Final

from davylamp.core import method
from davylamp.core.counting import Cursors
from davylamp.core.evidence import Evidence, with_streams
from davylamp.core.latency import Baseline
from davylamp.core.plan import Plan
from gatestats.process import restore

#: Looks of any plan; a look a second for thirty years.
_LONGEST: Final = 10**9


def resume(plan: Plan, text: str, as_of: datetime) -> Evidence:
    """Read back what `Evidence.to_json` wrote.

    Parameters
    ----------
    plan
        The plan of the same attempt.
    text
        The stored line, perhaps damaged.
    as_of
        Time up to which it counts samples, UTC.

    Raises
    ------
    ValueError
        If it is damaged or belongs to other gates; the caller then begins anew.
    """
    try:
        data = json.loads(text)
        baselines = {str(name): Baseline.from_plain(plain) for name, plain in data["baselines"].items()}
        samples = {str(name): (int(low), int(high)) for name, (low, high) in data["samples"].items()}
        cursors = {str(name): float(time) for name, time in data["cursors"].items()}
        planned = int(data["planned"])
        mirrored_at, labelled = _moment(data.get("mirrored_at")), int(data.get("labelled", 0))
        states = dict(data["streams"])
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as broken:
        raise ValueError(f"stored evidence is damaged: {broken!r}") from broken
    _refuse_bad_numbers({**samples, "labels": (0, labelled)}, cursors, planned)
    spreads, methods = method.from_plain(data)
    fresh = with_streams(
        plan, Evidence(as_of, {}, baselines, samples, cursors, planned, spreads, methods, mirrored_at, labelled)
    )
    if states.keys() != fresh.streams.keys():
        raise ValueError(f"stored evidence has the streams {sorted(states)}, the gates make {sorted(fresh.streams)}")
    streams = {
        name: replace(stream, state=restore(stream.design, str(states[name]))) for name, stream in fresh.streams.items()
    }
    return replace(fresh, streams=streams)


def _moment(seconds: object) -> datetime | None:
    """Return a stored moment; OverflowError or ValueError if there is no such moment."""
    return None if seconds is None else datetime.fromtimestamp(float(str(seconds)), UTC)


def _refuse_bad_numbers(samples: Mapping[str, tuple[int, int]], cursors: Cursors, planned: int) -> None:
    """Raise ValueError for what would end a bake early, stop all counting unseen, or leave nothing for late changes."""
    if not 1 <= planned <= _LONGEST:
        raise ValueError(f"stored evidence is damaged: planned must be 1 to {_LONGEST} looks, got {str(planned)[:20]}")
    for name, counts in samples.items():
        if min(counts) < 0:
            raise ValueError(f"stored evidence is damaged: samples of {name} must be at least 0, got {counts}")
    for name, time in cursors.items():
        if not isfinite(time):
            raise ValueError(f"stored evidence is damaged: cursor {name} must be finite, got {time}")
