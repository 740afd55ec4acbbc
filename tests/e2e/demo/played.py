"""Rollouts of the demo as the API server would have shown them, for tests of what is made of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.demo.receivers import PAGERDUTY, SLACK, Received
from e2e.demo.scenario import CASES, Case
from e2e.demo.traffic.history import Answer, History
from e2e.demo.watching import Track, Witness

START = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
INT8, PRUNED, FLAKY = CASES


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def backends(case: Case, candidate: int | None) -> list[dict[str, Any]]:
    """Return the rules of a route that gives the candidate so many per cent; ``None`` leaves it out."""
    refs = [{"name": case.baseline, "port": 8080, "weight": 100 - (candidate or 0)}]
    if candidate is not None:
        refs.append({"name": case.candidate, "port": 8080, "weight": candidate})
    return [{"backendRefs": refs}]


def route(case: Case, candidate: int | None, *, mirrored: bool = False) -> dict[str, Any]:
    rules = backends(case, candidate)
    if mirrored:
        rules[0]["filters"] = [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "davylamp-shadow"}}}]
    return {"metadata": {"name": case.name}, "spec": {"rules": rules}}


def rollout(case: Case, phase: str, *, decided: float | None = None, gates: tuple[str, ...] = ()) -> dict[str, Any]:
    signals = [
        {
            "name": name,
            "verdict": "Regressed" if name in gates else "NonInferior",
            "required": name not in {"latency", "disagreement"},
            "message": f"{name} in numbers",
        }
        for name in ("errors", "latency", "positives", "disagreement")
    ]
    status: dict[str, Any] = {
        "phase": phase,
        "reason": "Regressed" if gates else "AllGatesPassed",
        "message": "; ".join(f"{name} in numbers" for name in gates) or "promoted",
        "signals": signals,
        "step": {"index": 1, "acceptedAt": after(10).isoformat()},
    }
    if decided is not None:
        status["decision"] = {"verdict": "Rollback", "at": after(decided).isoformat()}
    return {"metadata": {"name": case.name, "namespace": "demo"}, "status": status}


def rolled_back(case: Case, *, decided: float = 20, zero: float = 20.5) -> Track:
    witness = Witness(CASES)
    for seconds, weight in ((0.0, None), (1.0, 0), (2.0, 20), (10.0, 50), (zero, 0), (zero + 1, None)):
        witness.saw_route(route(case, weight), after(seconds))
    witness.saw_rollout(rollout(case, "RolledBack", decided=decided, gates=(str(case.gate),)))
    return witness.tracks[case.name]


def found_in_the_shadow(case: Case, *, decided: float = 20, clean: float = 20.5) -> Track:
    witness = Witness(CASES)
    for seconds, mirrored in ((0.0, False), (2.5, True), (clean, False)):
        witness.saw_route(route(case, 0 if mirrored else None, mirrored=mirrored), after(seconds))
    witness.saw_rollout(rollout(case, "RolledBack", decided=decided, gates=(str(case.gate),)))
    return witness.tracks[case.name]


def promoted() -> Track:
    witness = Witness(CASES)
    for seconds, weight in ((0.0, None), (2.0, 20), (30.0, 100)):
        witness.saw_route(route(INT8, weight), after(seconds))
    witness.saw_rollout(rollout(INT8, "Promoted"))
    return witness.tracks["int8"]


def traffic(case: Case, *seconds: float, failed: tuple[float, ...] = ()) -> History:
    """Return answers of the candidate at some seconds, failed ones among them."""
    history = History()
    for second in sorted((*seconds, *failed)):
        status = 500 if second in failed else 200
        history.record(Answer(after(second), case.variant, status, timedelta(milliseconds=2)))
    return history


def told(case: Case, receiver: str, kind: str, text: str = "errors in numbers") -> Received:
    return Received(START, receiver, case.name, kind, text)


ALL_TOLD = (
    told(INT8, SLACK, "Info", "promoted: int8-candidate serves all traffic"),
    told(PRUNED, SLACK, "Incident"),
    told(PRUNED, PAGERDUTY, "trigger critical"),
    told(FLAKY, SLACK, "Incident"),
    told(FLAKY, PAGERDUTY, "trigger critical"),
)
