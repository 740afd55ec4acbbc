"""A Prometheus that answers badly: the real one's answers, spoilt on their way."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from e2e.faults.calls import Answer, Call, Fault, Forward


def not_a_number() -> Fault:
    """Return a fault by which every sample is NaN."""
    return _spoilt(lambda data: {**data, "result": [_with_nan(series) for series in data["result"]]})


def empty() -> Fault:
    """Return a fault by which nothing is found."""
    return _spoilt(lambda data: {**data, "result": []})


def _spoilt(spoil: Callable[[dict[str, Any]], dict[str, Any]]) -> Fault:
    async def fault(_: Call, forward: Forward) -> Answer | None:
        answer = await forward()
        document = json.loads(answer.body)
        if answer.status != 200 or "result" not in (document.get("data") or {}):
            return answer
        return replace(answer, body=json.dumps({**document, "data": spoil(document["data"])}).encode())

    return fault


def _with_nan(series: dict[str, Any]) -> dict[str, Any]:
    if "values" in series:
        return {**series, "values": [[time, "NaN"] for time, _ in series["values"]]}
    return {**series, "value": [series["value"][0], "NaN"]} if "value" in series else series
