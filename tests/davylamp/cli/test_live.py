from __future__ import annotations

import io
import math
from collections.abc import Iterator

import pytest
from rich.console import Console

from davylamp.cli import live
from davylamp.cli.cluster import Gone, Lost, Seen, Sighting
from davylamp.cli.failure import ExitCode
from tests.davylamp.cli.rollouts import NOON, baking, held, promoted, rolled_back


class Shown:
    """A cluster whose sightings are known beforehand."""

    def __init__(self, *sightings: Sighting, interrupt: bool = False) -> None:
        self._sightings = sightings
        self._interrupt = interrupt

    def rollout(self, _: str) -> dict[str, object]:
        return baking()

    def follow(self, _: str, _patience: object) -> Iterator[Sighting]:
        yield from self._sightings
        if self._interrupt:
            raise KeyboardInterrupt


def console(*, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), width=100, height=40, force_terminal=terminal, color_system=None, markup=False, _environ={}
    )


def printed(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def waited(where: Console, *sightings: Sighting, seconds: float = math.inf) -> ExitCode:
    screen = live.Screen(where, lambda: NOON, None)
    return live.wait(Shown(*sightings), "credit", screen, lambda: seconds)  # type: ignore[arg-type]


def test_a_terminal_keeps_the_last_picture() -> None:
    where = console(terminal=True)
    assert waited(where, Seen(baking()), Seen(rolled_back())) is ExitCode.ROLLED_BACK
    assert "RolledBack" in printed(where)
    assert "\x1b[?25h" in printed(where), "the cursor is shown again"


def test_elsewhere_each_change_is_one_line_and_repeats_are_none() -> None:
    where = console(terminal=False)
    waited(where, Seen(baking()), Seen(baking()), Lost("no answer"), Lost("no answer"), Seen(held()), Seen(promoted()))
    assert [line.split(":")[0] for line in printed(where).splitlines()] == [
        "ml/credit Progressing at 25 %",
        "no answer; asking again",
        "ml/credit Held at 50 %",
        "ml/credit Promoted at 100 %",
    ]


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (Seen(baking()), ExitCode.UNDECIDED),
        (Lost("no answer"), ExitCode.UNREACHABLE),
        (Gone(), ExitCode.REFUSED),
        (Seen(promoted()), ExitCode.OK),
    ],
)
def test_when_the_time_is_over_the_last_sighting_counts(last: Sighting, code: ExitCode) -> None:
    assert waited(console(terminal=False), last, seconds=0) is code


@pytest.mark.parametrize("terminal", [False, True])
def test_whoever_has_seen_enough_leaves_in_peace(terminal: bool) -> None:
    where = console(terminal=terminal)
    live.watch(Shown(Seen(baking()), interrupt=True), "credit", where, lambda: NOON)  # type: ignore[arg-type]
    assert "baking at 25 %" in printed(where)
    assert "Traceback" not in printed(where)


def test_a_trouble_stands_below_the_last_picture() -> None:
    where = console(terminal=True)
    live.watch(Shown(Seen(baking()), Lost("no answer")), "credit", where, lambda: NOON)  # type: ignore[arg-type]
    assert "no answer; asking again" in printed(where).rsplit("baking at 25 %", 1)[1]
