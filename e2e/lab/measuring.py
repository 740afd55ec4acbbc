"""Tell the lab's Prometheus what to scrape, and ask it."""

import http.client
import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from e2e.lab.failure import LabError
from e2e.lab.layout import PROMETHEUS_PORT, Layout
from e2e.lab.rendering import target_groups
from e2e.lab.waiting import until

Targets = Sequence[str] | Mapping[str, Mapping[str, str]]


def scrape(files: Layout, job: str, targets: Targets, *, within: timedelta) -> None:
    """Make `targets` all of `job`, and wait until Prometheus has scraped each of them, with or without success."""
    labelled = targets if isinstance(targets, Mapping) else {address: {} for address in targets}
    file = files.targets / f"{job}.json"
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(target_groups(job, labelled), encoding="utf-8")
    fresh.replace(file)
    until(lambda: _scraped(job) == set(labelled), f"Prometheus has scraped {job}", within=within)


def _scraped(job: str) -> set[str]:
    return {
        target["discoveredLabels"]["__address__"]
        for target in ask("/api/v1/targets?state=active")["activeTargets"]
        if target["labels"].get("job") == job and target["health"] != "unknown"
    }


def query(expression: str) -> list[dict[str, Any]]:
    """Return the result of an instant query."""
    result: list[dict[str, Any]] = ask("/api/v1/query?" + urlencode({"query": expression}))["result"]
    return result


def ask(path: str) -> Any:
    """Return the data of an answer of Prometheus' API.

    Raises
    ------
    LabError
        Prometheus does not answer, or says no.
    """
    connection = http.client.HTTPConnection("127.0.0.1", PROMETHEUS_PORT, timeout=5)
    try:
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise LabError(f"Prometheus does not answer {path}: {error!r}") from error
    finally:
        connection.close()
    if answer["status"] != "success":
        raise LabError(f"Prometheus refuses {path}: {answer.get('error')}")
    return answer["data"]
