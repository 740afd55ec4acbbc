from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from davylamp.cli.calibrate import advice
from davylamp.cli.failure import ExitCode
from davylamp.core.plan import Direction, Gate, OddsRatioMargin, SignalKind
from davylamp.offline.calibrate import Gauged
from davylamp.offline.recording import write_recording
from davylamp.offline.spread import Spread
from tests.davylamp.cli.calling import call
from tests.davylamp.offline.pasts import BEGINS, CALM, ROLLOUT, Past, subject
from tests.simulation_statistics.traffic import Truth


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rollout, and recordings of a baseline of four pods and of one."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "rollout.yaml").write_text(yaml.safe_dump(ROLLOUT), encoding="utf-8")
    for pods in (1, 4):
        past = Past(Truth(100, drift=1.0), (), replace(CALM, baseline_servers=pods), length=480.0)
        history = replace(past.history(subject()), looks=(BEGINS, past.ends))
        write_recording(folder / f"{pods}.jsonl", history)
    return folder


def arguments(files: Path, pods: int) -> list[str]:
    return ["calibrate", "-f", str(files / "rollout.yaml"), "--recording", str(files / f"{pods}.jsonl")]


def test_a_table_shows_spread_margins_and_false_alarms(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *arguments(files, 4), "--halves", "2")
    assert ended.code == 0
    for words in ("fp32:8080 in ml: 4 pods", "errors", "latency", "For the spec", "0 of 2  Davylamp", "Kayenta"):
        assert words in ended.out
    assert "A/A run 2 of 2" in ended.err


def test_json_holds_the_same_and_a_seed_gives_the_same_halves(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads(call(capsys, *arguments(files, 4), "--halves", "2", "-o", "json").out)
    again = json.loads(call(capsys, *arguments(files, 4), "--halves", "2", "-o", "json").out)
    assert first == again
    assert len(first["pods"]) == 4
    assert [gate["name"] for gate in first["gates"]] == ["errors", "latency"]
    assert first["gates"][0]["margin"] == "{oddsRatio: 1.5}"
    assert first["gates"][0]["marginNeeded"].keys() == {"1", "2", "4"}
    assert {each["rule"].partition(":")[0] for each in first["falseAlarms"]} >= {"Davylamp", "Kayenta's rule"}
    assert len(first["runs"]) == 2


def test_a_single_pod_is_said_to_say_nothing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *arguments(files, 1))
    assert ended.code == 0
    assert "a pod is not a version" in " ".join(ended.out.split())
    assert "not measured" in ended.out
    assert "false alarms" not in ended.out


def test_what_to_write_into_the_spec_follows_from_what_was_seen() -> None:
    gate = Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25))
    seen = Spread(4, 60, 0.02, 0.001, 0.002, 0.001)

    def said(gauged: Gauged) -> str:
        return advice(gauged)

    assert said(Gauged(gate, trouble="silent")) == "silent"
    assert "2 whole minutes" in said(Gauged(gate))
    alike = Gauged(gate, ("a",), replace(seen, p=0.5), None, {4: OddsRatioMargin(1.3)})
    assert (
        said(alike)
        == "margin {oddsRatio: 1.25} can stay: the pods do not differ by more than chance (sd at most 0.2 pt)"
    )
    assert "can stay with 4 pods" in said(replace(alike, spread=seen, margins={4: OddsRatioMargin(1.2)}))
    wider = said(replace(alike, spread=seen, margins={1: None, 4: OddsRatioMargin(1.3)}))
    assert (
        wider == "write gates: errors: margin: {oddsRatio: 1.3} (it is {oddsRatio: 1.25}), with 4 pods of the candidate"
    )
    assert "no margin is wide enough" in said(replace(alike, spread=seen, margins={4: None}))
    assert "no event" in said(replace(alike, spread=replace(seen, mean=0.0, sd=0.0), margins={4: None}))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--recording", "4"], "-f FILE with a ModelRollout, or --service NAME"),
        (["-f", "ROLLOUT", "--service", "x", "--recording", "4"], "-f FILE with a ModelRollout, or --service NAME"),
        (["--service", "credit", "--preset", "nonsense", "--recording", "4"], "preset"),
        (["--service", "fp32", "-n", "ml", "--recording", "4"], "made for other signals"),
        (["-f", "ROLLOUT"], "--source URL or --recording FILE"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(
    files: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    names = {"ROLLOUT": str(files / "rollout.yaml"), "4": str(files / "4.jsonl")}
    ended = call(capsys, "calibrate", *(names.get(text, text) for text in more))
    assert ended.code == ExitCode.WRONG
    assert words in ended.err
