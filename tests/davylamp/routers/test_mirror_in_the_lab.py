"""The mirror in front of a real gateway: every request arrives at the comparator too while it is on, and none after."""

import pytest

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Mirror, Prepare, Raise, Restore
from davylamp.core.world import Extent
from davylamp.ports import RouteChange
from tests.davylamp.routers.sites import COMPARATOR, PROBE, Site, until

ATTEMPT = "5f0c12ab-1"
ON, OFF = Mirror(ATTEMPT, f"{COMPARATOR}:8090"), Mirror(ATTEMPT, "")
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)


async def test_every_request_arrives_at_the_comparator_too_and_no_variant_gets_more_or_less(site: Site) -> None:
    await site.write(Prepare(ATTEMPT))
    before = site.spec["rules"][1]["backendRefs"]
    assert (await site.write(ON)).mirroring is Extent.ALL
    await site.mirrors()
    assert site.spec["rules"][1]["backendRefs"] == before

    bodies = [b"", b'{"inputs": [1.5]}', bytes(range(256)) * 40, *(str(number).encode() for number in range(37))]
    assert {await site.send(body) for body in bodies} == {"credit-fp32"}
    # Each of them once, whole, and by the name that the live one has.
    assert await site.arrived(len(bodies)) == site.baseline.real
    assert sorted(seen.body for seen in site.baseline.real) == sorted(bodies)
    assert len({seen.id for seen in site.baseline.real} - {""}) == len(bodies)
    assert site.candidate.requests == []


async def test_a_rule_that_does_not_point_to_the_baseline_is_not_mirrored(site: Site) -> None:
    await site.write(Prepare(ATTEMPT))
    await site.write(ON)
    await site.mirrors()
    assert await site.send(b"secret", "/admin") == "admin"
    assert await site.send(b"after it") == "credit-fp32"
    assert [seen.body for seen in await site.arrived(1)] == [b"after it"]


async def test_the_comparator_gets_what_either_variant_gets(site: Site) -> None:
    for change in (Prepare(ATTEMPT), ON, Raise(ATTEMPT, Weight(50))):
        await site.write(change)
    await site.mirrors()

    async def serves() -> bool:
        return await site.send(PROBE) == "credit-int8"

    await until(serves, "the candidate serves")
    assert {await site.send(str(number).encode()) for number in range(60)} == {"credit-fp32", "credit-int8"}
    live = sorted([*site.baseline.real, *site.candidate.real], key=str)
    assert await site.arrived(60) == live


@pytest.mark.parametrize(
    "ending",
    [[OFF], [Restore()], [BACK, Restore()], [Prepare("5f0c12ab-2")], [Raise(ATTEMPT, Weight(0), unmirror=True)]],
    ids=["off", "restored", "rolled back", "another attempt", "raised"],
)
async def test_once_the_mirror_is_off_nothing_arrives_any_more(site: Site, ending: list[RouteChange]) -> None:
    original = site.spec
    await site.write(Prepare(ATTEMPT))
    await site.write(ON)
    await site.mirrors()
    assert await site.known()
    for change in ending:
        await site.write(change)
    await until(site.unknown, "Envoy has forgotten the comparator")
    assert {await site.send(str(number).encode()) for number in range(40)} == {"credit-fp32"}
    assert len(site.baseline.real) == 40
    assert site.comparator.real == []
    if isinstance(ending[-1], Restore):
        assert site.spec == original
