"""How many pairs a second one core compares, and what the comparator does when more comes than it can take.

The comparator has one core; two variants and the sender of the mirrored requests share another. Each request is a v2
tensor of 1 KB and is answered by one of the same size; of each pair one value differs.

    pairs         compared a second, both calls included, when the next request comes as soon as a pair is done
    busy          share of its core that the comparator used meanwhile
    milliseconds  of processor time for a pair
    capacity      pairs a second for which one whole core has the time: where a machine has other work, it says more
                  than the rate
    offered       requests a second at overload
    overloaded    pairs compared a second at overload
    dropped       share of the requests that was dropped, and counted
    memory        of the comparator at overload, MiB: after each tenth of the time
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import httptools
import structlog

from davylamp.shadow.comparator import Comparator, Ports, loop_factory
from davylamp.shadow.comparing import compare
from davylamp.shadow.task import Replay, Task

_HOST: Final = "127.0.0.1"
_NAME: Final = ("bench", "credit")
#: Requests that are on their way at once, where the next waits for a pair.
_WINDOW: Final = 256
_VALUES: Final = 100
#: Into so many the time at overload is divided.
_PARTS: Final = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """See the module."""

    pairs: float
    busy: float
    milliseconds: float
    capacity: float
    offered: float
    overloaded: float
    dropped: float
    memory: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Meters:
    """The comparator at one moment: seconds, requests, MiB."""

    at: float
    processor: float
    pairs: float
    dropped: float
    memory: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.shadow", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to compare (default 10)")
    parser.add_argument(
        "--overload", type=float, default=0.5, metavar="MINUTES", help="how long to overload (default .5)"
    )
    parser.add_argument("--rate", type=float, default=3000.0, help="requests a second at overload (default 3000)")
    parser.add_argument("--report", type=Path, help="write the figures as JSON, too")
    parser.add_argument("--comparator", nargs=2, metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    factory = loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        if options.comparator:
            runner.run(_comparator(*options.comparator))
            return 0
        figures = runner.run(_measure(options.seconds, options.overload * 60, options.rate))
    shown = json.dumps(asdict(figures), indent=2)
    print(shown)
    if options.report:
        options.report.write_text(shown + "\n", "utf-8")
    return 0


async def _comparator(baseline: str, candidate: str) -> None:
    """Compare until the standard input ends; say on which ports."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    comparator = Comparator(compare, ports=Ports(_HOST, 0))
    await comparator.start()
    replay = Replay(concurrency=16)
    task = Task(*_NAME, port=0, baseline=baseline, candidate=candidate, sample=1.0, noise=0.0, replay=replay)
    await comparator.set_tasks([task])
    ports = comparator.ports_of(*_NAME)
    if ports is None:
        raise RuntimeError("the comparator has no port")
    print(ports[0], comparator.admin_port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await comparator.stop()


async def _measure(seconds: float, overload: float, rate: float) -> Figures:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    sender = Sender()
    baseline, candidate = [await _variant(answer, sender.answered) for answer in (_answer(0.25), _answer(0.2500001))]
    program = (sys.executable, "-m", "e2e.bench.shadow", "--comparator", baseline, candidate)
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - before anything is measured
        os.sched_setaffinity(process.pid, {cores[0]})
        line = await asyncio.to_thread(process.stdout.readline)  # type: ignore[union-attr]  # a pipe, as asked for above
        port, admin = (int(number) for number in line.split())

        async def meters() -> Meters:
            return await asyncio.to_thread(_meters, process.pid, admin)

        try:
            await sender.connect(port)
            compared = await _compared(sender, meters, seconds)
            overloaded = await _overloaded(sender, meters, overload, rate)
        finally:
            process.stdin.close()  # type: ignore[union-attr]  # as above
    return Figures(**compared, **overloaded)  # type: ignore[arg-type]  # the fields of either part


async def _compared(sender: "Sender", meters: Callable, seconds: float) -> dict[str, float]:  # type: ignore[type-arg]
    sender.keep_going(_WINDOW)
    await asyncio.sleep(1)  # connections and caches
    before = await meters()
    await asyncio.sleep(seconds)
    after = await meters()
    sender.keep_going(0)
    passed, pairs, used = after.at - before.at, after.pairs - before.pairs, after.processor - before.processor
    return {
        "pairs": round(pairs / passed, 1),
        "busy": round(used / passed, 3),
        "milliseconds": round(1000 * used / pairs, 3),
        "capacity": round(pairs / used, 1),
    }


async def _overloaded(
    sender: "Sender",
    meters: Callable,  # type: ignore[type-arg]
    seconds: float,
    rate: float,
) -> dict[str, float | tuple[float, ...]]:
    start, first = await meters(), sender.sent
    memory: list[float] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (passed := loop.time() - began) < seconds:
        sender.send(int(rate * passed) - (sender.sent - first))
        if passed > (len(memory) + 1) * seconds / _PARTS:
            memory.append((await meters()).memory)
        await asyncio.sleep(0.01)
    end = await meters()
    sent = sender.sent - first
    return {
        "offered": round(sent / (end.at - start.at), 1),
        "overloaded": round((end.pairs - start.pairs) / (end.at - start.at), 1),
        "dropped": round((end.dropped - start.dropped) / sent, 3),
        "memory": (*memory[: _PARTS - 1], end.memory),
    }


def _meters(pid: int, admin: int) -> Meters:
    with urlopen(f"http://{_HOST}:{admin}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    resident = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"), re.MULTILINE)
    return Meters(
        at=float(Path("/proc/uptime").read_text("utf-8").split()[0]),
        processor=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        pairs=_value(text, "pairs_total", 'pair="candidate"'),
        dropped=_value(text, "requests_total", 'outcome="Dropped"'),
        memory=round(int(resident[1]) / 1024, 1) if resident else 0.0,
    )


def _value(text: str, metric: str, label: str) -> float:
    found = re.search(rf"^davylamp_shadow_{metric}{{[^}}]*{label}[^}}]*}} (\S+)", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _tensor(value: float) -> str:
    return f'{{"name":"x","shape":[1,{_VALUES}],"datatype":"FP32","data":[{",".join([str(value)] * _VALUES)}]}}'


def _answer(value: float) -> bytes:
    values = _tensor(0.1234567).replace("0.1234567", str(value), 1)
    return f'{{"model_name":"credit","outputs":[{values}]}}'.encode()


async def _variant(body: bytes, answered: Callable[[], None]) -> str:
    """Serve a variant and return its address."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    class Variant(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # a stream's
            self.parser = httptools.HttpRequestParser(self)

        def data_received(self, data: bytes) -> None:
            self.parser.feed_data(data)

        def on_message_complete(self) -> None:
            self.transport.write(answer)
            answered()

    server = await asyncio.get_running_loop().create_server(Variant, _HOST, 0)
    return f"{_HOST}:{server.sockets[0].getsockname()[1]}"


class Sender(asyncio.Protocol):
    """Sends mirrored requests as fast as told, and reads no more of the answers than that they come."""

    def __init__(self) -> None:
        self.sent = 0
        self._answers = 0
        self._window = 0
        body = f'{{"inputs":[{_tensor(0.1234567)}]}}'.encode()
        head = b"POST /v2/models/credit/infer HTTP/1.1\r\nhost: credit-shadow\r\ncontent-type: application/json\r\n"
        self._before = head + b"content-length: %d\r\nx-request-id: " % len(body)
        self._after = b"\r\nx-envoy-internal: true\r\nx-forwarded-for: 10.0.0.1\r\n\r\n" + body

    async def connect(self, port: int) -> None:
        """Connect to the comparator."""
        self._transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, _HOST, port)

    def send(self, number: int) -> None:
        """Send so many requests."""
        for _ in range(number):
            self._transport.write(self._before + b"%032x" % self.sent + self._after)
            self.sent += 1

    def keep_going(self, window: int) -> None:
        """Keep so many requests on their way from now on."""
        self._window = window
        self.send(window)

    def answered(self) -> None:
        """Take note of a variant's answer: two are a pair, and the next request may come."""
        self._answers += 1
        if self._window and self._answers % 2 == 0:
            self.send(1)


if __name__ == "__main__":
    sys.exit(main())
