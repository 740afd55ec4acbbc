"""Slack, by an incoming webhook."""

from collections.abc import Iterator
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

import aiohttp

from davylamp.core.model import Severity
from davylamp.errors import SpecError, Unavailable
from davylamp.notifiers.posting import Answer, post
from davylamp.ports import Message
from davylamp.wording import plain, shortened_pieces

RECEIVER: Final = "Slack"
#: Where incoming webhooks live. A Secret that names another place is refused: it could point into the cluster.
ORIGIN: Final = "https://hooks.slack.com"

_MAX_HEADER: Final = 150
_MAX_SECTION: Final = 3000
_MAX_FALLBACK: Final = 3000
_MAX_FIELDS: Final = 10
_MAX_LABEL: Final = 200
_MAX_VALUE: Final = 1500
_MAX_WORD: Final = 64
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Slack:
    """Tells people in one channel of Slack.

    Parameters
    ----------
    session
        Connections to use; the caller's to close.
    webhook
        Address of the incoming webhook, a secret.
    origin
        Scheme, host and port that the webhook must have.
    """

    def __init__(self, session: aiohttp.ClientSession, webhook: str, *, origin: str = ORIGIN) -> None:
        self._session = session
        self._webhook = _checked(webhook.strip(), origin)

    async def tell(self, message: Message) -> None:
        """Post one message; a repeat is a second message."""
        answer = await post(self._session, self._webhook, _body(message), receiver=RECEIVER)
        if answer.status >= 400:
            raise SpecError(f"Slack refused the message ({_refusal(answer)}): {_remedy(answer.status)}")
        if answer.text.strip() != "ok":
            raise Unavailable(f"something that is not Slack answered in its place ({answer.status})")


def _checked(webhook: str, origin: str) -> str:
    try:
        parts, allowed = urlsplit(webhook), urlsplit(origin)
        same = (parts.scheme, parts.hostname, parts.port) == (allowed.scheme, allowed.hostname, allowed.port)
        clean = parts.username is None and parts.password is None and webhook.isprintable() and " " not in webhook
    except ValueError:
        same = clean = False
    if not (same and clean):
        raise SpecError(f"the webhook's address does not begin with {origin}/: correct it in the channel's Secret")
    return webhook


def _refusal(answer: Answer) -> str:
    """Return status and Slack's own word for it; anything longer than a word is not shown."""
    word = answer.text.strip()
    known = word.isascii() and word.replace("_", "").isalpha() and word.islower() and len(word) <= _MAX_WORD
    return f"{answer.status} {word}" if known else str(answer.status)


def _remedy(status: int) -> str:
    if status in (403, 404, 410):
        return "make a new incoming webhook and put its address into the channel's Secret"
    return "check the incoming webhook that the channel's Secret names"


def _body(message: Message) -> dict[str, Any]:
    """Return the request; all texts are plain_text, in which Slack finds no formatting, mention or link."""
    headline = f"{_sign(message)} {message.rollout}"
    details = list(message.details.items())[:_MAX_FIELDS]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _text(headline, _MAX_HEADER)},
        {"type": "section", "text": _text(message.sentence or "(no text)", _MAX_SECTION)},
    ]
    if details:
        fields = [_text(f"{plain(label)[:_MAX_LABEL]}: {value}", _MAX_VALUE) for label, value in details]
        blocks.append({"type": "section", "fields": fields})
    footer = f"Davylamp · {message.severity.value} · {message.at:%Y-%m-%d %H:%M:%S} UTC"
    blocks.append({"type": "context", "elements": [_text(footer, _MAX_HEADER)]})
    return {
        "text": _escaped(f"{headline}: {message.sentence}", _MAX_FALLBACK),
        "mrkdwn": False,
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": blocks,
    }


def _text(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escaped(text, limit), "emoji": False}


def _escaped(text: str, limit: int) -> str:
    """Return text with Slack's three special characters escaped, cut between characters and never inside an escape."""
    return shortened_pieces(_escapes(text), limit)


def _escapes(text: str) -> Iterator[str]:
    return (_ENTITIES.get(character, character) for character in plain(text))


def _sign(message: Message) -> str:
    if message.resolves:
        return "✔"
    match message.severity:
        case Severity.INFO:
            return "•"
        case Severity.WARNING:
            return "⚠"
        case Severity.INCIDENT:
            return "✖"
        case never:
            assert_never(never)
