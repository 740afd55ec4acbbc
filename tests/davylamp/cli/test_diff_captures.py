"""`davylamp diff NAME`: pairs that comparators keep, fetched through an API server that may refuse."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.davylamp.cli.calling import Ended, call
from tests.davylamp.cli.variants import variant
from tests.davylamp.runtime.mirroring import rollout

Object = dict[str, Any]
CAPTURING: Final = {"capture": {"pairs": 10, "redact": []}, "comparator": {"name": "mine", "port": 8090}}
ROLLOUT: Final = "/apis/davylamp.dev/v1alpha1/namespaces/ml/modelrollouts/credit"
SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices"
SERVICE: Final = "/api/v1/namespaces/ml/services/mine:admin/proxy/captures/ml/credit"
SECRET: Final = "/api/v1/namespaces/ml/secrets/davylamp-shadow-captures"
KEY: Final = "correct-horse-battery"
KEPT_KEY: Final = {"data": {"key": base64.b64encode(KEY.encode()).decode()}}


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/ml/pods/{name}:8080/proxy/captures/ml/credit"


def endpoint(pod: str, *, ready: bool = True) -> Object:
    return {"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}}


def slices(*endpoints: Object) -> Object:
    return {"items": [{"endpoints": list(endpoints), "ports": [{"name": "admin", "port": 8080}]}, {"endpoints": None}]}


def kept(label: str, **more: Any) -> Object:
    side = {"status": 200, "seconds": 0.003, "contentType": "application/json", "size": 9, "whole": True}
    return {
        "request": {"protocol": "HTTP", "method": "POST", "path": "/invocations", "id": f"id-{label}", "text": "{}"},
        "baseline": side | {"text": '{"label": "good"}'},
        "candidate": side | {"text": json.dumps({"label": label})} | more,
        "kind": "JSON",
        "differences": ["Decision"],
        "measures": {},
    }


@contextmanager
def cluster(folder: Path, answers: dict[str, Any], asked: list[str] | None = None) -> Iterator[list[str]]:
    """Serve an API server, and yield the options that lead to it."""

    known = {SECRET: KEPT_KEY} | answers

    def answer(path: str, headers: dict[str, str], _: bytes) -> tuple[int, bytes]:
        if asked is not None:
            asked.append(path)
        found = known.get(path.partition("?")[0], (404, {"kind": "Status"}))
        if "/proxy/" in path and headers.get("x-davylamp-captures-key") != KEY:
            found = (403, {"error": "the key is wrong"})
        status, body = found if isinstance(found, tuple) else (200, found)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()

    with variant(answer) as url:
        file = folder / "kubeconfig"
        context = {"context": {"cluster": "c", "user": "u", "namespace": "ml"}, "name": "c"}
        document = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [context],
            "current-context": "c",
        }
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        yield ["diff", "credit", "--kubeconfig", str(file)]


def ended(capsys: pytest.CaptureFixture[str], folder: Path, answers: dict[str, Any], *options: str) -> Ended:
    with cluster(folder, {ROLLOUT: rollout(shadow=CAPTURING)} | answers) as words:
        return call(capsys, *words, *options)


def test_every_ready_replica_is_asked_and_pairs_are_shown_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    answers = {
        ROLLOUT: rollout(shadow=CAPTURING),
        SLICES: slices(endpoint("a"), endpoint("b"), endpoint("c", ready=False)),
        pod_path("a"): {"pairs": [kept("bad")]},
        pod_path("b"): {"pairs": [kept("worse")]},
    }
    with cluster(tmp_path, answers, asked) as words:
        done = call(capsys, *words)
    assert done.code == 0
    assert asked[1:3] == [SECRET, f"{SLICES}?labelSelector=kubernetes.io/service-name%3Dmine"]
    assert asked[3:] == [pod_path("a"), pod_path("b")]
    rows = [line.split() for line in done.out.splitlines() if "['label']" in line]
    assert rows == [["$['label']", '"good"', '"bad"'], ["$['label']", '"good"', '"worse"']]
    assert "POST /invocations, id-bad" in done.out
    assert done.err == "2 disagreeing pairs kept by 2 replicas\n"


def test_a_replica_that_does_not_serve_the_rollout_keeps_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ended(capsys, tmp_path, {SLICES: slices(endpoint("a"), endpoint("b")), pod_path("b"): {"pairs": []}})
    assert (done.code, done.err) == (0, "0 disagreeing pairs kept by 2 replicas\n")


def test_who_may_not_ask_pods_asks_one_replica_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = (403, {"kind": "Status", "message": "no"})
    answers = {SLICES: slices(endpoint("a")), pod_path("a"): refused, SERVICE: {"pairs": [kept("bad")] * 5}}
    done = ended(capsys, tmp_path, answers, "--show", "2")
    assert done.code == 0
    assert done.out.count("POST /invocations") == 2
    assert "5 disagreeing pairs kept by 1 replica, 3 not shown" in done.err
    assert "one replica alone was asked, for its pods cannot be: you may not get the captured pairs" in done.err
    answers = {SLICES: refused, SERVICE: refused}
    assert "it takes the right get on services/proxy" in ended(capsys, tmp_path, answers).err


def test_a_service_without_known_pods_is_asked_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = ended(capsys, tmp_path, {SLICES: {"items": []}, SERVICE: {"pairs": [kept("bad")]}})
    assert "Service mine has no pods that are known, so it was asked itself" in done.err
    assert '"bad"' in done.out


def test_a_failure_and_a_body_that_is_no_text_are_shown_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed, binary = kept("bad"), kept("bad")
    failed["candidate"] = {"failure": "Timeout", "seconds": 10.0}
    del binary["candidate"]["text"]
    binary["candidate"]["base64"] = "AA=="
    binary["request"]["id"] = "\x1b[31mred"
    done = ended(capsys, tmp_path, {SLICES: {"items": []}, SERVICE: {"pairs": [failed, binary]}})
    assert "Timeout in 10.0 s" in done.out
    assert "\x1b[31mred" not in done.out


def test_a_pair_that_differs_in_many_places_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = kept("bad", text=json.dumps({str(number): number for number in range(100)}))
    done = ended(capsys, tmp_path, {SLICES: {"items": []}, SERVICE: {"pairs": [many]}})
    assert "and 81 more places" in done.out
    assert "absent" in done.out


@pytest.mark.parametrize(
    "answer", [b"<html>", [], {"pairs": [{}]}, {"pairs": 7}, {}, {"pairs": [kept("bad") | {"baseline": 7}]}]
)
def test_an_answer_that_is_no_comparators_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: Any
) -> None:
    done = ended(capsys, tmp_path, {SLICES: {"items": []}, SERVICE: answer})
    assert done.code == 2
    assert "the answer is no" in done.err or "cannot be understood" in done.err


def test_a_rollout_that_keeps_none_says_how_it_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(tmp_path, {ROLLOUT: rollout()}) as words:
        done = call(capsys, *words)
    assert done.code == 5
    assert "credit keeps no pairs: set shadow.capture.pairs" in done.err


def test_settings_that_cannot_be_understood_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(tmp_path, {ROLLOUT: rollout(shadow={"noise": "many"})}) as words:
        done = call(capsys, *words)
    assert done.code == 2
    assert "its settings cannot be understood" in done.err


def test_an_api_server_that_fails_is_not_taken_for_a_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ended(capsys, tmp_path, {SLICES: (500, {})})
    assert done.code == 4
    assert "cannot list endpointslices: the API server has a fault of its own (500)" in done.err


@pytest.mark.parametrize("slices_", [slices(endpoint("a")), {"items": []}])
def test_a_comparator_that_knows_another_key_is_told_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slices_: Object
) -> None:
    other = {"data": {"key": base64.b64encode(b"another key").decode()}}
    done = ended(capsys, tmp_path, {SECRET: other, SLICES: slices_})
    assert (done.code, done.err) == (5, "davylamp: cannot get the captured pairs: the key is wrong\n")


@pytest.mark.parametrize("data", [None, {}, {"other": "eA=="}, {"key": "no base64"}, {"key": "/w=="}, {"key": "YQpi"}])
def test_a_secret_without_a_key_that_can_be_sent_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: Object | None
) -> None:
    done = ended(capsys, tmp_path, {SECRET: {"data": data}})
    assert done.code == 5
    assert "the Secret davylamp-shadow-captures has no key that can be sent: create it with kubectl" in done.err


def test_without_the_secret_or_the_right_to_read_it_nothing_is_asked_of_comparators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer, said in (
        ((404, {"kind": "Status"}), "there is none: create it with kubectl create secret generic"),
        ((403, {"kind": "Status"}), "pairs are shown to those who may get the Secret davylamp-shadow-captures"),
        ((500, {}), "the API server has a fault of its own"),
    ):
        asked: list[str] = []
        answers = {ROLLOUT: rollout(shadow=CAPTURING), SECRET: answer}
        with cluster(tmp_path, answers, asked) as words:
            assert said in call(capsys, *words).err
        assert asked == [ROLLOUT, SECRET]
