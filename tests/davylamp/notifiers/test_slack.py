from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.core.model import Severity
from davylamp.errors import SpecError
from davylamp.notifiers import slack
from tests.davylamp.notifiers.receiver import WEBHOOK_SECRET, Receiver, message


def texts(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for block in body["blocks"]:
        if "text" in block:
            yield block["text"]
        yield from block.get("fields", ())
        yield from block.get("elements", ())


async def test_names_and_sentences_carry_no_markup(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    await receiver.notifier("slack", session).tell(message(rollout="ml/<!here>", sentence="a < b & c > d"))

    (body,) = receiver.bodies
    assert body["text"] == "✖ ml/&lt;!here&gt;: a &lt; b &amp; c &gt; d"
    assert body["mrkdwn"] is False
    assert {text["type"] for text in texts(body)} == {"plain_text"}


@given(sentence=st.text(), limit=st.integers(1, 40))
def test_a_cut_text_is_short_enough_and_ends_in_no_half_escape(sentence: str, limit: int) -> None:
    cut = slack._escaped(sentence, limit)

    assert len(cut) <= limit
    assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", cut)


async def test_blocks_keep_the_limits_of_slack(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    details = {f"label {index}": "&" * 5000 for index in range(30)}
    await receiver.notifier("slack", session).tell(message(rollout="n" * 500, sentence="<" * 9000, details=details))

    (body,) = receiver.bodies
    header, section, fields, context = body["blocks"]
    assert len(header["text"]["text"]) <= 150
    assert len(section["text"]["text"]) <= 3000
    assert len(fields["fields"]) == 10
    assert all(len(field["text"]) <= 2000 for field in fields["fields"])
    assert len(context["elements"]) <= 10


async def test_an_empty_sentence_is_still_a_valid_message(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    await receiver.notifier("slack", session).tell(message(sentence="", details={}))
    assert all(text["text"] for text in texts(receiver.bodies[0]))


@pytest.mark.parametrize(
    ("severity", "resolves", "sign"),
    [
        (Severity.INFO, False, "•"),
        (Severity.WARNING, False, "⚠"),
        (Severity.INCIDENT, False, "✖"),
        (Severity.INCIDENT, True, "✔"),
    ],
)
async def test_the_sign_tells_how_much_it_matters(
    severity: Severity, resolves: bool, sign: str, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    await receiver.notifier("slack", session).tell(message(severity=severity, resolves=resolves))
    assert receiver.bodies[0]["text"].startswith(f"{sign} ml/credit")


async def test_a_word_of_slack_is_shown(receiver: Receiver, session: aiohttp.ClientSession) -> None:
    receiver.status, receiver.text = 404, "no_service"
    with pytest.raises(SpecError, match=r"404 no_service.*make a new incoming webhook"):
        await receiver.notifier("slack", session).tell(message())


@pytest.mark.parametrize(
    "webhook",
    [
        f"http://hooks.slack.com{WEBHOOK_SECRET}",
        f"https://hooks.slack.com.evil.example{WEBHOOK_SECRET}",
        f"https://hooks.slack.com:6443{WEBHOOK_SECRET}",
        f"https://hooks.slack.com@169.254.169.254{WEBHOOK_SECRET}",
        f"https://user:word@hooks.slack.com{WEBHOOK_SECRET}",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1",
        "file:///etc/passwd",
    ],
)
def test_a_webhook_leads_to_slack_or_is_refused(webhook: str, session: aiohttp.ClientSession) -> None:
    with pytest.raises(SpecError, match=r"does not begin with https://hooks\.slack\.com/"):
        slack.Slack(session, webhook)


def test_a_webhook_of_slack_is_taken(session: aiohttp.ClientSession) -> None:
    slack.Slack(session, f"https://hooks.slack.com{WEBHOOK_SECRET}\n")
