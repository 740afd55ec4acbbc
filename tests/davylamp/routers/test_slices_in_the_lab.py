"""A slice in front of a real gateway: its requests get the baseline alone, and all others what they got before."""

from collections.abc import Mapping

import pytest

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Diversion, Divert, Lower, Mirror, Prepare, Raise, Restore
from davylamp.ports import RouteChange
from tests.davylamp.routers.sites import COMPARATOR, PROBE, Site, until

ATTEMPT = "5f0c12ab-1"
ALL = Raise(ATTEMPT, Weight(100))
WOMEN = Diversion("x-sex", "F")
ON, OFF = Divert(ATTEMPT, (WOMEN,)), Divert(ATTEMPT, ())
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)
OF_THE_SLICE, OF_OTHERS = {"X-Sex": "F"}, {"x-sex": "M"}


async def served(site: Site, headers: Mapping[str, str], by: str) -> None:
    """Send requests until the variant answers them."""

    async def serves() -> bool:
        return await site.send(PROBE, **headers) == by

    await until(serves, f"{by} answers {headers}")


async def answers(site: Site, number: int, path: str = "/v2/models/credit/infer", **headers: str) -> set[str]:
    return {await site.send(str(each).encode(), path, **headers) for each in range(number)}


async def test_a_slice_gets_the_baseline_alone_and_the_others_the_split(site: Site) -> None:
    original = site.spec
    for change in (Prepare(ATTEMPT), ALL):
        await site.write(change)
    # With all of the weight a request tells whether the gateway has taken over what was written.
    await served(site, OF_THE_SLICE, "credit-int8")
    assert (await site.write(ON)).diverted == (WOMEN,)
    await served(site, OF_THE_SLICE, "credit-fp32")
    assert await answers(site, 40, **OF_THE_SLICE) == {"credit-fp32"}
    assert await answers(site, 40, **OF_OTHERS) == {"credit-int8"}
    assert await answers(site, 40) == {"credit-int8"}
    assert await answers(site, 5, "/admin", **OF_THE_SLICE) == {"admin"}

    view = await site.write(Lower(ATTEMPT, Weight(50), Ruling.CONTINUE))
    assert (view.weight, view.diverted) == (Weight(50), (WOMEN,))
    await served(site, OF_OTHERS, "credit-fp32")
    assert await answers(site, 60, **OF_OTHERS) == {"credit-fp32", "credit-int8"}
    assert await answers(site, 60, **OF_THE_SLICE) == {"credit-fp32"}

    assert (await site.write(OFF)).diverted == ()
    await served(site, OF_THE_SLICE, "credit-int8")
    assert await answers(site, 60, **OF_THE_SLICE) == {"credit-fp32", "credit-int8"}
    await site.write(Restore())
    assert site.spec == original


async def test_requests_of_a_slice_are_mirrored_as_all_others_are(site: Site) -> None:
    for change in (Prepare(ATTEMPT), ALL, ON, Mirror(ATTEMPT, f"{COMPARATOR}:8090")):
        await site.write(change)
    await site.mirrors()
    await served(site, OF_THE_SLICE, "credit-fp32")
    assert await answers(site, 10, **OF_THE_SLICE) == {"credit-fp32"}
    assert await answers(site, 10) == {"credit-int8"}
    assert await site.arrived(20) == sorted([*site.baseline.real, *site.candidate.real], key=str)


@pytest.mark.parametrize(
    "ending",
    [[Restore()], [BACK, Restore()], [Prepare("5f0c12ab-2"), Restore()]],
    ids=["restored", "rolled back", "another attempt"],
)
async def test_nothing_of_a_slice_is_left_on_the_route(site: Site, ending: list[RouteChange]) -> None:
    original = site.spec
    for before in (Prepare(ATTEMPT), ALL, ON):
        await site.write(before)
    await served(site, OF_OTHERS, "credit-int8")
    for change in ending:
        await site.write(change)
    assert site.spec == original
    await served(site, OF_OTHERS, "credit-fp32")
    assert await answers(site, 20, **OF_THE_SLICE) == {"credit-fp32"}
