"""Deliver what is in a rollout's outbox. Nothing waits for it, and what is recorded is recorded in status."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import structlog

from davylamp.api.v1alpha1.kinds import NOTIFICATION_CHANNEL
from davylamp.api.v1alpha1.notificationchannel import NotificationChannelSpec
from davylamp.core.model import Phase
from davylamp.core.outbox import Delivered, Delivery, Failed, Outcome, Refused, due, tried
from davylamp.errors import SpecError, Unavailable
from davylamp.notifiers import NOTIFIERS, Destination, Throttled
from davylamp.ports import Clock, Message, Notifier
from davylamp.runtime.catalogue import Catalogue, Name
from davylamp.runtime.kube import Kube
from davylamp.runtime.secret import secret_value
from davylamp.runtime.session import Session
from davylamp.runtime.telemetry import Telemetry

_log: Final = structlog.get_logger("davylamp")
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10, connect=5)


class Messenger:
    """Tells people.

    Parameters
    ----------
    kube, catalogue, clock, telemetry
        Secrets, channels, time and metrics.
    endpoints
        By receiver: what stands for its own address.
    """

    def __init__(
        self, kube: Kube, catalogue: Catalogue, clock: Clock, *, telemetry: Telemetry, endpoints: Mapping[str, str]
    ) -> None:
        self._kube = kube
        self._catalogue = catalogue
        self._clock = clock
        self._telemetry = telemetry
        self._endpoints = endpoints
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def deliver(self, session: Session) -> bool:
        """Try everything that is due, and return whether the outbox has changed."""
        before = session.outbox
        for delivery in due(session.outbox, session.channels, self._clock.now()):
            key, message = delivery.message.fact.key, _message(session, delivery)
            outcomes = await asyncio.gather(
                *(self._tell(session.name.namespace, channel, message) for channel in delivery.channels)
            )
            session.outbox = tried(
                session.outbox,
                key,
                dict(zip(delivery.channels, outcomes, strict=True)),
                self._clock.now(),
                channels=session.channels,
            )
        return session.outbox != before

    async def _tell(self, namespace: str, channel: str, message: Message) -> Outcome:
        receiver = "none"
        outcome: Outcome
        try:
            receiver, notifier = await self._notifier(namespace, channel)
            await notifier.tell(message)
            outcome = Delivered()
        except Throttled as throttled:
            outcome = Failed(throttled.retry_after)
        except Unavailable:
            outcome = Failed()
        except SpecError as refused:
            _log.warning("message_refused", channel=f"{namespace}/{channel}", receiver=receiver, why=str(refused))
            outcome = Refused(str(refused))
        except Exception as error:  # noqa: BLE001 - one channel must not keep the others from being recorded
            _log.warning("delivery_failed", channel=channel, receiver=receiver, why=type(error).__name__)
            outcome = Failed()
        self._telemetry.messages.labels(receiver, type(outcome).__name__).inc()
        return outcome

    async def _notifier(self, namespace: str, channel: str) -> tuple[str, Notifier]:
        found = self._catalogue.find(NOTIFICATION_CHANNEL, Name(namespace, channel))
        if found is None:
            raise Unavailable(f"NotificationChannel {namespace}/{channel} does not exist (yet)")
        try:
            spec = NotificationChannelSpec.parse(found.get("spec") or {}).manifest()
        except ValueError as wrong:
            raise SpecError(f"NotificationChannel {channel}: {wrong}") from wrong
        receiver = next(name for name in NOTIFIERS if name in spec)
        settings: Mapping[str, Any] = spec[receiver]
        credential = await secret_value(self._kube, namespace, settings.get("webhook") or settings["routingKey"])
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        destination = Destination(credential, settings.get("region", "US"), self._endpoints.get(receiver))
        return receiver, NOTIFIERS[receiver](self._session, destination)


def _message(session: Session, delivery: Delivery) -> Message:
    fact = delivery.message.fact
    attempt, _, reason = fact.key.partition("/")
    return Message(
        key=f"{session.uid}/{fact.key}",
        incident=f"{session.uid}/{attempt}",
        severity=fact.severity,
        rollout=str(session.name),
        sentence=fact.sentence,
        at=delivery.message.created_at,
        resolves=session.progress.phase is Phase.PROMOTED and reason.endswith("/AllGatesPassed"),
        details=_details(session),
    )


def _details(session: Session) -> dict[str, str]:
    progress = session.progress
    details = {"Phase": progress.phase.value, "Weight": str(progress.requested)}
    if progress.attempt is not None:
        details["Baseline"] = progress.attempt.pair.baseline
        details["Candidate"] = progress.attempt.pair.candidate
        details["Route"] = progress.attempt.pair.route
    for report in session.reports[:6]:
        details[report.name] = report.sentence
    return details
