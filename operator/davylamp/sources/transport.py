"""One HTTP exchange with a metric source: bounded in time and size, and silent about credentials.

Rule 1: the body is read with a cap and under one deadline for the whole exchange; nothing is decompressed.
Rule 2: redirects are not followed: credentials go to the configured address only.
Rule 3: messages name the source and what is wrong with it, never its address, a header or a secret.
"""

import asyncio
import base64
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, Literal

import aiohttp
from yarl import URL

from davylamp.errors import SpecError, Unavailable
from davylamp.ports import Clock
from davylamp.sources.answers import Answer, read_answer, refusal
from davylamp.sources.settings import CredentialReader, Credentials, PrometheusSettings

_LARGEST_BODY: Final = 8 * 2**20
_LARGEST_REFUSAL: Final = 64 * 2**10
_CONNECTIONS: Final = 16
_RETRY_BOUNDS: Final = (timedelta(seconds=1), timedelta(seconds=60))
_RETRY_DEFAULT: Final = timedelta(seconds=5)
_BAD_ADDRESS: Final = "has an address that is no http or https URL: put prometheus.address right"
#: What makes Thanos and VictoriaMetrics answer with raw, whole data or not at all; Prometheus does not read them.
_WHOLE_OR_NOTHING: Final = {
    "partial_response": "false",
    "dedup": "true",
    "max_source_resolution": "0s",
    "deny_partial_response": "1",
}


class TooManyRequestsError(Unavailable):
    """The server wants to be left alone for ``retry_after``."""

    def __init__(self, sentence: str, retry_after: timedelta) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class Transport:
    """Sends queries to one source.

    Parameters
    ----------
    settings
        How the source is reached.
    clock
        Source of time.
    credentials
        Reads the credentials, anew for each query.
    """

    def __init__(self, settings: PrometheusSettings, clock: Clock, credentials: CredentialReader) -> None:
        self._settings = settings
        self._clock = clock
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None
        self._trust: tuple[str, ssl.SSLContext] | None = None
        #: How far the server's clock is ahead of ours, by its last answer; whole seconds.
        self.skew: timedelta | None = None

    async def query(self, text: str, at: datetime) -> Answer:
        """Return the answer to one instant query.

        Parameters
        ----------
        text
            PromQL.
        at
            Time of evaluation, UTC; what is below a millisecond is cut off.

        Raises
        ------
        SpecError
            If a person must change the query, the address or the credentials.
        Unavailable
            If there is no answer, or no whole one.
        """
        seconds = self._settings.timeout.total_seconds()
        milliseconds = int(at.timestamp() * 1000)
        time = f"{milliseconds // 1000}.{milliseconds % 1000:03d}"
        form = {"query": text, "time": time, "timeout": f"{int(seconds * 1000)}ms", **_WHOLE_OR_NOTHING}
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(form, await self._credentials())
        except TimeoutError:
            raise Unavailable(self._about(f"does not answer within {seconds:g} s")) from None

    async def close(self) -> None:
        """Close the connections; a later query opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _about(self, what: str) -> str:
        return f"the metric source {self._settings.name} {what}"

    async def _ask(self, form: Mapping[str, str], credentials: Credentials) -> Answer:
        """Exchange, and put the source's name before whatever goes wrong."""
        try:
            return await self._exchange(form, credentials)
        except TooManyRequestsError as failed:
            raise TooManyRequestsError(self._about(str(failed)), failed.retry_after) from None
        except Unavailable as failed:
            raise Unavailable(self._about(str(failed))) from None
        except SpecError as refused:
            raise SpecError(self._about(str(refused))) from None

    async def _exchange(self, form: Mapping[str, str], credentials: Credentials) -> Answer:
        headers = {**dict(self._settings.headers), **_authorization(credentials)}
        trusted = self._trusted(credentials.authority)
        try:
            try:
                return await self._post(form, headers, trusted)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError) as lost:
                # The server gave up a kept connection just as it was taken up again; a query may be repeated.
                if isinstance(lost, aiohttp.ClientConnectorError):
                    raise
                return await self._post(form, headers, trusted)
        except TimeoutError:
            raise
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise SpecError(_BAD_ADDRESS) from None
        except (aiohttp.ClientError, OSError) as failed:
            raise Unavailable(_failure(failed)) from None

    async def _post(
        self, form: Mapping[str, str], headers: Mapping[str, str], trusted: ssl.SSLContext | Literal[True]
    ) -> Answer:
        async with self._open().post(
            self._url(), data=form, headers=headers, allow_redirects=False, ssl=trusted
        ) as response:
            self._measure_skew(response.headers.get("Date"))
            _refuse_unusual(response)
            if response.status == 429:
                wait = retry_after(response.headers.get("Retry-After"), self._clock.now())
                raise TooManyRequestsError("answers that it is asked too often (429)", wait)
            if response.status != 200:
                # Only the beginning of an error page is of interest.
                raise refusal(response.status, await _body(response, _LARGEST_REFUSAL, whole=False))
            if response.content_type != "application/json":
                raise Unavailable("answers with a page instead of data: is its address that of a login or a proxy?")
            return read_answer(await _body(response, _LARGEST_BODY, whole=True))

    def _url(self) -> URL:
        try:
            return URL(f"{self._settings.address.rstrip('/')}/api/v1/query")
        except ValueError:
            raise SpecError(_BAD_ADDRESS) from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "davylamp", "Accept": "application/json", "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout.total_seconds()),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    def _trusted(self, authority: str | None) -> ssl.SSLContext | Literal[True]:
        if authority is None:
            return True
        if self._trust is None or self._trust[0] != authority:
            try:
                self._trust = (authority, ssl.create_default_context(cadata=authority))
            except (ssl.SSLError, ValueError):
                raise SpecError(
                    "has a prometheus.ca that holds no certificates: put them into the Secret in PEM form"
                ) from None
        return self._trust[1]

    def _measure_skew(self, date: str | None) -> None:
        try:
            theirs = parsedate_to_datetime(date or "")
        except ValueError:
            return
        if theirs.tzinfo is not None:
            self.skew = theirs - self._clock.now()


def retry_after(header: str | None, now: datetime) -> timedelta:
    """Return how long to leave a server alone, within 1 and 60 s; 5 s if it does not say so in a form that is known."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        wait = timedelta(seconds=int(text))
    else:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return _RETRY_DEFAULT
        wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    low, high = _RETRY_BOUNDS
    return min(max(wait, low), high)


def _authorization(credentials: Credentials) -> dict[str, str]:
    if credentials.bearer is not None:
        token = credentials.bearer.strip()
        if not token.isascii() or not token.isprintable() or not token or " " in token:
            raise SpecError(
                "has a bearer token that is empty or has characters which no token has: put the Secret right"
            )
        return {"Authorization": f"Bearer {token}"}
    if credentials.username is not None:
        name, password = credentials.username.rstrip("\r\n"), (credentials.password or "").rstrip("\r\n")
        if ":" in name:
            raise SpecError(
                "has a user name with a colon, which basic authentication cannot carry: put the Secret right"
            )
        return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}
    return {}


def _refuse_unusual(response: aiohttp.ClientResponse) -> None:
    if 300 <= response.status < 400:
        raise Unavailable(f"answers with a redirect ({response.status}), which is not followed: name the server itself")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Unavailable("answers in compressed form, which was not asked for")


async def _body(response: aiohttp.ClientResponse, limit: int, *, whole: bool) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > limit:
            if whole:
                raise Unavailable(f"answers with more than {limit // 2**20} MiB: name fewer series or labels")
            break
        parts.append(part)
    return b"".join(parts)


def _failure(failed: aiohttp.ClientError | OSError) -> str:
    match failed:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            cause: object = getattr(failed, "certificate_error", None) or getattr(failed, "os_error", None)
            words = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or "handshake failed"
            return f"cannot be trusted (TLS: {words}): put the authority of its certificate into prometheus.ca"
        case aiohttp.ClientConnectorDNSError():
            return "has an address whose host name does not resolve"
        case aiohttp.ClientConnectorError():
            return f"does not take connections ({failed.os_error.strerror or type(failed.os_error).__name__})"
        case aiohttp.ClientPayloadError():
            return "breaks off in mid-answer"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | ConnectionResetError():
            return "closes the connection without an answer"
        case _:
            return f"does not speak HTTP as expected ({type(failed).__name__})"
