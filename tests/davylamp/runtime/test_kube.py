"""What the API server says becomes an error by what the caller does next: on a real one, and on hostile ones."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientTimeout, web
from kubernetes.aio import client

from davylamp.errors import Conflict, DavylampError, NotFound, SpecError, Unavailable
from davylamp.runtime import kube as module
from davylamp.runtime.kube import JSON_PATCH, Allowance, Kube, connect
from davylamp.runtime.settings import Settings
from tests.davylamp.runtime.premises import Premises

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answered_by(handler: Handler, **options: Any) -> AsyncIterator[tuple[Kube, list[str]]]:
    """Yield a client of a server on loopback, and the failures that were told."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    configuration.api_key = {"BearerToken": "Bearer first"}
    failures: list[str] = []
    kube = Kube(client.ApiClient(configuration), Allowance(1000, 1000), failures.append, **options)
    try:
        yield kube, failures
    finally:
        await kube.close()
        await runner.cleanup()


def always(status: int, body: str = "{}", content_type: str = "application/json") -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body, content_type=content_type)

    return handle


# On a real API server.


async def test_what_does_not_exist_is_not_found(own_kube: Kube, lab_namespace: str) -> None:
    with pytest.raises(NotFound, match="credit"):
        await own_kube.get(f"/apis/davylamp.dev/v1alpha1/namespaces/{lab_namespace}/modelrollouts/credit")


async def test_a_kind_that_is_not_installed_is_not_found(admin_kube: Kube) -> None:
    with pytest.raises(NotFound):
        await admin_kube.list("/apis/example.org/v1/things")


async def test_a_failed_test_of_a_patch_is_a_conflict(own_kube: Kube, premises: Premises) -> None:
    rollout = premises.rollout()
    body = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/status", "value": {"phase": "Pending"}},
    ]
    with pytest.raises(Conflict):
        await own_kube.patch(premises.path() + "/status", body, JSON_PATCH, "davylamp")
    assert rollout["metadata"]["resourceVersion"] != "1"


async def test_an_old_version_is_a_conflict(own_kube: Kube, premises: Premises) -> None:
    premises.rollout()
    body = {"metadata": {"resourceVersion": "1", "finalizers": ["davylamp.dev/route"]}}
    with pytest.raises(Conflict):
        await own_kube.patch(premises.path(), body, "application/merge-patch+json", "davylamp")


async def test_what_validation_refuses_is_the_callers_to_change(own_kube: Kube, premises: Premises) -> None:
    premises.rollout()
    body = [{"op": "add", "path": "/status", "value": {"phase": "Splendid"}}]
    with pytest.raises(SpecError, match="Splendid"):
        await own_kube.patch(premises.path() + "/status", body, JSON_PATCH, "davylamp")


async def test_what_an_admission_policy_refuses_is_the_callers_to_change(own_kube: Kube, premises: Premises) -> None:
    premises.route()
    body = [{"op": "add", "path": "/metadata/labels", "value": {"mine": "now"}}]
    with pytest.raises(SpecError, match="davylamp-routes"):
        await own_kube.patch(premises.route_path(), body, JSON_PATCH, "davylamp")


async def test_what_is_forbidden_is_the_callers_to_change(own_kube: Kube) -> None:
    with pytest.raises(SpecError, match="forbidden"):
        await own_kube.list("/api/v1/namespaces/kube-system/secrets")


def kubeconfig_with_token(account: Path, copy: Path, token: str | None) -> None:
    document = yaml.safe_load(account.read_text("utf-8"))
    if token is not None:
        document["users"][0]["user"]["token"] = token
    copy.write_text(yaml.safe_dump(document))


async def test_credentials_that_nobody_knows_may_be_known_again(account: Path, tmp_path: Path) -> None:
    copy = tmp_path / "kubeconfig"
    kubeconfig_with_token(account, copy, "expired")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(copy))
        kube = await connect(Settings(), lambda _: None)
        kubeconfig_with_token(account, copy, None)
        with pytest.raises(Unavailable, match="401"):
            await kube.list("/apis/davylamp.dev/v1alpha1/modelrollouts")
        assert (await kube.list("/apis/davylamp.dev/v1alpha1/modelrollouts"))["kind"] == "ModelRolloutList"
        await kube.close()


async def test_without_any_configuration_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(SpecError, match="no service account and no usable kubeconfig"):
        await connect(Settings(), lambda _: None)


async def test_a_kubeconfig_that_is_no_yaml_is_said_to_be_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("clusters: [", encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(SpecError, match="no usable kubeconfig"):
        await connect(Settings(), lambda _: None)


# On servers that answer badly.


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, Unavailable),
        (403, SpecError),
        (404, NotFound),
        (405, SpecError),
        (409, Conflict),
        (410, NotFound),
        (415, SpecError),
        (422, Conflict),
        (429, Unavailable),
        (500, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
    ],
)
async def test_each_refusal_has_its_error(status: int, error: type[DavylampError]) -> None:
    async with answered_by(always(status)) as (kube, failures):
        with pytest.raises(DavylampError) as caught:
            await kube.get("/api/v1/namespaces/a")
    assert type(caught.value) is error
    assert failures == [error.__name__]


@pytest.mark.parametrize(
    "body",
    [
        "<html>log in</html>",
        "",
        "[]",
        "null",
        "7",
        '"text"',
        '{"kind":',
        "\ud800".encode("utf-16", "surrogatepass").decode("latin-1"),
    ],
)
async def test_an_answer_that_is_no_object_is_no_answer(body: str) -> None:
    async with answered_by(always(200, body)) as (kube, _):
        with pytest.raises(Unavailable, match="not an object"):
            await kube.get("/api/v1/namespaces/a")


@pytest.mark.parametrize("body", ["{}", '{"items": null}', '{"items": {}}'])
async def test_an_answer_that_is_no_list_is_no_answer(body: str) -> None:
    async with answered_by(always(200, body)) as (kube, _):
        with pytest.raises(Unavailable, match="not a list"):
            await kube.list("/api/v1/namespaces")


async def test_a_page_of_a_proxy_is_an_outage_and_is_not_shown_at_length() -> None:
    async with answered_by(always(503, "<html>" + "x" * 10000, "text/html")) as (kube, _):
        with pytest.raises(Unavailable) as caught:
            await kube.get("/api/v1/namespaces/a")
    assert str(caught.value) == "the API server answered GET /api/v1/namespaces/a with 503: status 503"


async def test_words_of_the_server_are_cut() -> None:
    async with answered_by(always(403, json.dumps({"message": "w" * 9000}))) as (kube, _):
        with pytest.raises(SpecError) as caught:
            await kube.get("/api/v1/namespaces/a")
    assert len(str(caught.value)) < 600


async def test_a_refused_connection_is_an_outage() -> None:
    async with answered_by(always(200)) as (kube, failures):
        kube._api.configuration.host = "http://127.0.0.1:1"
        with pytest.raises(Unavailable, match="did not answer GET /api/v1/namespaces/a"):
            await kube.get("/api/v1/namespaces/a")
    assert failures == ["Unavailable"]


async def test_an_answer_that_is_cut_off_is_an_outage() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"metadata": {')
        assert request.transport is not None
        request.transport.abort()
        return response

    async with answered_by(cut) as (kube, _):
        with pytest.raises(Unavailable):
            await kube.get("/api/v1/namespaces/a")


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.sleep(600)
        raise AssertionError

    monkeypatch.setattr(module, "_TIMEOUT", ClientTimeout(total=0.2))
    async with answered_by(hang) as (kube, _):
        with pytest.raises(Unavailable, match="TimeoutError"):
            await kube.get("/api/v1/namespaces/a")
    assert asked.is_set()


async def test_a_write_is_never_sent_twice_by_itself() -> None:
    seen: list[str] = []

    async def fail(request: web.Request) -> web.StreamResponse:
        seen.append(request.method)
        return web.Response(status=503)

    async with answered_by(fail) as (kube, _):
        with pytest.raises(Unavailable):
            await kube.patch("/api/v1/namespaces/a", [], JSON_PATCH, "davylamp")
        with pytest.raises(Unavailable):
            await kube.replace("/api/v1/namespaces/a", {})
    assert seen == ["PATCH", "PUT"]


async def test_expired_credentials_are_read_anew_and_not_again_and_again() -> None:
    tokens: list[str] = []
    reread = 0

    async def check(request: web.Request) -> web.StreamResponse:
        tokens.append(request.headers["Authorization"])
        return web.Response(status=200 if tokens[-1] == "Bearer third" else 401, text="{}")

    async def read() -> client.Configuration:
        nonlocal reread
        reread += 1
        configuration = client.Configuration()
        configuration.api_key = {"BearerToken": f"Bearer {['second', 'third'][reread - 1]}"}
        return configuration

    async with answered_by(check, reread=read) as (kube, _):
        for _ in range(3):
            with pytest.raises(Unavailable):
                await kube.get("/api/v1/namespaces/a")
        assert tokens == ["Bearer first", "Bearer second", "Bearer second"]
        kube._reread_at -= 60
        with pytest.raises(Unavailable):
            await kube.get("/api/v1/namespaces/a")
        await kube.get("/api/v1/namespaces/a")
    assert tokens[-1] == "Bearer third"


async def test_a_configuration_that_cannot_be_read_any_more_keeps_the_old_credentials() -> None:
    async def unreadable() -> client.Configuration:
        raise SpecError("gone")

    async with answered_by(always(401), reread=unreadable) as (kube, _):
        with pytest.raises(Unavailable):
            await kube.get("/api/v1/namespaces/a")
        assert kube._api.configuration.api_key == {"BearerToken": "Bearer first"}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/a/secrets/../../kube-system/secrets/x",
        "/api/v1/namespaces/a/secrets/..",
        "/api/v1/namespaces/a/secrets/",
        "/api/v1/namespaces//secrets/x",
        "/api/v1/namespaces/a/secrets/x?watch=1",
        "/api/v1/namespaces/a/secrets/%2e%2e",
        "/api/v1/namespaces/a/secrets/x#y",
        "/api/v1/namespaces/a/secrets/x\ny",
        "/api/v1/namespaces/a/secrets/ü",
        "@example.org/api",
    ],
)
async def test_a_name_never_leads_to_another_object(path: str) -> None:
    asked: list[str] = []

    async def record(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(text="{}")

    async with answered_by(record) as (kube, _):
        with pytest.raises(SpecError, match="not the path of an object"):
            await kube.get(path)
    assert asked == []


# The limit on requests.


async def taken_at(allowance: Allowance, count: int, *, urgent: bool) -> list[float]:
    loop = asyncio.get_running_loop()
    start, times = loop.time(), []
    for _ in range(count):
        await allowance.take(urgent=urgent)
        times.append(loop.time() - start)
    return times


async def test_a_burst_goes_at_once_and_the_rest_by_the_rate() -> None:
    naps: list[float] = []
    allowance = Allowance(10, 5)
    with pytest.MonkeyPatch.context() as patch:

        async def nap(seconds: float) -> None:
            naps.append(seconds)

        patch.setattr(asyncio, "sleep", nap)
        for _ in range(8):
            await allowance.take(urgent=False)
    assert [round(nap, 1) for nap in naps] == [0.1, 0.2, 0.3]


async def test_what_is_urgent_does_not_wait_and_leaves_a_debt() -> None:
    naps: list[float] = []
    allowance = Allowance(10, 5)
    with pytest.MonkeyPatch.context() as patch:

        async def nap(seconds: float) -> None:
            naps.append(seconds)

        patch.setattr(asyncio, "sleep", nap)
        for _ in range(25):
            await allowance.take(urgent=True)
        assert naps == []
        await allowance.take(urgent=False)
    assert round(naps[0], 1) == 2.1


async def test_a_patch_passes_a_queue_of_reads() -> None:
    order: list[str] = []

    async def record(request: web.Request) -> web.StreamResponse:
        order.append(request.method)
        return web.Response(text="{}")

    async with answered_by(record) as (kube, _):
        kube._allowance = Allowance(5, 1)
        reads = [asyncio.create_task(kube.get("/api/v1/namespaces/a")) for _ in range(4)]
        await asyncio.sleep(0)
        await kube.patch("/api/v1/namespaces/a", [], JSON_PATCH, "davylamp")
        assert order.count("GET") <= 1
        await asyncio.gather(*reads)
    assert sorted(order) == ["GET"] * 4 + ["PATCH"]
