"""One source object for all rollouts that name it, replaced when its MetricSource changes and closed when it goes."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from davylamp.core.looking import FIRST_WINDOW, LONGEST_GAP, window_for
from davylamp.core.reading import Reading
from davylamp.errors import SpecError, Unavailable
from davylamp.runtime.blueprint import Blueprint, blueprint
from davylamp.runtime.catalogue import Catalogue, Name
from davylamp.runtime.clock import SystemClock
from davylamp.runtime.kube import Kube
from davylamp.runtime.reading import Sources
from tests.davylamp.runtime.premises import Premises
from tests.support.installation import NAMESPACE

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def catalogue(own_kube: Kube, premises: Premises) -> Catalogue:
    return Catalogue(own_kube, (premises.namespace,))


@pytest_asyncio.fixture
async def sources(own_kube: Kube, catalogue: Catalogue) -> AsyncIterator[Sources]:
    made = Sources(own_kube, SystemClock(), catalogue, NAMESPACE)
    await catalogue.relist()
    yield made
    await made.close()


@pytest.fixture
def drawn(catalogue: Catalogue, premises: Premises) -> Blueprint:
    return blueprint(premises.rollout(), catalogue)


async def read(sources: Sources, drawn: Blueprint, premises: Premises) -> Reading:
    now = SystemClock().now()
    return await sources.read(drawn, premises.namespace, (now - timedelta(seconds=5), now))


def change(premises: Premises, **prometheus: Any) -> None:
    spec = {"address": premises.prometheus.address, "timeout": "3s", **prometheus}
    kind = {"apiVersion": "davylamp.dev/v1alpha1", "kind": "MetricSource"}
    premises.lab.api.apply(kind | {"metadata": {"name": premises.namespace}, "spec": {"prometheus": spec}})


async def test_one_object_serves_all_looks(sources: Sources, drawn: Blueprint, premises: Premises) -> None:
    reading = await read(sources, drawn, premises)
    assert set(reading.signals) == {"errors", "latency"}
    first = sources._open[premises.namespace]
    await read(sources, drawn, premises)
    assert sources._open[premises.namespace] is first


async def test_a_source_that_does_not_exist_is_named(sources: Sources, drawn: Blueprint, premises: Premises) -> None:
    with pytest.raises(SpecError, match="MetricSource none does not exist: the platform team creates it"):
        await read(sources, replace(drawn, source="none"), premises)


async def test_a_changed_source_is_opened_anew(
    sources: Sources, drawn: Blueprint, premises: Premises, catalogue: Catalogue
) -> None:
    await read(sources, drawn, premises)
    before = sources._open[premises.namespace]
    change(premises, headers=[{"name": "X-Scope-OrgID", "value": "ml"}])
    await catalogue.relist()
    await read(sources, drawn, premises)
    assert sources._open[premises.namespace] is not before
    assert before.retired
    assert premises.prometheus.headers[-1]["X-Scope-OrgID"] == "ml"


async def test_who_still_reads_from_a_replaced_source_ends_its_reading(
    sources: Sources, drawn: Blueprint, premises: Premises, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(sources, drawn, premises)
    before = sources._open[premises.namespace]
    entered, go_on, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    source_read, close = before.source.read, before.source.close

    async def slow(request: Any) -> Reading:
        entered.set()
        await go_on.wait()
        return await source_read(request)

    async def noted() -> None:
        closed.set()
        await close()

    monkeypatch.setattr(before.source, "read", slow)
    monkeypatch.setattr(before.source, "close", noted)
    reading = asyncio.create_task(read(sources, drawn, premises))
    await entered.wait()
    change(premises, maxSampleAge="30s")
    await catalogue.relist()
    await asyncio.gather(*(read(sources, drawn, premises) for _ in range(5)))
    assert not closed.is_set()
    go_on.set()
    assert set((await reading).signals) == {"errors", "latency"}
    assert closed.is_set()
    assert len(sources._open) == 1


async def test_a_source_that_is_deleted_is_closed(
    sources: Sources, drawn: Blueprint, premises: Premises, catalogue: Catalogue
) -> None:
    await read(sources, drawn, premises)
    premises.lab.api.delete(f"/apis/davylamp.dev/v1alpha1/metricsources/{premises.namespace}")
    await catalogue.relist()
    with pytest.raises(SpecError, match="does not exist"):
        await read(sources, drawn, premises)
    assert sources._open == {}


async def test_credentials_are_read_anew_when_they_change(
    sources: Sources, drawn: Blueprint, premises: Premises, catalogue: Catalogue
) -> None:
    def secret(**values: str) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        metadata = {"name": premises.namespace, "namespace": NAMESPACE}
        premises.lab.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    reference = {"name": premises.namespace}
    change(premises, auth={"bearerToken": reference | {"key": "token"}})
    await catalogue.relist()
    with pytest.raises(SpecError, match=f"Secret {NAMESPACE}/{premises.namespace} does not exist"):
        await read(sources, drawn, premises)
    for token in ("first", "second"):
        secret(token=token)
        await read(sources, drawn, premises)
        assert premises.prometheus.headers[-1]["Authorization"] == f"Bearer {token}"
    secret(token="t", name="metrics", word="pass")
    names = {"username": reference | {"key": "name"}, "password": reference | {"key": "word"}}
    change(premises, auth={"basic": names})
    await catalogue.relist()
    await read(sources, drawn, premises)
    assert premises.prometheus.headers[-1]["Authorization"] == "Basic " + base64.b64encode(b"metrics:pass").decode()


async def test_an_api_server_that_is_away_makes_no_source_down_for_good(
    sources: Sources, drawn: Blueprint, premises: Premises, catalogue: Catalogue, own_kube: Kube
) -> None:
    change(premises, auth={"bearerToken": {"name": "any", "key": "token"}})
    await catalogue.relist()
    host, own_kube._api.configuration.host = own_kube._api.configuration.host, "https://127.0.0.1:1"
    with pytest.raises(Unavailable):
        await read(sources, drawn, premises)
    own_kube._api.configuration.host = host
    change(premises)
    await catalogue.relist()
    await read(sources, drawn, premises)


async def test_a_source_that_an_older_schema_let_through_is_refused_by_its_name(
    sources: Sources, drawn: Blueprint, premises: Premises, catalogue: Catalogue
) -> None:
    metadata = {"name": premises.namespace, "resourceVersion": "1"}
    found = {"metadata": metadata, "spec": {"prometheus": {"address": 7}}}
    catalogue._others["MetricSource"][Name("", premises.namespace)] = found
    with pytest.raises(SpecError, match=f"MetricSource {premises.namespace}: "):
        await read(sources, drawn, premises)


@pytest.mark.parametrize(
    ("since", "window"),
    [
        (None, (NOW - FIRST_WINDOW, NOW)),
        (timedelta(seconds=10), (NOW - timedelta(seconds=10), NOW)),
        (LONGEST_GAP, (NOW - LONGEST_GAP, NOW)),
        (LONGEST_GAP + timedelta(seconds=1), (NOW - timedelta(seconds=60), NOW)),
        (timedelta(0), None),
        (-timedelta(seconds=1), None),
    ],
)
def test_windows_join_and_a_long_gap_begins_anew(
    since: timedelta | None, window: tuple[datetime, datetime] | None
) -> None:
    assert window_for(None if since is None else NOW - since, NOW) == window
