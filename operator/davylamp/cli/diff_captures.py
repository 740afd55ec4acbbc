"""Disagreeing pairs of a rollout, fetched from the comparators through the API server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from davylamp.api.v1alpha1.convert import read_spec, settings_of
from davylamp.api.v1alpha1.shadow import Comparator, Shadow
from davylamp.cli.cluster import Cluster, NotThereError, TurnedAwayError
from davylamp.cli.diff_view import Example, captured
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.live import read_policy
from davylamp.errors import SpecError
from davylamp.shadow.captures_key import FIELD, HEADER, SECRET, creation

_ADMIN: Final = "admin"
_SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"


@dataclass(frozen=True, slots=True)
class Captures:
    """What was fetched.

    Parameters
    ----------
    examples
        The pairs.
    asked
        How many replicas were asked.
    partly
        Why not all replicas were asked; empty if they were.
    """

    examples: tuple[Example, ...]
    asked: int
    partly: str = ""


def captures(cluster: Cluster, name: str) -> Captures:
    """Return the disagreeing pairs that the comparators keep of a rollout.

    Raises
    ------
    FailureError
        If the rollout keeps none, or nobody can be asked.
    """
    rollout = cluster.rollout(name)
    service, keeps = _comparator(cluster, rollout)
    if not keeps:
        raise FailureError(
            f"{name} keeps no pairs: set shadow.capture.pairs, and in shadow.capture.redact what is blotted out",
            ExitCode.REFUSED,
        )
    namespace, key = cluster.namespace, _key(cluster)
    path = f"captures/{namespace}/{name}"
    try:
        pods = _pods(cluster, service)
        found = [_pairs(cluster, f"/api/v1/namespaces/{namespace}/pods/{pod}/proxy/{path}", key) for pod in pods]
        partly = ""
    except TurnedAwayError:
        raise
    except FailureError as failure:
        if failure.code is not ExitCode.REFUSED:
            raise
        found, partly = [], f"one replica alone was asked, for its pods cannot be: {failure}"
    if not found:
        url = f"/api/v1/namespaces/{namespace}/services/{service}:{_ADMIN}/proxy/{path}"
        try:
            found = [_pairs(cluster, url, key)]
        except TurnedAwayError:
            raise
        except FailureError as failure:
            raise FailureError(f"{failure} (it takes the right get on services/proxy)", failure.code) from failure
        partly = partly or f"Service {service} has no pods that are known, so it was asked itself"
    return Captures(tuple(example for pairs in found for example in pairs), len(found), partly)


def _comparator(cluster: Cluster, rollout: dict[str, Any]) -> tuple[str, bool]:
    """Return the comparator's Service, and whether pairs are kept."""
    try:
        settings = settings_of(read_spec(rollout.get("spec") or {}), read_policy(cluster, rollout))
    except SpecError as error:
        raise FailureError(f"its settings cannot be understood: {error}", ExitCode.WRONG) from error
    shadow = settings.shadow or Shadow()
    return (shadow.comparator or Comparator()).name, shadow.capture is not None and shadow.capture.pairs > 0


def _key(cluster: Cluster) -> str:
    """Return the key that comparators show pairs for, as the user's own rights let it be read."""
    path = f"/api/v1/namespaces/{cluster.namespace}/secrets/{SECRET}"
    try:
        secret = cluster.fetch(path, f"get secret {SECRET}")
    except NotThereError as missing:
        text = f"pairs are shown to those who may read the Secret {SECRET}, and there is none: "
        raise FailureError(text + creation(cluster.namespace), ExitCode.REFUSED) from missing
    except FailureError as failure:
        if failure.code is not ExitCode.REFUSED:
            raise
        text = f"{failure} (pairs are shown to those who may get the Secret {SECRET})"
        raise FailureError(text, failure.code) from failure
    try:
        return _as_header(base64.b64decode(secret["data"][FIELD], validate=True))
    except (LookupError, TypeError, ValueError) as error:
        text = f"the Secret {SECRET} has no {FIELD} that can be sent: {creation(cluster.namespace)}"
        raise FailureError(text, ExitCode.REFUSED) from error


def _as_header(key: bytes) -> str:
    text = key.decode("ascii").strip()
    if not text.isprintable():
        raise ValueError
    return text


def _pods(cluster: Cluster, service: str) -> list[str]:
    """Return the ready pods behind a Service, with the port of its admin, as a proxy's path names them."""
    query = {"labelSelector": f"kubernetes.io/service-name={service}"}
    slices = cluster.fetch(_SLICES.format(cluster.namespace), "list endpointslices", query)
    return sorted({pod for found in slices.get("items") or () for pod in _of_slice(found)})


def _of_slice(found: dict[str, Any]) -> Iterator[str]:
    ports = [port["port"] for port in found.get("ports") or () if port.get("name") == _ADMIN]
    for endpoint in found.get("endpoints") or ():
        target, ready = endpoint.get("targetRef") or {}, (endpoint.get("conditions") or {}).get("ready")
        if ports and target.get("kind") == "Pod" and ready is not False:
            yield f"{target['name']}:{ports[0]}"


def _pairs(cluster: Cluster, path: str, key: str) -> list[Example]:
    try:
        answer = cluster.fetch(path, "get the captured pairs", headers={HEADER: key})
    except NotThereError:
        # This replica does not serve the rollout now.
        return []
    try:
        return [captured(pair) for pair in answer["pairs"]]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FailureError("what the comparator answers cannot be understood", ExitCode.WRONG) from error
