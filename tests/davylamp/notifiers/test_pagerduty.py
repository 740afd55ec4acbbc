from __future__ import annotations

from datetime import datetime

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.core.model import Severity
from davylamp.errors import SpecError, Unavailable
from davylamp.notifiers import NOTIFIERS, Destination, pagerduty
from tests.davylamp.notifiers.receiver import ROUTING_KEY, Receiver, message


@pytest.mark.parametrize(("severity", "word"), [(Severity.INCIDENT, "critical"), (Severity.WARNING, "warning")])
async def test_what_matters_opens_an_alert(
    severity: Severity, word: str, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    await receiver.notifier("pagerDuty", session).tell(message(severity=severity))

    ((path, event),) = receiver.received
    assert path == "/v2/enqueue"
    assert event["event_action"] == "trigger"
    assert event["routing_key"] == ROUTING_KEY
    assert event["payload"]["severity"] == word
    assert event["payload"]["source"] == "ml/credit"
    assert event["payload"]["custom_details"] == {"candidate": "credit-int8:8080", "step": "2/4"}
    assert datetime.fromisoformat(event["payload"]["timestamp"]) == message().at


async def test_an_info_is_a_change_event_and_wakes_nobody(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    await receiver.notifier("pagerDuty", session).tell(message(severity=Severity.INFO))

    ((path, event),) = receiver.received
    assert path == "/v2/change/enqueue"
    assert "event_action" not in event


async def test_the_end_of_an_incident_resolves_what_was_opened(
    receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    notifier = receiver.notifier("pagerDuty", session)
    opened = set()
    for severity in (Severity.INCIDENT, Severity.WARNING):
        await notifier.tell(message(severity=severity))
        opened.add(receiver.bodies[-1]["dedup_key"])
    receiver.received.clear()

    await notifier.tell(message(severity=Severity.INFO, key="another fact", resolves=True))

    resolved = [event for path, event in receiver.received if path == "/v2/enqueue"]
    assert {event["event_action"] for event in resolved} == {"resolve"}
    assert {event["dedup_key"] for event in resolved} == opened
    assert [path for path, _ in receiver.received][-1] == "/v2/change/enqueue"


async def test_an_orchestration_key_gets_alerts_and_no_change_events(
    receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    notifier = NOTIFIERS["pagerDuty"](session, Destination("R" + ROUTING_KEY[1:], endpoint=receiver.origin))

    await notifier.tell(message(severity=Severity.INFO))
    assert receiver.received == []
    await notifier.tell(message(resolves=True))
    assert [path for path, _ in receiver.received] == ["/v2/enqueue", "/v2/enqueue"]


async def test_a_resolve_that_failed_half_way_is_unavailable_so_that_it_is_repeated(
    receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    receiver.status = 500
    with pytest.raises(Unavailable):
        await receiver.notifier("pagerDuty", session).tell(message(resolves=True))


@given(incident=st.text(), other=st.text())
def test_repeats_fold_by_the_incident(incident: str, other: str) -> None:
    key = pagerduty.dedup_key(incident, Severity.INCIDENT)

    assert len(key) <= 255
    assert key.isascii()
    assert (key == pagerduty.dedup_key(other, Severity.INCIDENT)) == (incident == other)


async def test_summary_and_source_keep_the_limits(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    await receiver.notifier("pagerDuty", session).tell(
        message(rollout="n" * 300, sentence="s" * 5000, details={str(index): "v" * 5000 for index in range(99)})
    )

    payload = receiver.bodies[0]["payload"]
    assert len(payload["summary"]) == 1024
    assert payload["summary"].endswith("…")
    assert len(payload["source"]) <= 255
    assert len(payload["custom_details"]) == 20


def test_each_region_has_its_address(session: aiohttp.ClientSession) -> None:
    assert pagerduty.PagerDuty(session, ROUTING_KEY)._endpoint == "https://events.pagerduty.com"
    assert pagerduty.PagerDuty(session, ROUTING_KEY, region="EU")._endpoint == "https://events.eu.pagerduty.com"
    with pytest.raises(SpecError, match="US and EU"):
        pagerduty.PagerDuty(session, ROUTING_KEY, region="MARS")
