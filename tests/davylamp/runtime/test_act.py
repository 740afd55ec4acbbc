"""The order of writes. Router, publisher and leadership are recorded, since the order is what is tested here."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from davylamp.core.evidence import Evidence
from davylamp.core.model import Phase, Progress, Ruling, Weight
from davylamp.core.moves import Action, Decision, Lower, Mirror, Prepare, Raise, Release, Repoint, Restore
from davylamp.core.outbox import Outbox
from davylamp.core.world import Judgement, RouteTrouble, World
from davylamp.errors import Conflict, DavylampError, NotFound, SpecError, Unavailable
from davylamp.ports import BackendRef, RouteRef, RouteState
from davylamp.runtime.act import Actor
from davylamp.runtime.catalogue import Name
from davylamp.runtime.lease import Leadership
from davylamp.runtime.observe import Look
from davylamp.runtime.publish import Publisher, Turn
from davylamp.runtime.session import Session
from tests.davylamp.runtime.clocks import HandClock

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
REF = RouteRef("ml", "credit", BackendRef("fp32", 80), BackendRef("int8", 80))
AFTER = Progress(phase=Phase.PROGRESSING, step=1)
RAISE, LOWER = Raise("a-1", Weight(20)), Lower("a-1", Weight(0), Ruling.ROLLBACK)
MIRROR, UNMIRROR = Mirror("a-1", "davylamp-shadow:8090"), Mirror("a-1", "")
PREPARE, RESTORE, REPOINT = Prepare("a-1"), Restore(), Repoint()


@dataclass
class Recorded:
    """Everything that was written, in order; what fails is named, and so is when leadership ends."""

    calls: list[str] = field(default_factory=list)
    failing: dict[str, DavylampError] = field(default_factory=dict)
    valid: bool = True
    invalid_after: str = ""
    news_: bool = True
    stale_: bool = False
    released: object = field(default_factory=dict)

    def _write(self, what: str) -> None:
        self.calls.append(what)
        if what == self.invalid_after:
            self.valid = False
        if what in self.failing:
            raise self.failing[what]

    async def status(self, _turn: Turn, progress: Progress) -> None:
        assert progress is AFTER
        self._write("status")

    def news(self, _turn: Turn, _progress: Progress) -> bool:
        return self.news_

    def stale(self, _turn: Turn) -> bool:
        return self.stale_

    async def finalizer(self, _session: Session, _manifest: object, *, present: bool) -> object:
        assert not present
        self._write("release")
        return self.released

    async def write(self, route: RouteRef, _seen: RouteState, _change: object, epoch: int) -> None:
        assert (route, epoch) == (REF, 7)
        self._write("route")


@pytest.fixture
def written() -> Recorded:
    return Recorded()


def turn(*, complete: bool = True, deleting: bool = False) -> Turn:
    session = Session("uid", Name("ml", "credit"), Progress(), Outbox(), Evidence())
    world = World("uid", deleting, RouteTrouble("not looked at"), 1, 1, Judgement())
    look = Look(world, REF, RouteState(world.route), complete)
    return Turn(session, {}, look, NOW, 7)


async def act(written: Recorded, looked: Turn, action: Action | None) -> bool:
    actor = Actor(cast("Any", written), cast("Publisher", written), cast("Leadership", written), HandClock())
    return await actor.act(looked, Decision(AFTER, action))


async def test_a_raise_writes_status_before_the_route(written: Recorded) -> None:
    looked = turn()
    assert await act(written, looked, RAISE)
    assert written.calls == ["status", "route"]
    assert looked.session.progress is AFTER


@pytest.mark.parametrize("action", [LOWER, PREPARE])
async def test_a_lowering_writes_the_route_before_status(written: Recorded, action: Action) -> None:
    looked = turn()
    assert await act(written, looked, action)
    assert written.calls == ["route", "status"]
    assert looked.session.progress is AFTER


@pytest.mark.parametrize("action", [RESTORE, REPOINT])
async def test_a_route_is_given_back_once_status_says_why(written: Recorded, action: Action) -> None:
    assert await act(written, turn(), action)
    assert written.calls == ["status", "route"]


@pytest.mark.parametrize("action", [MIRROR, UNMIRROR])
async def test_what_is_mirrored_stands_in_status_before_it_stands_on_the_route(
    written: Recorded, action: Mirror
) -> None:
    looked = turn()
    assert await act(written, looked, action)
    assert written.calls == ["status", "route"]
    assert looked.session.progress is AFTER


@pytest.mark.parametrize("action", [MIRROR, UNMIRROR])
async def test_without_a_lease_no_mirror_is_changed(written: Recorded, action: Mirror) -> None:
    written.valid = False
    looked = turn()
    with pytest.raises(Unavailable, match="lease"):
        await act(written, looked, action)
    assert written.calls == []
    assert looked.session.progress is not AFTER


async def test_without_a_complete_look_nothing_is_mirrored_and_a_mirror_is_taken_off(written: Recorded) -> None:
    with pytest.raises(Unavailable, match="endpoints"):
        await act(written, turn(complete=False), MIRROR)
    assert written.calls == []
    assert await act(written, turn(complete=False), UNMIRROR)
    assert written.calls == ["status", "route"]


async def test_a_status_that_cannot_be_written_keeps_the_route_unmirrored(written: Recorded) -> None:
    written.failing["status"] = Unavailable("gone")
    with pytest.raises(Unavailable):
        await act(written, turn(), MIRROR)
    assert written.calls == ["status"]


async def test_without_a_lease_nothing_is_raised(written: Recorded) -> None:
    written.valid = False
    looked = turn()
    with pytest.raises(Unavailable, match="lease"):
        await act(written, looked, RAISE)
    assert written.calls == []
    assert looked.session.progress is not AFTER


async def test_without_a_complete_look_nothing_is_raised(written: Recorded) -> None:
    with pytest.raises(Unavailable, match="endpoints"):
        await act(written, turn(complete=False), RAISE)
    assert written.calls == []


async def test_a_lease_that_ends_between_the_writes_stops_the_raise(written: Recorded) -> None:
    written.invalid_after = "status"
    looked = turn()
    with pytest.raises(Unavailable, match="lost before the route"):
        await act(written, looked, RAISE)
    assert written.calls == ["status"]
    assert looked.session.progress is AFTER


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("gone"), SpecError("refused")])
async def test_a_status_that_cannot_be_written_stops_the_raise(written: Recorded, error: DavylampError) -> None:
    written.failing["status"] = error
    looked = turn()
    with pytest.raises(type(error)):
        await act(written, looked, RAISE)
    assert written.calls == ["status"]
    assert looked.session.progress is not AFTER


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("gone"), SpecError("refused")])
async def test_a_lowering_is_written_to_status_even_if_the_route_cannot_be(
    written: Recorded, error: DavylampError
) -> None:
    written.failing["route"] = error
    looked = turn()
    with pytest.raises(type(error)):
        await act(written, looked, LOWER)
    assert written.calls == ["route", "status"]
    assert looked.session.progress is AFTER


async def test_a_lowering_stands_whatever_becomes_of_status(written: Recorded) -> None:
    written.failing["status"] = Conflict("changed")
    with pytest.raises(Conflict):
        await act(written, turn(), LOWER)
    assert written.calls == ["route", "status"]


async def test_of_two_failures_of_a_lowering_that_of_the_route_is_told(written: Recorded) -> None:
    written.failing |= {"route": Unavailable("route"), "status": Conflict("status")}
    with pytest.raises(Unavailable, match="route"):
        await act(written, turn(), LOWER)


async def test_a_lowering_needs_no_lease_and_no_complete_look(written: Recorded) -> None:
    written.valid = False
    assert await act(written, turn(complete=False), LOWER)
    assert written.calls == ["route", "status"]


async def test_a_route_is_restored_without_a_lease_and_never_re_pointed(written: Recorded) -> None:
    written.valid = False
    assert await act(written, turn(), RESTORE)
    written.calls.clear()
    with pytest.raises(Unavailable, match="re-pointed"):
        await act(written, turn(), REPOINT)
    assert written.calls == ["status"]


async def test_a_status_that_cannot_be_written_keeps_the_marks_on_the_route(written: Recorded) -> None:
    written.failing["status"] = Unavailable("gone")
    with pytest.raises(Unavailable):
        await act(written, turn(), RESTORE)
    assert written.calls == ["status"]


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("gone"), NotFound("gone"), SpecError("too large")])
async def test_a_deleted_object_gets_its_route_back_whatever_becomes_of_status(
    written: Recorded, error: DavylampError
) -> None:
    written.failing["status"] = error
    assert await act(written, turn(deleting=True), RESTORE)
    assert written.calls == ["status", "route"]


async def test_letting_go_is_looked_at_again_only_if_something_was_written(written: Recorded) -> None:
    assert await act(written, turn(deleting=True), Release())
    written.released = None
    assert not await act(written, turn(deleting=True), Release())


@pytest.mark.parametrize(
    ("news", "stale", "calls"), [(True, False, ["status"]), (False, True, ["status"]), (False, False, [])]
)
async def test_without_an_act_only_what_is_new_or_due_is_written(
    written: Recorded, news: bool, stale: bool, calls: list[str]
) -> None:
    written.news_, written.stale_ = news, stale
    looked = turn()
    assert not await act(written, looked, None)
    assert written.calls == calls
    assert looked.session.progress is AFTER
