"""Show how the rollouts go: a picture that changes on a terminal, a line for each change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.cli.glyphs import PHASE_STYLES
from davylamp.cli.sight import sight
from davylamp.cli.view import Card, Cards, summary
from davylamp.wording import shortened
from e2e.demo import scenario
from e2e.demo.receivers import Received
from e2e.demo.watching import Manifest, Witness, now
from e2e.lab.waiting import stopwatch

#: Sentences of all gates together would make every line a paragraph.
_LONGEST: Final = 200
_ROOM_FOR_MESSAGES: Final = 3


class Screen:
    """Where the demo speaks to people.

    Parameters
    ----------
    console
        Where to.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._elapsed = stopwatch()
        self._shown: dict[str, tuple[object, ...]] = {}

    def say(self, text: str) -> None:
        """Print one line, with the seconds since the start."""
        self.console.print(Text(f"{self._elapsed():6.1f} s  {text}"), soft_wrap=True)

    @contextmanager
    def watching(self, witness: Witness, received: Sequence[Received]) -> Iterator[None]:
        """Keep the picture of the rollouts up to date on a terminal; elsewhere, see `changed`."""
        if not self.console.is_terminal:
            yield
            return
        policy = PolicySpec.parse(scenario.policy()["spec"])

        def picture() -> RenderableType:
            seen = [track.rollout for track in witness.tracks.values() if track.rollout]
            last = [Text(_told(message), style="dim", no_wrap=True, overflow="ellipsis") for message in received[-2:]]
            cards = Cards(tuple(Card(sight(rollout, policy), now()) for rollout in seen))
            return Group(cards if self._fits(cards) else Group(*map(_brief, seen)), *last)

        with Live(get_renderable=picture, console=self.console, refresh_per_second=4):
            yield

    def _fits(self, cards: RenderableType) -> bool:
        options = self.console.options.update(height=None)
        return len(self.console.render_lines(cards, options)) + _ROOM_FOR_MESSAGES <= self.console.height

    def changed(self, witness: Witness) -> None:
        """Print a line for each rollout whose phase, step, weight or reason has changed, where there is no picture."""
        if self.console.is_terminal:
            return
        for name, track in witness.tracks.items():
            status = track.status
            step = (status.get("step") or {}).get("index")
            state = (status.get("phase"), status.get("reason"), step, (status.get("weight") or {}).get("requested"))
            if status and self._shown.get(name) != state:
                self._shown[name] = state
                self.say(shortened(summary(track.rollout), _LONGEST))


def _brief(rollout: Manifest) -> Text:
    """Return a rollout in a sentence, for terminals that are too low for three pictures."""
    phase = sight(rollout).status.phase
    return Text(summary(rollout), style=PHASE_STYLES[phase] if phase else "dim")


def _told(message: Received) -> str:
    return f"{message.at:%H:%M:%S} {message.receiver} was told of {message.rollout}: {message.text}"
