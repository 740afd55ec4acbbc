"""Read the history of a server that speaks the HTTP API of Prometheus, chunk by chunk, by prometheus-api-client.

Rule 1: the library drops what a server warns about, so every answer is read by our own strict reader first.
Rule 2: the library waits for ever unless it is told not to, so it is told.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from davylamp.errors import DavylampError, SpecError, Unavailable
from davylamp.offline.history import History, Track, joined, shown
from davylamp.sources.answers import bounded, read_answer, refusal

#: Raw samples of one request: enough to be quick, few enough for a server's limits.
CHUNK: Final = timedelta(minutes=15)
LONGEST_RANGE: Final = timedelta(days=14)
_CONNECT_SECONDS: Final = 5.0
_TRIES: Final = 2

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Server:
    """A server that knows the past.

    Parameters
    ----------
    address
        What stands before ``/api/v1``.
    headers
        Sent with each query; credentials among them.
    timeout
        Longest time that it may be silent, > 0.
    """

    address: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: timedelta = timedelta(seconds=60)


def _no_progress(_: str) -> None:
    """Say nothing."""


def fetch(
    server: Server, selectors: Iterable[str], span: tuple[datetime, datetime], progress: Progress = _no_progress
) -> History:
    """Return all samples of some selectors in a range.

    Parameters
    ----------
    server
        Who is asked.
    selectors
        Of instant vectors, in PromQL.
    span
        Begin and end of the range, UTC, at most 14 days apart; widened to whole seconds.
    progress
        Is told what is being read.

    Raises
    ------
    SpecError
        If the range is empty or too long, or the server refuses a query.
    Unavailable
        If the server does not answer, or not in full.
    """
    begin, end = span[0].replace(microsecond=0), span[1].replace(microsecond=0) + timedelta(seconds=1)
    if not span[0] < span[1]:
        raise SpecError(f"the range must end after it begins, got {shown(span[0])} to {shown(span[1])}")
    if end - begin > LONGEST_RANGE + timedelta(minutes=10):
        days = (span[1] - span[0]) / timedelta(days=1)
        raise SpecError(f"the range is {days:.1f} days long, and the limit is {LONGEST_RANGE.days}: narrow it")
    client = _connected(server)
    tracks: dict[str, tuple[Track, ...]] = {}
    try:
        for number, selector in enumerate(selectors, start=1):
            progress(f"reading {shown(begin)} to {shown(end)}: query {number}, {selector}")
            tracks[selector] = joined(_read(client, server, selector, (begin, end)))
    finally:
        client.close()
    return History(begin, end, tracks)


def _connected(server: Server) -> Any:
    import requests
    from prometheus_api_client import PrometheusConnect
    from urllib3.util.retry import Retry

    session = requests.Session()
    session.hooks["response"].append(_refuse_what_is_not_whole)
    retry = Retry(total=_TRIES, backoff_factor=0.5, status_forcelist=(429, 502, 503, 504), raise_on_status=False)
    return PrometheusConnect(
        url=server.address.rstrip("/"),
        headers=dict(server.headers),
        retry=retry,
        session=session,
        timeout=(_CONNECT_SECONDS, server.timeout.total_seconds()),
    )


def _refuse_what_is_not_whole(response: Any, *_: Any, **__: Any) -> None:
    if response.is_redirect:
        return
    if response.status_code != 200:
        raise refusal(response.status_code, response.content)
    read_answer(response.content)


def _read(client: Any, server: Server, selector: str, span: tuple[datetime, datetime]) -> list[dict[str, Any]]:
    import requests

    begin, end = span
    try:
        found: list[dict[str, Any]] = client.get_metric_range_data(
            selector, start_time=begin, end_time=end, chunk_size=min(CHUNK, end - begin)
        )
    except DavylampError as error:
        raise type(error)(f"the metric source {server.address} {error}") from error
    except requests.Timeout as error:
        seconds = server.timeout.total_seconds()
        raise Unavailable(f"the metric source {server.address} is silent for more than {seconds:g} s") from error
    except requests.ConnectionError as error:
        raise Unavailable(
            f"the metric source {server.address} cannot be reached: see that the address is right and the server runs"
        ) from error
    except (requests.RequestException, ValueError) as error:
        why = bounded(str(error), 200)
        raise Unavailable(f"the metric source {server.address} cannot be asked: {why}") from error
    return found
