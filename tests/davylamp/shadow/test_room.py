from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from davylamp.shadow.room import Room, Tenancy


def test_one_tenant_has_the_whole_room() -> None:
    tenancy = Tenancy(Room(requests=2, octets=10))

    assert tenancy.reserve(10)
    assert not tenancy.reserve(1)
    assert tenancy.enter()
    assert tenancy.enter()
    assert not tenancy.enter()


def test_what_is_given_back_can_be_had_again() -> None:
    tenancy = Tenancy(Room(requests=1, octets=10))
    tenancy.reserve(10)
    tenancy.enter()

    tenancy.release(4)
    tenancy.leave()

    assert not tenancy.reserve(5)
    assert tenancy.reserve(4)
    assert tenancy.enter()


def test_a_full_rollout_leaves_the_others_theirs() -> None:
    room = Room(requests=2, octets=10)
    full, other = Tenancy(room), Tenancy(room)

    assert full.reserve(5)
    assert full.enter()
    assert not full.reserve(1)
    assert not full.enter()
    assert other.reserve(5)
    assert other.enter()


def test_who_leaves_gives_up_the_share() -> None:
    room = Room(requests=2, octets=10)
    first, second = Tenancy(room), Tenancy(room)

    second.end()

    assert first.reserve(10)


class AnyRoom(RuleBasedStateMachine):
    """Whatever comes, the room is never fuller than it may be."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room(requests=5, octets=100)
        self.tenants: list[tuple[Tenancy, list[int]]] = []

    @rule()
    def come(self) -> None:
        self.tenants.append((Tenancy(self.room), []))

    @rule(which=st.integers(0, 9), size=st.integers(0, 60))
    def take(self, which: int, size: int) -> None:
        if self.tenants:
            tenancy, held = self.tenants[which % len(self.tenants)]
            if tenancy.reserve(size):
                if tenancy.enter():
                    held.append(size)
                else:
                    tenancy.release(size)

    @rule(which=st.integers(0, 9))
    def give_back(self, which: int) -> None:
        if self.tenants:
            tenancy, held = self.tenants[which % len(self.tenants)]
            if held:
                tenancy.release(held.pop())
                tenancy.leave()

    @rule()
    def go(self) -> None:
        if self.tenants and not self.tenants[-1][1]:
            self.tenants.pop()[0].end()

    @invariant()
    def it_holds_what_the_tenants_hold_and_no_more_than_it_may(self) -> None:
        assert self.room.held == sum(len(held) for _, held in self.tenants) <= 5
        assert self.room.held_octets == sum(sum(held) for _, held in self.tenants) <= 100


TestAnyRoom = AnyRoom.TestCase
