from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from davylamp.core import outbox as box
from davylamp.core.model import Severity
from davylamp.core.moves import Fact
from davylamp.core.outbox import Channel, Delivered, Failed, Outbox, Refused

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SLACK = Channel("slack")
PAGER = Channel("pager", Severity.INCIDENT)
BOTH = (SLACK, PAGER)
SECOND = timedelta(seconds=1)


def fact(key: str, severity: Severity = Severity.INFO) -> Fact:
    return Fact(key, severity, f"about {key}")


def holding(*facts: Fact, channels: tuple[Channel, ...] = BOTH) -> Outbox:
    return box.add(Outbox(), facts, channels, NOON)


def pending_keys(outbox: Outbox) -> list[str]:
    return [message.fact.key for message in outbox.pending]


def test_a_fact_goes_to_the_channels_that_want_its_severity() -> None:
    outbox = holding(fact("start"), fact("regressed", Severity.INCIDENT))

    deliveries = [(delivery.message.fact.key, delivery.channels) for delivery in box.due(outbox, BOTH, NOON)]

    assert deliveries == [("regressed", ("slack", "pager")), ("start", ("slack",))]


def test_the_same_fact_is_not_added_again_while_it_waits_and_after_it_was_told() -> None:
    outbox = holding(fact("start"))
    assert box.add(outbox, [fact("start")], BOTH, NOON + SECOND) == outbox

    told = box.tried(outbox, "start", {"slack": Delivered()}, NOON, channels=BOTH)

    assert told == Outbox(told=("start",))
    assert box.add(told, [fact("start")], BOTH, NOON + SECOND) == told


def test_a_fact_that_no_channel_wants_counts_as_told() -> None:
    outbox = holding(fact("start"), channels=(PAGER,))

    assert outbox == Outbox(told=("start",))
    assert box.add(outbox, [fact("start")], BOTH, NOON) == outbox


def test_a_channel_that_failed_is_tried_again_alone_and_later() -> None:
    outbox = holding(fact("regressed", Severity.INCIDENT))

    outbox = box.tried(outbox, "regressed", {"slack": Failed(), "pager": Delivered()}, NOON, channels=BOTH)

    again = box.next_due(outbox, BOTH, NOON)
    assert again is not None
    assert NOON + SECOND < again <= NOON + 2 * SECOND
    assert box.due(outbox, BOTH, again - timedelta(microseconds=1)) == ()
    (delivery,) = box.due(outbox, BOTH, again)
    assert delivery.channels == ("slack",)


def test_a_channel_may_ask_for_patience_within_limits() -> None:
    outbox = holding(fact("start"))

    patient = box.tried(outbox, "start", {"slack": Failed(timedelta(minutes=7))}, NOON, channels=BOTH)
    endless = box.tried(outbox, "start", {"slack": Failed(timedelta(days=999))}, NOON, channels=BOTH)

    assert box.next_due(patient, BOTH, NOON) == NOON + timedelta(minutes=7)
    assert box.next_due(endless, BOTH, NOON) == NOON + box.LONGEST_PATIENCE


def test_a_refused_message_is_named_and_not_tried_again() -> None:
    outbox = holding(fact("regressed", Severity.INCIDENT))

    outbox = box.tried(outbox, "regressed", {"pager": Refused("wrong key")}, NOON, channels=BOTH)

    (lost,) = outbox.undelivered
    assert (lost.key, lost.channel, lost.reason, lost.at) == ("regressed", "pager", "wrong key", NOON)
    assert outbox.undelivered_total == 1
    (delivery,) = box.due(outbox, BOTH, NOON)
    assert delivery.channels == ("slack",)


def test_a_message_is_given_up_after_its_last_try_and_named() -> None:
    outbox, now = holding(fact("start")), NOON
    for _ in range(box.MAX_TRIES):
        assert not outbox.undelivered
        now = box.next_due(outbox, BOTH, now) or now
        outbox = box.tried(outbox, "start", {"slack": Failed()}, now, channels=BOTH)

    assert pending_keys(outbox) == []
    assert outbox.told == ("start",)
    assert [(lost.channel, lost.reason) for lost in outbox.undelivered] == [("slack", "gave up after 24 tries")]
    assert timedelta(hours=1) < now - NOON < timedelta(hours=2)


def test_the_oldest_of_the_least_severe_messages_makes_room() -> None:
    severities = [Severity.INCIDENT] * 14 + [Severity.WARNING, Severity.INFO]
    outbox = holding(*[fact(str(index), severity) for index, severity in enumerate(severities)])
    assert len(outbox.pending) == box.MAX_PENDING

    for key, victim in [("a", "15"), ("b", "14"), ("c", "0")]:
        outbox = box.add(outbox, [fact(key, Severity.INCIDENT)], BOTH, NOON)
        assert victim not in pending_keys(outbox)
        assert outbox.told[-1] == victim
        assert outbox.undelivered[-1].key == victim


def test_a_new_info_gives_way_to_incidents_that_wait() -> None:
    outbox = holding(*[fact(str(index), Severity.INCIDENT) for index in range(box.MAX_PENDING)])

    outbox = box.add(outbox, [fact("news")], BOTH, NOON)

    assert "news" not in pending_keys(outbox)
    assert outbox.told == ("news",)
    assert outbox.undelivered_total == 1


def test_the_latest_facts_are_remembered_and_the_oldest_forgotten() -> None:
    outbox = holding(*[fact(str(number)) for number in range(box.MAX_TOLD + 3)], channels=())

    assert outbox.told == tuple(str(number) for number in range(3, box.MAX_TOLD + 3))
    assert box.add(outbox, [fact("3")], BOTH, NOON).pending == ()


def test_a_channel_that_is_taken_away_lets_its_messages_go() -> None:
    outbox = holding(fact("start"))

    assert box.settled(outbox, ()) == Outbox(told=("start",))
    assert box.due(outbox, (), NOON) == ()
    assert box.next_due(outbox, (), NOON) is None


def test_a_channel_that_joins_gets_what_still_waits() -> None:
    outbox = holding(fact("start"))
    more = (*BOTH, Channel("mail"))

    outbox = box.tried(outbox, "start", {"slack": Delivered()}, NOON, channels=more)

    (delivery,) = box.due(outbox, more, NOON)
    assert delivery.channels == ("mail",)


def test_outcomes_of_a_message_that_is_not_on_its_way_change_nothing() -> None:
    outbox = holding(fact("start"))
    assert box.tried(outbox, "unknown", {"slack": Delivered()}, NOON, channels=BOTH) == outbox


def test_a_late_failure_of_a_channel_that_was_served_meanwhile_changes_nothing() -> None:
    outbox = holding(fact("regressed", Severity.INCIDENT))
    outbox = box.tried(outbox, "regressed", {"slack": Delivered()}, NOON, channels=BOTH)

    late = box.tried(outbox, "regressed", {"slack": Refused("no"), "pager": Failed()}, NOON, channels=BOTH)

    (message,) = late.pending
    assert message.delivered == ("slack",)
    assert (late.undelivered, late.undelivered_total) == ((), 0)


def test_a_message_forgets_channels_that_are_gone_before_those_that_are_not() -> None:
    outbox = holding(fact("start"), channels=(SLACK, Channel("last")))
    for name in ["slack", *(f"former-{index}" for index in range(box.MAX_CHANNELS + 2))]:
        channels = (SLACK, Channel(name), Channel("last"))
        outbox = box.tried(outbox, "start", {name: Delivered()}, NOON, channels=channels)

    (message,) = outbox.pending
    assert len(message.delivered) == box.MAX_CHANNELS
    assert "slack" in message.delivered


@given(key=st.text(), tries=st.integers(1, 1000))
def test_the_delay_is_bounded_and_the_same_in_every_replay(key: str, tries: int) -> None:
    wait = box.delay(key, tries)

    full = min(box.FIRST_DELAY * 2 ** min(tries - 1, 16), box.LONGEST_DELAY)
    assert full * 0.75 <= wait <= full
    assert wait == box.delay(key, tries)


def test_rollouts_that_failed_together_do_not_try_again_together() -> None:
    waits = {box.delay(f"rollout-{index}", 5) for index in range(100)}
    assert len(waits) > 90


@pytest.mark.parametrize("severity", list(Severity))
def test_a_channel_wants_its_least_severity_and_all_above(severity: Severity) -> None:
    order = [Severity.INFO, Severity.WARNING, Severity.INCIDENT]
    wanted = [other for other in order if Channel("any", severity).wants(other)]
    assert wanted == order[order.index(severity) :]


class Telling(RuleBasedStateMachine):
    """A shell that delivers, crashes and comes back, and channels that take, fail and refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.stored = Outbox()
        self.received: Counter[tuple[str, str]] = Counter()
        self.recorded: set[tuple[str, str]] = set()
        self.lost: set[tuple[str, str]] = set()
        self.added: dict[str, Severity] = {}
        self.crashes: Counter[tuple[str, str]] = Counter()

    @initialize(least=st.sampled_from(Severity))
    def channels_are_set(self, least: Severity) -> None:
        self.channels = (SLACK, Channel("other", least))

    @rule(number=st.integers(0, 30), severity=st.sampled_from(Severity))
    def a_fact_comes_up(self, number: int, severity: Severity) -> None:
        severity = self.added.setdefault(f"fact-{number}", severity)
        self.keep(box.add(self.stored, [fact(f"fact-{number}", severity)], self.channels, self.now))

    @rule(seconds=st.integers(0, 900))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(
        outcomes=st.lists(
            st.sampled_from([Delivered(), Delivered(), Failed(), Failed(SECOND), Refused("no")]), min_size=2, max_size=2
        ),
        crash=st.booleans(),
    )
    def a_round_is_delivered(self, outcomes: list[box.Outcome], crash: bool) -> None:
        deliveries = box.due(self.stored, self.channels, self.now)
        for delivery in deliveries[:1]:
            key = delivery.message.fact.key
            results = dict(zip(delivery.channels, outcomes, strict=False))
            for name, outcome in results.items():
                if outcome != Delivered():
                    continue
                assert (key, name) not in self.recorded, "told again after its success was recorded"
                self.received[key, name] += 1
                self.crashes[key, name] += crash
            if not crash:
                self.recorded |= {(key, name) for name, outcome in results.items() if outcome == Delivered()}
                self.keep(box.tried(self.stored, key, results, self.now, channels=self.channels))

    def keep(self, outbox: Outbox) -> None:
        new = outbox.undelivered_total - self.stored.undelivered_total
        assert 0 <= new <= box.MAX_UNDELIVERED
        self.lost |= {(entry.key, entry.channel) for entry in outbox.undelivered[len(outbox.undelivered) - new :]}
        self.stored = outbox

    @invariant()
    def it_stays_within_its_bounds(self) -> None:
        assert len(self.stored.pending) <= box.MAX_PENDING
        assert len(self.stored.told) <= box.MAX_TOLD
        assert len(self.stored.undelivered) <= box.MAX_UNDELIVERED

    @invariant()
    def every_fact_is_on_its_way_told_or_named_as_lost(self) -> None:
        waiting = {
            (message.fact.key, name) for message in self.stored.pending for name in message.open_channels(self.channels)
        }
        for key, severity in self.added.items():
            for channel in self.channels:
                if channel.wants(severity):
                    assert (key, channel.name) in waiting | self.recorded | self.lost

    @invariant()
    def a_message_comes_twice_only_after_a_crash(self) -> None:
        for pair, times in self.received.items():
            assert times <= 1 + self.crashes[pair]

    @invariant()
    def an_incident_never_makes_room_for_less(self) -> None:
        dropped = [entry for entry in self.stored.undelivered if "waiting" in entry.reason]
        assert not any(
            entry.severity is Severity.INCIDENT
            and any(m.fact.severity is not Severity.INCIDENT and m.created_at < entry.at for m in self.stored.pending)
            for entry in dropped
        )


TestTelling = Telling.TestCase
TestTelling.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
