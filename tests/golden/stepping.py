"""Step a rollout to its end in the simulated world, and write down every decision that changes anything."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from davylamp.core.moves import Action, Decision, Divert, Lower, Mirror, Prepare, Raise, Release, Repoint, Restore
from tests.simulation.cluster import Cluster
from tests.simulation.settings import BEGINNING, Metrics
from tests.simulation.shell import Fate, Shell
from tests.simulation.watch import Look, Watch, weights_of

_SPACING: Final = timedelta(seconds=10)
#: What happens in the world, by seconds since the beginning.
Story = Mapping[int, Callable[[Cluster], None]]


class Trace(Watch):
    """A watch that writes down what is decided."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.lines: list[str] = []

    def decided(self, seen: Look, decision: Decision) -> None:
        """Check the decision, and add a line if it changes anything."""
        super().decided(seen, decision)
        before, after = seen.progress, decision.progress
        said = (before.phase, before.step, before.requested, before.reason, before.message, before.ended)
        says = (after.phase, after.step, after.requested, after.reason, after.message, after.ended)
        if says == said and decision.action is None:
            return
        passed = seen.now - BEGINNING
        words = (
            f"{passed.total_seconds():>5.0f} s",
            f"{after.phase:<11}",
            f"step {after.step + 1:>1}",
            f"{after.requested.percent:>3} %",
            f"{_spelled(decision.action):<24}",
            f"{after.reason:<17}",
            after.message,
        )
        self.lines.append("  ".join(words))
        self.lines += [f"{'':>9}told ({fact.severity}): {fact.key}" for fact in decision.facts]


def trace(story: Story, seconds: int) -> str:
    """Return what one operator decides while a story happens around it.

    Parameters
    ----------
    story
        What happens, by seconds since the beginning.
    seconds
        How long it goes on.
    """
    cluster = Cluster(metrics=Metrics.WARMING)
    watch = Trace(cluster)
    shell = Shell("operator", cluster, watch)
    shell.leads, shell.epoch = True, 1
    for second in range(0, seconds + 1, int(_SPACING.total_seconds())):
        cluster.time = float(second)
        if second in story:
            story[second](cluster)
        steps = shell.look()
        try:
            next(steps)
            while True:
                steps.send(Fate.ANSWERED)
        except StopIteration:
            cluster.accept_route()
    route = "no route" if cluster.route is None else weights_of(cluster.route)
    return "\n".join([*watch.lines, f"in the end: {route}", ""])


def _spelled(action: Action | None) -> str:
    match action:
        case None:
            return "-"
        case Raise(_, weight, unmirror):
            return f"raise to {weight}{', mirror off' if unmirror else ''}"
        case Lower(_, weight, ruling):
            return f"lower to {weight} ({ruling})"
        case Mirror(_, comparator):
            return f"mirror to {comparator or 'nobody'}"
        case Divert(_, slices):
            named = ", ".join(f"{each.header}: {each.value}" for each in slices)
            return f"{named or 'nobody'} to the baseline alone"
        case Prepare() | Restore() | Repoint() | Release():
            return type(action).__name__.lower()
