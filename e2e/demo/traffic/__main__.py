"""Replay held-out rows through a gateway: ``python -m e2e.demo.traffic --gateway http://… --host income.demo``."""

from __future__ import annotations

import argparse
import asyncio
from datetime import datetime, timedelta

from e2e.demo.models.artifacts import ensure_models
from e2e.demo.traffic.bodies import request_bodies
from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.demo.traffic.history import NOBODY, Second


def main() -> None:
    """Send, and print one line a second and the sums at the end."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo.traffic", description=__doc__)
    parser.add_argument("--gateway", required=True, help="such as http://127.0.0.1:8080")
    parser.add_argument("--host", required=True, help="the Host header that the route expects")
    parser.add_argument("--rate", type=float, default=100, help="requests a second (default 100)")
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60, at most 3600)")
    parser.add_argument("--seed", type=int, default=0, help="for the order of the rows")
    asked = parser.parse_args()
    bodies = request_bodies(ensure_models().held_out().features, seed=asked.seed)
    pace = Pace(asked.rate, duration=timedelta(seconds=asked.seconds))
    traffic = Traffic(Target(asked.gateway.rstrip("/"), asked.host), bodies, pace)
    try:
        asyncio.run(_watch(traffic))
    except KeyboardInterrupt:
        print("stopped by Ctrl-C")
    print(_summary(traffic))


async def _watch(traffic: Traffic) -> None:
    async with traffic:
        finished = asyncio.ensure_future(traffic.finished())
        shown: datetime | None = None
        while not finished.done():
            await asyncio.wait({finished}, timeout=1)
            seconds = list(traffic.history.seconds(shown))
            # The last second is still filling, until the traffic is over.
            for second in seconds if finished.done() else seconds[:-1]:
                print(_line(second), flush=True)
                shown = second.start + timedelta(seconds=1)
        await finished


def _line(second: Second) -> str:
    counts = "  ".join(f"{_name(variant)} {status}: {count}" for variant, status, count in second.counts)
    return f"{second.start:%H:%M:%S}  {counts}"


def _summary(traffic: Traffic) -> str:
    books = traffic.snapshot()
    took = sorted(answer.took.total_seconds() * 1000 for answer in traffic.history.between())
    lines = [f"asked {books.asked}, answered {books.answered}, failed {books.failed}, shed {books.shed}"]
    if took:
        lines.append(f"median {took[len(took) // 2]:.1f} ms, 99th percentile {took[len(took) * 99 // 100]:.1f} ms")
    for variant, served in books.served.items():
        good = served.requests - served.failed
        share = f", positive {served.positive / good:.1%}" if good else ""
        lines.append(f"{_name(variant)}: {served.requests} requests, {served.failed} failed{share}")
    return "\n".join(lines)


def _name(variant: str) -> str:
    return "nobody" if variant == NOBODY else variant


if __name__ == "__main__":
    main()
