"""Stand in for Slack and PagerDuty: take what is sent, check it as they would, and keep it."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from aiohttp import web

from e2e.demo.watching import now

SLACK: Final = "Slack"
PAGERDUTY: Final = "PagerDuty"
_PORTS: Final = (9401, 9402)
_SEVERITIES: Final = frozenset({"critical", "error", "warning", "info"})


@dataclass(frozen=True, slots=True)
class Received:
    """One message.

    Parameters
    ----------
    at
        When it arrived, UTC.
    receiver
        ``Slack`` or ``PagerDuty``.
    rollout
        Name of the rollout that it is about; empty if it does not say.
    kind
        ``Info``, ``Warning`` or ``Incident`` at Slack; what is asked of PagerDuty, such as ``trigger critical``.
    text
        What people read.
    mistake
        Why the receiver would have refused it; empty if it would not.
    """

    at: datetime
    receiver: str
    rollout: str
    kind: str
    text: str
    mistake: str = ""


class Receivers:
    """Both receivers on the loopback of the lab; ``async with Receivers()`` serves them.

    Parameters
    ----------
    ports
        Of Slack and of PagerDuty.
    """

    def __init__(self, ports: tuple[int, int] = _PORTS) -> None:
        self.received: list[Received] = []
        self._slack_port, self._pagerduty_port = ports
        self._path = f"/services/{secrets.token_hex(8)}"
        self._key = secrets.token_hex(16)
        self._runners: list[web.AppRunner] = []

    @property
    def webhook(self) -> str:
        """The address of the incoming webhook, a secret."""
        return f"http://127.0.0.1:{self._slack_port}{self._path}"

    @property
    def routing_key(self) -> str:
        """The integration key, a secret."""
        return self._key

    @property
    def environment(self) -> dict[str, str]:
        """Settings of an operator that is to send its messages here."""
        return {
            "DAVYLAMP_SLACK_ENDPOINT": f"http://127.0.0.1:{self._slack_port}",
            "DAVYLAMP_PAGERDUTY_ENDPOINT": f"http://127.0.0.1:{self._pagerduty_port}",
        }

    async def __aenter__(self) -> Self:
        await self._serve(self._slack_port, self._slack)
        await self._serve(self._pagerduty_port, self._pagerduty)
        return self

    async def __aexit__(self, *_: object) -> None:
        for runner in self._runners:
            await runner.cleanup()

    async def _serve(self, port: int, answer: Callable[[web.Request], Awaitable[web.Response]]) -> None:
        application = web.Application(client_max_size=1 << 20)
        application.router.add_post("/{path:.*}", answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", port).start()

    async def _slack(self, request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.path, self._path):
            return web.Response(status=403, text="invalid_token")
        message = from_slack(await _body(request), now())
        self.received.append(message)
        return web.Response(status=400, text="invalid_payload") if message.mistake else web.Response(text="ok")

    async def _pagerduty(self, request: web.Request) -> web.Response:
        message = from_pagerduty(request.path, await _body(request), self._key, at=now())
        self.received.append(message)
        if message.mistake:
            return web.json_response({"status": "invalid event", "errors": [message.mistake]}, status=400)
        return web.json_response({"status": "success", "message": "Event processed"}, status=202)


def from_slack(body: Mapping[str, Any], at: datetime) -> Received:
    """Read what was posted to an incoming webhook, and check it by Slack's limits."""
    blocks = body.get("blocks") or []
    headline = next((_plain(block) for block in blocks if block.get("type") == "header"), "")
    footer = next((element.get("text", "") for block in blocks for element in block.get("elements", [])), "")
    text = str(body.get("text", ""))
    mistake = ""
    if not text or not headline:
        mistake = "the message has no text or no header"
    elif len(headline) > 150 or len(blocks) > 50 or any(len(_plain(block)) > 3000 for block in blocks):
        mistake = "the message is longer than Slack allows"
    kind = next((word for word in ("Info", "Warning", "Incident") if word in footer), "")
    sentence = text.removeprefix(headline).removeprefix(": ")
    return Received(at, SLACK, headline.rpartition("/")[2], kind, _unescaped(sentence), mistake)


def from_pagerduty(path: str, body: Mapping[str, Any], routing_key: str, *, at: datetime) -> Received:
    """Read an event of the Events API v2, and check it by its reference.

    Parameters
    ----------
    path
        Where it was posted.
    body
        The event.
    routing_key
        The key that it must carry.
    at
        When it arrived, UTC.
    """
    payload = body.get("payload") or {}
    action = "change" if path == "/v2/change/enqueue" else str(body.get("event_action", ""))
    mistake = ""
    if not hmac.compare_digest(str(body.get("routing_key", "")), routing_key):
        mistake = "routing_key is not the integration's"
    elif path not in {"/v2/enqueue", "/v2/change/enqueue"} or action not in {"trigger", "resolve", "change"}:
        mistake = f"nothing is taken at {path} with event_action {action!r}"
    elif action != "resolve" and not (payload.get("summary") and payload.get("source")):
        mistake = "payload.summary or payload.source is missing"
    elif action == "trigger" and payload.get("severity") not in _SEVERITIES:
        mistake = "payload.severity is none of the four"
    elif action != "change" and not body.get("dedup_key"):
        mistake = "dedup_key is missing"
    source, summary = str(payload.get("source", "")), str(payload.get("summary", ""))
    kind = f"{action} {payload.get('severity', '')}".strip()
    text = summary.removeprefix(f"{source}: ")
    return Received(at, PAGERDUTY, source.rpartition("/")[2], kind, text, mistake)


async def _body(request: web.Request) -> Mapping[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        return {}
    return body if isinstance(body, Mapping) else {}


def _plain(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return str(text.get("text", "")) if isinstance(text, Mapping) else ""


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
