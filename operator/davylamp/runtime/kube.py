"""The Kubernetes API as the engine needs it: plain objects, three kinds of error, a limit on requests.

The official client brings configuration, credentials and TLS; what it says of an answer becomes an error by what the
caller does next. No request is sent twice by itself: whether a write took effect is the caller's question.
"""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import yaml
from aiohttp.http_exceptions import HttpProcessingError
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import RESTResponse

from davylamp.errors import Conflict, DavylampError, NotFound, SpecError, Unavailable
from davylamp.runtime.settings import Settings

_TIMEOUT: Final = aiohttp.ClientTimeout(total=10, connect=3)
#: Credentials that the server does not know are read anew this often, in seconds.
_REREAD_EVERY: Final = 5.0
_LONGEST_WORDS: Final = 500
#: What is raised where there is no answer.
_SILENT: Final = (aiohttp.ClientError, TimeoutError, OSError, config.ConfigException)
#: Seconds that a watch may last beyond its own end.
_OVERTIME: Final = 5.0
JSON_PATCH: Final = "application/json-patch+json"
#: Names are lower-case letters, digits, '-' and '.'; anything else in a path could lead to another object.
_PATH: Final = re.compile(r"(?:/(?!\.)[A-Za-z0-9.-]+)+", re.ASCII)


async def connect(settings: Settings, failed: Callable[[str], None]) -> "Kube":
    """Return a client by the pod's service account, or by the kubeconfig where there is none.

    Parameters
    ----------
    settings
        Limits.
    failed
        Told of every failed request: its kind, for a metric.
    """

    async def configured() -> client.Configuration:
        return await _configuration(settings.connections)

    allowance = Allowance(settings.requests_per_second, settings.burst)
    return Kube(client.ApiClient(await configured()), allowance, failed, reread=configured)


async def _configuration(connections: int) -> client.Configuration:
    configuration = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        try:
            # Read when asked: the client itself reads the variable only once, when it is imported.
            file = os.environ.get("KUBECONFIG") or None
            await config.load_kube_config(config_file=file, client_configuration=configuration)
        except (config.ConfigException, OSError, ValueError, TypeError, LookupError, yaml.YAMLError) as error:
            raise SpecError(f"no service account and no usable kubeconfig: {error}") from error
    configuration.connection_pool_maxsize = connections
    configuration.retries = None
    return configuration


class Allowance:
    """A token bucket: ``rate`` requests a second on average, ``burst`` at once.

    Lowering a weight does not wait here: what is urgent takes its token and leaves a debt.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    async def take(self, *, urgent: bool) -> None:
        """Wait for a token, unless it is urgent."""
        now = asyncio.get_running_loop().time()
        passed = 0.0 if self._at is None else now - self._at
        self._at = now
        self._tokens = min(float(self._burst), self._tokens + passed * self._rate) - 1
        if self._tokens < 0 and not urgent:
            await asyncio.sleep(-self._tokens / self._rate)


class Kube:
    """Requests with plain objects; implements `davylamp.routers.api.Api`.

    `NotFound`: it does not exist. `Conflict`: 409, or a failed test of a JSON patch. `SpecError`: refused for good.
    `Unavailable`: no answer, 401, 429 or 5xx; whether a write took effect is unknown.

    Parameters
    ----------
    api
        Connections and credentials.
    allowance
        Limit on requests.
    failed
        Told of every failed request: its kind, for a metric.
    reread
        Reads the configuration anew, when the server does not know the credentials at hand (401): a kubeconfig's token
        expires. None to keep them.
    """

    def __init__(
        self,
        api: client.ApiClient,
        allowance: Allowance,
        failed: Callable[[str], None],
        *,
        reread: Callable[[], Awaitable[client.Configuration]] | None = None,
    ) -> None:
        self._api = api
        self._allowance = allowance
        self._failed = failed
        self._reread = reread
        self._reread_at = float("-inf")

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def get(self, path: str) -> dict[str, Any]:
        """Return the object as it is now; never from a cache."""
        return await self.request("GET", path)

    async def list(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the whole list by a consistent read."""
        answer = await self.request("GET", path, query=query)
        if not isinstance(answer.get("items"), list):
            raise Unavailable(f"the API server's answer to GET {path} is not a list")
        return answer

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object."""
        return await self.request("POST", path, body=body, content_type="application/json")

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object; its resourceVersion must be the newest."""
        return await self.request("PUT", path, body=body, content_type="application/json")

    async def patch(self, path: str, body: Any, content_type: str, field_manager: str) -> dict[str, Any]:
        """Change the object and return it as it is then; never waits for the limit on requests."""
        query = {"fieldManager": field_manager}
        return await self.request("PATCH", path, body=body, content_type=content_type, query=query)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send one request and return the answer's object; errors as the class says."""
        if not _PATH.fullmatch(path):
            raise SpecError(f"{path[:_LONGEST_WORDS]!r} is not the path of an object: a name in it is wrong")
        await self._allowance.take(urgent=method == "PATCH")
        try:
            return await self._send(method, path + ("?" + urlencode(query) if query else ""), body, content_type)
        except DavylampError as error:
            self._failed(type(error).__name__)
            raise

    async def watch(self, path: str, version: str, seconds: int) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what changes in a list after its resourceVersion: events with ``type`` and ``object``.

        Parameters
        ----------
        path
            Of the list.
        version
            Its resourceVersion.
        seconds
            After which the API server ends the watch, >= 1; one that has not ended some seconds later hangs.

        Raises
        ------
        NotFound
            If the version is too old by now.
        Unavailable
            If the watch breaks off, hangs, or cannot be read.
        """
        await self._allowance.take(urgent=False)
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        timeout = aiohttp.ClientTimeout(total=seconds + _OVERTIME, connect=_TIMEOUT.connect)
        where, response = f"WATCH {path}", None
        try:
            response = await self._open("GET", f"{path}?{urlencode(query)}", within=timeout)
            if response.status != 200:
                await self._understood(response, where)
            async for line in response.response.content:
                yield _event(line, where)
        except (*_SILENT, HttpProcessingError, ValueError, RecursionError) as error:
            self._failed(Unavailable.__name__)
            raise Unavailable(f"{where} broke off: {type(error).__name__}") from error
        except DavylampError as error:
            self._failed(type(error).__name__)
            raise
        finally:
            if response is not None:
                response.response.close()

    async def _send(self, method: str, path: str, body: Any, content_type: str | None) -> dict[str, Any]:
        where = f"{method} {path.partition('?')[0]}"
        try:
            response = await self._open(method, path, body, content_type)
            return await self._understood(response, where)
        except _SILENT as error:
            raise Unavailable(f"the API server did not answer {where}: {type(error).__name__}") from error

    async def _open(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str | None = None,
        *,
        within: aiohttp.ClientTimeout = _TIMEOUT,
    ) -> RESTResponse:
        """Send a request and return the answer, of which nothing but the head was read."""
        headers = {"Accept": "application/json", "User-Agent": "davylamp"}
        if content_type is not None:
            headers["Content-Type"] = content_type
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        response: RESTResponse = await self._api.rest_client.request(
            method, self._api.configuration.host + path, headers=headers, body=body, _request_timeout=within
        )
        return response

    async def _understood(self, response: RESTResponse, where: str) -> dict[str, Any]:
        text = await response.read()
        if response.status == 401:
            await self._refresh_credentials()
        return _answer(response.status, text, where)

    async def _refresh_credentials(self) -> None:
        """Read the credentials anew, now and then."""
        now = asyncio.get_running_loop().time()
        if self._reread is None or now - self._reread_at < _REREAD_EVERY:
            return
        self._reread_at = now
        with contextlib.suppress(SpecError):
            self._api.configuration.api_key = (await self._reread()).api_key


def _answer(status: int, text: bytes, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if 200 <= status < 300:
        if not isinstance(data, dict):
            raise Unavailable(f"the API server's answer to {where} is not an object")
        return data
    words = str(data.get("message", "") if isinstance(data, dict) else "")[:_LONGEST_WORDS] or f"status {status}"
    if status in {404, 410}:
        raise NotFound(f"{where}: {words}")
    if status == 409:
        raise Conflict(f"{where}: {words}")
    if status == 422 and _failed_test(data):
        raise Conflict(f"{where}: the object has changed since it was read")
    if status == 429 or status >= 500 or status == 401:
        raise Unavailable(f"the API server answered {where} with {status}: {words}")
    raise SpecError(f"{where} is refused: {words}")


def _event(line: bytes, where: str) -> dict[str, Any]:
    event = json.loads(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise Unavailable(f"{where}: a line is no event")
    if event.get("type") == "ERROR":
        code = event["object"].get("code")
        words = str(event["object"].get("message", ""))[:_LONGEST_WORDS]
        raise (NotFound if code == 410 else Unavailable)(f"{where}: {words}")
    return event


def _failed_test(data: Any) -> bool:
    """Tell a failed test operation of a JSON patch from a refusal by validation: only the latter names its causes."""
    return not (isinstance(data, dict) and isinstance(data.get("details"), dict) and data["details"].get("causes"))
