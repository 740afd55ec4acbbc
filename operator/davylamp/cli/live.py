"""Watch one rollout: a picture that changes on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.cli.cluster import Cluster, Gone, Lost, Manifest, Seen, Sighting
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.sight import read_spec, sight
from davylamp.cli.view import render, summary
from davylamp.cli.waiting import outcome

Now = Callable[[], datetime]


class Screen:
    """What is shown of a rollout while it is watched."""

    def __init__(self, console: Console, now: Now, policy: PolicySpec | None) -> None:
        self._console = console
        self._now = now
        self._policy = policy
        self._rollout: Manifest | None = None
        self._trouble = ""
        self._last_line = ""

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Keep the picture on the terminal up to date; elsewhere do nothing."""
        if not self._console.is_terminal:
            yield
            return
        with Live(get_renderable=self._picture, console=self._console, refresh_per_second=4):
            yield

    def show(self, sighting: Sighting) -> None:
        """Show the newest sighting."""
        match sighting:
            case Seen(rollout):
                self._rollout, self._trouble = rollout, ""
            case Lost(why):
                self._trouble = f"{why}; asking again"
            case Gone():
                self._trouble = "the rollout was deleted"
        if not self._console.is_terminal:
            self._print_line()

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._rollout is not None:
            parts.append(render(self._rollout, self._now(), policy=self._policy))
        if self._trouble:
            parts.append(Text(self._trouble, style="yellow"))
        return Group(*parts)

    def _print_line(self) -> None:
        line = self._trouble or (summary(self._rollout) if self._rollout is not None else "")
        if line != self._last_line:
            self._last_line = line
            self._console.print(Text(line), soft_wrap=True)


def watch(cluster: Cluster, name: str, console: Console, now: Now) -> None:
    """Show a rollout until it is gone or the user has seen enough."""
    screen = Screen(console, now, policy_of(cluster, cluster.rollout(name)))
    with suppress(KeyboardInterrupt), screen.drawing():
        for sighting in cluster.follow(name, lambda: math.inf):
            screen.show(sighting)


def wait(cluster: Cluster, name: str, screen: Screen, patience: Callable[[], float]) -> ExitCode:
    """Follow a rollout until it is decided, and return how.

    Parameters
    ----------
    cluster, name
        Where the rollout is.
    screen
        Where it is shown meanwhile.
    patience
        Says how many seconds are left.
    """
    with screen.drawing():
        for sighting in cluster.follow(name, patience):
            screen.show(sighting)
            if isinstance(sighting, Gone):
                return ExitCode.REFUSED
            code = outcome(sight(sighting.rollout)) if isinstance(sighting, Seen) else None
            if code is not None:
                return code
            if patience() <= 0:
                return ExitCode.UNREACHABLE if isinstance(sighting, Lost) else ExitCode.UNDECIDED
    return ExitCode.UNDECIDED


def policy_of(cluster: Cluster, rollout: Manifest) -> PolicySpec | None:
    """Return the policy of a rollout; None if it has none, or none that can be read."""
    try:
        return read_policy(cluster, rollout)
    except FailureError:
        return None


def read_policy(cluster: Cluster, rollout: Manifest) -> PolicySpec | None:
    """Return the policy of a rollout; None if it names none.

    Raises
    ------
    FailureError
        If it names one that cannot be read.
    """
    spec = read_spec(rollout)
    return None if spec is None or spec.policy_ref is None else cluster.policy(spec.policy_ref)
