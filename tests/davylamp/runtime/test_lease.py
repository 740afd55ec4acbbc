"""Leadership on a real API server; the durations by a clock that the test moves."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from davylamp.errors import Conflict, Unavailable
from davylamp.runtime.kube import Kube
from davylamp.runtime.lease import Leadership
from davylamp.runtime.settings import Settings
from e2e.lab import Lab
from tests.davylamp.runtime.clocks import HandClock
from tests.davylamp.runtime.conftest import LEASE
from tests.davylamp.runtime.waiting import eventually
from tests.support.installation import NAMESPACE

SETTINGS = Settings(namespace=NAMESPACE)
Candidate = Callable[[str], Leadership]


@pytest.fixture
def candidate(own_kube: Kube, clock: HandClock) -> Candidate:
    return lambda name: Leadership(own_kube, clock, replace(SETTINGS, identity=name))


def lease(lab: Lab) -> Any:
    return lab.api.get(LEASE)["spec"]


async def test_the_first_one_leads(candidate: Candidate, control_plane: Lab) -> None:
    one = candidate("one")
    assert not one.valid
    await one._renew()
    assert one.valid
    spec = lease(control_plane)
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("one", one.epoch, 15)


async def test_a_renewal_keeps_the_epoch(candidate: Candidate, clock: HandClock, control_plane: Lab) -> None:
    one = candidate("one")
    await one._renew()
    epoch, before = one.epoch, lease(control_plane)["renewTime"]
    clock.advance(2)
    await one._renew()
    assert one.epoch == epoch
    assert lease(control_plane)["renewTime"] > before


async def test_a_leader_that_cannot_renew_stops_before_another_may_begin(
    candidate: Candidate, clock: HandClock
) -> None:
    one = candidate("one")
    await one._renew()
    clock.advance(7.9)
    assert one.valid
    clock.advance(0.1)
    assert not one.valid


async def test_another_leads_after_silence_that_it_has_observed_itself(candidate: Candidate, clock: HandClock) -> None:
    one, two = candidate("one"), candidate("two")
    await one._renew()
    # The times in the lease are an hour old, and say nothing.
    clock.advance(3600)
    await two._renew()
    assert not two.valid
    clock.advance(14.9)
    await two._renew()
    assert not two.valid
    clock.advance(0.1)
    await two._renew()
    assert two.valid
    assert two.epoch == one.epoch + 1


async def test_a_leader_that_renews_is_never_taken_over(candidate: Candidate, clock: HandClock) -> None:
    one, two = candidate("one"), candidate("two")
    await one._renew()
    for _ in range(12):
        clock.advance(2)
        await one._renew()
        await two._renew()
        assert one.valid
        assert not two.valid


async def test_a_leader_that_was_taken_over_does_not_lead_when_it_wakes(candidate: Candidate, clock: HandClock) -> None:
    one, two = candidate("one"), candidate("two")
    await one._renew()
    await two._renew()
    clock.advance(15)
    await two._renew()
    assert (one.valid, two.valid) == (False, True)
    await one._renew()
    assert (one.valid, two.valid) == (False, True)


async def test_the_same_name_takes_over_at_once_after_a_restart(candidate: Candidate, clock: HandClock) -> None:
    before = candidate("one")
    await before._renew()
    clock.advance(1)
    after = candidate("one")
    await after._renew()
    assert after.valid
    assert after.epoch == before.epoch + 1


async def test_two_of_one_name_never_lead_in_turns(candidate: Candidate, clock: HandClock) -> None:
    before = candidate("one")
    await before._renew()
    after = candidate("one")
    await after._renew()
    for _ in range(8):
        clock.advance(2)
        await before._renew()
        await after._renew()
        assert (before.valid, after.valid) == (False, True)


async def test_a_release_lets_another_lead_at_once(candidate: Candidate, clock: HandClock, control_plane: Lab) -> None:
    one, two = candidate("one"), candidate("two")
    await one._renew()
    await one.release()
    assert not one.valid
    assert lease(control_plane)["holderIdentity"] == ""
    await two._renew()
    assert two.valid
    assert two.epoch == one.epoch + 1


async def test_who_does_not_lead_releases_nothing(candidate: Candidate, clock: HandClock, control_plane: Lab) -> None:
    one, two = candidate("one"), candidate("two")
    await one._renew()
    await two._renew()
    await two.release()
    clock.advance(15)
    await two._renew()
    assert lease(control_plane)["holderIdentity"] == "two"
    await one.release()
    assert lease(control_plane)["holderIdentity"] == "two"


async def test_a_lease_that_was_lost_never_lets_the_epoch_fall(
    candidate: Candidate, clock: HandClock, control_plane: Lab
) -> None:
    one = candidate("one")
    await one._renew()
    clock.advance(60)
    control_plane.api.delete(LEASE)
    two = candidate("two")
    await two._renew()
    assert two.epoch > one.epoch
    control_plane.api.delete(LEASE)
    await two._renew()
    assert two.valid
    assert two.epoch > one.epoch + 1


async def test_a_lease_that_somebody_emptied_is_taken_with_a_higher_epoch(
    candidate: Candidate, control_plane: Lab
) -> None:
    one = candidate("one")
    await one._renew()
    control_plane.api.merge(LEASE, {"spec": {"holderIdentity": None, "leaseTransitions": None, "renewTime": None}})
    epoch = one.epoch
    await one._renew()
    assert one.valid
    assert one.epoch == epoch + 1


async def test_of_two_that_write_at_once_one_leads(
    candidate: Candidate, own_kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = candidate("one"), candidate("two")
    await one._renew()
    await one.release()
    read = own_kube.get

    async def read_then_overtaken(path: str) -> dict[str, Any]:
        found = await read(path)
        monkeypatch.setattr(own_kube, "get", read)
        await two._renew()
        return found

    monkeypatch.setattr(own_kube, "get", read_then_overtaken)
    with pytest.raises(Conflict):
        await one._renew()
    assert (one.valid, two.valid) == (False, True)


async def test_gaining_and_losing_is_told(candidate: Candidate, clock: HandClock, own_kube: Kube) -> None:
    told: list[bool] = []
    one = Leadership(own_kube, clock, replace(SETTINGS, identity="one", lease_retry=SETTINGS.lease_retry / 40))
    task = asyncio.create_task(one.keep(lambda: told.append(one.valid)))
    await eventually(lambda: told == [True], "it leads")
    renew = one._renew

    async def unreachable() -> None:
        await asyncio.sleep(0.05)
        raise Unavailable("no answer")

    one._renew = unreachable  # type: ignore[method-assign]
    clock.advance(9)
    await eventually(lambda: told == [True, False], "it stops")
    one._renew = renew  # type: ignore[method-assign]
    await eventually(lambda: told == [True, False, True], "it leads again")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_outage_in_which_nobody_else_led_keeps_the_epoch(candidate: Candidate, clock: HandClock) -> None:
    one = candidate("one")
    await one._renew()
    epoch = one.epoch
    clock.advance(300)
    assert not one.valid
    await one._renew()
    assert one.valid
    assert one.epoch == epoch


async def test_a_release_that_fails_ends_leadership_all_the_same(candidate: Candidate, control_plane: Lab) -> None:
    one = candidate("one")
    await one._renew()
    control_plane.api.delete(LEASE)
    await one.release()
    assert not one.valid
