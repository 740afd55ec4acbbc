"""Play the three rollouts at once, and judge what became of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from e2e.demo.results import Result, result, shortfalls, untold
from e2e.demo.scenario import CASES, FAULT_SHARE, FAULT_STEP, PATIENCE
from e2e.demo.serving.faults import write_fault_share
from e2e.demo.show import Screen
from e2e.demo.stage import Stage
from e2e.demo.traffic.generator import Snapshot
from e2e.demo.watching import ROLLOUTS, ROUTES, Server, Witness, now

#: How long messages may be on their way once all is over.
_MESSAGE_PATIENCE: Final = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of all three, in sentences what is not as it should be, and the books of the traffic."""

    results: tuple[Result, ...]
    shortfalls: tuple[str, ...]
    traffic: tuple[Snapshot, ...]


class Performance:
    """One run.

    Parameters
    ----------
    stage
        Where it is played.
    screen
        Where it is shown.
    """

    def __init__(self, stage: Stage, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._witness = Witness(CASES)
        self._fault_at: datetime | None = None

    async def play(self) -> Verdict:
        """Set the stage, play, and return what became of the rollouts."""
        async with self._stage.set(self._screen.say), self._watched():
            self._screen.say("the three rollouts begin")
            await asyncio.to_thread(self._stage.begin)
            with self._screen.watching(self._witness, self._stage.receivers.received):
                await self._until_ended()
                await self._settle()
            return self._verdict()

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        lab = self._stage.lab
        server = Server(lab.api_url, lab.authority, lab.token)
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(self._watch_rollouts(server)), group.create_task(self._watch_routes(server))]
            yield
            for watcher in watchers:
                watcher.cancel()

    async def _watch_rollouts(self, server: Server) -> None:
        async for manifest in server.watch(ROLLOUTS):
            self._witness.saw_rollout(manifest)

    async def _watch_routes(self, server: Server) -> None:
        async for manifest in server.watch(ROUTES):
            self._witness.saw_route(manifest, now())

    async def _until_ended(self) -> None:
        """Wait until all have ended, as long as there is patience; the fault begins when its step is accepted."""
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                while not all(track.ended for track in self._witness.tracks.values()):
                    await self._witness.changes()
                    self._begin_fault()
                    self._screen.changed(self._witness)
        except TimeoutError:
            self._screen.say(f"not all of them ended within {PATIENCE.total_seconds():.0f} s")

    def _begin_fault(self) -> None:
        due = any(case.faulty and self._witness.tracks[case.name].accepted_step >= FAULT_STEP for case in CASES)
        if due and self._fault_at is None:
            self._fault_at = now()
            write_fault_share(self._stage.fault_file, FAULT_SHARE)
            if not self._screen.console.is_terminal:
                self._screen.say(f"the servers of flaky begin to fail {FAULT_SHARE:.0%} of their requests")

    async def _settle(self) -> None:
        """Wait for what is still on its way: a second of traffic, and messages."""
        until = {case.name: len(self._stage.traffic[case.name].history) + case.rate for case in CASES}
        try:
            async with asyncio.timeout(_MESSAGE_PATIENCE.total_seconds()):
                while self._on_its_way(until):  # noqa: ASYNC110  # neither traffic nor receivers tell how far they are
                    await asyncio.sleep(0.1)
        except TimeoutError:
            return  # what is missing is named in the verdict

    def _on_its_way(self, until: Mapping[str, float]) -> bool:
        counts = {name: len(traffic.history) for name, traffic in self._stage.traffic.items()}
        return any(untold(CASES, self._stage.receivers.received)) or any(
            counts[name] < count for name, count in until.items()
        )

    def _verdict(self) -> Verdict:
        results: list[Result] = []
        wrong: list[str] = []
        self._keep_rollouts()
        for case in CASES:
            track = self._witness.tracks[case.name]
            found = result(case, track, self._stage.traffic[case.name].history, self._fault_at)
            results.append(found)
            wrong += shortfalls(case, found, track)
        wrong += untold(CASES, self._stage.receivers.received)
        books = tuple(traffic.snapshot() for traffic in self._stage.traffic.values())
        return Verdict(tuple(results), tuple(wrong), books)

    def _keep_rollouts(self) -> None:
        """Leave the rollouts as they were seen last beside the logs, which are kept where something went wrong."""
        seen = {name: track.rollout for name, track in self._witness.tracks.items()}
        file = self._stage.lab.files.logs / "rollouts.json"
        file.write_text(json.dumps(seen, indent=2), encoding="utf-8")
