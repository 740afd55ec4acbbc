"""The catalogue of a real API server's objects."""

import asyncio
from typing import Any

import pytest

from davylamp.api.v1alpha1.kinds import CLUSTER_ROLLOUT_POLICY, METRIC_SOURCE, NOTIFICATION_CHANNEL, ROLLOUT_POLICY
from davylamp.errors import NotFound, Unavailable
from davylamp.runtime.catalogue import Catalogue, Name, name_of
from davylamp.runtime.kube import Kube
from tests.davylamp.runtime.premises import Object, Premises


@pytest.fixture
def catalogue(own_kube: Kube, lab_namespace: str) -> Catalogue:
    return Catalogue(own_kube, (lab_namespace,))


def uid_of(manifest: Object) -> str:
    return str(manifest["metadata"]["uid"])


def with_status(premises: Premises, name: str, **status: Any) -> Object:
    changed: Object = premises.lab.api.merge(premises.path(name) + "/status", {"status": status})
    return changed


async def test_a_listing_shows_what_there_is(catalogue: Catalogue, premises: Premises) -> None:
    rollout = premises.rollout()
    await catalogue.relist()
    assert set(catalogue.rollouts) == {uid_of(rollout)}
    assert catalogue.find(METRIC_SOURCE, Name("", premises.namespace)) is not None
    assert catalogue.find(NOTIFICATION_CHANNEL, Name(premises.namespace, "none")) is None
    assert catalogue.find(CLUSTER_ROLLOUT_POLICY, Name("", "none")) is None
    assert catalogue.find(ROLLOUT_POLICY, Name(premises.namespace, "none")) is None


async def test_what_is_not_in_the_list_any_more_is_gone(catalogue: Catalogue, premises: Premises) -> None:
    gone, kept = premises.rollout("gone"), premises.rollout("kept")
    await catalogue.relist()
    premises.lab.api.delete(premises.path("gone"))
    assert uid_of(gone) in catalogue.rollouts
    await catalogue.relist()
    assert set(catalogue.rollouts) == {uid_of(kept)}


async def test_a_failed_listing_makes_nothing_gone(catalogue: Catalogue, premises: Premises, own_kube: Kube) -> None:
    rollout = premises.rollout()
    await catalogue.relist()
    premises.lab.api.delete(premises.path())
    own_kube._api.configuration.host = "https://127.0.0.1:1"
    with pytest.raises(Unavailable):
        await catalogue.relist()
    assert set(catalogue.rollouts) == {uid_of(rollout)}
    assert catalogue.find(METRIC_SOURCE, Name("", premises.namespace)) is not None


async def test_an_object_never_goes_back_in_time(catalogue: Catalogue, premises: Premises) -> None:
    older = premises.rollout()
    newer = premises.lab.api.apply(premises.manifest(paused=True))
    catalogue.keep(newer)
    catalogue.keep(older)
    assert catalogue.rollouts[uid_of(newer)] == newer


async def test_versions_are_compared_as_numbers(catalogue: Catalogue) -> None:
    def version(number: str) -> Object:
        metadata = {"uid": "u", "name": "credit", "namespace": "ml", "resourceVersion": number}
        return {"metadata": metadata, "spec": {"route": {"gatewayAPI": {"httpRoute": "credit"}}}}

    catalogue.keep(version("999"))
    catalogue.keep(version("1000"))
    assert catalogue.rollouts["u"] == version("1000")
    assert catalogue.knows("u", "1000")
    assert catalogue.knows("u", "999")
    assert not catalogue.knows("u", "1001")
    assert not catalogue.knows("u", "")
    assert not catalogue.knows("v", "1")


async def test_a_fresh_read_shows_a_change_and_an_end(catalogue: Catalogue, premises: Premises) -> None:
    rollout = premises.rollout()
    await catalogue.relist()
    premises.lab.api.apply(premises.manifest(paused=True))
    fresh = await catalogue.refresh(uid_of(rollout))
    assert fresh is not None
    assert fresh["spec"]["paused"] is True
    premises.lab.api.delete(premises.path())
    assert await catalogue.refresh(uid_of(rollout)) is None
    assert catalogue.rollouts == {}
    assert await catalogue.refresh(uid_of(rollout)) is None


async def test_an_object_of_the_same_name_is_another_object(catalogue: Catalogue, premises: Premises) -> None:
    before = premises.rollout()
    await catalogue.relist()
    premises.lab.api.delete(premises.path())
    after = premises.rollout()
    assert await catalogue.refresh(uid_of(before)) is None
    assert set(catalogue.rollouts) == {uid_of(after)}


async def test_of_two_on_one_route_the_younger_has_a_rival(catalogue: Catalogue, premises: Premises) -> None:
    first = premises.rollout("first")
    second = premises.lab.api.apply(premises.manifest("second", route={"gatewayAPI": {"httpRoute": "first"}}))
    other = premises.rollout("other")
    await catalogue.relist()
    rivals = {name: catalogue.rival(uid_of(rollout)) for name, rollout in (("1", first), ("2", second), ("3", other))}
    # Both may have been created within one second: then the lower uid counts as older.
    older, younger = sorted((first, second), key=lambda r: (r["metadata"]["creationTimestamp"], uid_of(r)))
    assert rivals["3"] is None
    assert catalogue.rival(uid_of(older)) is None
    assert catalogue.rival(uid_of(younger)) == name_of(older)


@pytest.mark.parametrize("phase", ["Promoted", "RolledBack"])
async def test_a_rollout_that_is_over_is_no_rival(catalogue: Catalogue, premises: Premises, phase: str) -> None:
    pair = [premises.rollout("first")]
    pair.append(premises.lab.api.apply(premises.manifest("second", route={"gatewayAPI": {"httpRoute": "first"}})))
    older, younger = sorted(pair, key=lambda r: (r["metadata"]["creationTimestamp"], uid_of(r)))
    with_status(premises, older["metadata"]["name"], phase=phase)
    await catalogue.relist()
    assert catalogue.rival(uid_of(younger)) is None


async def test_a_rollout_that_is_being_deleted_is_no_rival(catalogue: Catalogue, premises: Premises) -> None:
    pair = [premises.rollout("first")]
    pair.append(premises.lab.api.apply(premises.manifest("second", route={"gatewayAPI": {"httpRoute": "first"}})))
    older, younger = sorted(pair, key=lambda r: (r["metadata"]["creationTimestamp"], uid_of(r)))
    path = premises.path(older["metadata"]["name"])
    premises.lab.api.merge(path, {"metadata": {"finalizers": ["example.org/held"]}})
    premises.lab.api.delete(path)
    await catalogue.relist()
    assert uid_of(older) in catalogue.rollouts
    assert catalogue.rival(uid_of(younger)) is None


async def test_an_attempt_on_a_route_has_an_owner(catalogue: Catalogue, premises: Premises) -> None:
    first = premises.rollout("first")
    second = premises.lab.api.apply(premises.manifest("second", route={"gatewayAPI": {"httpRoute": "first"}}))
    await catalogue.relist()
    attempt = f"{uid_of(second)[:8]}-3"
    assert catalogue.owner(attempt, uid_of(first)) == name_of(second)
    assert catalogue.owner(attempt, uid_of(second)) is None
    assert catalogue.owner("00000000-1", uid_of(first)) is None
    assert catalogue.owner("", uid_of(first)) is None
    with_status(premises, "second", phase="RolledBack")
    await catalogue.relist()
    assert catalogue.owner(attempt, uid_of(first)) is None


async def test_rollouts_that_name_no_route_have_no_rival(catalogue: Catalogue) -> None:
    for number in ("1", "2"):
        metadata = {"uid": number, "name": f"r{number}", "namespace": "ml", "resourceVersion": number}
        catalogue.keep({"metadata": metadata, "spec": {}})
    assert catalogue.rival("1") is None
    assert catalogue.rival("2") is None


async def test_a_changed_route_changes_the_rivals(catalogue: Catalogue, premises: Premises) -> None:
    pair = [premises.rollout("first"), premises.rollout("second")]
    await catalogue.relist()
    assert [catalogue.rival(uid_of(rollout)) for rollout in pair] == [None, None]
    premises.lab.api.apply(premises.manifest("second", route={"gatewayAPI": {"httpRoute": "first"}}))
    await catalogue.relist()
    assert sum(catalogue.rival(uid_of(rollout)) is not None for rollout in pair) == 1
    premises.lab.api.delete(premises.path("first"))
    await catalogue.relist()
    assert catalogue.rival(uid_of(pair[1])) is None
    assert len(catalogue._by_route) == 1


async def test_an_older_listing_that_ends_later_undoes_nothing(
    catalogue: Catalogue, premises: Premises, own_kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    premises.rollout("first")
    read, entered, go_on = own_kube.list, asyncio.Event(), asyncio.Event()

    async def slow(path: str) -> Any:
        answer = await read(path)
        if path.endswith("/modelrollouts") and not entered.is_set():
            entered.set()
            await go_on.wait()
        return answer

    monkeypatch.setattr(own_kube, "list", slow)
    older = asyncio.create_task(catalogue.relist())
    await entered.wait()
    second = premises.rollout("second")
    newer = asyncio.create_task(catalogue.relist())
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(older, newer)
    assert uid_of(second) in catalogue.rollouts


async def test_only_the_namespaces_that_are_served_are_listed(
    own_kube: Kube, premises: Premises, lab_namespace: str
) -> None:
    premises.rollout()
    elsewhere = Catalogue(own_kube, ("default", "kube-public"))
    await elsewhere.relist()
    assert elsewhere.rollouts == {}
    everywhere = Catalogue(own_kube, ())
    await everywhere.relist()
    assert any(name_of(rollout).namespace == lab_namespace for rollout in everywhere.rollouts.values())


async def test_a_kind_that_is_not_installed_is_said(admin_kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    read = admin_kube.list

    async def without_policies(path: str) -> Any:
        return await read(path.replace("/rolloutpolicies", "/notinstalled"))

    monkeypatch.setattr(admin_kube, "list", without_policies)
    with pytest.raises(NotFound, match="notinstalled"):
        await Catalogue(admin_kube, ()).relist()
