"""prometheus-api-client against real connections: what it would hide, and how long it would wait, is guarded."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from davylamp.errors import SpecError, Unavailable
from davylamp.offline.server import CHUNK, Server, fetch

BEGIN = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
UP = '{__name__="up_total",namespace="ml"}'
Answer = Callable[[dict[str, str]], tuple[int, Any]]


@contextmanager
def answering(answer: Answer) -> Iterator[tuple[str, list[dict[str, str]], list[dict[str, str]]]]:
    """Serve on loopback; yield the address, the forms that came, and their headers."""
    forms: list[dict[str, str]] = []
    headers: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            form = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            forms.append(form)
            headers.append(dict(self.headers))
            status, body = answer(form)
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", forms, headers
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def counter(form: dict[str, str]) -> tuple[int, Any]:
    """Answer with a sample each 10 s, both ends of the range among them, as Prometheus 2 does."""
    end, length = float(form["time"]), int(form["query"].rpartition("[")[2].rstrip("s]"))
    values = [[at, str(int(at))] for at in range(int(end) - length, int(end) + 1, 10)]
    series = {"metric": {"__name__": "up_total", "namespace": "ml"}, "values": values}
    return 200, {"status": "success", "data": {"resultType": "matrix", "result": [series]}}


def test_a_long_range_is_read_in_chunks_and_no_sample_at_a_seam_counts_twice() -> None:
    end = BEGIN + 2 * CHUNK + timedelta(seconds=30)
    with answering(counter) as (address, forms, _):
        history = fetch(Server(address), [UP], (BEGIN, end))
    (track,) = history.tracks[UP]
    times = [pair[0] for pair in track.values]
    assert len(forms) == 3
    assert times == sorted(set(times))
    assert times[0] == BEGIN.timestamp()
    assert times[-1] >= end.timestamp()
    assert history.samples == len(times)


def test_headers_are_sent_and_a_path_before_the_api_is_kept() -> None:
    with answering(counter) as (address, _, headers):
        fetch(Server(f"{address}/prometheus/", {"X-Scope-OrgID": "ml"}), [UP], (BEGIN, BEGIN + timedelta(minutes=1)))
    assert headers[0]["X-Scope-OrgID"] == "ml"


def test_warnings_that_the_library_drops_make_the_answer_no_answer() -> None:
    def partial(form: dict[str, str]) -> tuple[int, Any]:
        return 200, counter(form)[1] | {"warnings": ["a store is away"]}

    with answering(partial) as (address, _, _), pytest.raises(Unavailable, match="in part only: a store is away"):
        fetch(Server(address), [UP], (BEGIN, BEGIN + timedelta(minutes=1)))


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (
            422,
            {"status": "error", "errorType": "execution", "error": "too many samples"},
            SpecError,
            "too many samples",
        ),
        (401, {}, SpecError, "refuses the credentials"),
        (404, b"no", SpecError, "no Prometheus API"),
        (200, b"<html>", Unavailable, "not JSON"),
        (200, {"status": "error", "error": "bad"}, SpecError, "refuses the query"),
        (500, b"", Unavailable, "500"),
    ],
)
def test_an_answer_that_is_none_says_whose_fault_it_is(
    status: int, body: Any, error: type[Exception], words: str
) -> None:
    with answering(lambda _: (status, body)) as (address, _, _), pytest.raises(error, match=words) as raised:
        fetch(Server(address), [UP], (BEGIN, BEGIN + timedelta(minutes=1)))
    assert address in str(raised.value)


def test_a_server_that_is_overloaded_for_a_moment_is_asked_again() -> None:
    refused: list[int] = []

    def busy_once(form: dict[str, str]) -> tuple[int, Any]:
        if not refused:
            refused.append(503)
            return 503, {}
        return counter(form)

    with answering(busy_once) as (address, forms, _):
        fetch(Server(address), [UP], (BEGIN, BEGIN + timedelta(minutes=1)))
    assert len(forms) == 2


def test_a_silent_server_is_not_waited_for_for_ever() -> None:
    release = threading.Event()

    def silent(form: dict[str, str]) -> tuple[int, Any]:
        release.wait(20)
        return counter(form)

    with answering(silent) as (address, _, _):
        try:
            with pytest.raises(Unavailable, match=r"cannot be (reached|asked)|silent"):
                fetch(Server(address, timeout=timedelta(milliseconds=50)), [UP], (BEGIN, BEGIN + timedelta(minutes=1)))
        finally:
            release.set()


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        fetch(Server("http://127.0.0.1:1"), [UP], (BEGIN, BEGIN + timedelta(minutes=1)))


@pytest.mark.parametrize(("length", "words"), [(timedelta(0), "must end after"), (timedelta(days=20), "limit is 14")])
def test_a_range_that_cannot_be_read_is_refused(length: timedelta, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        fetch(Server("http://127.0.0.1:1"), [UP], (BEGIN, BEGIN + length))
