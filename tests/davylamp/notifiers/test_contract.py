"""What every notifier does; a new one is found by the registry."""

from __future__ import annotations

import json
import traceback
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from davylamp.api.v1alpha1.notificationchannel import NotificationChannelSpec
from davylamp.core.model import Severity
from davylamp.errors import DavylampError, SpecError, Unavailable
from davylamp.notifiers import NOTIFIERS, Destination, Throttled, posting
from tests.davylamp.notifiers.receiver import PLANTED, Receiver, message

every = pytest.mark.parametrize("kind", sorted(NOTIFIERS))


def test_every_receiver_of_a_notification_channel_has_its_notifier() -> None:
    fields = {field.alias for field in NotificationChannelSpec.model_fields.values()}
    assert set(NOTIFIERS) == fields


@every
@pytest.mark.parametrize("severity", list(Severity))
@pytest.mark.parametrize("resolves", [False, True])
async def test_a_message_arrives_with_its_sentence_and_the_name_of_the_rollout(
    kind: str, severity: Severity, resolves: bool, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    await receiver.notifier(kind, session).tell(message(severity=severity, resolves=resolves))

    sent = json.dumps(receiver.bodies)
    assert "evidence 214 of 100" in sent
    assert "ml/credit" in sent
    assert "credit-int8:8080" in sent


@every
@pytest.mark.parametrize("status", [301, 302, 307, 308, 408, 425, 429, 500, 502, 503, 504, 599])
async def test_an_answer_that_may_pass_is_unavailable(
    kind: str, status: int, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    receiver.status = status
    receiver.headers = {"Location": f"{receiver.origin}/elsewhere"}

    with pytest.raises(Unavailable, match=str(status)):
        await receiver.notifier(kind, session).tell(message())

    assert len(receiver.received) == 1, "neither repeated nor redirected"


@every
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
async def test_a_refusal_for_good_asks_a_person(
    kind: str, status: int, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    receiver.status = status
    with pytest.raises(SpecError, match=str(status)):
        await receiver.notifier(kind, session).tell(message())


@every
async def test_a_page_of_something_in_between_is_not_taken_for_delivery(
    kind: str, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    receiver.status, receiver.text = 200, "<html>Please log in</html>"
    with pytest.raises(Unavailable, match="in its place"):
        await receiver.notifier(kind, session).tell(message())


@every
@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7), ("999999999", 3600), ("0", None), ("-3", None), ("soon", None), ("٣", None)]
)
async def test_a_receiver_may_ask_for_patience_within_limits(
    kind: str, header: str, seconds: int | None, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    receiver.status, receiver.headers = 429, {"Retry-After": header}
    with pytest.raises(Unavailable) as caught:
        await receiver.notifier(kind, session).tell(message())

    asked = caught.value.retry_after if isinstance(caught.value, Throttled) else None
    assert asked == (timedelta(seconds=seconds) if seconds else None)


@every
async def test_a_receiver_that_is_not_there_is_unavailable(
    kind: str, receiver: Receiver, session: aiohttp.ClientSession, unused_tcp_port: int
) -> None:
    receiver.origin = f"http://127.0.0.1:{unused_tcp_port}"
    with pytest.raises(Unavailable, match="could not be reached"):
        await receiver.notifier(kind, session).tell(message())


@every
async def test_a_receiver_that_hangs_is_left_at_the_deadline(
    kind: str, receiver: Receiver, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.hang = True
    assert posting.post.__kwdefaults__ is not None
    monkeypatch.setitem(posting.post.__kwdefaults__, "deadline", timedelta(seconds=0.05))
    with pytest.raises(Unavailable, match=r"did not answer within 0\.05 s"):
        await receiver.notifier(kind, session).tell(message())


@every
async def test_a_long_answer_is_not_read_to_its_end(
    kind: str, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    receiver.status, receiver.text = 400, "x" * 5_000_000
    with pytest.raises(SpecError) as caught:
        await receiver.notifier(kind, session).tell(message())
    assert len(str(caught.value)) < 300


@every
@pytest.mark.parametrize("status", [200, 301, 400, 404, 429, 500])
async def test_no_secret_shows_in_an_error_or_a_repr(
    kind: str, status: int, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    receiver.status = status
    receiver.text = f"we got {receiver.credential(kind)} from you"
    notifier = receiver.notifier(kind, session)
    with pytest.raises(DavylampError) as caught:
        await notifier.tell(message())

    shown = "".join(traceback.format_exception(caught.value)) + repr(notifier) + str(caught.value)
    assert not any(secret in shown for secret in PLANTED)


@every
@pytest.mark.parametrize("spoil", [lambda text: f"{text}\nX: y", lambda text: f"{text} and more", lambda _: ""])
def test_a_spoilt_secret_is_refused_without_showing_it(
    kind: str, spoil: Any, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    spoilt = Destination(spoil(receiver.credential(kind)), endpoint=receiver.origin)
    with pytest.raises(SpecError) as caught:
        NOTIFIERS[kind](session, spoilt)
    assert not any(secret in str(caught.value) + repr(spoilt) for secret in PLANTED)


@every
async def test_text_of_any_length_and_kind_is_sent_within_the_limits(
    kind: str, receiver: Receiver, session: aiohttp.ClientSession
) -> None:
    wild = "<!channel> *bold* & <https://evil.example|click> \x1b[31m\u202e \ud800 " * 2000
    wilder = message(rollout=wild, sentence=wild, details={f"{wild}{index}": wild for index in range(100)})

    await receiver.notifier(kind, session).tell(wilder)

    (body,) = receiver.bodies
    assert len(json.dumps(body)) < 100_000
    assert "\\u001b" not in json.dumps(body)
    assert "\\u202e" not in json.dumps(body)
    assert "\\ud800" not in json.dumps(body)
