"""The service that joins labels as a process: over real sockets, on both databases, and killed."""

import asyncio
import io
import json
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from davylamp.errors import SpecError
from davylamp.labels.authentication import SIGNATURE, signature
from davylamp.runtime.clock import SystemClock
from davylamp.runtime.labels import LabelsProcess, main
from davylamp.runtime.labels_settings import LabelsSettings
from e2e.bench.postgresql import PostgreSQL
from tests.davylamp.labels.conftest import empty_database, postgresql, url
from tests.davylamp.runtime.test_comparator import logging_as_before
from tests.davylamp.runtime.waiting import eventually, eventually_so

__all__ = ["empty_database", "logging_as_before", "postgresql", "url"]

TOKEN: Final = "token-of-the-tests"
KEY: Final = "signing-key-of-the-tests"
CELL: Final = {"namespace": "ml", "rollout": "credit", "attempt": "1", "cohort": "0", "slice": ""}


@pytest.fixture
def settings(url: str, tmp_path: Path) -> LabelsSettings:
    tokens, keys = tmp_path / "tokens", tmp_path / "keys"
    tokens.write_text(TOKEN)
    keys.write_text(KEY)
    return LabelsSettings(url, tokens, keys, host="127.0.0.1", port=0, tidy_every=timedelta(milliseconds=50))


def prediction(name: str, **changes: object) -> dict[str, object]:
    said = {"baseline": {"decision": True, "score": 0.75}, "candidate": {"decision": False, "score": 0.25}}
    return {"id": name, "namespace": "ml", "rollout": "credit", "attempt": "1", "cohort": "0", **said, **changes}


class Client:
    """Posts and scrapes."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._at = f"http://127.0.0.1:{port}"

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        sent = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", **headers}
        sent = {name.replace("_", "-"): value for name, value in sent.items() if value}
        async with self._session.post(f"{self._at}{path}", data=data, headers=sent) as answer:
            return answer.status, await answer.json()

    async def predict(self, names: Sequence[str], **changes: object) -> tuple[int, Any]:
        return await self.post("/predictions", {"predictions": [prediction(name, **changes) for name in names]})

    async def label(self, names: Sequence[str], value: object = 1) -> tuple[int, Any]:
        return await self.post("/labels", {"labels": [{"id": name, "label": value} for name in names]})

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"{self._at}{path}") as answer:
            return answer.status, await answer.text()

    async def sample(self, name: str, **labels: str) -> float | None:
        """Return the one sample of a name that has these labels, or None."""
        status, text = await self.get("/metrics")
        assert status == 200, text
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return found[0] if len(found) == 1 else None


@asynccontextmanager
async def serving(settings: LabelsSettings) -> AsyncIterator[Client]:
    """Run the service in the loop of the test, until it is ready."""
    process, stop = LabelsProcess(settings), asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    try:
        await eventually(lambda: process.port or task.done(), "it listens")
        async with aiohttp.ClientSession() as session:
            client = Client(session, process.port)
            await eventually_so(lambda: ready(client), "it is ready")
            yield client
    finally:
        stop.set()
        await task


async def ready(client: Client) -> bool:
    return await client.get("/readyz") == (200, "ok")


def told(**words: int) -> dict[str, int]:
    return {"joined": 0, "waiting": 0, "late": 0, "duplicate": 0, "contradictory": 0, **words}


# What is posted.


async def test_labels_are_joined_with_predictions_and_counted(settings: LabelsSettings) -> None:
    async with serving(settings) as client:
        assert await client.predict(["a", "b"]) == (200, {"new": 2, "known": 0})
        assert await client.predict(["b", "c"]) == (200, {"new": 1, "known": 1})
        assert await client.label(["a", "a", "later"]) == (200, told(joined=1, duplicate=1, waiting=1))
        assert await client.label(["a", "b"], 0) == (200, told(joined=1, contradictory=1))
        assert await client.sample("davylamp_label_outcomes_total", **CELL, variant="baseline", outcome="TP") == 1
        assert await client.sample("davylamp_label_outcomes_total", **CELL, variant="candidate", outcome="TN") == 1
        assert await client.sample("davylamp_label_open_predictions", rollout="credit") == 1
        assert await client.sample("davylamp_label_requests_total", path="/labels", code="200") == 2
        assert (await client.sample("davylamp_label_write_seconds_count") or 0) >= 4


async def test_events_are_taken_in_their_three_modes(settings: LabelsSettings) -> None:
    event = {"specversion": "1.0", "id": "e", "source": "/s", "type": "t", "data": {"id": "a", "label": True}}
    async with serving(settings) as client:
        await client.predict(["a"])
        single = {"ce_specversion": "1.0", "ce_id": "e", "ce_source": "/s", "ce_type": "t"}
        assert await client.post("/labels", event["data"], **single) == (200, told(joined=1))
        kind = "application/cloudevents+json; charset=utf-8"
        assert await client.post("/labels", event, content_type=kind) == (200, told(duplicate=1))
        batch = "application/cloudevents-batch+json"
        assert await client.post("/labels", [event, event], content_type=batch) == (200, told(duplicate=2))


async def test_what_waited_in_vain_or_expired_is_counted_by_itself(settings: LabelsSettings) -> None:
    moment = timedelta(milliseconds=1)
    short = replace(settings, terms=replace(settings.terms, time_to_live=moment, wait=moment))
    async with serving(short) as client:
        await client.predict(["a"])
        await client.label(["nobody"])

        async def counted() -> bool:
            unknown = await client.sample("davylamp_label_arrivals_total", rollout="", result="unknown")
            expired = await client.sample("davylamp_label_expired_predictions_total", rollout="credit")
            return (unknown, expired) == (1, 1)

        await eventually_so(counted, "both are counted")
        assert await client.label(["a"]) == (200, told(late=1))


# Who may post, and what.


async def test_only_a_token_or_a_signature_lets_in(settings: LabelsSettings) -> None:
    body = json.dumps({"labels": [{"id": "a", "label": 1}]}).encode()
    at = int(SystemClock().now().timestamp())
    async with serving(settings) as client:
        for path in ("/labels", "/predictions"):
            for header in ("", "Bearer wrong", f"Bearer {KEY}"):
                status, answer = await client.post(path, body, authorization=header)
                assert (status, answer) == (401, {"error": "bring a token or a signature"})
        signed = {"authorization": "", SIGNATURE.replace("-", "_"): signature(KEY.encode(), body, at)}
        assert await client.post("/labels", body, **signed) == (200, told(waiting=1))
        # Sent again by somebody who listened: it changes nothing.
        assert await client.post("/labels", body, **signed) == (200, told(duplicate=1))
        old = signed | {SIGNATURE.replace("-", "_"): signature(KEY.encode(), body, at - 400)}
        wrong = (401, {"error": "the signature is wrong or too old"})
        assert await client.post("/labels", body, **old) == wrong
        assert await client.post("/labels", body + b" ", **signed) == wrong


async def test_what_is_wrong_is_refused_whole_with_the_place(settings: LabelsSettings) -> None:
    async with serving(settings) as client:
        await client.predict(["a"])
        status, answer = await client.post("/labels", {"labels": [{"id": "a", "label": 1}, {"id": "b"}]})
        assert (status, answer) == (400, {"error": "labels[1].label: Field required"})
        assert (await client.post("/labels", b"x" * (4 * 1024 * 1024 + 1)))[0] == 413
        assert (await client.post("/elsewhere", b"x"))[0] == 404
        assert (await client.get("/labels"))[0] == 405
        assert await client.label(["a"]) == (200, told(joined=1))


async def test_without_its_database_it_says_so_and_comes_back_by_itself(
    settings: LabelsSettings, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    missing = replace(settings, database=f"sqlite:///{gone / 'labels.db'}")
    process, stop = LabelsProcess(missing), asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    await eventually(lambda: process.port, "it listens")
    async with aiohttp.ClientSession() as session:
        client = Client(session, process.port)
        assert await client.get("/readyz") == (503, "the database is not prepared yet")
        assert await client.get("/healthz") == (200, "ok")
        status, answer = await client.label(["a"])
        assert status == 503
        assert answer["error"].startswith("the database failed")
        assert (await client.get("/metrics"))[0] == 503
        gone.mkdir()
        await eventually_so(lambda: ready(client), "it is ready")
        assert await client.label(["a"]) == (200, told(waiting=1))
    stop.set()
    await task


# Several replicas, and death.


async def test_two_replicas_agree_and_one_exports(settings: LabelsSettings) -> None:
    async with serving(settings) as one, serving(settings) as other:
        await asyncio.gather(*(client.predict([f"r{n}" for n in range(50)]) for client in (one, other)))
        halves = ([f"r{n}" for n in range(30)], [f"r{n}" for n in range(20, 50)])
        answers = await asyncio.gather(one.label(halves[0]), other.label(halves[1]))
        assert sum(answer["joined"] for _, answer in answers) == 50
        assert sum(answer["duplicate"] for _, answer in answers) == 10
        exported = [
            await client.sample("davylamp_label_outcomes_total", **CELL, variant="baseline", outcome="TP")
            for client in (one, other)
        ]
        assert sorted(exported, key=str) == [50, None]


async def test_a_crash_of_postgresql_itself_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    with PostgreSQL() as server:
        url = server.database("crashed")
        settings = LabelsSettings(url, tokens, host="127.0.0.1", port=0, tidy_every=timedelta(milliseconds=50))
        async with serving(settings) as client:
            names = [f"r{n}" for n in range(20)]
            await client.predict(names)
            assert await client.label(names[:10]) == (200, told(joined=10))
            assert await client.sample("davylamp_label_exporter") == 1
            await asyncio.to_thread(server.stop, signal.SIGQUIT)
            status, answer = await client.label(names)
            assert (status, answer["error"].startswith("the database failed")) == (503, True)
            assert (await client.get("/metrics"))[0] == 503
            await asyncio.to_thread(server.start)

            async def taken() -> bool:
                return (await client.label(names[10:]))[0] == 200

            await eventually_so(taken, "labels are taken again")
            assert (await client.label(names))[1] == told(duplicate=20)
            await eventually_so(lambda: tidied_in_vain(client), "tidying has failed meanwhile")
            assert await client.sample("davylamp_label_arrivals_total", rollout="credit", result="joined") == 20


async def tidied_in_vain(client: Client) -> bool:
    return bool(await client.sample("davylamp_label_tidying_failures_total"))


async def test_killed_at_any_moment_it_has_lost_and_doubled_nothing(settings: LabelsSettings) -> None:
    """Whoever posts repeats what was not answered; in the end every label is joined once, and every one that was
    answered before a kill is still there after it."""
    rounds, names = 3, [f"r{n}" for n in range(120)]
    seen = 0.0
    for turn in range(rounds):
        async with started(settings) as (process, client):
            before = await client.sample("davylamp_label_outcomes_total", **CELL, variant="baseline", outcome="TP")
            assert (before or 0) >= seen
            posts = [asyncio.create_task(repeatedly(client, names[turn * 40 :][:40], every)) for every in (1, 5)]
            # Somewhere in the middle of the posts; they go on until the process is gone.
            await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
            counted = await client.sample("davylamp_label_outcomes_total", **CELL, variant="baseline", outcome="TP")
            seen = counted or 0
            process.kill()
            await process.wait()
            await asyncio.gather(*posts, return_exceptions=True)
    async with started(settings) as (_, client):
        await client.predict(names)
        status, answer = await client.label(names)
        assert status == 200
        assert answer["joined"] + answer["duplicate"] == len(names)
        assert await client.sample("davylamp_label_outcomes_total", **CELL, variant="baseline", outcome="TP") == len(
            names
        )
        assert await client.sample("davylamp_label_pairs_total", **CELL, result="baseline_right") is None
        assert await client.sample(
            "davylamp_label_pairs_total", **CELL, label="positive", result="baseline_right"
        ) == len(names)
        assert await client.sample("davylamp_label_open_predictions", rollout="credit") == 0


async def repeatedly(client: Client, names: Sequence[str], size: int) -> None:
    """Post predictions and labels in small pieces, labels first for some."""
    for start in range(0, len(names), size):
        piece = names[start : start + size]
        if start % 2:
            await client.label(piece)
        await client.predict(piece)
        await client.label(piece)


@asynccontextmanager
async def started(settings: LabelsSettings) -> AsyncIterator[tuple[Process, Client]]:
    """Run the service as a process of its own, as users do."""
    words = ["labels", "serve", "--listen", "127.0.0.1:0", "--database", settings.database]
    words += ["--token-file", str(settings.tokens)]
    program = "import sys; from davylamp.cli.app import run; run(sys.argv[1:])"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, *words, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        line = json.loads(await process.stderr.readline())
        assert line["event"] == "started", line
        async with aiohttp.ClientSession() as session:
            client = Client(session, line["port"])
            await eventually_so(lambda: ready(client), "it is ready")
            yield process, client
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        rest = (await process.stderr.read()).decode()
        code = await process.wait()
        assert code in {0, -signal.SIGKILL}, rest
        assert code or '"event": "stopped"' in rest
        assert "Traceback" not in rest


# Beginning.


def test_a_port_that_is_taken_ends_it(settings: LabelsSettings) -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SpecError, match=f"cannot listen on 127.0.0.1:{port}"):
            await LabelsProcess(replace(settings, port=port)).run()
        server.close()

    asyncio.run(run())


async def test_tables_of_another_version_end_it(settings: LabelsSettings) -> None:
    async with serving(settings):
        pass
    process = LabelsProcess(settings)
    with process._database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE davylamp_label_schema SET version = 99")
    with pytest.raises(SpecError, match="have version 99"):
        await process.run()


def test_files_without_a_key_let_nobody_post(settings: LabelsSettings) -> None:
    for file in (settings.tokens, settings.signing_keys):
        assert file is not None
        file.write_text("short\n")
    with pytest.raises(SpecError, match=r"there is no key of 16 characters or more in .*tokens or .*keys"):
        LabelsProcess(settings)


def test_a_wrong_setting_ends_with_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAVYLAMP_LABELS_TOKEN_FILE", raising=False)
    with pytest.raises(SystemExit) as ended:
        main({"DAVYLAMP_LISTEN": "127.0.0.1:0"})
    assert ended.value.code == 2
    words = "davylamp: nobody could post: set DAVYLAMP_LABELS_TOKEN_FILE or DAVYLAMP_LABELS_SIGNING_KEY_FILE\n"
    assert capsys.readouterr().err == words
