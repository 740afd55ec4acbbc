"""PagerDuty, by Events API v2.

An Incident opens an alert, a Warning one of its own and of low urgency, and both close when the incident is over.
Infos, and how it ended, are change events: they are seen beside an alert and wake nobody.
"""

import hashlib
import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final, assert_never

import aiohttp

from davylamp.core.model import Severity
from davylamp.errors import SpecError, Unavailable
from davylamp.notifiers.posting import post
from davylamp.ports import Message
from davylamp.wording import shortened

RECEIVER: Final = "PagerDuty"
ENDPOINTS: Final = MappingProxyType({"US": "https://events.pagerduty.com", "EU": "https://events.eu.pagerduty.com"})

_ROUTING_KEY: Final = re.compile(r"[A-Za-z0-9]{32}", re.ASCII)
#: Keys of event orchestrations begin so. They take alerts and no change events.
_ORCHESTRATION: Final = "R"
_MAX_SUMMARY: Final = 1024
_MAX_SOURCE: Final = 255
_MAX_DETAILS: Final = 20
_MAX_LABEL: Final = 100
_ALERT: Final = "/v2/enqueue"
_CHANGE: Final = "/v2/change/enqueue"


class PagerDuty:
    """Tells people who are on call.

    Parameters
    ----------
    session
        Connections to use; the caller's to close.
    routing_key
        Routing (integration) key of the service, a secret.
    region
        Service region of the account, ``US`` or ``EU``.
    endpoint
        Scheme, host and port to use in place of the region's.
    """

    def __init__(
        self, session: aiohttp.ClientSession, routing_key: str, *, region: str = "US", endpoint: str | None = None
    ) -> None:
        self._session = session
        self._routing_key = routing_key.strip()
        if not _ROUTING_KEY.fullmatch(self._routing_key):
            raise SpecError(
                f"PagerDuty's routing key has {len(self._routing_key)} characters and not 32 letters and digits: "
                "put the integration key of an Events API v2 integration into the channel's Secret"
            )
        if endpoint is None and region not in ENDPOINTS:
            raise SpecError(f"PagerDuty has the regions {' and '.join(ENDPOINTS)}, not {region!r}")
        self._endpoint = (endpoint or ENDPOINTS[region]).rstrip("/")

    async def tell(self, message: Message) -> None:
        """Send one message; repeats fold by the incident."""
        for path, event in _events(message):
            if path == _CHANGE and self._routing_key.startswith(_ORCHESTRATION):
                continue
            await self._send(path, {"routing_key": self._routing_key, **event})

    async def _send(self, path: str, event: dict[str, Any]) -> None:
        answer = await post(self._session, self._endpoint + path, event, receiver=RECEIVER)
        if answer.status >= 400:
            raise SpecError(
                f"PagerDuty refused the event ({answer.status}): check that the channel's Secret holds the "
                "integration key of an Events API v2 integration, and the region"
            )
        if answer.status != 202:
            raise Unavailable(f"something that is not PagerDuty answered in its place ({answer.status})")


def _events(message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the requests that a message makes, each with its path."""
    if message.resolves:
        for severity in (Severity.INCIDENT, Severity.WARNING):
            yield _ALERT, {"event_action": "resolve", "dedup_key": dedup_key(message.incident, severity)}
        yield _CHANGE, {"payload": _payload(message)}
        return
    match message.severity:
        case Severity.INFO:
            yield _CHANGE, {"payload": _payload(message)}
        case Severity.WARNING:
            yield _ALERT, _trigger(message, "warning")
        case Severity.INCIDENT:
            yield _ALERT, _trigger(message, "critical")
        case never:
            assert_never(never)


def dedup_key(incident: str, severity: Severity) -> str:
    """Return what alerts of one incident fold by.

    A Warning folds apart from an Incident: an alert that was acknowledged wakes nobody again, whatever comes after.
    """
    digest = hashlib.sha256(incident.encode("utf-8", "surrogatepass")).hexdigest()
    return f"davylamp-{digest}-{severity.value.lower()}"


def _trigger(message: Message, severity: str) -> dict[str, Any]:
    return {
        "event_action": "trigger",
        "dedup_key": dedup_key(message.incident, message.severity),
        "client": "Davylamp",
        "payload": {
            **_payload(message),
            "severity": severity,
            "component": "candidate",
            "group": shortened(message.rollout.partition("/")[0], _MAX_SOURCE),
            "class": "model rollout",
        },
    }


def _payload(message: Message) -> dict[str, Any]:
    details = list(message.details.items())[:_MAX_DETAILS]
    return {
        "summary": shortened(f"{message.rollout}: {message.sentence}", _MAX_SUMMARY),
        "source": shortened(message.rollout, _MAX_SOURCE),
        "timestamp": message.at.isoformat(),
        "custom_details": {shortened(label, _MAX_LABEL): shortened(value, _MAX_SUMMARY) for label, value in details},
    }
