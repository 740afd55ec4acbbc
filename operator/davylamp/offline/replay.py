"""A rollout over history: what the policy would have done, look by look, by the code of the live operator.

The samples are those of the past; the route is simulated, and obeys at once. Nothing can give the candidate more or
less traffic in hindsight, so the weight of the past is the candidate's observed share, and is shown beside the weight
that the policy would have asked for. The ladder begins with the candidate's first requests.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from davylamp.core.counting import Span
from davylamp.core.decide import decide
from davylamp.core.evidence import Evidence, begin
from davylamp.core.judge import judge
from davylamp.core.latency import Baseline
from davylamp.core.looking import Window, advance, begins_anew, cut, due_window
from davylamp.core.model import NONE, Phase, Progress, Reason, Ruling, Variant, Verdict, Weight
from davylamp.core.moves import Action, Decision, Divert, Lower, Mirror, Prepare, Raise, Release, Repoint, Restore
from davylamp.core.reading import Reading
from davylamp.core.report import GateReport
from davylamp.core.world import Judgement, RouteView, World
from davylamp.offline.counts import Counted, Counting, requests_of
from davylamp.offline.history import History, read_past
from davylamp.offline.subject import Subject

_UID: Final = "replay"
#: The operator looks again so soon after an act.
_VERIFY_AFTER: Final = timedelta(milliseconds=50)
#: Looks at one moment; the ladder needs three to get on its way.
_MOST_IN_A_ROW: Final = 8
_CLEAN: Final = RouteView("route", NONE, prepared=False, accepted=True)


@dataclass(frozen=True, slots=True)
class Moment:
    """One look: where the rollout stood after it.

    Parameters
    ----------
    at
        Time of the look, UTC.
    phase, reason, message, step, weight
        What was decided.
    share
        The candidate's share of the requests of this look in the past, 0..1; None if none was counted.
    log_evidence
        ln of the weighted mean e-value, nats.
    verdicts
        By gate.
    """

    at: datetime
    phase: Phase
    reason: Reason
    message: str
    step: int
    weight: Weight
    share: float | None
    log_evidence: float
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay came to.

    Parameters
    ----------
    moments
        Every look, the earliest first.
    ruling, ruled_at, why
        What was decided for good, and when; CONTINUE and None if nothing was.
    began_at
        When the candidate would have got its first weight; None if it had no requests in the range.
    culprits
        Gates behind a rollback.
    reports
        What each gate said at the last look under traffic.
    log_threshold
        Where traffic is taken back, nats.
    baselines
        The baseline's histograms of before the candidate's traffic.
    """

    moments: tuple[Moment, ...]
    ruling: Ruling
    ruled_at: datetime | None
    why: str
    began_at: datetime | None
    culprits: tuple[str, ...]
    reports: tuple[GateReport, ...]
    log_threshold: float
    baselines: Mapping[str, Baseline] = field(default_factory=dict)


def replay(
    subject: Subject, history: History, begins: datetime, ends: datetime, *, ladder_at: datetime | None = None
) -> Replay:
    """Run a rollout over history, from ``begins`` until it is decided or ``ends``.

    Parameters
    ----------
    subject, history
        What is rolled out over what.
    begins, ends
        Looks are one interval apart from ``begins`` on, the first an interval later; UTC.
    ladder_at
        When the ladder may begin; None for the first look that shows requests of the candidate.

    Raises
    ------
    SpecError
        If the history does not hold what the rollout asks for.
    """
    operator = Operator(subject, history, ladder_at)
    moments: list[Moment] = []
    for number in range(1, subject.looks(begins, ends) + 1):
        moments += operator.turn(begins + number * subject.plan.interval)
        if operator.progress.ended:
            break
    progress = operator.progress
    return Replay(
        moments=tuple(moments),
        ruling=progress.ruling,
        ruled_at=progress.ruled_at,
        why=progress.message if progress.ruling is not Ruling.CONTINUE else "",
        began_at=operator.began_at,
        culprits=operator.judgement.culprits if progress.ruling is Ruling.ROLLBACK else (),
        reports=operator.reports,
        log_threshold=operator.judgement.log_threshold,
        baselines=operator.evidence.baselines,
    )


def counted(
    subject: Subject, history: History, baselines: Mapping[str, Baseline], span: tuple[datetime, datetime]
) -> Iterator[Counted]:
    """Yield what each look of a range counted, whatever was decided meanwhile: for other rules on the same samples."""
    begins, ends = span
    counting = Counting(subject.plan.gates, baselines, {})
    for number in range((ends - begins) // subject.plan.interval):
        window = (begins + number * subject.plan.interval, begins + (number + 1) * subject.plan.interval)
        reading = read_past(history, subject.request(window), subject.settings)
        counting, found = counting.count(reading, window)
        yield found


@dataclass(slots=True)
class Operator:
    """The operator, with history for a metric source and a value for a route.

    Parameters
    ----------
    subject, history
        What is rolled out over what.
    ladder_at
        See `replay`.
    candidate_seen
        Whether a look has shown requests of the candidate.
    """

    subject: Subject
    history: History
    ladder_at: datetime | None = None
    progress: Progress = field(default_factory=Progress)
    evidence: Evidence = field(init=False)
    judgement: Judgement = field(default_factory=Judgement)
    reports: tuple[GateReport, ...] = ()
    route: RouteView = field(default_factory=lambda: _CLEAN)
    read_at: datetime | None = None
    began_at: datetime | None = None
    candidate_seen: bool = False

    def __post_init__(self) -> None:
        self.evidence = begin(self.subject.plan)

    def turn(self, at: datetime) -> Iterator[Moment]:
        """Look, and look again right after each act, as the operator does; yield where the rollout stands then."""
        for number in range(_MOST_IN_A_ROW):
            before = self.progress.phase
            decision = self.look(at + number * _VERIFY_AFTER)
            yield self._moment(at + number * _VERIFY_AFTER)
            if self.progress.ended or (decision.action is None and before == self.progress.phase):
                return

    def look(self, now: datetime) -> Decision:
        """Look once, decide and act: what `davylamp.runtime.engine` does, without a cluster."""
        plan = self.subject.plan
        self._see(now)
        self.judgement, reports = judge(plan, self.evidence)
        if not self.progress.ended and self.progress.ruling is not Ruling.ROLLBACK:
            self.reports = reports
        begun = self.candidate_seen if self.ladder_at is None else now >= self.ladder_at
        ready = int(begun or self.progress.step >= 0)
        world = World(
            _UID, deleting=False, route=self.route, baseline_ready=1, candidate_ready=ready, judgement=self.judgement
        )
        before = self.progress
        decision = decide(plan, before, world, now)
        if begins_anew(before, decision.progress):
            self.evidence, self.read_at = begin(plan), None
            self.judgement, self.reports = Judgement(), ()
        else:
            self.evidence = cut(plan, before, decision.progress, self.evidence)
        self.progress = decision.progress
        self._act(decision.action)
        if self.began_at is None and self.route.weight > NONE:
            self.began_at = now
        return decision

    def _see(self, now: datetime) -> None:
        """Advance the evidence by one window if it is time for one."""
        if self.progress.attempt is None or self.progress.ended:
            return
        window = due_window(self.evidence, self.read_at, now, self.subject.plan.interval)
        if window is None:
            self.evidence = replace(self.evidence, candidate_errors=None, candidate_requests=None)
            return
        reading = read_past(self.history, self.subject.request(window), self.subject.settings)
        if not self.candidate_seen:
            self.candidate_seen = self._serves(reading, window)
        self.evidence = advance(self.subject.plan, self.progress, self.evidence, (reading, window))
        self.read_at = window[1]

    def _serves(self, reading: Reading, window: Window) -> bool:
        span = Span(*window, {})
        return any(requests_of(gate, reading, Variant.CANDIDATE, span) for gate in self.subject.plan.gates)

    def _act(self, action: Action | None) -> None:
        match action:
            case Prepare(attempt):
                self.route = replace(self.route, prepared=True, attempt=attempt, asked=NONE, ruling=Ruling.CONTINUE)
            case Raise(weight=weight):
                self.route = replace(self.route, weight=weight, asked=weight)
            case Lower(_, weight, ruling):
                self.route = replace(self.route, weight=weight, asked=weight, ruling=ruling)
            case Restore():
                self.route = _CLEAN
            case Repoint():
                self.route = replace(_CLEAN, repointed=True)
            case Mirror() | Divert() | Release() | None:
                pass
            case never:
                assert_never(never)

    def _moment(self, at: datetime) -> Moment:
        progress = self.progress
        reason, message = progress.reason, progress.message
        if reason is Reason.CANDIDATE_NOT_READY:
            message = "waiting for the candidate's first requests in the history"
        return Moment(
            at=at,
            phase=progress.phase,
            reason=reason,
            message=message,
            step=progress.step,
            weight=progress.requested,
            share=self.evidence.share,
            log_evidence=self.judgement.log_evidence,
            verdicts=self.judgement.verdicts,
        )
