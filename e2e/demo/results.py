"""What became of each rollout, in figures. Nothing here reads a clock: what was seen, and when, are arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from e2e.demo.receivers import PAGERDUTY, SLACK, Received
from e2e.demo.scenario import PROMOTED, ROLLED_BACK, Case
from e2e.demo.traffic.history import History
from e2e.demo.watching import Manifest, Track, candidate_share

UNDECIDED: Final = "Undecided"


@dataclass(frozen=True, slots=True)
class Result:
    """One rollout.

    Parameters
    ----------
    rollout
        Its name.
    outcome
        ``Promoted``, ``RolledBack``, or ``Undecided`` if it did not end.
    reason
        Why, in one sentence with the numbers.
    detection_seconds
        From the moment the candidate was bad and had traffic, live or mirrored, to the decision; ``None`` for one
        that was not bad.
    rollback_seconds
        From the same moment until the API server showed the route without it, or without the mirror.
    last_bad_seconds
        From the same moment to the last answer that the candidate gave.
    bad_requests, failed_requests
        What the candidate served from that moment on, and how many of these failed.
    word
        The reason as one word.
    gates
        Gates that found the candidate worse.
    """

    rollout: str
    outcome: str
    reason: str
    detection_seconds: float | None = None
    rollback_seconds: float | None = None
    last_bad_seconds: float | None = None
    bad_requests: int = 0
    failed_requests: int = 0
    word: str = ""
    gates: tuple[str, ...] = ()


def result(case: Case, track: Track, history: History, fault_at: datetime | None) -> Result:
    """Return the figures of one rollout.

    Parameters
    ----------
    case
        Which.
    track
        What the API server showed of it.
    history
        Its traffic.
    fault_at
        When its servers were told to fail requests; ``None`` for one whose candidate was bad from its first request,
        or not at all.
    """
    status = track.status
    ended = status.get("phase") if track.ended else UNDECIDED
    found = Result(
        rollout=case.name,
        outcome=str(ended),
        reason=_proof(status) if ended == PROMOTED else str(status.get("message") or "nothing was seen of it"),
        word=str(status.get("reason") or ""),
        gates=tuple(signal["name"] for signal in status.get("signals") or [] if signal["verdict"] == "Regressed"),
    )
    begun = _begun(case, track, history, fault_at)
    if case.outcome == PROMOTED or begun is None:
        return found
    served = history.served(case.variant, begun)
    decision = status.get("decision") or {}
    decided = datetime.fromisoformat(decision["at"]) if decision.get("verdict") == "Rollback" else None
    clean = track.unmirrored_after(begun) if case.in_the_shadow else track.zero_after(begun)
    return replace(
        found,
        detection_seconds=_seconds(begun, decided),
        rollback_seconds=_seconds(begun, clean),
        last_bad_seconds=_seconds(begun, served.last),
        bad_requests=served.requests,
        failed_requests=served.failed,
    )


def _begun(case: Case, track: Track, history: History, fault_at: datetime | None) -> datetime | None:
    """Return from when on the candidate was bad and could be seen to be."""
    if case.in_the_shadow:
        return track.mirrored_at
    return fault_at if case.faulty else history.served(case.variant).first


def shortfalls(case: Case, found: Result, track: Track) -> Iterable[str]:
    """Say in sentences what is not as it should be with a rollout and its route; nothing if all is."""
    if found.outcome != case.outcome:
        yield f"{case.name} should have ended {case.outcome}, and is {found.outcome}: {found.reason}"
        return
    before, after = track.rules
    if case.outcome == PROMOTED:
        if candidate_share(after, case.candidate) != 100:
            yield f"{case.name} is promoted, and its route does not point to {case.candidate} alone: {after}"
        return
    if case.gate not in found.gates:
        seen = ", ".join(found.gates) or "no gate"
        yield f"{case.name} should have been rolled back by the gate {case.gate}, and was by {seen}: {found.reason}"
    if case.in_the_shadow and found.bad_requests:
        yield f"{case.name} should have been found in the shadow, and answered {found.bad_requests} live requests"
    if before != after:
        yield f"the route of {case.name} is not as it was before the rollout: {after}"
    if found.detection_seconds is None or found.rollback_seconds is None:
        yield f"{case.name} is rolled back, and nobody saw when"


def untold(cases: Sequence[Case], received: Sequence[Received]) -> Iterable[str]:
    """Say in sentences who should have been told of what and was not, or was told more than once."""
    for case in cases:
        told = [message for message in received if message.rollout == case.name and not message.mistake]
        kind = "Info" if case.outcome == PROMOTED else "Incident"
        ending = PROMOTED.lower() if case.outcome == PROMOTED else ""
        if not any(m.receiver == SLACK and m.kind == kind and ending in m.text for m in told):
            yield f"Slack was not told that {case.name} is {case.outcome}"
        paged = any(m.receiver == PAGERDUTY and m.kind == "trigger critical" for m in told)
        if paged != (case.outcome == ROLLED_BACK):
            yield f"PagerDuty was {'' if paged else 'not '}told to wake somebody about {case.name}"
    for message in received:
        if message.mistake:
            yield f"{message.receiver} would refuse a message about {message.rollout}: {message.mistake}"
    counts = Counter((message.receiver, message.rollout, message.kind, message.text) for message in received)
    for (receiver, rollout, _, text), count in counts.items():
        if count > 1:
            yield f"{receiver} was told {count} times of {rollout}: {text}"


def as_json(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return the table for the report file."""
    return [
        {
            "rollout": found.rollout,
            "outcome": found.outcome,
            "reason": found.reason,
            "detection_seconds": _rounded(found.detection_seconds),
            "rollback_seconds": _rounded(found.rollback_seconds),
            "bad_requests": found.bad_requests,
            "failed_requests": found.failed_requests,
            "last_bad_request_seconds": _rounded(found.last_bad_seconds),
            "reason_word": found.word,
        }
        for found in results
    ]


def _proof(status: Manifest) -> str:
    """Return why a candidate was promoted: the sentences of the gates that promotion waited for."""
    sentences = [signal["message"] for signal in status.get("signals") or [] if signal.get("required")]
    return "; ".join(sentences) or str(status.get("message"))


def _seconds(start: datetime, end: datetime | None) -> float | None:
    return None if end is None else (end - start).total_seconds()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
