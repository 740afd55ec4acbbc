"""Messages on their way to people: each fact is told once to each channel, and nothing waits for it.

Rule 1: a fact is known by its key. A key that is in the outbox, or among the latest that were dealt with, adds nothing.
Rule 2: a channel that has taken a message never gets it again. A crash between taking and recording repeats the
message, so delivery is at least once, and receivers fold repeats by the key.
Rule 3: what is not delivered is counted and named, never lost in silence. Where room is short, the least severe message
goes first and of these the oldest.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from davylamp.core.model import Severity
from davylamp.core.moves import Fact

MAX_PENDING: Final = 16
MAX_TOLD: Final = 64
MAX_UNDELIVERED: Final = 8
#: A message remembers as many channels of each kind as a rollout can name.
MAX_CHANNELS: Final = 8
#: With the delays below: a message is given up after about an hour and a half.
MAX_TRIES: Final = 24
FIRST_DELAY: Final = timedelta(seconds=2)
LONGEST_DELAY: Final = timedelta(minutes=5)
#: A receiver may ask for more patience than that, up to this.
LONGEST_PATIENCE: Final = timedelta(hours=1)

_SEVERITIES: Final = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Channel:
    """Where messages go: the name of a channel, and the least severity that it is sent."""

    name: str
    least: Severity = Severity.INFO

    def wants(self, severity: Severity) -> bool:
        """Return whether messages of a severity go to this channel."""
        return _SEVERITIES.index(severity) >= _SEVERITIES.index(self.least)


@dataclass(frozen=True, slots=True)
class Pending:
    """A message on its way.

    Parameters
    ----------
    fact
        What is told.
    created_at
        When the fact became known, UTC.
    tries
        Rounds of delivery that left a channel without the message, >= 0.
    next_try_at
        Not tried before, UTC; None for at once.
    delivered
        Channels that have taken it.
    given_up
        Channels that will not take it.
    """

    fact: Fact
    created_at: datetime
    tries: int = 0
    next_try_at: datetime | None = None
    delivered: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()

    def open_channels(self, channels: Iterable[Channel]) -> tuple[str, ...]:
        """Return the names of the channels that are still to be told, each once."""
        done = {*self.delivered, *self.given_up}
        wanted = (channel.name for channel in channels if channel.wants(self.fact.severity))
        return tuple(name for name in dict.fromkeys(wanted) if name not in done)


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A message that a channel did not get, and why."""

    key: str
    channel: str
    severity: Severity
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Outbox:
    """All that is known about telling people.

    Parameters
    ----------
    pending
        Messages on their way, in the order in which they became known; at most `MAX_PENDING`.
    told
        Keys of the latest facts that were dealt with, the latest last; at most `MAX_TOLD`.
    undelivered
        The latest messages that were given up, the latest last; at most `MAX_UNDELIVERED`.
    undelivered_total
        How many were given up since the beginning, one for each channel.
    """

    pending: tuple[Pending, ...] = ()
    told: tuple[str, ...] = ()
    undelivered: tuple[Undelivered, ...] = ()
    undelivered_total: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is to be delivered now: one message to some channels."""

    message: Pending
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The channel has taken the message."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The channel did not take the message now; it may have asked to be left alone for a while (> 0)."""

    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The channel will never take the message, and why."""

    reason: str


Outcome = Delivered | Failed | Refused


def add(outbox: Outbox, facts: Iterable[Fact], channels: Sequence[Channel], now: datetime) -> Outbox:
    """Return the outbox with the facts that are new to it.

    A fact that no channel wants counts as told: a channel that is added later is not flooded with the past.
    """
    for fact in facts:
        if fact.key in outbox.told or any(message.fact.key == fact.key for message in outbox.pending):
            continue
        outbox = replace(outbox, pending=(*outbox.pending, Pending(fact, now)))
    return _bounded(settled(outbox, channels), channels, now)


def due(outbox: Outbox, channels: Sequence[Channel], now: datetime) -> tuple[Delivery, ...]:
    """Return what is to be delivered now, the most severe first and of these the oldest."""
    ready = [message for message in outbox.pending if message.next_try_at is None or message.next_try_at <= now]
    ready.sort(key=lambda message: -_SEVERITIES.index(message.fact.severity))
    deliveries = (Delivery(message, message.open_channels(channels)) for message in ready)
    return tuple(delivery for delivery in deliveries if delivery.channels)


def next_due(outbox: Outbox, channels: Sequence[Channel], now: datetime) -> datetime | None:
    """Return when `due` has something next, not before ``now``; None if nothing is on its way."""
    times = [message.next_try_at or now for message in outbox.pending if message.open_channels(channels)]
    return max(min(times), now) if times else None


def tried(
    outbox: Outbox, key: str, outcomes: Mapping[str, Outcome], now: datetime, *, channels: Sequence[Channel]
) -> Outbox:
    """Return the outbox after one round of delivering one message.

    Parameters
    ----------
    outbox
        As it is now; it may have changed since `due` was asked.
    key
        Of the fact. A key that is not on its way any more changes nothing.
    outcomes
        What each channel did, by its name; channels that were not tried are left out.
    now
        Time of the round's end, UTC.
    channels
        The channels there are.
    """
    for index, message in enumerate(outbox.pending):
        if message.fact.key == key:
            after, lost = _after_round(message, outcomes, now)
            pending = (*outbox.pending[:index], _short(after, channels), *outbox.pending[index + 1 :])
            return settled(_given_up(replace(outbox, pending=pending), lost), channels)
    return outbox


def settled(outbox: Outbox, channels: Sequence[Channel]) -> Outbox:
    """Return the outbox without the messages that no channel is left for; their keys count as told."""
    done = [message.fact.key for message in outbox.pending if not message.open_channels(channels)]
    return _without(outbox, done) if done else outbox


def _after_round(
    message: Pending, outcomes: Mapping[str, Outcome], now: datetime
) -> tuple[Pending, tuple[Undelivered, ...]]:
    """Return the message as it goes on, and what of it was given up."""
    delivered, failed, refused = _sorted(message, outcomes)
    if failed:
        message = replace(message, tries=message.tries + 1)
        wait = max(delay(message.fact.key, message.tries), *failed.values())
        message = replace(message, next_try_at=now + wait)
    if message.tries >= MAX_TRIES:
        refused |= dict.fromkeys(failed, f"gave up after {message.tries} tries")
    after = replace(message, delivered=(*message.delivered, *delivered), given_up=(*message.given_up, *refused))
    lost = (Undelivered(message.fact.key, name, message.fact.severity, reason, now) for name, reason in refused.items())
    return after, tuple(lost)


def _short(message: Pending, channels: Sequence[Channel]) -> Pending:
    """Return the message with no more names than there is room for; channels that are gone are forgotten first."""
    names = {channel.name for channel in channels}

    def kept(done: tuple[str, ...]) -> tuple[str, ...]:
        if len(done) <= MAX_CHANNELS:
            return done
        return tuple(sorted(done, key=lambda name: name in names))[-MAX_CHANNELS:]

    return replace(message, delivered=kept(message.delivered), given_up=kept(message.given_up))


def _sorted(
    message: Pending, outcomes: Mapping[str, Outcome]
) -> tuple[list[str], dict[str, timedelta], dict[str, str]]:
    """Return who took the message, who did not with the patience each asked for, and who never will with the reason."""
    delivered: list[str] = []
    failed: dict[str, timedelta] = {}
    refused: dict[str, str] = {}
    for name, outcome in outcomes.items():
        if name in message.delivered or name in message.given_up:
            continue
        match outcome:
            case Delivered():
                delivered.append(name)
            case Failed(retry_after):
                failed[name] = min(retry_after or timedelta(0), LONGEST_PATIENCE)
            case Refused(reason):
                refused[name] = reason
            case never:
                assert_never(never)
    return delivered, failed, refused


def delay(key: str, tries: int) -> timedelta:
    """Return how long to wait after a failed try: doubling, with a limit, and up to a quarter shorter by chance.

    The chance is made of the key and the number of tries, so that it is the same in every replay and differs between
    rollouts that failed together.

    Parameters
    ----------
    key
        Of the fact.
    tries
        Failed tries so far, >= 1.
    """
    longest = min(FIRST_DELAY * (1 << min(tries - 1, 16)), LONGEST_DELAY)
    part = int.from_bytes(hashlib.sha256(f"{key}/{tries}".encode()).digest()[:4], "big") / 2**32
    return longest * (1 - part / 4)


def _bounded(outbox: Outbox, channels: Sequence[Channel], now: datetime) -> Outbox:
    """Return the outbox with as many messages as there is room for."""
    excess = len(outbox.pending) - MAX_PENDING
    if excess <= 0:
        return outbox
    least_first = sorted(outbox.pending, key=lambda message: _SEVERITIES.index(message.fact.severity))
    victims = least_first[:excess]
    lost = tuple(
        Undelivered(victim.fact.key, name, victim.fact.severity, f"more than {MAX_PENDING} messages were waiting", now)
        for victim in victims
        for name in victim.open_channels(channels)
    )
    return _without(_given_up(outbox, lost), [victim.fact.key for victim in victims])


def _given_up(outbox: Outbox, lost: tuple[Undelivered, ...]) -> Outbox:
    return replace(
        outbox,
        undelivered=(*outbox.undelivered, *lost)[-MAX_UNDELIVERED:],
        undelivered_total=outbox.undelivered_total + len(lost),
    )


def _without(outbox: Outbox, keys: Sequence[str]) -> Outbox:
    pending = tuple(message for message in outbox.pending if message.fact.key not in keys)
    return replace(outbox, pending=pending, told=(*outbox.told, *keys)[-MAX_TOLD:])
