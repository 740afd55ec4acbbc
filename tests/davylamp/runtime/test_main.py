"""The operator as a whole: its beginning, its end, its probes, two of it, and what it never says."""

import asyncio
import base64
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from structlog.testing import capture_logs

from davylamp.core.moves import Decision
from davylamp.errors import SpecError
from davylamp.runtime.act import Actor
from davylamp.runtime.kube import Kube
from davylamp.runtime.main import Operator, main
from davylamp.runtime.publish import Turn
from e2e.lab import Lab
from tests.davylamp.runtime.conftest import LEASE
from tests.davylamp.runtime.premises import CANDIDATE, SETTINGS, Premises, operating
from tests.davylamp.runtime.waiting import eventually, eventually_so
from tests.support.installation import NAMESPACE

PLANTED = "planted-secret-0123456789"
STEADY = [{"weight": 20, "bake": "1h"}]


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


def lines(logs: list[Any], event: str) -> list[Any]:
    return [line for line in logs if line["event"] == event]


async def port_of(logs: list[Any]) -> int:
    (started,) = await eventually(lambda: lines(logs, "started"), "it has started")
    return int(started["port"])


async def fetched(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


# Beginning.


async def test_it_is_alive_and_ready_and_shows_its_metrics(premises: Premises, logs: list[Any]) -> None:
    premises.rollout()
    async with operating():
        port = await port_of(logs)

        async def ready() -> bool:
            return await fetched(port, "/readyz") == (200, "ok")

        await eventually_so(ready, "it is ready")
        assert await fetched(port, "/livez") == (200, "ok")

        async def shown() -> bool:
            _, text = await fetched(port, "/metrics")
            return (
                "davylamp_leader 1.0" in text
                and f'davylamp_phase{{name="credit",namespace="{premises.namespace}"' in text
            )

        await eventually_so(shown, "the rollout is shown")


async def test_without_rights_it_is_not_ready_and_says_what_is_missing(
    control_plane: Lab, lab_namespace: str, monkeypatch: pytest.MonkeyPatch, logs: list[Any]
) -> None:
    file = await asyncio.to_thread(control_plane.kubeconfig_for, lab_namespace, "default")
    monkeypatch.setenv("KUBECONFIG", str(file))
    async with operating(namespace=lab_namespace):
        port = await port_of(logs)
        (line,) = await eventually(lambda: lines(logs, "rights_missing"), "it says so")
        assert "patch httproutes.gateway.networking.k8s.io in the whole cluster" in line["may_not"]
        status, text = await fetched(port, "/readyz")
        assert status == 503
        assert f"update leases.coordination.k8s.io in namespace {lab_namespace}" in text
        assert (await fetched(port, "/livez"))[0] == 200


async def test_rights_that_are_given_later_are_found(
    control_plane: Lab, lab_namespace: str, monkeypatch: pytest.MonkeyPatch, logs: list[Any]
) -> None:
    file = await asyncio.to_thread(control_plane.kubeconfig_for, lab_namespace, "default")
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr("davylamp.runtime.main._RIGHTS_RETRY", 0.2)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": lab_namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": lab_namespace}],
    }
    async with operating(namespace=lab_namespace, watch_namespaces=(lab_namespace,)):
        port = await port_of(logs)
        await eventually(lambda: lines(logs, "rights_missing"), "it says so")
        control_plane.api.apply(binding)

        async def ready() -> bool:
            return (await fetched(port, "/readyz"))[0] == 200

        await eventually_so(ready, "it is ready")
    control_plane.api.delete(control_plane.api.path_of(binding))


async def test_it_serves_the_namespaces_it_is_told_and_no_others(premises: Premises, logs: list[Any]) -> None:
    premises.rollout()
    async with operating(watch_namespaces=("default",)):
        await eventually(lambda: lines(logs, "leadership"), "it leads")
        await asyncio.sleep(0)
        async with operating(identity="other", watch_namespaces=(premises.namespace,)):
            pass
    assert "status" not in premises.lab.api.get(premises.path())
    async with operating(watch_namespaces=(premises.namespace, "default")):
        await premises.until(lambda: "phase" in premises.status(), "it is served")


async def test_a_rollout_that_is_created_is_seen_at_once_by_a_hint(premises: Premises, logs: list[Any]) -> None:
    async with operating(kopf_hints=True, relist_every=timedelta(hours=1), watch_namespaces=(premises.namespace,)):
        await eventually(lambda: lines(logs, "leadership"), "it leads")
        premises.rollout(steps=STEADY)
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        premises.lab.set_ready(premises.namespace, CANDIDATE, ready=False)
        await premises.until(lambda: premises.serves(0), "the traffic is taken back")
        await premises.until_phase("RolledBack")
        premises.lab.api.delete(premises.path())
        await eventually(lambda: premises.lab.api.find(premises.path()) is None, "it is gone")


# The end.


async def test_an_act_that_is_under_way_ends_before_the_lease_is_released(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    premises.rollout(steps=STEADY)
    operator, stop, entered = Operator(SETTINGS), asyncio.Event(), asyncio.Event()
    holders: list[str] = []
    write = Actor._write

    async def slow(self: Actor, turn: Any, change: Any) -> None:
        if type(change).__name__ == "Raise":
            entered.set()
            stop.set()
        await write(self, turn, change)
        if type(change).__name__ == "Raise":
            await asyncio.sleep(1)  # an act that takes long, after the write: before it the gateway may get in between
            holders.append(premises.lab.api.get(LEASE)["spec"]["holderIdentity"])

    monkeypatch.setattr(Actor, "_write", slow)
    running = asyncio.create_task(operator.run(stop))
    await asyncio.wait_for(entered.wait(), 60)
    await running
    assert holders == ["under-test"]
    assert premises.weight() == 20
    assert premises.lab.api.get(LEASE)["spec"]["holderIdentity"] == ""


async def test_an_act_that_takes_too_long_is_cut_off(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    premises.rollout(steps=STEADY)
    operator, stop, cut = Operator(SETTINGS), asyncio.Event(), asyncio.Event()

    async def endless(_: Actor, __: Any, ___: Any) -> None:
        stop.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cut.set()
            raise

    monkeypatch.setattr(Actor, "_write", endless)
    monkeypatch.setattr("davylamp.runtime.main._LAST_ACTS", timedelta(seconds=0.2))
    await asyncio.wait_for(operator.run(stop), 60)
    assert cut.is_set()
    assert premises.lab.api.get(LEASE)["spec"]["holderIdentity"] == ""


async def test_a_loop_that_fails_ends_the_process_and_lets_another_lead(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, logs: list[Any]
) -> None:
    operator = Operator(SETTINGS)

    async def broken(*_: Any) -> None:
        await eventually(lambda: lines(logs, "leadership"), "it leads")
        raise RuntimeError("a bug")

    monkeypatch.setattr(operator, "_relist", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        await operator.run()
    assert premises.lab.api.get(LEASE)["spec"]["holderIdentity"] == ""


def test_the_process_ends_at_sigterm_and_releases_its_lease(premises: Premises, account: Path, tmp_path: Path) -> None:
    environment = os.environ | {
        "DAVYLAMP_NAMESPACE": NAMESPACE,
        "DAVYLAMP_LISTEN": "127.0.0.1:0",
        "DAVYLAMP_IDENTITY": "a-process",
        "DAVYLAMP_WATCH_NAMESPACES": premises.namespace,
    }
    log = tmp_path / "log"
    command = [sys.executable, "-c", "from davylamp.runtime.main import main; main()"]
    premises.rollout(steps=STEADY)
    with log.open("w") as output, subprocess.Popen(command, env=environment, stderr=output) as process:
        asyncio.run(eventually(lambda: premises.weight() == 20, "the candidate has traffic"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
    assert premises.lab.api.get(LEASE)["spec"]["holderIdentity"] == ""
    assert premises.weight() == 20
    text = log.read_text()
    assert '"event": "stopped"' in text
    assert "Traceback" not in text


def test_a_log_that_nobody_reads_stops_nothing(premises: Premises, account: Path) -> None:
    environment = os.environ | {"DAVYLAMP_LISTEN": "127.0.0.1:0", "DAVYLAMP_WATCH_NAMESPACES": premises.namespace}
    command = [sys.executable, "-c", "from davylamp.runtime.main import main; main()"]
    reader, writer = os.pipe()
    os.close(reader)
    premises.rollout(steps=STEADY)
    with subprocess.Popen(command, env=environment, stderr=writer) as process:
        os.close(writer)
        asyncio.run(eventually(lambda: premises.weight() == 20, "the candidate has traffic"))
        premises.lab.set_ready(premises.namespace, CANDIDATE, ready=False)
        asyncio.run(eventually(lambda: premises.weight() == 0, "the traffic is taken back"))
        process.terminate()
        assert process.wait(30) == 0


# Two of them.


async def test_a_standby_is_ready_does_nothing_and_takes_over_at_a_release(premises: Premises, logs: list[Any]) -> None:
    premises.rollout(steps=STEADY)
    async with operating(identity="second"):
        async with operating(identity="first") as first:
            pass
        assert first._epoch == 0
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        epoch = premises.status()["epoch"]
    async with operating(identity="first"):
        premises.lab.api.apply(premises.manifest(steps=[{"weight": 10, "bake": "1h"}]))
        await premises.until(lambda: premises.status().get("attempt", {}).get("number") == 2, "the next one goes on")
        assert premises.status()["epoch"] == epoch + 1


async def test_who_loses_the_lease_shows_no_state_and_looks_no_more(premises: Premises) -> None:
    premises.rollout(steps=STEADY)
    async with operating() as operator:
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        labels = {"namespace": premises.namespace, "name": "credit", "phase": "Progressing"}
        sample = operator._telemetry.registry.get_sample_value
        await eventually(lambda: sample("davylamp_phase", labels) == 1, "it is shown")
        premises.lab.api.merge(LEASE, {"spec": {"holderIdentity": "another", "leaseTransitions": 2_000_000_000}})
        await eventually(lambda: sample("davylamp_leader") == 0, "it does not lead")
        await eventually(lambda: sample("davylamp_phase", labels) is None, "nothing is shown")
        count = sample("davylamp_tick_seconds_count")
        premises.lab.api.apply(premises.manifest(steps=[{"weight": 10, "bake": "1h"}]))
        await eventually(lambda: operator._listed_at is not None, "it lists")
        assert sample("davylamp_tick_seconds_count") == count


async def test_a_look_that_outlives_the_lease_shows_nothing(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, losing, outlived, looks = Actor.act, asyncio.Event(), asyncio.Event(), []

    async def slow(self: Actor, turn: Turn, decision: Decision) -> bool:
        acted = await act(self, turn, decision)
        if losing.is_set() and not outlived.is_set():
            premises.lab.api.merge(LEASE, {"spec": {"holderIdentity": "another", "leaseTransitions": 2_100_000_000}})
            await eventually(lambda: sample("davylamp_leader") == 0, "it does not lead")
            looks.append(sample("davylamp_tick_seconds_count") or 0)
            outlived.set()
        return acted

    monkeypatch.setattr(Actor, "act", slow)
    premises.rollout(steps=STEADY)
    async with operating() as operator:
        sample = operator._telemetry.registry.get_sample_value
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        losing.set()
        await outlived.wait()
        await eventually(lambda: (sample("davylamp_tick_seconds_count") or 0) > looks[0], "the look has ended")
        labels = {"namespace": premises.namespace, "name": "credit", "phase": "Progressing"}
        assert sample("davylamp_phase", labels) is None


# What cannot begin.


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    handlers = list(logging.root.handlers)
    yield
    structlog.reset_defaults()
    logging.root.handlers = handlers


def run_main(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2


def test_a_wrong_setting_ends_with_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_main(monkeypatch, DAVYLAMP_LISTEN="nowhere")
    shown = capsys.readouterr().err
    assert shown == "davylamp: DAVYLAMP_LISTEN must be address:port, such as 0.0.0.0:8080, got 'nowhere'\n"


def test_no_configuration_ends_with_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_main(monkeypatch, KUBECONFIG=str(tmp_path / "none"))
    assert capsys.readouterr().err.startswith("davylamp: no service account and no usable kubeconfig")


async def test_a_port_that_is_taken_ends_it(account: Path) -> None:
    async with operating() as operator:
        del operator
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SpecError, match=f"cannot listen on 127.0.0.1:{port}"):
            await Operator(SETTINGS.__class__(host="127.0.0.1", port=port)).run()
        server.close()


# What is never said.


async def test_no_secret_reaches_a_log_a_status_an_event_or_a_metric(
    premises: Premises, logs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    api, namespace = premises.lab.api, premises.namespace
    caplog.set_level("DEBUG")

    def secret(where: str, name: str, **values: str) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": where}, "data": data})

    def binding() -> dict[str, Any]:
        subject = {"kind": "ServiceAccount", "name": "davylamp", "namespace": NAMESPACE}
        group = "rbac.authorization.k8s.io"
        return {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "davylamp-secrets", "namespace": namespace},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "davylamp-secrets"},
            "subjects": [subject],
        }

    api.apply(binding())
    secret(namespace, "people", url=f"http://127.0.0.1:1/services/{PLANTED}", key="0" * 20 + PLANTED[:12])
    secret(NAMESPACE, namespace, token=f"{PLANTED}-token", junk=f"{PLANTED} with a space")
    channels = {
        "ml-slack": {"slack": {"webhook": {"name": "people", "key": "url"}}},
        "oncall": {"pagerDuty": {"routingKey": {"name": "people", "key": "key"}}},
    }
    for name, spec in channels.items():
        kind = {"apiVersion": "davylamp.dev/v1alpha1", "kind": "NotificationChannel"}
        api.apply(kind | {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    def source(key: str, address: str) -> None:
        prometheus = {"address": address, "timeout": "1s", "auth": {"bearerToken": {"name": namespace, "key": key}}}
        kind = {"apiVersion": "davylamp.dev/v1alpha1", "kind": "MetricSource"}
        api.apply(kind | {"metadata": {"name": namespace}, "spec": {"prometheus": prometheus}})

    source("token", premises.prometheus.address)
    notify = [{"channel": name, "from": "Info"} for name in channels]
    premises.rollout(steps=STEADY, notify=notify)
    endpoints = {"slack": "http://127.0.0.1:1", "pagerDuty": "http://127.0.0.1:1"}
    async with operating(endpoints=endpoints) as operator:
        await premises.until(lambda: premises.serves(20), "the candidate has traffic")
        assert f"Bearer {PLANTED}-token" in {h.get("Authorization") for h in premises.prometheus.headers}
        for key, address in (("junk", premises.prometheus.address), ("token", "http://127.0.0.1:1")):
            source(key, address)
            await premises.until(lambda: premises.status().get("verdict") == "SourceDown", "the source fails")
            source("token", premises.prometheus.address)
            await premises.until(lambda: premises.status().get("verdict") != "SourceDown", "the source answers")
        await premises.until(lambda: bool(premises.status().get("outbox")), "messages wait")
        from prometheus_client import generate_latest

        metrics = generate_latest(operator._telemetry.registry).decode()
    shown = [repr(logs), caplog.text, metrics, repr(premises.events()), repr(api.get(premises.path()))]
    for planted in (PLANTED, PLANTED[:12]):
        assert [planted in text for text in shown] == [False] * len(shown)


async def test_hints_that_arrive_before_the_first_listing_cost_one_listing(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[str] = []
    read = Kube.list

    async def counted(self: Kube, path: str, query: Any = None) -> Any:
        if path.endswith("/modelrollouts"):
            lists.append(path)
        return await read(self, path, query)

    monkeypatch.setattr(Kube, "list", counted)
    for number in range(10):
        premises.rollout(f"many-{number}", paused=True)
    changes = {"kopf_hints": True, "relist_every": timedelta(hours=1), "watch_namespaces": (premises.namespace,)}
    async with operating(**changes):
        await premises.until_reason("PausedBySpec", name="many-9")
    assert 1 <= len(lists) <= 3
