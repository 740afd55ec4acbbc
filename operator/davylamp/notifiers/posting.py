"""One HTTP POST to a receiver of messages, with its outcomes as errors.

Rule 1: an address or a key never reaches an error, a log or a traceback: receivers keep secrets in both.
Rule 2: what a receiver answers is read within limits and shown to nobody but as a word that the adapter knows.
Rule 3: no redirect is followed: an address that people allowed leads to no other.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import aiohttp

from davylamp.errors import SpecError, Unavailable

DEADLINE: Final = timedelta(seconds=10)
MAX_ANSWER: Final = 4096
_LONGEST_PATIENCE: Final = timedelta(hours=1)
#: Refusals that pass by themselves: the request was too slow, too early, or one of too many.
_PASSING: Final = frozenset({408, 425, 429})


class Throttled(Unavailable):
    """The receiver asks to be left alone for a while.

    Parameters
    ----------
    text
        The message.
    retry_after
        How long, > 0 and at most an hour.
    """

    def __init__(self, text: str, retry_after: timedelta) -> None:
        super().__init__(text)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said."""

    status: int
    text: str


async def post(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, Any], *, receiver: str, deadline: timedelta = DEADLINE
) -> Answer:
    """Post JSON and return the answer, whose status is 2xx or a refusal for good (4xx).

    Parameters
    ----------
    session
        Connections to use.
    url
        Where to; never shown.
    body
        What to send.
    receiver
        Name of the receiver, for messages.
    deadline
        Longest time for everything, the answer's last byte included.

    Raises
    ------
    Unavailable
        No answer in time, an answer that is not about the message (3xx, 5xx), or a passing refusal.
    SpecError
        The address is none.
    """
    try:
        async with session.post(
            url,
            data=json.dumps(body, ensure_ascii=True, allow_nan=False).encode(),
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=deadline.total_seconds()),
            allow_redirects=False,
        ) as response:
            text = (await response.content.read(MAX_ANSWER)).decode("utf-8", "replace")
            _passed(response, receiver)
            return Answer(response.status, text)
    except TimeoutError:
        raise Unavailable(f"{receiver} did not answer within {deadline.total_seconds():g} s") from None
    except aiohttp.InvalidURL:
        raise SpecError(f"the address of {receiver} is not a URL: correct it in the Secret") from None
    except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
        raise Unavailable(f"{receiver} could not be reached ({type(error).__name__})") from None


def _passed(response: aiohttp.ClientResponse, receiver: str) -> None:
    """Raise Unavailable unless the answer is about the message."""
    status = response.status
    if status in _PASSING:
        patience = _patience(response.headers.get("Retry-After", ""))
        if patience is not None:
            seconds = patience.total_seconds()
            raise Throttled(f"{receiver} asks for {seconds:.0f} s of patience ({status})", patience)
        raise Unavailable(f"{receiver} takes no messages now ({status})")
    if 300 <= status < 400:
        raise Unavailable(f"{receiver} answered with a redirect ({status}), which is not followed")
    if not 200 <= status < 500:
        raise Unavailable(f"{receiver} has a fault of its own ({status})")


def _patience(header: str) -> timedelta | None:
    """Return what a Retry-After header of whole seconds asks for, within limits."""
    if not (header.isascii() and header.isdigit() and len(header) <= 9 and int(header) > 0):
        return None
    return min(timedelta(seconds=int(header)), _LONGEST_PATIENCE)
