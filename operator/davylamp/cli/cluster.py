"""ModelRollouts and their policies, read from an API server."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import urllib3
from kubernetes import client, watch

from davylamp.api.v1alpha1.kinds import CLUSTER_ROLLOUT_POLICY, GROUP, MODEL_ROLLOUT, ROLLOUT_POLICY, VERSION
from davylamp.api.v1alpha1.policy import PolicyKind, PolicyRef, PolicySpec
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.kubeconfig import Connection
from davylamp.wording import shortened

Manifest = dict[str, Any]

#: Longest time for an answer; connecting takes a shorter one.
_TIMEOUT: Final = (5.0, 15.0)
#: A watch ends after this long, and the object is read afresh: what a watch may have lost is found then.
_RESYNC: Final = 30
_SHOWN: Final = 300
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_RETRY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The object as it is now."""

    rollout: Manifest


@dataclass(frozen=True, slots=True)
class Gone:
    """The object does not exist any more."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The API server does not answer; it is asked again."""

    why: str


Sighting = Seen | Gone | Lost


class NotThereError(FailureError):
    """The API server says that there is no such object."""


class TurnedAwayError(FailureError):
    """What stands behind the API server's proxy refuses, and says why."""


class Cluster:
    """What the command line reads of a cluster. Every failure is a `FailureError` with what to do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._objects = client.CustomObjectsApi(connection.client)

    @property
    def namespace(self) -> str:
        """The namespace that commands work in."""
        return self._connection.namespace

    def rollouts(self, namespace: str | None, selector: str = "") -> list[Manifest]:
        """Return the ModelRollouts of a namespace, or (None) of all."""
        what, options = "list modelrollouts", {"label_selector": selector}
        _refuse_bad_name("namespace", namespace)
        if namespace is None:
            address: tuple[str, ...] = (GROUP, VERSION, MODEL_ROLLOUT.plural)
            found = self._read(self._objects.list_cluster_custom_object, address, what, namespace, **options)
        else:
            address = (GROUP, VERSION, namespace, MODEL_ROLLOUT.plural)
            found = self._read(self._objects.list_namespaced_custom_object, address, what, namespace, **options)
        items: list[Manifest] = found["items"]
        return items

    def rollout(self, name: str) -> Manifest:
        """Return one ModelRollout."""
        _refuse_bad_name("namespace", self.namespace)
        _refuse_bad_name("ModelRollout", name)
        address = (GROUP, VERSION, self.namespace, MODEL_ROLLOUT.plural, name)
        what = f"get modelrollout {name}"
        found: Manifest = self._read(self._objects.get_namespaced_custom_object, address, what, self.namespace)
        return found

    def policy(self, ref: PolicyRef) -> PolicySpec:
        """Return what a policy says; a policy that cannot be understood is a failure too."""
        what = f"get {ref.kind.value} {ref.name}"
        if ref.kind is PolicyKind.CLUSTER_ROLLOUT_POLICY:
            address: tuple[str, ...] = (GROUP, VERSION, CLUSTER_ROLLOUT_POLICY.plural, ref.name)
            found = self._read(self._objects.get_cluster_custom_object, address, what, None)
        else:
            address = (GROUP, VERSION, self.namespace, ROLLOUT_POLICY.plural, ref.name)
            found = self._read(self._objects.get_namespaced_custom_object, address, what, self.namespace)
        try:
            return PolicySpec.parse(found["spec"])
        except (ValueError, KeyError, RecursionError) as error:
            text = f"{ref.kind.value} {ref.name} cannot be understood: {shortened(str(error), _SHOWN)}"
            raise FailureError(text, ExitCode.WRONG) from error

    def fetch(
        self,
        path: str,
        what: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the JSON object at a path of the API server.

        Parameters
        ----------
        path
            Made of names that the API server has given.
        what
            What is done, as a failure names it.
        query, headers
            Of the request.
        """
        caller = self._connection.client

        def get(where: str, _request_timeout: tuple[float, float]) -> Any:
            asked = caller.param_serialize(
                "GET", where, query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", **(headers or {})},
                auth_settings=["BearerToken"],
            )  # fmt: skip
            answer = caller.call_api(*asked, _request_timeout=_request_timeout)
            text: bytes = answer.read() or b""
            if not 200 <= answer.status < 300:
                raise client.ApiException(http_resp=answer, body=text.decode("utf-8", "replace"))
            return json.loads(text)

        try:
            found = self._read(get, (path,), what, self.namespace)
        except (ValueError, RecursionError) as error:
            raise FailureError(f"cannot {what}: the answer is no JSON", ExitCode.WRONG) from error
        if not isinstance(found, dict):
            raise FailureError(f"cannot {what}: the answer is no object", ExitCode.WRONG)
        return found

    def follow(self, name: str, patience: Callable[[], float]) -> Iterator[Sighting]:
        """Yield a ModelRollout whenever it changes, and at least every half minute, until it is gone.

        Parameters
        ----------
        name
            Of the rollout.
        patience
            Says how many seconds are left; at 0 the sightings end.

        Raises
        ------
        FailureError
            If the first read fails; later failures are yielded as `Lost` and tried again.
        """
        latest: Sighting = Seen(self.rollout(name))
        while True:
            yield latest
            if isinstance(latest, Gone) or patience() <= 0:
                return
            try:
                if isinstance(latest, Seen):
                    yield from self._changes(name, latest.rollout, min(_RESYNC, patience()))
                else:
                    threading.Event().wait(min(_RETRY, patience()))
                latest = Seen(self.rollout(name))
            except NotThereError:
                latest = Gone()
            except FailureError as failure:
                latest = Lost(str(failure))

    def _changes(self, name: str, since: Manifest, seconds: float) -> Iterator[Sighting]:
        """Yield what a watch reports until it ends, as it does by itself after some seconds (> 0)."""
        stream = watch.Watch().stream(
            self._objects.list_namespaced_custom_object,
            GROUP,
            VERSION,
            self.namespace,
            MODEL_ROLLOUT.plural,
            field_selector=f"metadata.name={name}",
            resource_version=since["metadata"]["resourceVersion"],
            timeout_seconds=max(1, math.ceil(seconds)),
            _request_timeout=(_TIMEOUT[0], seconds + _TIMEOUT[1]),
        )
        try:
            for event in stream:
                if event is None or event["type"] == "DELETED":
                    return
                if event["type"] in {"ADDED", "MODIFIED"}:
                    yield Seen(event["object"])
        except client.ApiException as error:
            if error.status != 410:
                raise self._failure(error, f"watch modelrollout {name}", self.namespace) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._failure(error, f"watch modelrollout {name}", self.namespace) from error

    def _read(
        self, call: Callable[..., Any], address: tuple[str, ...], what: str, namespace: str | None, **options: Any
    ) -> Any:
        try:
            return call(*address, _request_timeout=_TIMEOUT, **options)
        except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise self._failure(error, what, namespace) from error

    def _failure(self, error: Exception, what: str, namespace: str | None) -> FailureError:
        if isinstance(error, client.ApiException) and error.status:
            if said := _said_behind(error):
                return TurnedAwayError(f"cannot {what}: {said}", ExitCode.REFUSED)
            return _refusal(error, what, namespace)
        reason = getattr(error, "reason", None) or error
        text = f"the API server {self._connection.server} cannot be reached: {shortened(str(reason), _SHOWN)}"
        return FailureError(text, ExitCode.UNREACHABLE)


def _refuse_bad_name(kind: str, name: str | None) -> None:
    """Refuse what is no name before it becomes part of a path, where it would mean something else."""
    if name is not None and not _NAME.fullmatch(name):
        text = f"{name!r} is not the name of a {kind}: names are lower-case letters, digits, '-' and '.'"
        raise FailureError(text, ExitCode.WRONG)


def _refusal(error: client.ApiException, what: str, namespace: str | None) -> FailureError:
    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    body = error.body or ""
    match error.status:
        case 401:
            return FailureError(
                "the API server does not accept your credentials: log in again, or choose another --context",
                ExitCode.REFUSED,
            )
        case 403:
            return FailureError(
                f"you may not {what} in {where}: ask for the right get, list and watch on {MODEL_ROLLOUT.crd_name}",
                ExitCode.REFUSED,
            )
        case 404 if "page not found" in body:
            return FailureError(
                "the cluster does not know ModelRollouts: install Davylamp's CustomResourceDefinitions "
                "(kubectl apply --server-side -f crds)",
                ExitCode.REFUSED,
            )
        case 404:
            return NotThereError(f"cannot {what}: there is none in {where}", ExitCode.REFUSED)
        case status if status and 400 <= status < 500:
            return FailureError(f"cannot {what} in {where}: {shortened(body, _SHOWN)}", ExitCode.REFUSED)
        case status:
            return FailureError(
                f"cannot {what}: the API server has a fault of its own ({status})", ExitCode.UNREACHABLE
            )


def _said_behind(error: client.ApiException) -> str:
    """Return what a comparator says in its refusal; empty if this is the API server's own."""
    try:
        return shortened(str(json.loads(error.body or "")["error"]), 2 * _SHOWN) if error.status == 403 else ""
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
