"""The demo: ``python -m e2e.demo [--report FILE]``, or ``make demo``.

Three rollouts of real models at once, on a real control plane, gateway and Prometheus: one is promoted, two are taken
back by themselves. Exit code: 0 if they ended as they should and people were told, 1 if not, 2 if it was not played.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console
from rich.text import Text

from e2e.demo.models.artifacts import ModelBuildError, ensure_models
from e2e.demo.performance import Performance, Verdict
from e2e.demo.receivers import Receivers
from e2e.demo.report import print_messages, print_results, traffic_line, write_report
from e2e.demo.serving.environment import EnvironmentBuildError
from e2e.demo.serving.process import ServerError
from e2e.demo.show import Screen
from e2e.demo.stage import Stage
from e2e.lab import Lab, LabError
from e2e.lab.processes import Process
from e2e.lab.starting import owner_of

LAB: Final = "demo"
#: What is wrong with the machine or the network, in words for people.
_EXPLAINED: Final = (LabError, ServerError, ModelBuildError, EnvironmentBuildError)
#: Where nobody tells how wide a line may be.
_PLAIN_WIDTH: Final = 160
_STOPPED: Final = 128 + signal.SIGINT


def main() -> int:
    """Play the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description="Three rollouts of real models at once.")
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the table as JSON")
    report = parser.parse_args().report
    if report is not None and not report.absolute().parent.is_dir():
        parser.error(f"--report: the folder {report.absolute().parent} does not exist")
    lab = Lab(LAB, scrape_interval=timedelta(seconds=1))
    screen = Screen(Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH))
    code = 2
    try:
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, _interrupt)
        code = _play(lab, screen, report)
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = _STOPPED
        screen.say("stopped before the end")
    except Exception as error:  # noqa: BLE001  # whatever went wrong, the lab is cleared away and the logs are named
        for cause in _causes(error):
            _explain(cause)
    finally:
        _clear(lab, screen, keep_logs=code not in {0, _STOPPED})
    return code


def _play(lab: Lab, screen: Screen, report: Path | None) -> int:
    models = ensure_models(screen.say)
    screen.say("starting etcd, the API server, Prometheus, Contour and Envoy in a network of their own")
    lab.start()
    screen.say(f"the lab is up; logs: {lab.files.logs}")
    receivers = Receivers()
    verdict = asyncio.run(_perform(Stage(lab, models, receivers), screen))
    print_messages(screen.console, receivers.received)
    print_results(screen.console, verdict.results)
    screen.say(traffic_line(verdict.traffic))
    if report is not None:
        write_report(report, verdict.results)
        screen.say(f"the table is also in {report}")
    for shortfall in verdict.shortfalls:
        screen.console.print(Text(f"NOT AS IT SHOULD BE: {shortfall}", style="bold red"), soft_wrap=True)
    return int(bool(verdict.shortfalls))


async def _perform(stage: Stage, screen: Screen) -> Verdict:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(ending, lambda: task.cancel() if task else None)
    async with stage.receivers:
        return await Performance(stage, screen).play()


def _clear(lab: Lab, screen: Screen, *, keep_logs: bool) -> None:
    """Leave nothing of the demo but, where it failed, its logs; nothing interrupts this."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    owner = owner_of(lab.files)
    if lab.up and owner != Process.of(os.getpid()):
        return  # another demo's, which is why this one was not played
    lab.stop(keep_logs=keep_logs)
    screen.say(f"everything is stopped; logs: {lab.files.logs}" if keep_logs else "everything is stopped and removed")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _causes(part)
    else:
        yield error


def _explain(error: BaseException) -> None:
    if isinstance(error, _EXPLAINED):
        print(f"demo: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)


if __name__ == "__main__":
    sys.exit(main())
