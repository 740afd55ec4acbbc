"""ModelRollouts in the situations that people see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.davylamp.api.manifests import rollout as full_example

Manifest = dict[str, Any]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(**span: float) -> str:
    return (NOON - timedelta(**span)).isoformat()


def attempt(number: int = 1) -> Manifest:
    return {
        "id": f"a{number}",
        "number": number,
        "candidateDigest": "sha256:6b86b273ff34fce19d6b804eff5a3f57",
        "specHash": "0" * 32,
        "startedAt": ago(minutes=12),
        "pair": {"route": "credit", "baseline": "credit-fp32:8080", "candidate": "credit-int8:8080"},
    }


def share(name: str, *, baseline: tuple[int, int], candidate: tuple[int, int], **changes: Any) -> Manifest:
    """A signal of shares, as events of totals."""
    sides = [
        {"total": total, "events": events, "value": events / total if total else None}
        for events, total in (baseline, candidate)
    ]
    signal: Manifest = {
        "name": name,
        "verdict": "Inconclusive",
        "baseline": sides[0],
        "candidate": sides[1],
        "difference": candidate[0] / candidate[1] - baseline[0] / baseline[1],
        "interval": {"low": -0.0031, "high": 0.0048},
        "evidence": 0.35,
        "threshold": 2.48,
        "nonInferiority": 0.9,
        "nonInferiorityThreshold": 1.3,
        "required": True,
        "samples": baseline[1] + candidate[1],
        "message": (
            f"{name} {candidate[0] / candidate[1]:.2%} of {candidate[1]:,} against "
            f"{baseline[0] / baseline[1]:.2%} of {baseline[1]:,}, evidence that it is no worse 7.94 of 20"
        ),
    }
    return signal | changes


def latency(**changes: Any) -> Manifest:
    signal: Manifest = {
        "name": "latency",
        "verdict": "NonInferior",
        "baseline": {"total": 9800, "value": 0.0123},
        "candidate": {"total": 3200, "value": 0.0105},
        "difference": -0.0018,
        "evidence": -4.2,
        "threshold": 2.48,
        "nonInferiority": 3.1,
        "nonInferiorityThreshold": 1.3,
        "required": False,
        "samples": 13000,
        "message": "latency p95 10.5 ms against 12.3 ms (-15%), evidence that it is no worse 1,260, needed 20",
    }
    return signal | changes


def errors(**changes: Any) -> Manifest:
    return share("errors", baseline=(30, 9800), candidate=(11, 3200)) | changes


def regressed() -> Manifest:
    return share(
        "approvals",
        baseline=(2500, 9800),
        candidate=(600, 3200),
        verdict="Regressed",
        interval={"low": -0.0911, "high": -0.0442},
        evidence=7.23,
        nonInferiority=-31.0,
        message=(
            "approvals 18.75% of 3,200 against 25.51% of 9,800 (-6.76 points), evidence of a regression 1e+7, limit 302"
        ),
    )


def condition(kind: str, status: str, reason: str) -> Manifest:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": 3,
        "lastTransitionTime": ago(minutes=1),
    }


def with_status(status: Manifest | None, **metadata: Any) -> Manifest:
    manifest = full_example()
    manifest["metadata"] |= {"generation": 3, "creationTimestamp": ago(minutes=15), **metadata}
    if status is not None:
        manifest["status"] = {"observedGeneration": 3} | status
    return manifest


def running(phase: str, reason: str, message: str, **changes: Any) -> Manifest:
    status: Manifest = {
        "phase": phase,
        "reason": reason,
        "message": message,
        "verdict": "Inconclusive",
        "attempt": attempt(),
        "step": {"index": 2, "summary": "3/5", "enteredAt": ago(minutes=3)},
        "weight": {"requested": 25, "programmed": 25, "observed": 24.63},
        "signals": [errors(), latency()],
        "conditions": [condition("Reconciling", "True", reason)],
    }
    return with_status(status | changes)


def unseen() -> Manifest:
    return with_status(None)


def baking() -> Manifest:
    return running("Progressing", "Baking", "baking at 25 % for 190 of 600 s")


def held() -> Manifest:
    gone = errors(
        verdict="NoData",
        candidate=None,
        difference=None,
        interval=None,
        evidence=None,
        nonInferiority=None,
        message="model_infer_request_success_total of the candidate has had no sample for 83 s (limit 60 s)",
    )
    return running(
        "Held",
        "NoData",
        "the weight is held, since model_infer_request_success_total of the candidate has had no sample for 83 s",
        verdict="NoData",
        signals=[gone, latency(verdict="SourceDown", message=None)],
        hold={"since": ago(seconds=83), "reason": "NoData"},
        undelivered=[
            {
                "key": "a1/1/NoData",
                "channel": "oncall",
                "severity": "Warning",
                "why": "PagerDuty refused the event (400): check the channel's Secret",
                "at": ago(seconds=10),
            }
        ],
        weight={"requested": 50, "programmed": 25, "observed": None},
    )


def promoting() -> Manifest:
    return running(
        "Promoting",
        "PromotionStarted",
        "all gates passed: errors 0.34% of 3,200 against 0.31% of 9,800 (+0.04 points)",
        verdict="NonInferior",
        step={"index": 5, "summary": "5/5", "enteredAt": ago(seconds=20)},
        weight={"requested": 100, "programmed": 100, "observed": 99.2},
        signals=[errors(verdict="NonInferior", nonInferiority=1.31), latency()],
    )


def promoted() -> Manifest:
    return running(
        "Promoted",
        "AllGatesPassed",
        "promoted: credit-int8:8080 serves all traffic of credit",
        verdict="NonInferior",
        step={"index": 5, "summary": "5/5", "enteredAt": ago(minutes=3)},
        weight={"requested": 100, "programmed": 100},
        decision={"id": "a1", "verdict": "Promote", "reason": "AllGatesPassed", "at": ago(minutes=2)},
        conditions=[condition("Promoted", "True", "AllGatesPassed"), condition("Ready", "True", "AllGatesPassed")],
    )


def rolled_back() -> Manifest:
    signal = regressed()
    return running(
        "RolledBack",
        "Regressed",
        signal["message"],
        verdict="Regressed",
        weight={"requested": 0, "programmed": 0, "observed": 0.0},
        signals=[errors(), latency(), signal],
        decision={"id": "a1", "verdict": "Rollback", "reason": "Regressed", "at": ago(minutes=2)},
        conditions=[condition("RolledBack", "True", "Regressed"), condition("Stalled", "True", "Regressed")],
        quarantine=[
            {"digest": attempt()["candidateDigest"], "until": ago(minutes=-58), "attempts": 1, "reason": "Regressed"}
        ],
        history=[
            {
                "attempt": "a1",
                "outcome": "RolledBack",
                "reason": "Regressed",
                "startedAt": ago(minutes=12),
                "endedAt": ago(minutes=2),
            }
        ],
    )


def invalid() -> Manifest:
    return running(
        "Pending",
        "InvalidSpec",
        "spec.steps: weights must rise from step to step",
        signals=[],
        conditions=[condition("Stalled", "True", "InvalidSpec")],
    )


def damaged() -> Manifest:
    """A status that somebody has spoilt, with texts that would like to take over the terminal."""
    manifest = running("Held", "NoData", "\x1b[2J\x1b[31mhidden[/] [bold]markup[/bold] \x07\u202ereversed")
    manifest["metadata"]["generation"] = 4
    manifest["status"] |= {
        "weight": {"requested": 900},
        "step": "two",
        "attempt": None,
        "signals": [errors(name="\x1b]0;title\x07"), 17, errors(name="x" * 63, evidence="much")],
        "hold": {"since": ago(minutes=4), "reason": "No\x1bData"},
    }
    return manifest


SITUATIONS = {
    maker.__name__: maker for maker in (unseen, baking, held, promoting, promoted, rolled_back, invalid, damaged)
}
