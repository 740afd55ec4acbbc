"""How people are told."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from davylamp.api.v1alpha1.names import ResourceName, SecretKey
from davylamp.api.v1alpha1.rules import ATOMIC_MAP, Rule, validations
from davylamp.api.v1alpha1.strict import Strict

_ONE_SERVICE = Rule(
    "has(self.slack) != has(self.pagerDuty)",
    "a channel goes to one service: write slack or pagerDuty, and make a NotificationChannel of its own for the other",
)


class SecretKeyRef(Strict):
    """One value of a Secret in the namespace of the channel."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    name: ResourceName = Field(description="Name of the Secret in the namespace of the NotificationChannel.")
    key: SecretKey = Field(description="Key of the value in the Secret.")


class Slack(Strict):
    """An incoming webhook of Slack."""

    webhook: SecretKeyRef = Field(description="Where the address of the incoming webhook stands, which is a secret.")


class PagerDutyRegion(StrEnum):
    """Service regions of PagerDuty."""

    US = "US"
    EU = "EU"


class PagerDuty(Strict):
    """A service of PagerDuty, by Events API v2."""

    routing_key: SecretKeyRef = Field(description="Where the routing (integration) key of the service stands.")
    region: PagerDutyRegion = Field(PagerDutyRegion.US, description="Service region of the account.")


class NotificationChannelSpec(Strict):
    """A place where messages about rollouts go."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_SERVICE))

    slack: Slack | None = Field(None, description="An incoming webhook of Slack.")
    pager_duty: PagerDuty | None = Field(None, description="A service of PagerDuty.")

    @model_validator(mode="after")
    def _one_service(self) -> Self:
        if (self.slack is None) == (self.pager_duty is None):
            raise ValueError(_ONE_SERVICE.message)
        return self
