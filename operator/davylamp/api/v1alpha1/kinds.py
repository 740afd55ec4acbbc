"""The kinds of ``davylamp.dev/v1alpha1``: one entry each, from which CRDs, clients and the command line work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from davylamp.api.v1alpha1.metricsource import MetricSourceSpec
from davylamp.api.v1alpha1.notificationchannel import NotificationChannelSpec
from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.rules import Rule
from davylamp.api.v1alpha1.status import ModelRolloutStatus
from davylamp.api.v1alpha1.strict import Strict

GROUP: Final = "davylamp.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "davylamp"


class Scope(StrEnum):
    """Where objects of a kind live."""

    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; those of priority 1 are shown by ``--output wide``."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind is registered."""

    name: str
    plural: str
    scope: Scope
    description: str
    spec: type[Strict]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    status: type[Strict] | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def crd_name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date", description="Time since the object was created.")

_SHORT_NAME: Final = Rule(
    "self.metadata.name.size() <= 63",
    "the name is also written into labels, which hold 63 characters: give the object a shorter name",
    ".metadata.name",
)
_STATUS_STAYS: Final = Rule(
    "!has(oldSelf.status) || has(self.status)",
    "the status holds whether a candidate was rolled back, so it is never removed: write another, or delete the object",
)

MODEL_ROLLOUT: Final = Kind(
    name="ModelRollout",
    plural="modelrollouts",
    short_names=("mro",),
    scope=Scope.NAMESPACED,
    description="Moves live traffic from a model to an optimised variant of it, and takes it back if the variant is "
    "worse.",
    spec=ModelRolloutSpec,
    status=ModelRolloutStatus,
    rules=(_SHORT_NAME, _STATUS_STAYS),
    columns=(
        Column("Phase", ".status.phase", description="Where the rollout stands."),
        Column("Step", ".status.step.summary", description="The rung of the ladder."),
        Column("Weight", ".status.weight.requested", "integer", description="Percent of traffic for the candidate."),
        Column("Verdict", ".status.verdict", description="The worst verdict of all gates."),
        Column("Baseline", ".spec.baseline.backend.name", priority=1, description="Service of the baseline."),
        Column("Candidate", ".spec.candidate.backend.name", priority=1, description="Service of the candidate."),
        Column("Reason", ".status.reason", priority=1, description="One word for the situation."),
        _AGE,
    ),
)
_POLICY_COLUMNS: Final = (
    Column("Preset", ".spec.signals.preset", description="Whose metrics carry errors and latency."),
    Column("Source", ".spec.signals.source", description="The MetricSource that is asked."),
    _AGE,
)
ROLLOUT_POLICY: Final = Kind(
    name="RolloutPolicy",
    plural="rolloutpolicies",
    scope=Scope.NAMESPACED,
    description="Settings for the ModelRollouts of one namespace, which refer to it by policyRef.",
    spec=PolicySpec,
    columns=_POLICY_COLUMNS,
)
CLUSTER_ROLLOUT_POLICY: Final = Kind(
    name="ClusterRolloutPolicy",
    plural="clusterrolloutpolicies",
    scope=Scope.CLUSTER,
    description="Settings for the ModelRollouts of all namespaces, which refer to it by policyRef.",
    spec=PolicySpec,
    columns=_POLICY_COLUMNS,
)
METRIC_SOURCE: Final = Kind(
    name="MetricSource",
    plural="metricsources",
    scope=Scope.CLUSTER,
    description="A server that knows the metrics of the variants. ModelRollouts name it and never give an address.",
    spec=MetricSourceSpec,
    columns=(Column("Address", ".spec.prometheus.address", description="Address before /api/v1."), _AGE),
)
NOTIFICATION_CHANNEL: Final = Kind(
    name="NotificationChannel",
    plural="notificationchannels",
    scope=Scope.NAMESPACED,
    description="A place where messages about the ModelRollouts of one namespace go.",
    spec=NotificationChannelSpec,
    columns=(
        Column("Slack", ".spec.slack.webhook.name", description="Secret of the Slack webhook."),
        Column("PagerDuty", ".spec.pagerDuty.routingKey.name", description="Secret of the PagerDuty routing key."),
        _AGE,
    ),
)

KINDS: Final = (MODEL_ROLLOUT, ROLLOUT_POLICY, CLUSTER_ROLLOUT_POLICY, METRIC_SOURCE, NOTIFICATION_CHANNEL)
