"""The room that a process has for requests which it holds: bounded in number and bytes, and shared fairly."""

from dataclasses import dataclass


@dataclass(slots=True)
class Room:
    """All that one process may hold.

    Parameters
    ----------
    requests
        Most that wait or are replayed at once.
    octets
        Most bytes of their bodies, and of those that are arriving.
    """

    requests: int = 4096
    octets: int = 64 * 2**20
    tenants: int = 0
    held: int = 0
    held_octets: int = 0


class Tenancy:
    """One rollout's part of the room: a full one leaves the others theirs.

    Parameters
    ----------
    room
        Of the process.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        room.tenants += 1
        self.held = 0
        self.held_octets = 0

    def reserve(self, size: int) -> bool:
        """Return whether so many more bytes may be held, and count them as held if so."""
        room = self._room
        share = room.octets // room.tenants
        if self.held_octets + size > share or room.held_octets + size > room.octets:
            return False
        self.held_octets += size
        room.held_octets += size
        return True

    def release(self, size: int) -> None:
        """Give back bytes that were reserved."""
        self.held_octets -= size
        self._room.held_octets -= size

    def enter(self) -> bool:
        """Return whether one more request may be held, and count it as held if so."""
        room = self._room
        if self.held >= room.requests // room.tenants or room.held >= room.requests:
            return False
        self.held += 1
        room.held += 1
        return True

    def leave(self) -> None:
        """Give back the place of one request."""
        self.held -= 1
        self._room.held -= 1

    def end(self) -> None:
        """Leave the whole room to the others."""
        self._room.tenants -= 1
