"""What a real status keeps of a progress is all that the next decision needs: the simulated one is faithful to it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from davylamp.api.v1alpha1.progress import Shown, to_progress, to_status
from davylamp.api.v1alpha1.stored import read_status
from davylamp.core.model import Progress
from davylamp.core.moves import Decision
from tests.simulation.bugs import BUGS
from tests.simulation.machine import World
from tests.simulation.settings import BEGINNING
from tests.simulation.watch import Look, Watch


def stored(story: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Progress]:
    """Return every progress that is stored while a story happens."""
    written: list[Progress] = []
    honest = Watch.decided

    def decided(self: Watch, seen: Look, decision: Decision) -> None:
        honest(self, seen, decision)
        written.append(decision.progress)

    monkeypatch.setattr(Watch, "decided", decided)
    BUGS[story].story(World())
    yield from written


@pytest.mark.parametrize("story", BUGS)
def test_a_progress_comes_back_from_a_real_status_as_it_was(story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for progress in stored(story, monkeypatch):
        shown = Shown(generation=1, epoch=1, now=BEGINNING, steps=3)
        status = to_status(progress, shown).manifest()
        again = to_progress(read_status(status))
        assert again == replace(progress, ticked_at=None)
