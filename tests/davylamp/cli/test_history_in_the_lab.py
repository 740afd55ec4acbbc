"""Commands on history against a real Prometheus that has scraped real targets."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from e2e.lab import Lab
from tests.davylamp.cli.calling import call
from tests.davylamp.offline.pasts import ROLLOUT
from tests.davylamp.sources.exporter import Exporter, Page, exporting

SCRAPES = 40
#: Of a pod between two scrapes.
SERVED, FAILED = 99, 1


def pages() -> list[Page]:
    """Return what a pod of the mlserver preset shows: as many requests between any two scrapes."""
    duration = "rest_server_request_duration_seconds_bucket"
    return [
        {
            "model_infer_request_success_total": 1000 + scrape * SERVED,
            "model_infer_request_failure_total": 10 + scrape * FAILED,
            **{
                f'{duration}{{le="{edge}",path="/v2/infer"}}': scrape * count
                for edge, count in (("0.02", 20), ("0.021", 50), ("0.022", 80), ("+Inf", SERVED + FAILED))
            },
        }
        for scrape in range(SCRAPES)
    ]


async def scraped(lab: Lab, namespace: str) -> tuple[str, str]:
    """Let Prometheus scrape four pods of the baseline and two of the candidate; return when that began and ended."""
    pods = {name: Exporter(pages()) for name in ("fp32-0", "fp32-1", "fp32-2", "fp32-3", "int8-0", "int8-1")}
    async with exporting(*pods.values()):
        begin = await asyncio.to_thread(lab.query, "vector(time())")
        labels = {
            exporter.address: {"namespace": namespace, "service": name.partition("-")[0], "pod": name}
            for name, exporter in pods.items()
        }
        await asyncio.to_thread(lab.scrape, namespace, labels)
        for exporter in pods.values():
            await exporter.all_served.wait()
        end = await asyncio.to_thread(lab.query, "vector(time())")
        await asyncio.to_thread(lab.scrape, namespace, {})
    return said(begin[0]["value"][1]), said(end[0]["value"][1])


def said(time: str) -> str:
    """Return a time as the options take it."""
    return datetime.fromtimestamp(float(time), UTC).isoformat()


@pytest.fixture
def history(lab: Lab, lab_namespace: str, tmp_path: Path) -> list[str]:
    """Return the options that name a rollout, the server, and the time of its traffic."""
    rollout = ROLLOUT | {"metadata": {"name": "credit", "namespace": lab_namespace}}
    rollout["spec"] = {**ROLLOUT["spec"], "interval": "1s"}
    (tmp_path / "rollout.yaml").write_text(yaml.safe_dump(rollout), encoding="utf-8")
    begin, end = asyncio.run(scraped(lab, lab_namespace))
    return ["-f", str(tmp_path / "rollout.yaml"), "--source", lab.prometheus_url, "--from", begin, "--to", end]


def test_plan_learns_the_traffic_replay_judges_it_and_a_recording_of_it_says_the_same(
    history: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = call(capsys, "plan", *history, "-o", "json", "--record", str(tmp_path / "past.jsonl.gz"))
    assert planned.code == 0, planned.err
    learnt = json.loads(planned.out)
    assert learnt["shares"] == {"errors": pytest.approx(FAILED / (SERVED + FAILED), rel=1e-9)}
    assert learnt["requestsPerSecond"] > 0

    live = call(capsys, "replay", *history, "-o", "json")
    assert live.code == 0, live.err
    places = history.index("--source")
    recorded = [*history[:places], "--recording", str(tmp_path / "past.jsonl.gz"), *history[places + 2 :]]
    again = call(capsys, "replay", *recorded, "-o", "json")
    assert json.loads(again.out) == json.loads(live.out)
    assert json.loads(live.out)["ruling"] != "Rollback"
