"""What the live operator decided on a real cluster, decided again from the history in its Prometheus."""

from datetime import datetime, timedelta
from typing import Any

from davylamp.core.model import Ruling
from davylamp.offline.replay import Replay, replay
from davylamp.offline.server import Server, fetch
from davylamp.offline.subject import subject_of
from e2e.lab.waiting import until
from e2e.stage.manifests import metric_source
from e2e.stage.premises import Fleet
from e2e.stage.rollout_stage import RolloutStage

#: Long enough for a replay to see the candidate before the end; the trip wire must not be faster than the evidence.
_SPEC: dict[str, Any] = {
    "steps": [{"weight": 20, "bake": "4s", "minSamples": 5}, {"weight": 50, "bake": "4s", "minSamples": 10}],
    "rollback": {"tripWires": {"errorShare": "100%", "ticks": 5, "minRequests": 1000}},
}


def replayed(stage: RolloutStage, status: dict[str, Any]) -> Replay:
    """Replay a rollout that has ended, with looks on the beginning of its ladder."""
    lab = stage.site.lab
    subject = subject_of([stage.manifest, metric_source("http://unused")])
    began = next(
        datetime.fromisoformat(seen.manifest["status"]["step"]["enteredAt"])
        for seen in stage.recorder.history
        if seen.manifest and (seen.manifest.get("status") or {}).get("step", {}).get("index") == 0
    )
    decided = datetime.fromisoformat(status["decision"]["at"])
    begins, ends = began - timedelta(seconds=20), decided + timedelta(seconds=8)

    def remembered() -> bool:
        series = f'timestamp(model_infer_request_success_total{{namespace="{stage.site.namespace}"}})'
        newest = [float(found["value"][1]) for found in lab.query(series)]
        return bool(newest) and min(newest) > ends.timestamp()

    until(remembered, "Prometheus has the scrapes after the end", within=timedelta(seconds=60))
    history = fetch(Server(lab.prometheus_url), subject.selectors(ends), (subject.reach(begins), ends))
    return replay(subject, history, begins, ends, ladder_at=began)


def test_a_rollback_is_replayed_with_the_same_verdict(stage: RolloutStage, fleet: Fleet) -> None:
    fleet.break_candidate(errors=0.5)
    stage.apply(**_SPEC)
    status = stage.until_phase("RolledBack")
    result = replayed(stage, status)
    assert status["decision"]["reason"] == "Regressed"
    assert result.ruling is Ruling.ROLLBACK
    assert result.culprits == ("errors",)
    assert {report.name: report.verdict.value for report in result.reports}["errors"] == "Regressed"


def test_a_promotion_is_replayed_with_the_same_verdict(stage: RolloutStage) -> None:
    stage.apply(**_SPEC)
    status = stage.until_phase("Promoted")
    result = replayed(stage, status)
    assert status["decision"]["verdict"] == "Promote"
    assert result.ruling is Ruling.PROMOTE
