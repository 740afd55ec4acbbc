"""A namespace on a real API server with Services, routes and rollouts, and the operator run inside the test."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from davylamp.runtime.main import Operator
from davylamp.runtime.settings import Settings
from e2e.lab import ApiError, Lab
from e2e.stage.manifests import PORT, http_route, metric_source, model_rollout
from tests.davylamp.runtime.prometheus import Prometheus
from tests.davylamp.runtime.waiting import eventually, kopf_ended
from tests.support.installation import NAMESPACE

Object = dict[str, Any]
BASELINE: Final = "credit-fp32"
CANDIDATE: Final = "credit-int8"
SETTINGS: Final = Settings(
    namespace=NAMESPACE,
    identity="under-test",
    host="127.0.0.1",
    port=0,
    status_every=timedelta(minutes=59),
    lease_retry=timedelta(milliseconds=500),
    kopf_hints=False,
    relist_every=timedelta(seconds=1),
)
#: Gates that a few hundred good requests pass.
QUICK: Final[Object] = {
    "steps": [{"weight": 20, "bake": "1s"}, {"weight": 50, "bake": "1s"}],
    "promotion": {"bake": "1s"},
    "gates": {
        "falsePromotionRate": "20%",
        "errors": {"margin": {"oddsRatio": 3}, "allowance": "10%"},
        "latency": {"margin": {"slowdown": "100%"}, "requiredForPromotion": False},
    },
}


@dataclass(frozen=True, slots=True)
class Premises:
    """The namespace, with a MetricSource of its own name, and both variants behind Services."""

    lab: Lab
    prometheus: Prometheus
    namespace: str

    def open(self) -> None:
        for service in (BASELINE, CANDIDATE):
            self.lab.publish_service(self.namespace, service, PORT, [self.lab.address()])
        self.prometheus.serve(self.namespace, BASELINE, CANDIDATE)
        self.lab.api.apply(metric_source(self.prometheus.address, name=self.namespace))

    def close(self) -> None:
        """Let everything go, whether an operator lives or not."""
        self.lab.ensure_ready()
        for rollout in self.lab.api.get(self._collection("davylamp.dev/v1alpha1", "modelrollouts"))["items"]:
            path = self.path(rollout["metadata"]["name"])
            self.lab.api.delete(path)
            try:
                self.lab.api.merge(path, {"metadata": {"finalizers": None}})
            except ApiError:
                continue
        self.lab.api.delete(f"/apis/davylamp.dev/v1alpha1/metricsources/{self.namespace}")

    def rollout(self, name: str = "credit", **spec: Any) -> Object:
        """Make a rollout and a route of the same name, and return the rollout."""
        self.route(name)
        return self.lab.api.apply(self.manifest(name, **spec))

    def manifest(self, name: str = "credit", **spec: Any) -> Object:
        made = model_rollout(self.namespace, name, baseline=BASELINE, candidate=CANDIDATE)
        signals = {"preset": "mlserver", "source": self.namespace}
        return made | {"spec": made["spec"] | QUICK | {"signals": signals} | spec}

    def route(self, name: str = "credit") -> Object:
        return self.lab.api.apply(http_route(self.namespace, name, BASELINE))

    def path(self, name: str = "credit") -> str:
        return f"{self._collection('davylamp.dev/v1alpha1', 'modelrollouts')}/{name}"

    def route_path(self, name: str = "credit") -> str:
        return f"{self._collection('gateway.networking.k8s.io/v1', 'httproutes')}/{name}"

    def _collection(self, version: str, plural: str) -> str:
        return f"/apis/{version}/namespaces/{self.namespace}/{plural}"

    def status(self, name: str = "credit") -> Object:
        found: Object = (self.lab.api.find(self.path(name)) or {}).get("status") or {}
        return found

    def weight(self, name: str = "credit") -> int:
        """Return the candidate's weight on the route, 0 if it is not there."""
        rules = self.lab.api.get(self.route_path(name))["spec"]["rules"]
        refs = {ref["name"]: ref.get("weight", 1) for rule in rules for ref in rule.get("backendRefs", [])}
        return int(refs.get(CANDIDATE, 0))

    def serves(self, percent: int, name: str = "credit") -> bool:
        """Whether the candidate has this weight on the route."""
        return self.weight(name) == percent

    def marks(self, name: str = "credit") -> Object:
        annotations = self.lab.api.get(self.route_path(name))["metadata"].get("annotations") or {}
        return {key: value for key, value in annotations.items() if key.startswith("davylamp.dev/")}

    def events(self, reason: str = "") -> list[Object]:
        found = self.lab.api.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        ours = (event for event in found if event["involvedObject"]["kind"] == "ModelRollout")
        return [event for event in ours if reason in {"", event["reason"]}]

    async def until_phase(self, *phases: str, name: str = "credit", within: float = 60) -> Object:
        return await self.until(lambda: self.status(name).get("phase") in phases, f"{phases}", name=name, within=within)

    async def until_reason(self, reason: str, *, name: str = "credit", within: float = 60) -> Object:
        return await self.until(lambda: self.status(name).get("reason") == reason, reason, name=name, within=within)

    async def until(
        self, condition: Callable[[], bool], what: str, *, name: str = "credit", within: float = 60
    ) -> Object:
        try:
            await eventually(condition, what, within=within)
        except AssertionError as vain:
            status = self.status(name)
            told = {key: status.get(key) for key in ("phase", "reason", "message", "step", "weight")}
            raise AssertionError(f"{vain}; status: {told}") from None
        return self.status(name)


@asynccontextmanager
async def operating(**changes: Any) -> AsyncIterator[Operator]:
    """Run the operator in the loop of the test, with the kubeconfig that $KUBECONFIG names."""
    operator, stop = Operator(replace(SETTINGS, **changes)), asyncio.Event()
    task = asyncio.create_task(operator.run(stop))
    try:
        yield operator
        assert not task.done(), task.exception()
    finally:
        stop.set()
        await task
        # The operator does not wait for Kopf, whose connections would outlive the test.
        if operator._settings.kopf_hints:
            await kopf_ended(lambda: "kopf" in {thread.name for thread in threading.enumerate()})
