"""What a decision says: where the rollout stands now, the one thing that is done, and what people are told."""

from dataclasses import dataclass

from davylamp.core.model import Progress, Ruling, Severity, Weight


@dataclass(frozen=True, slots=True)
class Prepare:
    """Put the candidate beside the baseline at weight 0, and Davylamp's marks on the route."""

    attempt: str


@dataclass(frozen=True, slots=True)
class Raise:
    """Give the candidate more traffic. Status first, then the route, both by compare-and-swap.

    With ``unmirror`` the same write takes the mirror off, for a step that does not ask for it.
    """

    attempt: str
    weight: Weight
    unmirror: bool = False


@dataclass(frozen=True, slots=True)
class Lower:
    """Give the candidate less traffic. The route first; nothing is waited for."""

    attempt: str
    weight: Weight
    ruling: Ruling


@dataclass(frozen=True, slots=True)
class Mirror:
    """Mirror requests to ``comparator`` (``name:port``), or no more where it is empty; weights stay as they are."""

    attempt: str
    comparator: str


@dataclass(frozen=True, slots=True, order=True)
class Diversion:
    """A slice that goes to the baseline alone: all requests whose header ``header`` is exactly ``value``."""

    header: str
    value: str


@dataclass(frozen=True, slots=True)
class Divert:
    """Send these slices and no others to the baseline alone; weights stay as they are.

    Parameters
    ----------
    attempt
        For which the route is prepared.
    slices
        All that are wanted, sorted and without repeats; empty for none.
    """

    attempt: str
    slices: tuple[Diversion, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """Give the route back as it was: no candidate, no marks. After the status that says why is written."""


@dataclass(frozen=True, slots=True)
class Repoint:
    """Let the route point to the candidate where it pointed to the baseline, and take the marks off."""


@dataclass(frozen=True, slots=True)
class Release:
    """Let the deleted object go: its finalizer is removed."""


Action = Prepare | Raise | Lower | Mirror | Divert | Restore | Repoint | Release


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that people are told once.

    Parameters
    ----------
    key
        Identifies the fact: attempt, step and reason.
    severity
        How much it matters.
    sentence
        With the numbers.
    """

    key: str
    severity: Severity
    sentence: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from the facts: where the rollout stands now, what is done, and what people are told."""

    progress: Progress
    action: Action | None = None
    facts: tuple[Fact, ...] = ()
