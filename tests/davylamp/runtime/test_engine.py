"""Several rollouts on a real API server, run by the whole operator with its own rights."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from davylamp.core.decide import decide
from davylamp.runtime import engine as module
from davylamp.runtime.act import Actor
from davylamp.runtime.engine import Engine
from davylamp.runtime.kube import Kube
from davylamp.runtime.publish import FINALIZER
from e2e.lab import ApiError
from tests.davylamp.runtime.premises import BASELINE, CANDIDATE, Object, Premises, operating
from tests.davylamp.runtime.waiting import eventually

Looks = dict[str, list[float]]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Times at which looks began, by the name of the rollout."""
    begun: Looks = {}
    look = Engine._look

    async def noted(self: Engine, uid: str) -> Any:
        manifest = self._parts.catalogue.rollouts.get(uid)
        if manifest is not None:
            begun.setdefault(manifest["metadata"]["name"], []).append(asyncio.get_running_loop().time())
        return await look(self, uid)

    monkeypatch.setattr(Engine, "_look", noted)
    return begun


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch, premises: Premises) -> list[str]:
    """Requests that write, as they are sent; other tests' leftovers on the same API server are none of theirs."""
    sent: list[str] = []
    request = Kube.request

    async def noted(self: Kube, method: str, path: str, **options: Any) -> Any:
        if method != "GET" and f"/namespaces/{premises.namespace}/" in path:
            sent.append(f"{method} {path}")
        return await request(self, method, path, **options)

    monkeypatch.setattr(Kube, "request", noted)
    return sent


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


def breaks(monkeypatch: pytest.MonkeyPatch, rollout: Object) -> None:
    """Let every look at one rollout fail when it comes to decide."""
    decided = decide

    def broken(plan: Any, progress: Any, world: Any, now: Any) -> Any:
        if world.uid == rollout["metadata"]["uid"]:
            raise RuntimeError("a bug")
        return decided(plan, progress, world, now)

    monkeypatch.setattr("davylamp.runtime.engine.decide", broken)


async def test_a_good_candidate_is_promoted_and_the_route_is_left_clean(
    premises: Premises, requests: list[str]
) -> None:
    premises.rollout()
    async with operating():
        status = await premises.until_phase("Promoted", "RolledBack")
    assert status["phase"] == "Promoted", status
    assert premises.marks() == {}
    (rule,) = premises.lab.api.get(premises.route_path())["spec"]["rules"]
    assert [ref["name"] for ref in rule["backendRefs"]] == [CANDIDATE]
    writes = [line for line in requests if "/events" not in line]
    # Begin, prepare, two steps, the promotion and its end: no more than four writes for each, and the finalizer.
    assert len(writes) <= 4 * 6 + 1, writes
    assert {event["reason"] for event in premises.events()} == {
        "Accepted",
        "StepStarted",
        "PromotionStarted",
        "AllGatesPassed",
    }


async def test_a_bad_candidate_is_taken_back_and_stays_so(premises: Premises, requests: list[str]) -> None:
    premises.prometheus.streams[premises.namespace, CANDIDATE].errors = 0.5
    premises.rollout()
    async with operating() as operator:
        status = await premises.until_phase("Promoted", "RolledBack")
        assert status["reason"] in {"Regressed", "ErrorShare"}
        await premises.until(lambda: premises.status()["weight"].get("programmed") == 0, "the gateway shows it")
        assert premises.weight() == 0
        assert premises.marks() == {}
        assert len(premises.events("Regressed") + premises.events("ErrorShare")) == 1
        requests.clear()
        premises.rollout("neighbour")
        await premises.until_phase("Promoted", "RolledBack", name="neighbour")
        assert [line for line in requests if "/credit" in line] == []
        labels = {"namespace": premises.namespace, "name": "credit", "phase": "RolledBack"}
        assert operator._telemetry.registry.get_sample_value("davylamp_phase", labels) == 1


async def test_a_rollout_that_waits_writes_nothing(premises: Premises, requests: list[str], looks: Looks) -> None:
    premises.rollout(paused=True)
    async with operating():
        await premises.until_reason("PausedBySpec")
        requests.clear()
        before = len(looks["credit"])
        await eventually(lambda: len(looks["credit"]) >= before + 3, "it was looked at")
        assert requests == []


async def test_a_rollout_whose_looks_fail_delays_no_other(
    premises: Premises, looks: Looks, logs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, premises.rollout("broken"))
    for name in ("fine", "good"):
        premises.rollout(name, steps=[{"weight": 20, "bake": "1h"}])
    async with operating() as operator:
        for name in ("fine", "good"):
            await premises.until(partial(premises.serves, 20, name), "the candidate has traffic", name=name)
        await eventually(lambda: len(looks["broken"]) >= 6, "it is tried again and again")
        labels = {"namespace": premises.namespace, "name": "broken"}
        failures = operator._telemetry.registry.get_sample_value("davylamp_look_failures_total", labels)
        assert failures is not None
        assert failures >= 5
    waits = [later - earlier for earlier, later in zip(looks["broken"], looks["broken"][1:], strict=False)]
    assert all(wait >= least for wait, least in zip(waits, (0.25, 0.5, 1, 2, 4), strict=False)), waits
    assert [line["event"] for line in logs if line.get("exc_info")][:1] == ["look_failed"]


def test_a_failing_look_is_tried_again_within_four_seconds() -> None:
    assert module._LAST_RETRY.total_seconds() == 4


async def test_a_source_that_hangs_for_some_delays_no_other(premises: Premises, looks: Looks) -> None:
    premises.prometheus.silent.add(premises.namespace)
    hanging = [f"hanging-{number}" for number in range(10)]
    for name in hanging:
        premises.rollout(name)
    premises.rollout("fine", signals={"preset": "mlserver", "source": "none"})
    async with operating():
        await premises.until_reason("BaselineSilent", name="fine")
        await eventually(lambda: len(looks["hanging-9"]) >= 2, "all were looked at")
        before = len(looks["fine"])
        await eventually(lambda: len(looks["fine"]) >= before + 5, "it was looked at")
        times = looks["fine"][before:]
        others = [moment for name in hanging for moment in looks[name] if times[0] <= moment <= times[-1]]
    # While ten wait for an answer each, the one that does not is looked at about every second.
    assert times[-1] - times[0] < 15
    assert others
    premises.prometheus.silent.clear()


async def test_a_hint_while_a_look_is_under_way_is_not_lost(
    premises: Premises, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = premises.rollout(interval="5m")
    entered, go_on = asyncio.Event(), asyncio.Event()
    act = Actor.act

    async def slow(self: Actor, *arguments: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await act(self, *arguments)

    monkeypatch.setattr(Actor, "act", slow)
    engines: list[Engine] = []
    run = Engine.run

    async def kept(self: Engine) -> None:
        engines.append(self)
        await run(self)

    monkeypatch.setattr(Engine, "run", kept)
    async with operating(relist_every=timedelta(minutes=5)):
        await asyncio.wait_for(entered.wait(), 30)
        engines[0].hint(rollout["metadata"]["uid"])
        await eventually(lambda: rollout["metadata"]["uid"] in engines[0]._again, "the hint is kept")
        before = len(looks["credit"])
        go_on.set()
        await eventually(lambda: len(looks["credit"]) > before, "it was looked at again")


async def test_what_is_deleted_gets_its_route_back_and_goes(premises: Premises, requests: list[str]) -> None:
    premises.rollout(steps=[{"weight": 20, "bake": "1h"}])
    before = premises.lab.api.get(premises.route_path())
    async with operating() as operator:
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        premises.lab.api.delete(premises.path())
        await eventually(lambda: premises.lab.api.find(premises.path()) is None, "it is gone")
        after = premises.lab.api.get(premises.route_path())
        assert after["spec"] == before["spec"]
        assert premises.marks() == {}
        requests.clear()
        text = "davylamp_phase"
        labels = {"namespace": premises.namespace, "name": "credit", "phase": "Progressing"}
        await eventually(
            lambda: operator._telemetry.registry.get_sample_value(text, labels) is None, "nothing is shown of it"
        )
    assert requests == []


async def test_a_route_is_given_back_although_somebody_took_the_finalizer_off_and_deleted_the_object(
    premises: Premises,
) -> None:
    premises.rollout(steps=[{"weight": 20, "bake": "1h"}])
    before = premises.lab.api.get(premises.route_path())
    async with operating():
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        # The loop of the operator stands still in between, so that it cannot put the finalizer back.
        premises.lab.api.merge(premises.path(), {"metadata": {"finalizers": None}})
        premises.lab.api.delete(premises.path())
        assert premises.lab.api.find(premises.path()) is None
        await eventually(lambda: premises.marks() == {}, "the route is clean")
    assert premises.lab.api.get(premises.route_path())["spec"] == before["spec"]


async def test_an_object_that_others_hold_is_let_go_once(premises: Premises, requests: list[str], looks: Looks) -> None:
    premises.rollout()
    premises.lab.api.merge(premises.path(), {"metadata": {"finalizers": ["example.org/held"]}})
    async with operating():
        await eventually(lambda: len(premises.lab.api.get(premises.path())["metadata"]["finalizers"]) == 2, "marked")
        premises.lab.api.delete(premises.path())
        await eventually(
            lambda: premises.lab.api.get(premises.path())["metadata"]["finalizers"] == ["example.org/held"], "let go"
        )
        requests.clear()
        before = len(looks["credit"])
        await eventually(lambda: len(looks["credit"]) >= before + 6, "it was looked at")
        assert requests == []
        # As seldom as any other, and not as fast as the machine can.
        assert looks["credit"][-1] - looks["credit"][-6] > 1


async def test_deleting_a_rollout_that_is_over_takes_nothing_from_the_next_on_its_route(premises: Premises) -> None:
    premises.prometheus.streams[premises.namespace, CANDIDATE].errors = 0.5
    premises.rollout("first")
    async with operating():
        await premises.until_phase("RolledBack", name="first")
        premises.prometheus.streams[premises.namespace, CANDIDATE].errors = 0.0
        second = premises.manifest(
            "second", route={"gatewayAPI": {"httpRoute": "first"}}, steps=[{"weight": 20, "bake": "1h"}]
        )
        premises.lab.api.apply(second)
        await premises.until(lambda: premises.serves(20, "first"), "the second has traffic", name="second")
        marks = premises.marks("first")
        premises.lab.api.delete(premises.path("first"))
        await eventually(lambda: premises.lab.api.find(premises.path("first")) is None, "the first is gone")
        assert (premises.weight("first"), premises.marks("first")) == (20, marks)
        assert premises.status("second")["attempt"]["number"] == 1


async def test_a_rollout_that_tries_again_waits_for_the_one_at_work_on_the_route(premises: Premises) -> None:
    premises.prometheus.streams[premises.namespace, CANDIDATE].errors = 0.5
    premises.rollout("first")
    async with operating():
        await premises.until_phase("RolledBack", name="first")
        premises.prometheus.streams[premises.namespace, CANDIDATE].errors = 0.0
        route = {"gatewayAPI": {"httpRoute": "first"}}
        premises.lab.api.apply(premises.manifest("second", route=route, steps=[{"weight": 20, "bake": "1h"}]))
        await premises.until(lambda: premises.serves(20, "first"), "the second has traffic", name="second")
        model = {"registry": "mlflow", "name": "credit", "version": "2", "digest": "sha256:" + "0" * 64}
        other = {"backend": {"name": CANDIDATE, "port": 8080}, "model": model}
        premises.lab.api.apply(premises.manifest("first", candidate=other))
        status = await premises.until_reason("RouteTaken", name="first")
        assert "second" in status["message"]
        assert premises.weight("first") == 20


async def test_a_rollout_that_is_over_begins_again_when_its_spec_changes(premises: Premises) -> None:
    premises.rollout()
    async with operating():
        await premises.until_phase("Promoted")
        premises.lab.api.apply(premises.manifest(steps=[{"weight": 30, "bake": "1s"}]))
        await premises.until(lambda: premises.status()["attempt"]["number"] == 2, "a second attempt")


async def test_a_policy_that_does_not_exist_is_said_and_waited_for(premises: Premises) -> None:
    premises.rollout(policyRef={"kind": "RolloutPolicy", "name": "later"})
    async with operating():
        status = await premises.until_reason("InvalidSpec")
        assert "RolloutPolicy later, which does not exist" in status["message"]
        policy = {"apiVersion": "davylamp.dev/v1alpha1", "kind": "RolloutPolicy"}
        metadata = {"name": "later", "namespace": premises.namespace}
        premises.lab.api.apply(policy | {"metadata": metadata, "spec": {"rollback": {"cooldown": "2h"}}})
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")


async def test_a_policy_that_goes_in_mid_rollout_leaves_the_candidate_watched_and_held(premises: Premises) -> None:
    policy = {"apiVersion": "davylamp.dev/v1alpha1", "kind": "RolloutPolicy"}
    metadata = {"name": "ours", "namespace": premises.namespace}
    stored = premises.lab.api.apply(policy | {"metadata": metadata, "spec": {"rollback": {"cooldown": "2h"}}})
    premises.rollout(policyRef={"kind": "RolloutPolicy", "name": "ours"}, steps=[{"weight": 20, "bake": "1h"}])
    async with operating():
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        premises.lab.api.delete(premises.lab.api.path_of(stored))
        await premises.until_reason("InvalidSpec")
        assert premises.status()["verdict"] == "SourceDown"
        assert premises.weight() == 20
        # What lowers needs no spec: a candidate that is gone loses its traffic.
        premises.lab.set_ready(premises.namespace, CANDIDATE, ready=False)
        await premises.until(lambda: premises.serves(0), "the traffic is taken back")


async def test_the_finalizer_is_put_before_anything_is_done_to_the_route(
    premises: Premises, requests: list[str]
) -> None:
    premises.rollout()
    async with operating():
        await eventually(lambda: premises.marks() != {}, "the route is marked")
    assert premises.lab.api.get(premises.path())["metadata"]["finalizers"] == [FINALIZER]
    first = next(index for index, line in enumerate(requests) if "/httproutes/" in line)
    assert f"PATCH {premises.path()}" in requests[:first]


async def test_a_baseline_without_endpoints_is_waited_for(premises: Premises) -> None:
    premises.lab.set_ready(premises.namespace, BASELINE, ready=False)
    premises.rollout()
    async with operating():
        status = await premises.until_reason("BaselineNotReady")
        assert BASELINE in status["message"]
        assert premises.weight() == 0
        premises.lab.set_ready(premises.namespace, BASELINE, ready=True)
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")


async def test_a_raise_that_is_refused_is_held_and_said_and_goes_on_when_it_is_allowed(premises: Premises) -> None:
    premises.rollout()
    ceiling = no_weight_of(premises, 50)
    await eventually(partial(refuses, premises, 50), "the policy holds")
    async with operating():
        status = await premises.until_reason("RouteUnfit")
        assert (status["phase"], status["weight"]["requested"], premises.weight()) == ("Held", 20, 20)
        assert "not above 20" in status["message"]
        for path in ceiling:
            premises.lab.api.delete(path)
        await premises.until_phase("Promoted", within=120)


def no_weight_of(premises: Premises, percent: int) -> list[str]:
    """Let a policy of the platform team refuse routes of the namespace that give a backend this weight."""
    name = f"ceiling-{premises.namespace}"
    group = "admissionregistration.k8s.io/v1"
    expression = f"object.spec.rules.all(r, r.backendRefs.all(b, !has(b.weight) || b.weight != {percent}))"
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": premises.namespace}}}
    rules = [
        {
            "apiGroups": ["gateway.networking.k8s.io"],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": ["httproutes"],
        }
    ]
    policy = {
        "matchConstraints": where | {"resourceRules": rules},
        "validations": [{"expression": expression, "message": "not above 20 in this namespace"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    made = [("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)]
    return [
        premises.lab.api.path_of(
            premises.lab.api.apply({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec})
        )
        for kind, spec in made
    ]


def refuses(premises: Premises, percent: int) -> bool:
    """Whether the API server would refuse a route of the namespace with this weight."""
    rules = premises.lab.api.get(premises.route_path())["spec"]["rules"]
    rules[0]["backendRefs"][0]["weight"] = percent
    try:
        premises.lab.api.merge(f"{premises.route_path()}?dryRun=All", {"spec": {"rules": rules}})
    except ApiError:
        return True
    return False
