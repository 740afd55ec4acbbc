"""The Kubernetes API in a few lines, for the lab's own needs and for tests: objects are plain dictionaries."""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from e2e.lab.failure import LabError
from e2e.lab.waiting import until

Object = dict[str, Any]

_APPLY = "application/apply-patch+yaml"
_FIELD_MANAGER = "davylamp-lab"


class ApiError(LabError):
    """The API server refused; `status` is the HTTP status, `answer` its Status object."""

    def __init__(self, method: str, path: str, status: int, answer: Any) -> None:
        message = answer.get("message") if isinstance(answer, dict) else answer
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status
        self.answer = answer


class Api:
    """A client of one API server; each request has a connection of its own, so threads may share it.

    Parameters
    ----------
    port
        Where the server listens on 127.0.0.1.
    authority
        The file of certificates that vouch for the server.
    token
        The bearer token.
    """

    def __init__(self, port: int, authority: Path, token: str) -> None:
        self._port = port
        self._authority = authority
        self._token = token
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", seconds: float = 15
    ) -> Any:
        """Send one request and return the parsed answer.

        Raises
        ------
        ApiError
            The server answered with a status of 400 or more.
        OSError, http.client.HTTPException
            It did not answer.
        """
        trust = ssl.create_default_context(cafile=str(self._authority))
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=trust, timeout=seconds)
        try:
            payload = None if body is None else body if isinstance(body, str) else json.dumps(body)
            headers = {
                "Authorization": f"Bearer {self._token}",
                "Accept": "application/json",
                "Content-Type": content_type,
            }
            connection.request(method, path, payload, headers)
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        parsed = _parsed(raw)
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError(method, path, answer.status, parsed)
        return parsed

    def get(self, path: str) -> Any:
        """Read the resource at `path`."""
        return self.request("GET", path)

    def find(self, path: str) -> Any | None:
        """Read the resource at `path`; None if there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create `body` in the collection at `path`."""
        return self.request("POST", path, body)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Any:
        """Change the resource at `path` by a JSON merge patch."""
        return self.request("PATCH", path, patch, content_type="application/merge-patch+json")

    def delete(self, path: str) -> None:
        """Delete the resource at `path` if it is there."""
        try:
            self.request("DELETE", path)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def apply(self, manifest: Mapping[str, Any]) -> Object:
        """Apply a whole object server-side, by force, and return what is stored."""
        query = f"?fieldManager={_FIELD_MANAGER}&force=true"
        stored: Object = self.request("PATCH", self.path_of(manifest) + query, manifest, content_type=_APPLY)
        return stored

    def path_of(self, manifest: Mapping[str, Any]) -> str:
        """Return the path of an object, by what the server says of its kind."""
        version, kind = manifest["apiVersion"], manifest["kind"]
        resource, namespaced = self._kind(version, kind)
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        metadata = manifest["metadata"]
        scope = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        return f"{root}{scope}/{resource}/{metadata['name']}"

    def _kind(self, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._kinds:
            root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            for resource in (self.find(root) or {"resources": []})["resources"]:
                if "/" not in resource["name"]:
                    self._kinds[version, resource["kind"]] = (resource["name"], resource["namespaced"])
        try:
            return self._kinds[version, kind]
        except KeyError:
            raise LabError(f"the API server knows no {kind} in {version}: apply its CRD first") from None

    def install_crds(self, manifests: Sequence[Object], *, within: timedelta = timedelta(seconds=30)) -> None:
        """Create the custom resource definitions that are missing, and wait until the server serves all of them."""
        # Creating costs the API server half of what applying does, and several at once cost half the time.
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(self._create_missing, manifests))
        for path in map(self.path_of, manifests):
            until(partial(self._established, path), f"{path} is established and served", within=within)

    def _create_missing(self, manifest: Object) -> None:
        try:
            self.create(self.path_of(manifest).rpartition("/")[0], manifest)
        except ApiError as error:
            if error.status != http.HTTPStatus.CONFLICT:
                raise

    def _established(self, path: str) -> bool:
        """Whether a resource is served: an established one answers 429 until its storage is there."""
        definition = self.get(path)
        if condition(definition, "Established") != "True":
            return False
        spec = definition["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        try:
            self.get(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1")
        except ApiError:
            return False
        return True


def condition(resource: Mapping[str, Any], kind: str) -> str | None:
    """Return the status of a condition of an object: "True", "False", "Unknown", or None where it is absent."""
    for entry in (resource.get("status") or {}).get("conditions") or []:
        if entry["type"] == kind:
            return str(entry["status"])
    return None


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", errors="replace")
