"""What every router of the registry does, on a real API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
import pytest_asyncio
from kubernetes.aio import config

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Diversion, Divert, Lower, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.core.world import Extent, RouteTrouble, RouteView
from davylamp.errors import Conflict, SpecError, Unavailable
from davylamp.ports import BackendRef, RouteChange, Router, RouteState
from davylamp.routers import ROUTERS
from davylamp.routers.gateway_api import LOWER_TRIES
from davylamp.runtime.kube import Allowance, Kube
from e2e.lab import Lab
from tests.davylamp.routers.watched import Watched
from tests.davylamp.routers.worlds import WORLDS, World
from tests.support.installation import ACCOUNT, NAMESPACE

ATTEMPT = "5f0c12ab-1"
PREPARE = Prepare(ATTEMPT)
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)
MIRRORED, UNMIRRORED = Mirror(ATTEMPT, "davylamp-shadow:8090"), Mirror(ATTEMPT, "")
WOMEN = Diversion("x-sex", "F")
DIVERTED, UNDIVERTED = Divert(ATTEMPT, (WOMEN,)), Divert(ATTEMPT, ())


def raised(percent: int) -> Raise:
    return Raise(ATTEMPT, Weight(percent))


class Run:
    """A router at work on one route."""

    def __init__(self, router: Router, world: World, api: Watched) -> None:
        self.router, self.world, self.api = router, world, api

    async def read(self) -> RouteState:
        return await self.router.read(self.world.ref)

    async def seen(self) -> RouteView:
        view = (await self.read()).view
        assert isinstance(view, RouteView), view
        return view

    async def write(self, *changes: RouteChange, epoch: int = 1, at: RouteState | None = None) -> RouteState:
        state = at or await self.read()
        for change in changes:
            state = await self.router.write(self.world.ref, state, change, epoch)
        return state


@pytest_asyncio.fixture(params=sorted(ROUTERS))
async def run(
    request: pytest.FixtureRequest, installed_lab: Lab, control_plane: Lab, lab_namespace: str
) -> AsyncIterator[Run]:
    """Davylamp works by its own service account, under its admission policy; the user is the administrator."""
    assert request.param in WORLDS, f"give {request.param!r} a world in tests/davylamp/routers/worlds.py"
    world = WORLDS[request.param](control_plane.api, lab_namespace)
    world.create()
    kubeconfig = control_plane.kubeconfig_for(NAMESPACE, ACCOUNT)
    async with await config.new_client_from_config(str(kubeconfig)) as client:
        api = Watched(Kube(client, Allowance(1000.0, 1000), lambda _: None))
        yield Run(ROUTERS[request.param](api), world, api)


def keeps(act: Callable[[], object]) -> Callable[[], Awaitable[None]]:
    async def before_patch() -> None:
        act()

    return before_patch


async def test_a_whole_promotion_moves_the_route_step_by_step_to_the_candidate(run: Run) -> None:
    await run.write(PREPARE)
    assert run.world.split()[1] == 0
    for percent in (5, 50, 100):
        await run.write(raised(percent))
        baseline, candidate = run.world.split()
        assert candidate * 100 == percent * (baseline + candidate)
        assert (await run.seen()).weight == Weight(percent)
    await run.write(Repoint())
    assert (await run.seen()).repointed
    assert run.world.split()[0] == 0


async def test_after_a_rollback_the_route_is_as_its_user_wrote_it(run: Run) -> None:
    before = run.world.text()
    await run.write(PREPARE, raised(50), BACK)
    assert run.world.split()[1] == 0
    await run.write(Restore())
    assert run.world.text() == before
    view = await run.seen()
    assert (view.prepared, view.attempt, view.ruling, view.epoch, view.asked) == (False, None, None, None, None)


async def test_a_mirror_comes_and_goes_beside_the_weights(run: Run) -> None:
    before = run.world.text()
    await run.write(PREPARE, raised(25))
    split, alone = run.world.split(), run.world.text()
    await run.write(MIRRORED)
    view = await run.seen()
    assert (view.mirror, view.mirroring, view.editor) == ("davylamp-shadow:8090", Extent.ALL, None)
    assert run.world.split() == split
    await run.write(UNMIRRORED)
    assert run.world.text() == alone
    await run.write(MIRRORED, BACK, Restore())
    assert run.world.text() == before


async def test_slices_come_and_go_beside_weights_and_mirror(run: Run) -> None:
    before = run.world.text()
    await run.write(PREPARE, raised(25), MIRRORED)
    split, alone = run.world.split(), run.world.text()
    await run.write(DIVERTED)
    view = await run.seen()
    assert (view.diverted, view.weight, view.mirroring, view.editor) == ((WOMEN,), Weight(25), Extent.ALL, None)
    assert run.world.split() == split
    await run.write(raised(50), UNMIRRORED)
    view = await run.seen()
    assert (view.diverted, view.weight) == ((WOMEN,), Weight(50))
    await run.write(raised(25), MIRRORED, UNDIVERTED)
    assert (await run.seen()).diverted == ()
    assert run.world.text() == alone
    await run.write(DIVERTED, BACK, Restore())
    assert run.world.text() == before


async def test_a_raise_and_a_new_attempt_take_the_mirror_off_in_the_same_write(run: Run) -> None:
    for change in (Raise(ATTEMPT, Weight(50), unmirror=True), Prepare("5f0c12ab-2")):
        await run.write(PREPARE, MIRRORED)
        sent = len(run.api.patches)
        await run.write(change)
        view = await run.seen()
        assert (len(run.api.patches) - sent, view.mirror, view.mirroring) == (1, "", Extent.NONE)


async def test_the_marks_are_read_back_as_they_were_written(run: Run) -> None:
    await run.write(PREPARE, raised(25), epoch=3)
    view = await run.seen()
    assert (view.prepared, view.attempt, view.asked) == (True, ATTEMPT, Weight(25))
    assert (view.ruling, view.epoch) == (Ruling.CONTINUE, 3)
    await run.write(BACK, epoch=4)
    view = await run.seen()
    assert (view.asked, view.ruling, view.epoch) == (Weight(0), Ruling.ROLLBACK, 4)


async def test_a_write_returns_the_route_as_the_server_stored_it(run: Run) -> None:
    written = await run.write(PREPARE, raised(25))
    assert written == await run.read()


async def test_writing_what_is_there_makes_no_request(run: Run) -> None:
    for changes in ([PREPARE], [raised(25)], [DIVERTED], [MIRRORED], [UNMIRRORED], [UNDIVERTED], [BACK], [Restore()]):
        await run.write(*changes)
        sent = len(run.api.patches)
        await run.write(*changes)
        assert len(run.api.patches) == sent


@pytest.mark.parametrize(
    "change", [PREPARE, raised(50), MIRRORED, DIVERTED, Restore()], ids=lambda change: type(change).__name__
)
async def test_a_route_that_changed_since_it_was_read_is_not_written(run: Run, change: RouteChange) -> None:
    if change != PREPARE:
        await run.write(PREPARE, raised(25))
    stale, before = await run.read(), run.world.split()
    run.world.touch()
    with pytest.raises(Conflict):
        await run.write(change, at=stale)
    assert run.world.split() == before


async def test_a_lowering_goes_through_although_the_route_changed_since_it_was_read(run: Run) -> None:
    stale = await run.write(PREPARE, raised(50))
    run.world.touch()
    await run.write(BACK, at=stale)
    assert run.world.split()[1] == 0
    assert (await run.seen()).ruling is Ruling.ROLLBACK


async def test_a_lowering_goes_through_although_the_route_keeps_changing(run: Run) -> None:
    await run.write(PREPARE, raised(50))
    run.api.before_patch = keeps(run.world.touch)
    await run.write(BACK)
    assert len(run.api.patches) == 2 + LOWER_TRIES + 1
    assert run.world.split()[1] == 0
    assert (await run.seen()).ruling is Ruling.ROLLBACK


async def test_a_lowering_stops_for_another_attempt_that_took_over_meanwhile(run: Run) -> None:
    stale = await run.write(PREPARE, raised(50))
    await run.write(Prepare("5f0c12ab-2"), epoch=2)
    with pytest.raises(Conflict, match="the route belongs to attempt 5f0c12ab-2 by now"):
        await run.write(BACK, at=stale)


async def test_a_lowering_does_not_mark_a_route_that_was_given_back_meanwhile(run: Run) -> None:
    before = run.world.text()
    stale = await run.write(PREPARE, raised(50))
    await run.write(Restore())
    with pytest.raises(Conflict, match="the route belongs to no attempt by now"):
        await run.write(BACK, at=stale)
    assert run.world.text() == before


async def test_a_route_that_is_deleted_while_it_is_lowered_is_missing(run: Run) -> None:
    stale = await run.write(PREPARE, raised(50))
    run.world.touch()
    run.api.before_patch = keeps(run.world.delete)
    written = await run.write(BACK, at=stale)
    assert isinstance(written.view, RouteTrouble)
    assert written.view.missing


async def test_a_lowering_respects_that_somebody_lowered_further(run: Run) -> None:
    await run.write(PREPARE, raised(50))
    run.world.edit_weights(98, 2)
    await run.write(Lower(ATTEMPT, Weight(25), Ruling.CONTINUE))
    assert run.world.split() == (98, 2)


async def test_after_a_rollback_nothing_raises_the_attempt(run: Run) -> None:
    await run.write(PREPARE, raised(50), BACK)
    for change in (raised(5), MIRRORED, DIVERTED):
        with pytest.raises(Conflict):
            await run.write(change)
    assert run.world.split()[1] == 0
    assert (await run.seen()).mirror == ""


async def test_an_older_leader_may_lower_and_nothing_else(run: Run) -> None:
    await run.write(PREPARE, raised(50), epoch=5)
    for change in (PREPARE, raised(60), MIRRORED, DIVERTED):
        with pytest.raises(Conflict):
            await run.write(change, epoch=4)
    await run.write(BACK, epoch=4)
    view = await run.seen()
    assert (view.weight, view.epoch) == (Weight(0), 5)


async def test_somebody_elses_weights_are_seen_with_the_name_of_the_editor(run: Run) -> None:
    await run.write(PREPARE, raised(25))
    assert (await run.seen()).editor is None
    run.world.edit_weights(40, 60)
    view = await run.seen()
    assert (view.weight, view.asked, view.editor) == (Weight(60), Weight(25), "somebody")


async def test_a_route_that_no_gateway_has_reported_about_is_not_accepted(run: Run) -> None:
    view = await run.seen()
    assert not view.accepted
    assert view.acceptance


async def test_another_pair_is_prepared_after_the_marked_one_was_given_back(run: Run) -> None:
    await run.write(PREPARE, raised(50))
    other = replace(run.world.ref, candidate=BackendRef("credit-pruned", 8080))
    seen = await run.router.read(other)
    written = await run.router.write(other, seen, Prepare("5f0c12ab-2"), 1)
    assert isinstance(written.view, RouteView)
    assert (written.view.prepared, written.view.weight) == (True, Weight(0))
    assert run.world.split()[1] == 0
    assert "credit-int8" not in str(run.world.text())


async def test_a_route_that_is_gone_is_missing_and_nothing_is_left_to_take_back(run: Run) -> None:
    prepared = await run.write(PREPARE)
    run.world.delete()
    missing = await run.read()
    assert isinstance(missing.view, RouteTrouble)
    assert missing.view.missing
    assert "does not exist: create it" in missing.view.message
    for change in (BACK, Restore()):
        assert await run.write(change, at=missing) == missing
        assert await run.write(change, at=prepared) == missing
    for needy in (PREPARE, raised(5), MIRRORED, DIVERTED, Repoint()):
        with pytest.raises(Conflict):
            await run.write(needy, at=missing)


async def test_a_route_that_was_made_anew_is_not_written_as_the_old_one(run: Run) -> None:
    old = await run.write(PREPARE)
    run.world.delete()
    run.world.create()
    before = run.world.text()
    with pytest.raises(Conflict):
        await run.write(raised(5), at=old)
    assert run.world.text() == before


async def test_an_api_server_that_does_not_answer_is_unavailable(run: Run, control_plane: Lab) -> None:
    prepared = await run.write(PREPARE)
    control_plane.component("kube-apiserver").kill()
    with pytest.raises(Unavailable):
        await run.read()
    for change in (raised(5), BACK):
        with pytest.raises(Unavailable):
            await run.write(change, at=prepared)


async def test_a_route_without_the_baseline_is_refused_with_the_remedy(run: Run) -> None:
    elsewhere = replace(run.world.ref, baseline=BackendRef("credit-fp16", 8080))
    seen = await run.router.read(elsewhere)
    assert isinstance(seen.view, RouteTrouble)
    assert "credit-fp16:8080" in seen.view.message
    with pytest.raises(SpecError):
        await run.router.write(elsewhere, seen, PREPARE, 1)


def test_every_router_has_a_world() -> None:
    assert WORLDS.keys() == ROUTERS.keys()
