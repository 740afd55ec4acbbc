"""Whether the API server lets Davylamp do what it must, asked before it is needed."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from davylamp.api.v1alpha1.kinds import (
    CLUSTER_ROLLOUT_POLICY,
    GROUP,
    METRIC_SOURCE,
    MODEL_ROLLOUT,
    NOTIFICATION_CHANNEL,
    ROLLOUT_POLICY,
)
from davylamp.errors import SpecError
from davylamp.runtime.kube import Kube
from davylamp.runtime.settings import Settings

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_ROUTES: Final = "gateway.networking.k8s.io"
#: In every namespace that is served: group, resource and verbs.
_SERVED: Final = (
    (GROUP, MODEL_ROLLOUT.plural, ("get", "list", "patch")),
    (GROUP, f"{MODEL_ROLLOUT.plural}/status", ("patch",)),
    (GROUP, ROLLOUT_POLICY.plural, ("list",)),
    (GROUP, NOTIFICATION_CHANNEL.plural, ("list",)),
    (_ROUTES, "httproutes", ("get", "patch")),
    ("", "services", ("list",)),
    ("discovery.k8s.io", "endpointslices", ("list",)),
    ("", "events", ("create",)),
)
_CLUSTER: Final = (
    (GROUP, CLUSTER_ROLLOUT_POLICY.plural, ("list",)),
    (GROUP, METRIC_SOURCE.plural, ("list",)),
)
#: In the operator's own namespace.
_OWN: Final = (("coordination.k8s.io", "leases", ("create", "get", "update")),)


@dataclass(frozen=True, slots=True)
class Right:
    """One thing that Davylamp must be allowed to do; ``namespace`` is empty for the whole cluster."""

    verb: str
    group: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group} {where}"


def needed(settings: Settings) -> Iterator[Right]:
    """Yield the rights that a process with these settings cannot do without."""
    places = settings.watch_namespaces or ("",)
    for rules, namespaces in ((_SERVED, places), (_CLUSTER, ("",)), (_OWN, (settings.namespace,))):
        for group, resource, verbs in rules:
            yield from (Right(verb, group, resource, place) for place in namespaces for verb in verbs)


async def missing(kube: Kube, settings: Settings) -> tuple[Right, ...]:
    """Return the rights that Davylamp needs and does not have.

    Raises
    ------
    Unavailable
        If the API server does not answer.
    """
    rights = tuple(needed(settings))
    allowed = await asyncio.gather(*(_allowed(kube, right) for right in rights))
    return tuple(right for right, is_allowed in zip(rights, allowed, strict=True) if not is_allowed)


async def _allowed(kube: Kube, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    asked: dict[str, Any] = {"verb": right.verb, "group": right.group, "resource": resource}
    # A Lease is found by its name alone; creating cannot be bound to one.
    named = {"name": "davylamp"} if resource == "leases" and right.verb != "create" else {}
    attributes = asked | named | {"subresource": subresource, "namespace": right.namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await kube.create(_REVIEWS, review)
    except SpecError:
        return True  # who may not even ask is told by the first request that is refused
    return bool((answer.get("status") or {}).get("allowed"))
