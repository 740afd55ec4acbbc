"""Whether the join of labels keeps up with many open requests, and loses or doubles nothing when it is killed.

So many requests are opened first. Then labels come at a rate, in any order, some twice, some contradictory, some of
requests that nobody knows, while the service is killed by SIGKILL several times and started again. Whoever posts
repeats what was not answered. In the end every counter is compared with what was sent.

    opened      requests opened a second
    offered     labels that were to come a second, and how long
    answered    labels answered a second, kills included
    processor   milliseconds of processor time of the service for a thousand labels
    median      milliseconds from the time at which a batch was due until its answer, of those that were due while the
    p99           service kept up; a kill leaves it behind for a while
    longest
    kills       of the service, and the seconds until it was ready again, each
    lost        labels that are in no counter
    doubled     labels that are in a counter twice
    scrape      milliseconds for all counters
    memory      of the service, MiB
    size        of the database, MiB
"""

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from davylamp.labels.database import Database
from e2e.bench.postgresql import PostgreSQL

_BATCH: Final = 50
_OPENED_AT_ONCE: Final = 1000
_SENDERS: Final = 4
_PROGRAM: Final = "import sys; from davylamp.cli.app import run; run(sys.argv[1:])"
_FEMALE, _MALE = "sex=Female", "sex=Male"


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be done."""

    opened: int
    rate: int
    seconds: int
    kills: int


@dataclass
class Figures:
    """See the module."""

    database: str
    open: int
    opened: float
    offered: tuple[int, int]
    answered: float = 0.0
    processor: float = 0.0
    median: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    kills: list[float] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0
    scrape: float = 0.0
    memory: float = 0.0
    size: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; exit code 1 if a label was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.labels", description=__doc__.splitlines()[0])
    parser.add_argument("--open", type=int, default=1_000_000, help="requests that are open (default 1000000)")
    parser.add_argument("--rate", type=int, default=1000, help="labels a second (default 1000)")
    parser.add_argument("--seconds", type=int, default=60, help="how long (default 60)")
    parser.add_argument("--kills", type=int, default=3, help="of the service, meanwhile (default 3)")
    parser.add_argument(
        "--database", help='"sqlite" or "postgresql", which are made for it, or a URL of an empty one (default: both)'
    )
    parser.add_argument("--report", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(arguments)
    load = Load(options.open, options.rate, options.seconds, options.kills)
    found = []
    for database in [options.database] if options.database else ["sqlite", "postgresql"]:
        with ExitStack() as stack:
            found.append(asyncio.run(_Bench(_url(database, stack), load).run()))
            print(json.dumps(asdict(found[-1]), indent=2), flush=True)
    if options.report:
        options.report.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n", "utf-8")
    return int(any(each.lost or each.doubled for each in found))


def _url(database: str, stack: ExitStack) -> str:
    if database == "sqlite":
        return f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/labels.db"
    if database == "postgresql":
        return stack.enter_context(PostgreSQL()).database("labels")
    return database


@dataclass(frozen=True, slots=True)
class Request:
    """What was said of a request, and what is true; all of it follows from its number."""

    number: int

    @property
    def id(self) -> str:
        """Its name, in no order of any kind."""
        return f"{(self.number * 2654435761) % 2**32:08x}-{self.number}"

    @property
    def truth(self) -> int:
        """Its label."""
        return int(self.number % 3 == 0)

    @property
    def slices(self) -> tuple[str, ...]:
        """Its slices."""
        return (_FEMALE if self.number % 2 else _MALE,)

    @property
    def said(self) -> dict[str, bool]:
        """What both variants decided."""
        return {"baseline": self.number % 3 == 0 or self.number % 11 == 0, "candidate": self.number % 4 != 1}

    def prediction(self) -> dict[str, Any]:
        """Return it as a comparator posts it."""
        where = {"namespace": "bench", "rollout": "credit", "attempt": "1", "cohort": "0"}
        answers = {variant: {"decision": decision, "score": 0.5} for variant, decision in self.said.items()}
        return {"id": self.id, **where, "slices": self.slices, **answers}

    def outcomes(self) -> Iterator[tuple[str, str, str]]:
        """Yield what its label counts: slice, variant and outcome."""
        for variant, decision in self.said.items():
            outcome = f"{'T' if decision == self.truth else 'F'}{'P' if decision else 'N'}"
            for part in ("", *self.slices):
                yield part, variant, outcome


class _Bench:
    def __init__(self, url: str, load: Load) -> None:
        self._url = url
        self._load = load
        self._random = random.Random(7)  # noqa: S311 - an order, and no secret
        self._token = secrets.token_hex(16)
        self._figures = Figures(Database(url).kind, load.opened, 0.0, (load.rate, load.seconds))
        self._process: Process | None = None
        self._port = 0
        self._up = asyncio.Event()
        self._starts = 0
        self._under_way = 0
        self._used = 0.0
        self._token_file = ""
        self._sent: list[int] = []
        self._spans: list[float] = []

    async def run(self) -> Figures:
        with tempfile.NamedTemporaryFile("w", suffix=".token") as file:
            file.write(self._token)
            file.flush()
            self._token_file = file.name
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token}"}) as self._session:
                await self._start()
                try:
                    await self._open()
                    await self._label()
                    await self._compare()
                finally:
                    await self._end(signal.SIGTERM)
        return self._figures

    # -- the service ------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        words = ("--listen", "127.0.0.1:0", "--database", self._url, "--token-file", self._token_file)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, "labels", "serve", *words, stderr=PIPE
        )
        if self._process.stderr is None:
            raise RuntimeError("the service has no standard error")
        self._port = json.loads(await self._process.stderr.readline())["port"]
        while True:
            async with self._session.get(f"http://127.0.0.1:{self._port}/readyz") as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.05)
        self._starts += 1
        self._up.set()

    async def _end(self, how: signal.Signals) -> None:
        self._up.clear()
        if self._process is not None:
            self._process.send_signal(how)
            await self._process.communicate()

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        """Post until it is answered with success."""
        while True:
            await self._up.wait()
            try:
                async with self._session.post(f"http://127.0.0.1:{self._port}{path}", json=body) as answer:
                    if answer.status == 200:
                        await answer.read()
                        return
                    if answer.status != 503:
                        raise RuntimeError(f"{path} answers {answer.status}: {await answer.text()}")
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)

    # -- what is done -----------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        began, starts = loop.time(), iter(range(0, self._load.opened, _OPENED_AT_ONCE))

        async def send() -> None:
            for start in starts:
                numbers = range(start, min(start + _OPENED_AT_ONCE, self._load.opened))
                await self._post("/predictions", {"predictions": [Request(n).prediction() for n in numbers]})
                if start % 100_000 == 0:
                    print(f"{start:,} opened after {loop.time() - began:.0f} s", file=sys.stderr)

        await asyncio.gather(*(send() for _ in range(_SENDERS)))
        self._figures.opened = round(self._load.opened / (loop.time() - began), 1)

    async def _label(self) -> None:
        """Send labels when they are due, whatever became of those before; kill meanwhile."""
        loop = asyncio.get_running_loop()
        total = min(self._load.rate * self._load.seconds, self._load.opened)
        self._sent = self._random.sample(range(self._load.opened), total)
        self._used = -self._processor()
        killing = asyncio.create_task(self._kill())
        began, posts = loop.time(), []
        for start in range(0, total, _BATCH):
            due = began + start / self._load.rate
            await asyncio.sleep(max(due - loop.time(), 0))
            posts.append(asyncio.create_task(self._batch(self._sent[start : start + _BATCH], due)))
        await asyncio.gather(*posts)
        self._figures.answered = round(total / (loop.time() - began), 1)
        await killing
        self._used += self._processor()
        self._figures.processor = round(1000 * self._used / (total / 1000), 1)
        spans = sorted(self._spans) or [0.0]
        self._figures.median = round(1000 * spans[len(spans) // 2], 1)
        self._figures.p99 = round(1000 * spans[int(len(spans) * 0.99)], 1)
        self._figures.longest = round(1000 * spans[-1], 1)

    async def _batch(self, numbers: Sequence[int], due: float) -> None:
        """Send a batch, some of it again with the same label and some with another, and what nobody knows."""
        loop = asyncio.get_running_loop()
        starts, keeps_up = self._starts, self._under_way * _BATCH < self._load.rate
        self._under_way += 1
        labels: list[dict[str, Any]] = [{"id": Request(n).id, "label": Request(n).truth} for n in numbers]
        strangers: list[dict[str, Any]] = [{"id": f"stranger-{n}", "label": 1} for n in numbers[:2]]
        await self._post("/labels", {"labels": labels + strangers})
        self._under_way -= 1
        if keeps_up and starts == self._starts and self._up.is_set():
            self._spans.append(loop.time() - due)
        again = labels[:3] + [{**label, "label": 1 - label["label"]} for label in labels[3:4]]
        await self._post("/labels", {"labels": again})

    async def _kill(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._load.kills):
            await asyncio.sleep(self._load.seconds / (self._load.kills + 1))
            self._used += self._processor()
            await self._end(signal.SIGKILL)
            gone = loop.time()
            await self._start()
            self._figures.kills.append(round(loop.time() - gone, 2))
            self._used -= self._processor()

    async def _compare(self) -> None:
        """Compare the counters with what was sent."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._session.get(f"http://127.0.0.1:{self._port}/metrics") as answer:
            text = await answer.text()
        self._figures.scrape = round(1000 * (loop.time() - began), 1)
        counted: Counter[tuple[str, ...]] = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels
                if sample.name == "davylamp_label_outcomes_total":
                    counted[labels["slice"], labels["variant"], labels["outcome"]] += int(sample.value)
                if sample.name in {"davylamp_label_open_predictions", "davylamp_label_waiting_labels"}:
                    counted[sample.name,] += int(sample.value)
        wanted: Counter[tuple[str, ...]] = Counter()
        for number in self._sent:
            wanted.update(Request(number).outcomes())
        wanted["davylamp_label_open_predictions",] = self._load.opened - len(self._sent)
        wanted["davylamp_label_waiting_labels",] = sum(
            len(self._sent[n : n + _BATCH][:2]) for n in range(0, len(self._sent), _BATCH)
        )
        self._figures.lost = (wanted - counted).total()
        self._figures.doubled = (counted - wanted).total()
        self._figures.memory = self._resident()
        self._figures.size = self._size()

    def _processor(self) -> float:
        """Return the seconds of processor time that the service has used since its start."""
        fields = Path(f"/proc/{self._pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def _pid(self) -> int:
        return self._process.pid if self._process else os.getpid()

    def _resident(self) -> float:
        status = Path(f"/proc/{self._pid}/status").read_text("utf-8")
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        return round(int(found[1]) / 1024, 1) if found else 0.0

    def _size(self) -> float:
        database = Database(self._url)
        with database.engine.connect() as connection:
            if database.kind == "postgresql":
                size = int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
            else:
                path = str(database.engine.url.database)
                size = sum(os.path.getsize(path + end) for end in ("", "-wal"))  # noqa: PTH202 - one expression
        database.close()
        return round(size / 2**20, 1)


if __name__ == "__main__":
    sys.exit(main())
