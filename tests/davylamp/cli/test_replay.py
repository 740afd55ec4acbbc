from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from davylamp.cli.failure import ExitCode
from davylamp.offline.recording import write_recording
from tests.davylamp.cli.calling import call
from tests.davylamp.offline.pasts import BEGINS, ROLLOUT, Past, subject
from tests.simulation_statistics.traffic import Truth


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rollout, and recordings of candidates that are good, bad and absent."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "rollout.yaml").write_text(yaml.safe_dump(ROLLOUT), encoding="utf-8")
    pasts = {
        "good": Past(Truth(100, drift=1.0)),
        "bad": Past(Truth(100, drift=1.0, error_odds=6.0)),
        "absent": Past(Truth(100, drift=1.0), weights=()),
    }
    for name, past in pasts.items():
        history = replace(past.history(subject()), looks=(BEGINS, past.ends))
        write_recording(folder / f"{name}.jsonl.gz", history)
    return folder


def arguments(files: Path, name: str) -> list[str]:
    return ["replay", "-f", str(files / "rollout.yaml"), "--recording", str(files / f"{name}.jsonl.gz")]


def test_a_table_shows_the_steps_and_every_rule(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *arguments(files, "bad"))
    assert ended.code == 0
    assert "72 looks" in ended.err
    for words in ("ml/credit, 2026-01-01 00:03:10 to ", "RolledBack", "Davylamp", "threshold", "Kayenta", "z-test"):
        assert words in ended.out
    assert "Regressed: errors" in ended.out


def test_json_holds_every_look_and_when_each_rule_would_have_acted(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = json.loads(call(capsys, *arguments(files, "bad"), "-o", "json").out)
    assert (bad["rollout"], bad["ruling"], bad["culprits"]) == ("ml/credit", "Rollback", ["errors"])
    assert all(rule["rolledBackAt"] for rule in bad["rules"])
    assert bad["looks"][-1]["phase"] == "RolledBack"
    good = json.loads(call(capsys, *arguments(files, "good"), "-o", "json").out)
    assert good["ruling"] == "Promote"
    assert good["gates"][0]["verdict"] == "NonInferior"
    assert {look["weight"] for look in good["looks"]} == {0, 10, 50, 100}


def test_a_candidate_without_requests_is_said_to_have_none(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *arguments(files, "absent"))
    assert ended.code == 0
    assert "The candidate had no requests in this range" in ended.out


def test_a_policy_and_other_times_can_be_tried_on_the_same_samples(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = {
        "apiVersion": "davylamp.dev/v1alpha1",
        "kind": "ClusterRolloutPolicy",
        "metadata": {"name": "strict"},
        "spec": {"gates": {"falseRollbackRate": "0.0001%"}},
    }
    spec = {**ROLLOUT["spec"], "policyRef": {"kind": "ClusterRolloutPolicy", "name": "strict"}}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")
    (tmp_path / "rollout.yaml").write_text(yaml.safe_dump(ROLLOUT | {"spec": spec}), encoding="utf-8")
    ended = call(
        capsys,
        *("replay", "-f", str(tmp_path / "rollout.yaml"), "--policy", str(tmp_path / "policy.yaml")),
        *("--recording", str(files / "bad.jsonl.gz"), "--from", "2026-01-01T00:04:00Z", "--to", "2026-01-01T00:10:00Z"),
        *("-o", "json"),
    )
    strict = json.loads(ended.out)
    usual = json.loads(call(capsys, *arguments(files, "bad"), "-o", "json").out)
    assert strict["looks"][0]["at"] == "2026-01-01T00:04:10+00:00"
    assert strict["logThreshold"] > usual["logThreshold"]
    assert strict["ruledAt"] > usual["ruledAt"]


def test_a_recording_can_be_written_anew(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.jsonl"
    first = call(capsys, *arguments(files, "bad"), "--record", str(copy), "-o", "json")
    assert f"samples are in {copy}" in first.err
    second = call(capsys, "replay", "-f", str(files / "rollout.yaml"), "--recording", str(copy), "-o", "json")
    assert json.loads(second.out) == json.loads(first.out)


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["-f", "ROLLOUT"], ExitCode.WRONG, "--source URL or --recording FILE"),
        (["-f", "ROLLOUT", "--source", "x", "--recording", "y"], ExitCode.WRONG, "name one place"),
        (["--recording", "GOOD"], ExitCode.WRONG, "one ModelRollout"),
        (["-f", "ROLLOUT", "--source", "ftp://x"], ExitCode.WRONG, "must begin with http"),
        (["-f", "ROLLOUT", "--source", "http://127.0.0.1:1"], ExitCode.UNREACHABLE, "cannot be reached"),
        (["-f", "ROLLOUT", "--source", "http://x", "--header", "a"], ExitCode.WRONG, '"Name: value"'),
        (["-f", "ROLLOUT", "--source", "http://x", "--timeout", "5"], ExitCode.WRONG, "write a duration"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--from", "noon"], ExitCode.WRONG, "--from 'noon' is no time"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--to", "2026-01-01T00:00:00"], ExitCode.WRONG, "with an offset"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--from", "2h", "--to", "1h"], ExitCode.WRONG, "recording covers"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--from", "now", "--to", "1h"], ExitCode.WRONG, "holds 0 looks"),
        (["-f", "ROLLOUT", "--recording", "ROLLOUT"], ExitCode.WRONG, "this is not JSON"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--max-errors", "1"], ExitCode.WRONG, "percentage"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--max-p99", "nan"], ExitCode.WRONG, "above 0"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--failed-checks", "0"], ExitCode.WRONG, "at least one check"),
        (["-f", "ROLLOUT", "--recording", "GOOD", "--name", "churn"], ExitCode.WRONG, "named churn"),
        (["-f", "NOWHERE", "--recording", "GOOD"], ExitCode.WRONG, "cannot be read"),
    ],
)
def test_what_is_wrong_is_said_with_the_value_and_the_remedy(
    files: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: ExitCode, words: str
) -> None:
    names = {"ROLLOUT": str(files / "rollout.yaml"), "GOOD": str(files / "good.jsonl.gz")}
    ended = call(capsys, "replay", *(names.get(text, text) for text in more))
    assert ended.code == code
    assert words in ended.err
    assert ended.out == ""


def test_the_token_is_taken_from_the_environment(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.davylamp.offline.test_server import answering

    monkeypatch.setenv("DAVYLAMP_SOURCE_TOKEN", "planted")
    empty = {"status": "success", "data": {"resultType": "matrix", "result": []}}
    with answering(lambda _: (200, empty)) as (address, _, headers):
        ended = call(
            capsys,
            *("replay", "-f", str(files / "rollout.yaml"), "--source", address, "--from", "5m"),
            *("--header", "X-Scope-OrgID: ml"),
        )
    assert ended.code == 0
    assert "no requests in this range" in ended.out
    assert headers[0]["Authorization"] == "Bearer planted"
    assert headers[0]["X-Scope-OrgID"] == "ml"
    assert "planted" not in ended.out + ended.err
