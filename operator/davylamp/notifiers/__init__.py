"""How people are told: one module for each receiver, one line in the registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import aiohttp

from davylamp.notifiers.pagerduty import PagerDuty
from davylamp.notifiers.posting import Throttled
from davylamp.notifiers.slack import ORIGIN, Slack
from davylamp.ports import Notifier

__all__ = ["NOTIFIERS", "Destination", "NotifierFactory", "PagerDuty", "Slack", "Throttled"]


@dataclass(frozen=True, slots=True)
class Destination:
    """What a NotificationChannel says, its Secret read.

    Parameters
    ----------
    credential
        Value of the Secret: an address or a key.
    region
        Service region, where a receiver has several.
    endpoint
        Scheme, host and port that the operator's settings put in place of the receiver's own; None for its own.
    """

    credential: str = field(repr=False)
    region: str = "US"
    endpoint: str | None = None


NotifierFactory = Callable[[aiohttp.ClientSession, Destination], Notifier]


def _slack(session: aiohttp.ClientSession, to: Destination) -> Notifier:
    return Slack(session, to.credential, origin=to.endpoint or ORIGIN)


def _pagerduty(session: aiohttp.ClientSession, to: Destination) -> Notifier:
    return PagerDuty(session, to.credential, region=to.region, endpoint=to.endpoint)


#: By the field of a NotificationChannel's spec.
NOTIFIERS: Final[Mapping[str, NotifierFactory]] = MappingProxyType({"slack": _slack, "pagerDuty": _pagerduty})
