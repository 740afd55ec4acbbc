"""One rollout on a site: its route, its traffic, everything that ever happened to it, and the way to wait for more."""

from contextlib import ExitStack, suppress
from copy import deepcopy
from datetime import timedelta
from itertools import takewhile
from typing import Any, Final, Self, TypeVar

from e2e.lab import ApiError
from e2e.lab.waiting import until
from e2e.stage.invariants import ALL, Expected, Invariant, marks_of, mirrors_of, violations, weight_of
from e2e.stage.manifests import Manifest, http_route, model_rollout
from e2e.stage.premises import BASELINE, CANDIDATE, Site, SteadyTraffic, answers_inference
from e2e.stage.recorder import Kind, Object, Recorder, Sighting

T = TypeVar("T")
#: Long enough for a loaded machine; nothing waits for it in vain but a test that fails.
PATIENCE: Final = timedelta(seconds=90)
_SCRAPES: Final = 3
_ROUTES: Final = "/apis/gateway.networking.k8s.io/v1/namespaces"
_ROLLOUTS: Final = "/apis/davylamp.dev/v1alpha1/namespaces"
#: Two short steps, and gates that a hundred good requests pass.
QUICK: Final[Manifest] = {
    "steps": [{"weight": 20, "bake": "1s", "minSamples": 5}, {"weight": 50, "bake": "1s", "minSamples": 10}],
    "promotion": {"bake": "1s"},
    "gates": {
        "falsePromotionRate": "20%",
        "errors": {"margin": {"oddsRatio": 3}, "allowance": "10%"},
        "latency": {"margin": {"slowdown": "100%"}, "requiredForPromotion": False},
    },
}


class RolloutStage:
    """One rollout; ``with RolloutStage(…) as stage`` makes its route and sends traffic, and cleans up at the end.

    Parameters
    ----------
    site
        Where.
    name
        Of the rollout and of the route.
    rate
        Requests a second.
    """

    def __init__(self, site: Site, name: str = "credit", *, rate: float = 40) -> None:
        self.site = site
        self.name = name
        self.host = f"{name}.{site.namespace}.test"
        self.manifest = model_rollout(site.namespace, name, baseline=BASELINE, candidate=CANDIDATE, **deepcopy(QUICK))
        self.recorder = Recorder(site.lab, site.namespace, name, name)
        self.traffic = SteadyTraffic(site.lab.gateway_url, self.host, rate)
        self.original: Object = {}
        self._open = ExitStack()

    @property
    def rollout_path(self) -> str:
        """Of the ModelRollout at the API server."""
        return f"{_ROLLOUTS}/{self.site.namespace}/modelrollouts/{self.name}"

    @property
    def route_path(self) -> str:
        """Of the HTTPRoute at the API server."""
        return f"{_ROUTES}/{self.site.namespace}/httproutes/{self.name}"

    def __enter__(self) -> Self:
        self.make_route()
        self._open.enter_context(self.recorder)
        self._open.enter_context(self.traffic)
        until(self._served, f"{self.host} is served", within=PATIENCE)
        until(self._measured, f"Prometheus knows the requests of {self.site.namespace}", within=PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self.site.lab.api.delete(self.rollout_path)
        # The next test's namespace does not wait for this one's operator, which may be dead by now.
        with suppress(ApiError):
            self.site.lab.api.merge(self.rollout_path, {"metadata": {"finalizers": None}})

    def make_route(self) -> None:
        """Create the route."""
        self.original = self.site.lab.api.apply(self._own_route())

    def apply(self, **spec: Any) -> None:
        """Create or change the ModelRollout; fields of the spec that are given replace what is there."""
        self.manifest["spec"].update(spec)
        self.site.lab.api.apply(self.manifest)

    def edit_route(self, *weights: int, who: str = "a-person") -> None:
        """Set the weights of the baseline and the candidate by hand."""
        route = self.site.lab.api.get(self.route_path)
        patch = []
        for number, rule in enumerate(route["spec"]["rules"]):
            for place, ref in enumerate(rule.get("backendRefs") or []):
                if ref["name"] in {BASELINE, CANDIDATE}:
                    path = f"/spec/rules/{number}/backendRefs/{place}/weight"
                    patch.append({"op": "add", "path": path, "value": weights[ref["name"] == CANDIDATE]})
        self.site.lab.api.request(
            "PATCH", f"{self.route_path}?fieldManager={who}", patch, content_type="application/json-patch+json"
        )

    def edit_rules(self, rules: list[Object], who: str = "a-person") -> None:
        """Replace the rules of the route by hand."""
        self.site.lab.api.merge(f"{self.route_path}?fieldManager={who}", {"spec": {"rules": rules}})

    def patch_status(self, **fields: Any) -> None:
        """Spoil fields of the stored status; None removes a field."""
        self.site.lab.api.merge(f"{self.rollout_path}/status", {"status": fields})

    # What is seen.

    @property
    def status(self) -> Object:
        """The newest status that was seen."""
        return (self.recorder.latest(Kind.ROLLOUT) or {}).get("status") or {}

    @property
    def route(self) -> Object:
        """The newest route that was seen."""
        return self.recorder.latest(Kind.ROUTE) or {}

    @property
    def weight(self) -> int:
        """The candidate's weight on the newest route."""
        return weight_of(self.route, CANDIDATE)

    def until_phase(self, *phases: str, within: timedelta = PATIENCE) -> Object:
        """Wait for one of some phases, and return the status."""
        return self.recorder.until(
            lambda rollout, _: _status_if(rollout, "phase", phases),
            f"the phase is {' or '.join(phases)}",
            within=within,
        )

    def until_reason(self, *reasons: str, within: timedelta = PATIENCE) -> Object:
        """Wait for one of some reasons, and return the status."""
        return self.recorder.until(
            lambda rollout, _: _status_if(rollout, "reason", reasons),
            f"the reason is {' or '.join(reasons)}",
            within=within,
        )

    def until_message(self, words: str, within: timedelta = PATIENCE) -> None:
        """Wait until the status says some words."""
        self.recorder.until(
            lambda rollout, _: words in (rollout.get("status") or {}).get("message", ""),
            f"the message says {words!r}",
            within=within,
        )

    def until_weight(self, percent: int, within: timedelta = PATIENCE) -> None:
        """Wait for the candidate's weight on the route."""
        self.recorder.until(
            lambda _, route: bool(route) and weight_of(route, CANDIDATE) == percent,
            f"the candidate has {percent} %",
            within=within,
        )

    def until_clean(self, within: timedelta = PATIENCE) -> None:
        """Wait until the route carries no mark of Davylamp and gives the candidate nothing."""
        self.recorder.until(
            lambda _, route: bool(route) and not marks_of(route) and not weight_of(route, CANDIDATE),
            "the route is clean",
            within=within,
        )

    def until_mirrored(self, within: timedelta = PATIENCE) -> None:
        """Wait until the route mirrors requests."""
        self.recorder.until(lambda _, route: mirrors_of(route), "requests are mirrored", within=within)

    # What must hold.

    @property
    def expected(self) -> Expected:
        """What was asked for."""
        spec = self.manifest["spec"]
        steps = spec["steps"]
        ladder = {step["weight"]: _seconds(step["bake"]) for step in steps if "weight" in step}
        ladder[100] = _seconds(spec["promotion"]["bake"])
        before = takewhile(lambda number: "weight" not in steps[number], range(len(steps)))
        return Expected(
            BASELINE,
            CANDIDATE,
            ladder,
            self.original["spec"],
            shadows=frozenset(number for number in before if "shadow" in steps[number]),
            mirrored=frozenset(step.get("weight", 0) for step in steps if "shadow" in step),
        )

    def violations(self, *invariants: Invariant) -> tuple[str, ...]:
        """Return where an invariant was broken in any state so far; by default all of them are asked."""
        return violations(self.recorder.history, self.expected, invariants or ALL)

    @property
    def story(self) -> str:
        """All that happened, one line for each state, for a person who looks into a failure."""
        return "\n".join(_line(seen) for seen in self.recorder.history)

    def _own_route(self) -> Manifest:
        """Return a route with much that is not Davylamp's: another rule, filters, labels, annotations."""
        route = http_route(self.site.namespace, self.name, BASELINE, host=self.host)
        route["metadata"] |= {"labels": {"team": "credit"}, "annotations": {"example.com/owner": "credit"}}
        header = {
            "type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": "x-tier", "value": "gold"}]},
        }
        redirect = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 301}}
        away = {"matches": [{"path": {"type": "PathPrefix", "value": "/away"}}], "filters": [redirect]}
        route["spec"]["rules"][0]["filters"] = [header]
        route["spec"]["rules"].append(away)
        return route

    def _served(self) -> bool:
        return answers_inference(self.site.lab.gateway_url, self.host)

    def _measured(self) -> bool:
        """Whether the baseline has been scraped often enough for a look."""
        series = f'model_infer_request_success_total{{namespace="{self.site.namespace}",service="{BASELINE}"}}'
        counts = [float(found["value"][1]) for found in self.site.lab.query(f"count_over_time({series}[5s])")]
        return len(counts) == len(self.site.fleet.servers[BASELINE]) and min(counts) >= _SCRAPES


def _line(seen: Sighting) -> str:
    if seen.manifest is None:
        return f"{seen.at:7.2f} {seen.revision} {seen.kind.value} is gone"
    if seen.kind is Kind.ROUTE:
        weight, marks, mirrors = weight_of(seen.manifest, CANDIDATE), marks_of(seen.manifest), mirrors_of(seen.manifest)
        return f"{seen.at:7.2f} {seen.revision} route {weight} % {marks} {' '.join(mirrors)}"
    status = seen.manifest.get("status") or {}
    shown = [status.get(name) for name in ("phase", "reason", "message", "verdict", "weight", "epoch")]
    return f"{seen.at:7.2f} {seen.revision} status {shown}"


def _status_if(rollout: Object, field: str, values: tuple[str, ...]) -> Object | None:
    status: Object = rollout.get("status") or {}
    return status if status.get(field) in values else None


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))
