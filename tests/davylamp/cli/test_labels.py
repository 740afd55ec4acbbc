"""`davylamp labels`: the service's options, and tables of labels pushed over a real socket."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from davylamp.cli import labels_push
from tests.davylamp.cli.calling import Ended, call

TOKEN = "token-of-the-tests"


class Service(ThreadingHTTPServer):
    """Takes labels as the real one does; a test may have it fail first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[dict[str, Any]] = []
        self.sizes: list[int] = []
        #: Statuses of the next answers; 0 closes the connection.
        self.failures: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/labels"
        assert self.headers["authorization"] == f"Bearer {TOKEN}"
        if self.server.failures:
            status = self.server.failures.pop(0)
            if status:
                self._answer(status, {"error": "labels[0].time: must be a time"})
            else:
                self.close_connection = True
            return
        known = {label["id"] for label in self.server.taken}
        new = [label for label in body["labels"] if label["id"] not in known]
        self.server.taken += new
        self.server.sizes.append(len(body["labels"]))
        self._answer(200, {"joined": len(new), "waiting": 0, "duplicate": len(body["labels"]) - len(new)})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\nanother-token-that-is-old\n")
    return path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six tries as ever, with a thousandth of the pauses."""
    monkeypatch.setattr(labels_push, "_FIRST_PAUSE", 0.0005)
    monkeypatch.setattr(labels_push, "_LAST_PAUSE", 0.016)


class Pusher:
    def __init__(self, capsys: pytest.CaptureFixture[str], service: Service, token: Path) -> None:
        self._capsys, self._service, self._token = capsys, service, token

    def __call__(self, file: Path, *options: str) -> Ended:
        words = ("--url", self._service.url, "--token-file", str(self._token), *options)
        return call(self._capsys, "labels", "push", str(file), *words)


@pytest.fixture
def push(capsys: pytest.CaptureFixture[str], service: Service, token: Path) -> Pusher:
    return Pusher(capsys, service, token)


def written(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the same table in the format that a name asks for."""
    path = folder / name
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    else:
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


# Tables.


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl", "labels.PARQUET", "labels.ndjson"])
def test_a_table_of_each_format_is_pushed_in_batches(push: Pusher, service: Service, tmp_path: Path, name: str) -> None:
    rows = [{"id": f"r{n}", "label": n % 2} for n in range(25)]
    file = written(tmp_path, name.lower().replace("ndjson", "jsonl"), rows).rename(tmp_path / name)
    ended = push(file, "--batch", "10")
    assert (ended.code, ended.out) == (0, "25 labels: 25 joined\n")
    assert service.sizes == [10, 10, 5]
    assert [(item["id"], int(item["label"])) for item in service.taken] == [(f"r{n}", n % 2) for n in range(25)]


def test_columns_have_the_names_that_are_given(push: Pusher, service: Service, tmp_path: Path) -> None:
    when = datetime(2026, 12, 1, 12, tzinfo=UTC)
    rows = [{"request": "r0", "other": 7, "repaid": True, "on": when}, {"request": "r1", "repaid": False, "on": None}]
    file = written(tmp_path, "loans.parquet", rows)
    assert push(file, "--id", "request", "--label", "repaid", "--time", "on").code == 0
    assert service.taken == [
        {"id": "r0", "label": True, "time": "2026-12-01T12:00:00+00:00"},
        {"id": "r1", "label": False},
    ]


def test_parquet_times_without_a_zone_are_utc(push: Pusher, service: Service, tmp_path: Path) -> None:
    file = written(tmp_path, "t.parquet", [{"id": "r", "label": 1, "on": datetime(2026, 12, 1, 12)}])  # noqa: DTZ001
    assert push(file, "--time", "on").code == 0
    assert service.taken == [{"id": "r", "label": 1, "time": "2026-12-01T12:00:00+00:00"}]


def test_pushing_again_goes_on_where_rows_are_new(push: Pusher, service: Service, tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "label": 1} for n in range(7)]
    assert push(written(tmp_path, "a.csv", rows[:4])).code == 0
    ended = push(written(tmp_path, "a.csv", rows))
    assert ended.out == "7 labels: 3 joined, 4 duplicate\n"
    assert [item["id"] for item in service.taken] == [row["id"] for row in rows]


@pytest.mark.parametrize("failures", [[503], [0], [0, 429, 504, 503, 0, 502]])
def test_a_service_that_stumbles_is_asked_again(
    push: Pusher, service: Service, tmp_path: Path, failures: list[int]
) -> None:
    service.failures = failures
    ended = push(written(tmp_path, "a.csv", [{"id": "r", "label": 1}]))
    assert (ended.code, ended.out) == (0, "1 label: 1 joined\n")


def test_a_service_that_stays_away_ends_with_its_own_code_and_keeps_what_was_taken(
    push: Pusher, service: Service, tmp_path: Path
) -> None:
    file = written(tmp_path, "a.csv", [{"id": f"r{n}", "label": 1} for n in range(4)])
    service.failures = [503] * 7
    ended = push(file)
    assert ended.code == 4
    assert ended.err == f"davylamp: {service.url} does not answer: status 503\n"
    assert ended.out == ""


@pytest.mark.parametrize(("status", "code"), [(400, 2), (401, 5), (404, 5), (413, 5)])
def test_a_refusal_says_why_and_of_which_rows(
    push: Pusher, service: Service, tmp_path: Path, status: int, code: int
) -> None:
    service.failures = [status]
    ended = push(written(tmp_path, "a.csv", [{"id": f"r{n}", "label": 1} for n in range(4)]))
    assert ended.code == code
    words = f"{service.url} refuses with {status} (line 2 to line 5): labels[0].time: must be a time"
    assert ended.err == f"davylamp: {words}\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "id,label\n", "the name must end with .csv, .jsonl or .parquet"),
        ("a.csv", "", "holds no label"),
        ("a.csv", "id,label\n", "holds no label"),
        ("a.csv", "id,lable\nr,1\n", "line 2: there is no column label; there are id, lable"),
        ("a.csv", "id,label\nr,\n", "line 2: label is empty"),
        ("a.csv", "id,label\nr\n", "line 2: label is empty"),
        ("a.csv", "id,label\nr,1\n,1\n", "line 3: id is empty"),
        ("a.jsonl", '{"id": "r", "label": 1}\n{"id"\n', "line 2: no JSON"),
        ("a.jsonl", "[1]\n", "line 1: must be an object"),
        ("a.jsonl", '{"id": "r", "label": null}\n', "line 1: label is empty"),
        ("a.parquet", "no parquet", "is no Parquet file that can be read"),
    ],
)
def test_a_table_that_cannot_be_read_says_where(push: Pusher, tmp_path: Path, name: str, text: str, words: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    ended = push(file)
    assert ended.code == 2
    assert words in ended.err


def test_a_parquet_file_without_the_column_says_so(push: Pusher, tmp_path: Path) -> None:
    ended = push(written(tmp_path, "a.parquet", [{"id": "r", "truth": 1}]))
    assert (ended.code, "there is no column label" in ended.err) == (2, True)


def test_a_file_that_is_not_there_or_no_text_says_so(push: Pusher, tmp_path: Path) -> None:
    assert "No such file" in push(tmp_path / "none.csv").err
    (tmp_path / "a.csv").write_bytes(b"id,label\nr,\xff\n")
    assert "is not UTF-8" in push(tmp_path / "a.csv").err


def test_without_pyarrow_it_says_what_to_install(push: Pusher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "a.parquet", [{"id": "r", "label": 1}])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    ended = push(file)
    assert ended.code == 2
    assert "Parquet needs davylamp[parquet]" in ended.err


# Options.


@pytest.mark.parametrize("url", ["davylamp-labels:8080", "ftp://host", "http://"])
def test_a_url_that_is_none_is_refused(
    url: str, token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "a.csv", [{"id": "r", "label": 1}])
    ended = call(capsys, "labels", "push", str(file), "--url", url, "--token-file", str(token))
    assert (ended.code, "--url must be such as" in ended.err) == (2, True)


def test_a_token_file_without_a_token_is_refused(push: Pusher, token: Path, tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", [{"id": "r", "label": 1}])
    token.write_text("\n")
    assert "is empty" in push(file).err
    token.unlink()
    assert "cannot be read" in push(file).err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "8080"], "DAVYLAMP_LISTEN must be"),
        (["--database", "nowhere"], "the database must be a URL"),
        (["--token-file", ""], "nobody could post: set"),
        (["--token-file", "/none", "--signing-key-file", "/none"], "there is no key of 16 characters or more in /none"),
    ],
)
def test_an_option_of_the_service_counts_before_the_environment(
    options: list[str], words: str, token: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAVYLAMP_LABELS_TOKEN_FILE", str(token))
    monkeypatch.setenv("DAVYLAMP_LISTEN", "127.0.0.1:0")
    ended = call(capsys, "labels", "serve", *options)
    assert ended.code == 2
    assert words in ended.err


def test_without_its_libraries_the_service_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "davylamp.runtime.labels", None)
    ended = call(capsys, "labels", "serve")
    assert ended.code == 2
    assert "the service needs davylamp[labels]" in ended.err


def test_the_services_help_names_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    from davylamp.runtime.labels_settings import LABELS_VARIABLES

    text = call(capsys, "labels", "serve", "--help").out
    assert all(name in text for name in LABELS_VARIABLES)
