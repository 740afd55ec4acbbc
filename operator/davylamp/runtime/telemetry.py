"""What Davylamp shows of itself to Prometheus. Every name begins with ``davylamp_``."""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from davylamp.core.model import Progress, Verdict
from davylamp.core.report import GateReport
from davylamp.runtime.catalogue import Name

_ROLLOUT = ("namespace", "name")
_FAST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Described:
    """One metric as people read of it: the name that a query uses, its type, its labels and its meaning."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


class Telemetry:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = self.registry
        self.weight = Gauge(
            "davylamp_weight_percent",
            "The candidate's share of traffic, by who says it.",
            (*_ROLLOUT, "kind"),
            registry=made,
        )
        self.phase = Gauge(
            "davylamp_phase", "1 for the phase that the rollout is in.", (*_ROLLOUT, "phase"), registry=made
        )
        self.verdict = Gauge(
            "davylamp_gate_verdict", "1 for the verdict of the gate.", (*_ROLLOUT, "gate", "verdict"), registry=made
        )
        self.evidence = Gauge(
            "davylamp_gate_evidence_log10",
            "Evidence by gate, log10 of the e-value: of a regression, or that the candidate is no worse.",
            (*_ROLLOUT, "gate", "kind"),
            registry=made,
        )
        self.samples = Gauge("davylamp_gate_samples", "Requests counted by gate.", (*_ROLLOUT, "gate"), registry=made)
        self.decisions = Counter(
            "davylamp_decisions", "Decisions that changed something.", (*_ROLLOUT, "action", "reason"), registry=made
        )
        self.lateness = Histogram(
            "davylamp_tick_lateness_seconds", "How late a look began.", buckets=_FAST, registry=made
        )
        self.looks = Histogram("davylamp_tick_seconds", "How long a look took.", buckets=_FAST, registry=made)
        self.rollback = Histogram(
            "davylamp_rollback_seconds",
            "From the decision to roll back to weight 0 on the route.",
            buckets=_FAST,
            registry=made,
        )
        self.api_errors = Counter("davylamp_api_errors", "Failed requests to the API server.", ("kind",), registry=made)
        self.source_errors = Counter("davylamp_source_errors", "Failed reads of a source.", ("source",), registry=made)
        self.messages = Counter("davylamp_messages", "Messages to people.", ("receiver", "outcome"), registry=made)
        self.failures = Counter("davylamp_look_failures", "Looks that failed unexpectedly.", _ROLLOUT, registry=made)
        self.leads = Gauge("davylamp_leader", "1 if this process leads.", registry=made)
        self.hints = Counter("davylamp_hints", "Hints that something changed.", ("kind",), registry=made)

    def show(self, name: Name, progress: Progress, reports: tuple[GateReport, ...]) -> None:
        """Show where a rollout stands."""
        labels = (name.namespace, name.name)
        self.weight.labels(*labels, "requested").set(progress.requested.percent)
        for phase in type(progress.phase):
            self.phase.labels(*labels, phase.value).set(phase is progress.phase)
        for report in reports:
            for verdict in Verdict:
                self.verdict.labels(*labels, report.name, verdict.value).set(verdict is report.verdict)
            self.samples.labels(*labels, report.name).set(report.samples)
            for kind, value in (("regression", report.evidence), ("non_inferiority", report.non_inferiority)):
                if value is not None:
                    self.evidence.labels(*labels, report.name, kind).set(value)

    def shares(self, name: Name, programmed: int | None, observed: float | None) -> None:
        """Show the candidate's share as the route has it and as the requests went; unknown shows nothing."""
        for kind, value in (("programmed", programmed), ("observed", observed)):
            if value is not None:
                self.weight.labels(name.namespace, name.name, kind).set(value)

    def hide(self, name: Name) -> None:
        """Show no state of a rollout, since another process leads now."""
        self._remove(name, self.weight, self.phase, self.verdict, self.evidence, self.samples)

    def forget(self, name: Name) -> None:
        """Show nothing any more of a rollout that is gone."""
        self.hide(name)
        self._remove(name, self.decisions, self.failures)

    def _remove(self, name: Name, *metrics: Gauge | Counter) -> None:
        for metric in metrics:
            metric.remove_by_labels({"namespace": name.namespace, "name": name.name})


def described() -> Iterator[Described]:
    """Yield all metrics, in the order in which they are made."""
    for metric in vars(Telemetry()).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield Described(name, family.type, metric._labelnames, family.documentation)  # noqa: SLF001 - no other way


def page() -> str:
    """Return the page of the reference about them."""
    rows = "".join(
        f"| `{each.name}` | {each.type} | {', '.join(f'`{label}`' for label in each.labels)} | {each.meaning} |\n"
        for each in described()
    )
    return (
        "# Metrics\n\n"
        "What the operator shows of itself at `/metrics`. States of rollouts are shown by the process that\n"
        "leads, and by no other.\n\n"
        f"| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}"
    )
