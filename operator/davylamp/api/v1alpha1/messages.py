"""Messages on their way to people, as a status and back. Reading never raises: what cannot be read is not sent."""

from __future__ import annotations

from davylamp.api.v1alpha1.status import (
    MAX_MESSAGE,
    Message,
    ModelRolloutStatus,
    Undelivered,
)
from davylamp.core import outbox as core
from davylamp.core.moves import Fact


def messages_of(outbox: core.Outbox) -> tuple[Message, ...]:
    """Return the messages on their way as a status holds them."""
    return tuple(
        Message(
            key=pending.fact.key,
            fact=pending.fact.sentence[:MAX_MESSAGE],
            severity=pending.fact.severity,
            created_at=pending.created_at,
            attempts=pending.tries,
            next_try_at=pending.next_try_at,
            delivered=pending.delivered,
            given_up=pending.given_up,
        )
        for pending in outbox.pending[-core.MAX_PENDING :]
    )


def undelivered_of(outbox: core.Outbox) -> tuple[Undelivered, ...]:
    """Return the messages that were given up as a status holds them."""
    return tuple(
        Undelivered(
            key=lost.key, channel=lost.channel, severity=lost.severity, why=lost.reason[:MAX_MESSAGE], at=lost.at
        )
        for lost in outbox.undelivered[-core.MAX_UNDELIVERED :]
    )


def to_outbox(status: ModelRolloutStatus) -> core.Outbox:
    """Return the outbox as it was when the status was written."""
    return core.Outbox(
        pending=tuple(_pending(message) for message in status.outbox),
        told=status.told,
        undelivered=tuple(
            core.Undelivered(lost.key, lost.channel, lost.severity, lost.why, lost.at) for lost in status.undelivered
        ),
        undelivered_total=status.undelivered_total or 0,
    )


def _pending(message: Message) -> core.Pending:
    return core.Pending(
        fact=Fact(message.key, message.severity, message.fact),
        created_at=message.created_at,
        tries=message.attempts,
        next_try_at=message.next_try_at,
        delivered=message.delivered,
        given_up=message.given_up,
    )
