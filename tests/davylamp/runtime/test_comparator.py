"""The comparator as a process on a real API server: it learns its rollouts by itself, and ends when it is told to."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
import structlog
from aiohttp import web
from structlog.testing import capture_logs

from davylamp.core.model import Phase, Ruling
from davylamp.errors import SpecError
from davylamp.runtime.comparator import ComparatorProcess, main, redact
from davylamp.runtime.comparator_settings import ComparatorSettings
from davylamp.runtime.comparator_watch import Collection
from davylamp.shadow.captures_key import HEADER
from e2e.lab import Lab
from tests.davylamp.runtime.mirroring import rollout, status
from tests.davylamp.runtime.waiting import eventually, eventually_so
from tests.davylamp.shadow.servers import KEY, key_file
from tests.support.installation import kustomized

Object = dict[str, Any]
INFER: Final = "/v2/models/credit/infer"
_READS: Final = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@dataclass
class Premises:
    """A namespace with both variants behind Services, and the comparator's account in it."""

    lab: Lab
    namespace: str
    host: str
    kubeconfig: Path
    #: By variant, the requests that it got.
    served: dict[str, list[str]] = field(default_factory=dict)

    def install(self) -> None:
        for manifest in kustomized("manifests/comparator"):
            if manifest["kind"] in _READS:
                text = json.dumps(manifest).replace('"ml"', f'"{self.namespace}"').replace("-ml", f"-{self.namespace}")
                self.lab.api.apply(json.loads(text))

    def path(self, name: str = "credit") -> str:
        return f"/apis/davylamp.dev/v1alpha1/namespaces/{self.namespace}/modelrollouts/{name}"

    def rollout(self, name: str = "credit", step: int = 0, **spec: Any) -> Object:
        """Make or change a rollout that stands at a step."""
        manifest = rollout(name, self.namespace, **spec)
        for mark in ("uid", "creationTimestamp", "resourceVersion", "generation"):
            del manifest["metadata"][mark]
        self.lab.api.apply(manifest)
        return self.stand(name, step)

    def stand(self, name: str = "credit", step: int = 0, **changes: Any) -> Object:
        """Let the attempt of a rollout stand at a step."""
        manifest = self.lab.api.get(self.path(name))
        stood: Object = self.lab.api.merge(f"{self.path(name)}/status", {"status": status(manifest, step, **changes)})
        return stood

    @property
    def settings(self) -> ComparatorSettings:
        # Lists so seldom that only a watch can show a change while a test waits.
        return ComparatorSettings(self.namespace, host=self.host, port=0, resolve_endpoints=True, relist_every=3600)


@asynccontextmanager
async def variant(host: str, answer: Object, requests: list[str]) -> AsyncIterator[None]:
    """Serve a variant that gives the same answer to everything."""

    async def handle(request: web.Request) -> web.Response:
        requests.append(request.path)
        return web.json_response(answer)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, 8080).start()
    try:
        yield
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture
async def premises(
    installed_lab: Lab, control_plane: Lab, lab_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Premises]:
    lab = control_plane
    opened = Premises(lab, lab_namespace, lab.address(), Path())
    opened.install()
    opened.kubeconfig = await asyncio.to_thread(lab.kubeconfig_for, lab_namespace, "davylamp-shadow")
    monkeypatch.setenv("KUBECONFIG", str(opened.kubeconfig))
    scores = {"credit-fp32": 0.9, "credit-int8": 0.1}
    async with _both(lab, opened, scores):
        yield opened
    for found in lab.api.get(opened.path().rpartition("/")[0])["items"]:
        lab.api.delete(opened.path(found["metadata"]["name"]))
    lab.api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/davylamp-shadow-{lab_namespace}")


@asynccontextmanager
async def _both(lab: Lab, opened: Premises, scores: dict[str, float]) -> AsyncIterator[None]:
    (first, score), (second, other) = scores.items()
    for name in scores:
        opened.served[name] = []
    hosts = {name: lab.address() for name in scores}
    for name, host in hosts.items():
        lab.publish_service(opened.namespace, name, 8080, [host])
    async with (
        variant(hosts[first], _answer(score), opened.served[first]),
        variant(hosts[second], _answer(other), opened.served[second]),
    ):
        yield


def _answer(score: float) -> Object:
    output = {"name": "probability", "datatype": "FP64", "shape": [1, 1], "data": [score]}
    return {"model_name": "credit", "outputs": [output]}


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


@asynccontextmanager
async def comparing(settings: ComparatorSettings) -> AsyncIterator[ComparatorProcess]:
    """Run the comparator in the loop of the test, until it has read everything."""
    process, stop = ComparatorProcess(settings), asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    try:
        await eventually(lambda: process.comparator.admin_port or task.done(), "it has started")
        yield process
        assert not task.done(), task.exception()
    finally:
        stop.set()
        await task


def serves(process: ComparatorProcess, premises: Premises, name: str = "credit") -> bool:
    return process.comparator.ports_of(premises.namespace, name) is not None


async def fetched(
    process: ComparatorProcess, premises: Premises, path: str, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    url = f"http://{premises.host}:{process.comparator.admin_port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def mirrored(premises: Premises, port: int, number: int) -> None:
    """Mirror requests as a gateway does."""
    async with aiohttp.ClientSession() as session:
        for index in range(number):
            url, headers = f"http://{premises.host}:{port}{INFER}", {"x-request-id": f"request-{index}"}
            async with session.post(url, json={"inputs": []}, headers=headers) as answer:
                assert answer.status == 202


# What it serves.


async def test_it_serves_a_rollout_from_the_step_that_mirrors_to_the_one_that_does_not(premises: Premises) -> None:
    async with comparing(premises.settings) as process:
        await eventually_so(ready(process, premises), "it is ready")
        premises.rollout(step=-1, shadow={"comparator": {"port": 8097}})
        assert not serves(process, premises)
        premises.stand(step=0)
        await eventually(lambda: serves(process, premises), "it is served")
        assert process.comparator.ports_of(premises.namespace, "credit") == (8097, 8197)
        premises.stand(step=1)
        await eventually(lambda: not serves(process, premises), "it is left")


@pytest.mark.parametrize("end", ["rollback", "deletion"])
async def test_a_rollout_that_ends_is_left_at_once(premises: Premises, end: str) -> None:
    premises.rollout()
    async with comparing(premises.settings) as process:
        await eventually(lambda: serves(process, premises), "it is served")
        if end == "rollback":
            premises.stand(phase=Phase.ROLLING_BACK, ruling=Ruling.ROLLBACK)
        else:
            premises.lab.api.delete(premises.path())
        await eventually(lambda: not serves(process, premises), "it is left")


async def test_requests_are_answered_by_both_variants_and_the_pairs_are_counted(
    premises: Premises, tmp_path: Path
) -> None:
    steps = [{"shadow": {"sample": "100%"}}, {"weight": 20}]
    premises.rollout(steps=steps, shadow={"noise": "0%", "capture": {"pairs": 2, "redact": ["$.model_name"]}})
    async with comparing(replace(premises.settings, captures_key_file=key_file(tmp_path))) as process:
        await eventually(lambda: serves(process, premises), "it is served")
        await mirrored(premises, 8090, 20)
        labels = {"namespace": premises.namespace, "rollout": "credit", "pair": "candidate"}
        count = process.comparator.registry.get_sample_value
        name = "davylamp_shadow_disagreements_total"
        await eventually(lambda: count(name, labels) == 20, "every pair is compared")
        assert {name: len(requests) for name, requests in premises.served.items()} == {
            "credit-fp32": 20,
            "credit-int8": 20,
        }
        assert (await fetched(process, premises, f"/captures/{premises.namespace}/credit"))[0] == 403
        _, text = await fetched(process, premises, f"/captures/{premises.namespace}/credit", {HEADER: KEY})
        pairs = json.loads(text)["pairs"]
        assert len(pairs) == 2
        assert '"model_name": "[redacted]"' in pairs[0]["candidate"]["text"]
        assert '"data": [0.1]' in pairs[0]["candidate"]["text"]


async def test_without_endpoints_variants_are_called_by_the_names_of_their_services(premises: Premises) -> None:
    premises.rollout(steps=[{"shadow": {"sample": "100%"}}, {"weight": 20}], shadow={"noise": "0%", "timeout": "1s"})
    async with comparing(replace(premises.settings, resolve_endpoints=False)) as process:
        await eventually(lambda: serves(process, premises), "it is served")
        await mirrored(premises, 8090, 1)
        labels = {"namespace": premises.namespace, "rollout": "credit", "reason": "BaselineFailed"}
        count = process.comparator.registry.get_sample_value
        name = "davylamp_shadow_incomparable_pairs_total"
        await eventually(lambda: count(name, labels) == 1, "the lab has no DNS, so the baseline fails")
        assert premises.served == {"credit-fp32": [], "credit-int8": []}


async def test_a_policy_that_comes_or_changes_later_counts_at_once(premises: Premises) -> None:
    cluster = {"apiVersion": "davylamp.dev/v1alpha1", "kind": "ClusterRolloutPolicy"}
    name = premises.namespace
    premises.rollout(policyRef={"kind": "ClusterRolloutPolicy", "name": name})
    count = "davylamp_shadow_refused_rollouts"
    async with comparing(premises.settings) as process:
        sample = process.comparator.registry.get_sample_value
        await eventually(lambda: sample(count, {"reason": "WrongSpec"}) == 1, "its policy is missed")
        assert not serves(process, premises)
        made = cluster | {"metadata": {"name": name}, "spec": {"shadow": {"concurrency": 2}}}
        premises.lab.api.apply(made)
        await eventually(lambda: serves(process, premises), "it is served")
        assert sample(count, {"reason": "WrongSpec"}) == 0
    premises.lab.api.delete(f"/apis/davylamp.dev/v1alpha1/clusterrolloutpolicies/{name}")


async def test_of_two_rollouts_on_one_port_the_older_is_served_and_the_other_is_told(
    premises: Premises, logs: list[Any]
) -> None:
    premises.rollout("older")
    # Creation times are whole seconds, and of two in the same second the uid decides.
    created = premises.lab.api.get(premises.path("older"))["metadata"]["creationTimestamp"]

    async def younger() -> bool:
        premises.lab.api.delete(premises.path("younger"))
        premises.rollout("younger")
        found = premises.lab.api.get(premises.path("younger"))["metadata"]["creationTimestamp"]
        return bool(found > created)

    await eventually_so(younger, "the younger is a second younger")
    async with comparing(premises.settings) as process:
        await eventually(lambda: serves(process, premises, "older"), "the older is served")
        assert not serves(process, premises, "younger")
        (told,) = [line for line in logs if line["event"] == "rollout_refused"]
        assert (told["rollout"], told["reason"]) == (f"{premises.namespace}/younger", "PortTaken")
        sample = process.comparator.registry.get_sample_value
        assert sample("davylamp_shadow_refused_rollouts", {"reason": "PortTaken"}) == 1
        premises.lab.api.delete(premises.path("older"))
        await eventually(lambda: serves(process, premises, "younger"), "the younger is served")
        assert sample("davylamp_shadow_refused_rollouts", {"reason": "PortTaken"}) == 0


async def test_rollouts_of_other_namespaces_are_not_its_business(premises: Premises) -> None:
    async with comparing(replace(premises.settings, service="another")) as process:
        premises.rollout()
        await eventually_so(ready(process, premises), "it is ready")
        assert not serves(process, premises)


# Probes.


def ready(process: ComparatorProcess, premises: Premises) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return await fetched(process, premises, "/readyz") == (200, "ok")

    return asked


async def test_it_is_ready_once_everything_was_listed_and_alive_before(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await asyncio.to_thread(premises.lab.kubeconfig_for, premises.namespace, "default")
    monkeypatch.setenv("KUBECONFIG", str(file))
    async with comparing(premises.settings) as process:
        sample = process.comparator.registry.get_sample_value
        refused = {"kind": "SpecError"}
        await eventually(lambda: sample("davylamp_shadow_api_errors_total", refused), "it may not list")
        assert await fetched(process, premises, "/readyz") == (503, "the rollouts are not known yet")
        assert await fetched(process, premises, "/healthz") == (200, "ok")


async def test_a_port_that_is_taken_ends_it(premises: Premises) -> None:
    server = await asyncio.start_server(lambda *_: None, premises.host, 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(SpecError, match=f"cannot listen on {premises.host}:{port}"):
        await ComparatorProcess(replace(premises.settings, port=port)).run()
    server.close()


async def test_a_part_that_ends_by_a_defect_ends_the_process(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Collection, "keep", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        await ComparatorProcess(premises.settings).run()


# Beginning and end.


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    handlers = list(logging.root.handlers)
    yield
    structlog.reset_defaults()
    logging.root.handlers = handlers


async def test_the_process_ends_at_sigterm_and_its_log_holds_no_body(premises: Premises, tmp_path: Path) -> None:
    premises.rollout(steps=[{"shadow": {"sample": "100%"}}, {"weight": 20}], shadow={"noise": "0%"})
    log = tmp_path / "log"
    words = ["shadow", "--namespace", premises.namespace, "--listen", f"{premises.host}:0", "--resolve-endpoints"]
    command = [sys.executable, "-c", "import sys; from davylamp.cli.app import run; run(sys.argv[1:])", *words]
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(*command, stderr=output)
        await eventually(lambda: "rollout_shadowed" in log.read_text(), "it serves")
        await mirrored(premises, 8090, 5)
        await eventually(lambda: len(premises.served["credit-int8"]) == 5, "the candidate was asked")
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0, log.read_text()
    text = log.read_text()
    assert '"event": "stopped"' in text
    for never in ("Traceback", "inputs", "outputs", "request-1"):
        assert never not in text


def test_a_wrong_setting_ends_with_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAVYLAMP_NAMESPACE", "ml")
    with pytest.raises(SystemExit) as ended:
        main({"DAVYLAMP_LISTEN": "nowhere"})
    assert ended.value.code == 2
    words = "davylamp: DAVYLAMP_LISTEN must be address:port, such as 0.0.0.0:8080, got 'nowhere'\n"
    assert capsys.readouterr().err == words


def test_no_way_to_a_cluster_ends_with_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(SystemExit) as ended:
        main({"DAVYLAMP_NAMESPACE": "ml"})
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("davylamp: no service account and no usable kubeconfig")


def test_what_is_no_text_is_not_kept() -> None:
    assert redact(b"one\ntwo", ()) == b"one\ntwo"
    assert redact(b"\xff\x00", ()).startswith(b"[redacted] 2 bytes")
    assert redact(b'{"a": 1, "b": 2}', ("$.a",)) == b'{"a": "[redacted]", "b": 2}'
