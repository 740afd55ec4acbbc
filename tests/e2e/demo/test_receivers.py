from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest
import pytest_asyncio

from davylamp.core.model import Severity
from davylamp.errors import SpecError
from davylamp.notifiers import NOTIFIERS, Destination
from davylamp.ports import Message
from e2e.demo.receivers import PAGERDUTY, SLACK, Receivers, from_pagerduty, from_slack

AT = datetime(2030, 1, 1, tzinfo=UTC)
SENTENCE = "positives 13.6% of 1,084 against 24.4% of 1,656 <-10.8 points>, evidence & limit"


def message(severity: Severity = Severity.INCIDENT) -> Message:
    return Message(
        "uid/uid-1/1/Regressed", "uid/uid-1", severity, "demo/pruned", SENTENCE, AT, details={"Weight": "0 %"}
    )


@pytest_asyncio.fixture
async def receivers(ports: tuple[int, int]) -> AsyncIterator[Receivers]:
    async with Receivers(ports) as serving:
        yield serving


async def test_slack_s_stand_in_reads_what_davylamp_sends(receivers: Receivers) -> None:
    to = Destination(receivers.webhook, endpoint=receivers.environment["DAVYLAMP_SLACK_ENDPOINT"])
    async with aiohttp.ClientSession() as session:
        await NOTIFIERS["slack"](session, to).tell(message())
    (received,) = receivers.received
    assert (received.receiver, received.rollout, received.kind) == (SLACK, "pruned", "Incident")
    assert (received.text, received.mistake) == (SENTENCE, "")


async def test_slack_s_stand_in_takes_nothing_at_another_address(receivers: Receivers) -> None:
    origin = receivers.environment["DAVYLAMP_SLACK_ENDPOINT"]
    async with aiohttp.ClientSession() as session:
        with pytest.raises(SpecError, match="403 invalid_token"):
            await NOTIFIERS["slack"](session, Destination(f"{origin}/services/another", endpoint=origin)).tell(
                message()
            )
    assert not receivers.received


async def test_pagerduty_s_stand_in_reads_what_davylamp_sends(receivers: Receivers) -> None:
    to = Destination(receivers.routing_key, endpoint=receivers.environment["DAVYLAMP_PAGERDUTY_ENDPOINT"])
    async with aiohttp.ClientSession() as session:
        for severity in (Severity.INCIDENT, Severity.INFO):
            await NOTIFIERS["pagerDuty"](session, to).tell(message(severity))
    assert [each.kind for each in receivers.received] == ["trigger critical", "change"]
    assert {(each.receiver, each.rollout, each.text, each.mistake) for each in receivers.received} == {
        (PAGERDUTY, "pruned", SENTENCE, "")
    }


async def test_pagerduty_s_stand_in_refuses_another_key(receivers: Receivers) -> None:
    to = Destination("0" * 32, endpoint=receivers.environment["DAVYLAMP_PAGERDUTY_ENDPOINT"])
    async with aiohttp.ClientSession() as session:
        with pytest.raises(SpecError, match="400"):
            await NOTIFIERS["pagerDuty"](session, to).tell(message())
    assert [each.mistake for each in receivers.received] == ["routing_key is not the integration's"]


async def test_bodies_that_are_no_json_are_mistakes_and_no_crash(receivers: Receivers) -> None:
    async with aiohttp.ClientSession() as session, session.post(receivers.webhook, data=b"{") as answer:
        assert answer.status == 400
    assert [each.mistake for each in receivers.received] == ["the message has no text or no header"]


def test_a_message_longer_than_slack_takes_is_a_mistake() -> None:
    header = {"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}
    assert "longer" in from_slack({"text": "x", "blocks": [header]}, AT).mistake


@pytest.mark.parametrize(
    ("path", "change", "mistake"),
    [
        ("/v2/enqueue", {"event_action": "open"}, "nothing is taken"),
        ("/v1/enqueue", {}, "nothing is taken"),
        ("/v2/enqueue", {"payload": {"source": "demo/flaky", "severity": "critical"}}, "summary"),
        ("/v2/enqueue", {"payload": {"source": "demo/flaky", "summary": "x", "severity": "fatal"}}, "severity"),
        ("/v2/enqueue", {"dedup_key": ""}, "dedup_key"),
    ],
)
def test_an_event_that_pagerduty_would_refuse_is_a_mistake(path: str, change: dict[str, object], mistake: str) -> None:
    event = {
        "routing_key": "key",
        "event_action": "trigger",
        "dedup_key": "incident",
        "payload": {"source": "demo/flaky", "summary": "demo/flaky: errors", "severity": "critical"},
    }
    assert not from_pagerduty("/v2/enqueue", event, "key", at=AT).mistake
    assert mistake in from_pagerduty(path, event | change, "key", at=AT).mistake
