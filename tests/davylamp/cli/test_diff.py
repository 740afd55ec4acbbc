"""`davylamp diff` against real servers: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from davylamp.cli.diff_requests import read_requests
from davylamp.cli.failure import FailureError
from davylamp.shadow.exchange import Protocol
from davylamp.shadow.formats.open_inference_grpc import ModelInferResponse
from tests.davylamp.cli.calling import Ended, call
from tests.davylamp.cli.variants import Answering, asking, scores, variant
from tests.davylamp.runtime.mirroring import rollout


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@contextmanager
def pair(baseline: Answering, candidate: Answering) -> Iterator[list[str]]:
    """Serve two variants, and yield the options that name them."""
    with variant(baseline) as first, variant(candidate) as second:
        yield ["diff", "--baseline", first, "--candidate", second]


def written(folder: Path, *lines: str) -> list[str]:
    file = folder / "requests.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return ["--requests", str(file)]


def asked(folder: Path, number: int) -> list[str]:
    return written(folder, *(asking(index / number) for index in range(number)))


def test_the_same_model_twice_is_within_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pair(scores(), scores()) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 200))
    assert ended.code == 0
    # 1 - 0.05 ** (1 / 200): the rule of three, exactly.
    assert "0 of 200 pairs disagree, at most 1.49 % at 95% confidence: within the limit of 2 %" in ended.out
    assert "200 of 200 requests" in ended.err


def test_a_worse_candidate_is_over_the_limit_and_shown_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pair(scores(), scores(0.2)) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 50), "--show", "1", "--concurrency", "1")
    assert ended.code == 1
    assert "10 of 50 pairs disagree, 20 %: more than the limit of 2 %" in ended.out
    assert "line 16: POST /v2/models/credit/infer" in ended.out
    assert "line 17" not in ended.out
    (row,) = (line for line in ended.out.splitlines() if "['data'][0]" in line)
    assert row.split() == ["$['outputs'][0]['data'][0]", "0.3", "0.5"]
    for words in ("Decision", "Values", "ScoreChange", "latency", "p95", "slower by 10 %"):
        assert words in ended.out


def test_a_baseline_asked_twice_shows_how_it_differs_from_itself_and_that_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = count()

    def moody(path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        # Of the two times that it is asked the same, it answers once as the candidate does, and once otherwise.
        return scores(0.2 * (next(turns) % 2))(path, headers, body)

    report = tmp_path / "report.json"
    options = ("--aa", "--concurrency", "1", "--report", str(report), "--max-disagreement", "50%")
    with pair(moody, scores()) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 50), *options)
    assert ended.code == 0
    assert next(turns) == 100
    (row,) = (line for line in ended.out.splitlines() if line.startswith("the baseline with itself"))
    assert "10 of 50" in row
    assert json.loads(report.read_text("utf-8"))["baselineWithItself"]["events"] == 10
    with pair(scores(), scores()) as urls:
        assert "with itself" not in call(capsys, *urls, *asked(tmp_path, 50)).out


@pytest.mark.parametrize("report", [[], ["--report", "-"]])
def test_what_is_shown_is_written_as_a_page_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], report: list[str]
) -> None:
    page = tmp_path / "page.html"
    with pair(scores(), scores(0.2)) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 50), "--html", str(page), *report)
        assert ended.code == 1
        nowhere = call(capsys, *urls, *asked(tmp_path, 50), "--html", str(tmp_path / "no" / "page.html"))
    text = page.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "10 of 50 pairs disagree, 20 %: more than the limit of 2 %" in text
    assert ("10 of 50 pairs disagree" in ended.out) == (not report or "sentence" in json.loads(ended.out))
    assert (nowhere.code, "page.html cannot be written: No such file or directory" in nowhere.err) == (2, True)


def test_a_file_that_holds_no_certificates_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.pem").write_text("", encoding="utf-8")
    for name in ("empty.pem", "missing.pem"):
        options = ("--baseline", "https://a", "--candidate", "https://b", "--ca-file", str(tmp_path / name))
        ended = call(capsys, "diff", *options, *asked(tmp_path, 1))
        assert (ended.code, "holds no certificates that can be read: " in ended.err) == (2, True)


def test_few_pairs_without_a_disagreement_show_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pair(scores(), scores()) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 100))
        assert ended.code == 1
        assert "at most 2.95 % at 95% confidence: too few pairs to show" in ended.out
        assert call(capsys, *urls, *asked(tmp_path, 100), "--max-disagreement", "3%").code == 0


def test_a_baseline_that_fails_says_nothing_and_the_command_could_not_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pair(lambda *_: (500, b"{}"), scores()) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 5))
    assert ended.code == 2
    assert "no pair could be compared (BaselineFailed: 5)" in ended.out


def test_a_candidate_that_is_not_there_disagrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with variant(scores()) as there:
        urls = ["diff", "--baseline", there, "--candidate", "http://127.0.0.1:1"]
        ended = call(capsys, *urls, *asked(tmp_path, 5))
    assert ended.code == 1
    assert "5 of 5 pairs disagree" in ended.out
    assert "Unreachable in" in ended.out


def test_the_report_holds_the_numbers_and_the_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    with pair(scores(), scores(0.2)) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 50), "--report", str(report), "--show", "2")
        said = json.loads(report.read_text(encoding="utf-8"))
        printed = call(capsys, *urls, *asked(tmp_path, 50), "--report", "-")
    assert ended.code == printed.code == 1
    assert (said["ending"], said["requests"], said["pairs"]) == ("Over", 50, 50)
    assert said["disagreements"]["events"] == said["differences"]["Decision"] == 10
    assert said["disagreements"]["limit"] == 0.02
    assert said["kinds"] == {"Tensors": 50}
    assert said["measures"]["ScoreChange"]["median"] == pytest.approx(0.2)
    assert said["latency"]["candidate"]["median"] > 0
    line = {"path": "$['outputs'][0]['data'][0]", "baseline": "0.3", "candidate": "0.5"}
    assert said["examples"][0]["lines"] == [line]
    assert len(said["examples"]) == 2
    again = json.loads(printed.out)
    assert again["disagreements"] == said["disagreements"]


def test_rules_of_a_rollout_decide_what_disagrees_and_what_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare = {"disagreement": "Values", "absolute": 0.01, "relative": 0}
    shadow = {"compare": compare, "capture": {"redact": ["$.model_name"]}}
    rules = tmp_path / "rollout.yaml"
    gates = {"disagreement": {"limit": "40%"}, "pairedLatency": {"slowdown": "50%"}}
    documents = [rollout(shadow=shadow, gates=gates), {"kind": "Service"}]
    rules.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    with pair(scores(), scores(0.02)) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 20), "--rules", str(rules), "--report", "-")
        assert json.loads(ended.out)["disagreements"]["limit"] == 0.4
        assert json.loads(ended.out)["slower"]["slowdown"] == 0.5
        assert json.loads(ended.out)["disagreements"]["events"] == 20
        policy = {"kind": "RolloutPolicy", "spec": {"shadow": {"compare": compare | {"absolute": 0.1}}}}
        rules.write_text(yaml.safe_dump(policy), encoding="utf-8")
        ended = call(capsys, *urls, *asked(tmp_path, 20), "--rules", str(rules), "--report", "-")
        assert json.loads(ended.out)["disagreements"]["events"] == 0


def test_models_that_speak_grpc_are_compared_by_their_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def serving(score: float) -> grpc.Server:
        answer = ModelInferResponse()
        output = answer.outputs.add(name="probability", datatype="FP64", shape=[1, 1])
        output.contents.fp64_contents.append(score)
        server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(lambda *_: answer.SerializeToString())
        service = "inference.GRPCInferenceService"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"ModelInfer": handler}),))
        return server

    servers = [serving(score) for score in (0.4, 0.6)]
    ports = [server.add_insecure_port("127.0.0.1:0") for server in servers]
    for server in servers:
        server.start()
    line = json.dumps({"path": "/inference.GRPCInferenceService/ModelInfer", "body_base64": ""})
    urls = ["--baseline", f"grpc://127.0.0.1:{ports[0]}", "--candidate", f"grpc://127.0.0.1:{ports[1]}"]
    ended = call(capsys, "diff", *urls, *written(tmp_path, line, line), "--report", "-")
    for server in servers:
        server.stop(None).wait()
    said = json.loads(ended.out)
    assert (said["kinds"], said["differences"]["Decision"]) == ({"Tensors": 2}, 2)


def test_what_is_redacted_is_in_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def named(name: str) -> Answering:
        return lambda *_: (200, json.dumps({"who": name, "label": name[0]}).encode())

    rules = tmp_path / "policy.yaml"
    shadow = {"compare": {"format": "JSON", "disagreement": "Exact"}, "capture": {"redact": ["$.who"]}}
    rules.write_text(yaml.safe_dump({"kind": "ClusterRolloutPolicy", "spec": {"shadow": shadow}}), encoding="utf-8")
    with pair(named("Ada"), named("Grace")) as urls:
        options = [*urls, *asked(tmp_path, 3), "--rules", str(rules)]
        shown, report = call(capsys, *options), call(capsys, *options, "--report", "-")
    for text in (shown.out, report.out):
        assert "label" in text
        assert "Grace" not in text


def test_requests_arrive_as_they_are_written_and_marked_as_shadow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, dict[str, str], bytes]] = []

    def record(path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        seen.append((path, headers, body))
        return 200, b"{}"

    lines = [
        json.dumps({"path": "/a?b=c", "headers": PLAIN_HEADERS, "body": {"x": [1, "é"]}}),
        '{"method": "put", "path": "/b", "body": "text"}',
        "",
        '{"method": "GET", "path": "/c", "headers": {"accept": "text/plain"}}',
        '{"path": "/d", "headers": {"content-type": "application/x"}, "body_base64": "AAEC"}',
    ]
    with variant(record) as url:
        urls = ["diff", "--baseline", f"{url}/prefix/", "--candidate", f"{url}/prefix"]
        call(capsys, *urls, *written(tmp_path, *lines), "--concurrency", "1")
    assert [path for path, _, _ in seen[::2]] == ["/prefix/a?b=c", "/prefix/b", "/prefix/c", "/prefix/d"]
    assert [body for _, _, body in seen[::2]] == ['{"x":[1,"é"]}'.encode(), b"text", b"", b"\x00\x01\x02"]
    heads = [headers for _, headers, _ in seen[::2]]
    assert [head.get("content-type") for head in heads] == [
        "application/json",
        "text/plain; charset=utf-8",
        None,
        "application/x",
    ]
    assert heads[0]["authorization"] == "Bearer mine"
    assert "connection" not in heads[0]
    assert {head["x-davylamp-shadow"] for head in heads} == {"1"}


def test_on_a_terminal_a_bar_shows_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pair(scores(), scores()) as urls:
        ended = call(capsys, *urls, *asked(tmp_path, 5))
    assert "comparing" in ended.err
    assert "5/5" in ended.err
    assert "of 5 requests" not in ended.err


def test_requests_come_from_the_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(asking(0.1).encode())))
    with pair(scores(), scores()) as urls:
        ended = call(capsys, *urls, "--requests", "-", "--max-disagreement", "100%")
    assert ended.code == 0
    assert "0 of 1 pairs disagree" in ended.out


PLAIN_HEADERS = {"Authorization": "Bearer mine", "Connection": "close"}

# What is wrong.

WRONG_LINES = {
    "[": "this is no JSON",
    "[1]": "a request is an object",
    "[" * 100_000: "this is no JSON",
    '{"path": "/a", "verb": "GET"}': "'verb' is none of",
    '{"body": {}}': '"path" must be a path',
    '{"path": "a"}': '"path" must be a path',
    '{"path": "/a b"}': '"path" must be a path',
    '{"path": "/a\\r\\nx: y"}': '"path" must be a path',
    '{"path": "/a", "method": 1}': '"method" must be a method',
    '{"path": "/a", "method": "GET /b"}': '"method" must be a method',
    '{"path": "/a", "headers": [1]}': '"headers" must be an object',
    '{"path": "/a", "headers": {"a": 1}}': '"headers" must be an object',
    '{"path": "/a", "headers": {"a b": "1"}}': "'a b' is no name of a header",
    '{"path": "/a", "headers": {"a": "1\\r\\nb: 2"}}': "the value of header a has a line break",
    '{"path": "/a", "body": 1, "body_base64": "AA=="}': "not both",
    '{"path": "/a", "body_base64": "%"}': '"body_base64" is no base64',
    '{"path": "/a", "body_base64": 7}': '"body_base64" is no base64',
}


@pytest.mark.parametrize(("line", "words"), WRONG_LINES.items(), ids=range(len(WRONG_LINES)))
def test_a_line_that_is_no_request_is_named_and_nothing_is_sent(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(f"{asking(0.1)}\n{line}\n", encoding="utf-8")
    with pytest.raises(FailureError, match=r"requests\.jsonl:2: ") as failure:
        read_requests(file, Protocol.HTTP)
    assert words in str(failure.value)


def test_a_line_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("davylamp.cli.diff_requests.LONGEST_LINE", 100)
    file = tmp_path / "requests.jsonl"
    file.write_text(asking(0.1, headers={"a": "b" * 100}), encoding="utf-8")
    with pytest.raises(FailureError, match="longer than 100 bytes"):
        read_requests(file, Protocol.HTTP)


def wrong(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    ended: Ended = call(capsys, "diff", *options)
    assert ended.code == 2
    return ended.err


URLS: list[str] = ["--baseline", "http://127.0.0.1:1", "--candidate", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give --baseline, --candidate and --requests, or the NAME"),
        (URLS, "give --baseline, --candidate and --requests, or the NAME"),
        (["credit", *URLS], "give a NAME, or --baseline"),
        (["credit", "--report", "x"], "give a NAME, or --baseline"),
        ([*URLS, "--requests", "absent.jsonl"], "absent.jsonl cannot be read: No such file"),
        ([*URLS, "--requests", "FILE", "--max-disagreement", "many"], "--max-disagreement"),
        ([*URLS, "--requests", "FILE", "--max-disagreement", "101%"], "--max-disagreement"),
        ([*URLS, "--requests", "FILE", "--rules", "absent.yaml"], "absent.yaml cannot be read"),
    ],
)
def test_what_cannot_be_done_ends_with_2_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    file = written(tmp_path, asking(0.1))[1]
    assert words in wrong(capsys, *(file if option == "FILE" else option for option in options))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("grpcs://localhost:8443", "without TLS"),
        ("localhost:8080", "must be such as http://localhost:8080"),
        ("http://", "must be such as"),
        ("http://user@localhost", "must be such as"),
        ("http://localhost/?a=b", "must be such as"),
        ("http://localhost:99999", "is no URL"),
        ("http://[::1", "is no URL"),
        ("grpc://localhost:8081", "must speak the same protocol"),
    ],
)
def test_a_url_that_cannot_be_called_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, words: str
) -> None:
    options = ["--baseline", url, "--candidate", "http://127.0.0.1:1", *written(tmp_path, asking(0.1))]
    assert words in wrong(capsys, *options)


def test_a_file_without_a_request_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds no request" in wrong(capsys, *URLS, *written(tmp_path, "", " "))


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([{"kind": "Service"}], "must hold one ModelRollout, or one policy, or both"),
        ([rollout(), rollout("other")], "must hold one ModelRollout"),
        ([rollout(steps="many")], "steps"),
        ([{"kind": "RolloutPolicy", "spec": {"shadow": {"noise": "many"}}}], "noise"),
        ([rollout(shadow={"compare": {"select": ["$.[["]}})], "is no JSONPath"),
    ],
)
def test_rules_that_cannot_be_understood_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], documents: list[Any], words: str
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    said = wrong(capsys, *URLS, *written(tmp_path, asking(0.1)), "--rules", str(rules))
    assert "rules.yaml" in said
    assert words in said


def test_a_report_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pair(scores(), scores()) as urls:
        options = [*urls, *asked(tmp_path, 3), "--report", str(tmp_path / "absent" / "report.json")]
        ended = call(capsys, *options)
    assert ended.code == 2
    assert "report.json cannot be written: No such file" in ended.err


@pytest.mark.parametrize("name", [[], ["credit"]])
def test_without_the_comparators_libraries_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: list[str]
) -> None:
    monkeypatch.delitem(sys.modules, "davylamp.cli.diff_run", raising=False)
    monkeypatch.setitem(sys.modules, "davylamp.shadow.lane", None)
    said = wrong(capsys, *name)
    assert "this command needs davylamp[shadow]" in said
