from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from davylamp.cli.failure import ExitCode
from davylamp.offline.recording import write_recording
from tests.davylamp.cli.calling import call
from tests.davylamp.offline.pasts import BEGINS, ROLLOUT, Past, subject
from tests.simulation_statistics.traffic import Truth

_HISTOGRAM = ",".join(f"{0.003 * 1.1**k:.9f}={round(1000 * 2 ** -abs((k - 15) / 3))}" for k in range(30))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rollout, and a recording of its baseline."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "rollout.yaml").write_text(yaml.safe_dump(ROLLOUT), encoding="utf-8")
    past = Past(Truth(100, error_rate=0.02, drift=1.0), weights=())
    write_recording(folder / "past.jsonl.gz", replace(past.history(subject()), looks=(BEGINS, past.ends)))
    return folder


def given(files: Path, *more: str) -> list[str]:
    rates = ["--rps", "100", "--error-rate", "1%", "--latency-histogram", _HISTOGRAM]
    return ["plan", "-f", str(files / "rollout.yaml"), *rates, *more]


def test_a_table_says_what_is_found_and_when_and_what_is_guaranteed(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ended = call(capsys, *given(files))
    assert ended.code == 0
    for words in (
        "rolled back with a chance of at most 1 %: guaranteed",
        "A healthy variant is promoted before the deadline",
        "2x the margin: 1 % to ",
        "2x the margin: 20 % slower",
        "accepted",
        "Within the time of a healthy rollout",
    ):
        assert words in ended.out


def test_json_holds_the_same_in_seconds(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(call(capsys, *given(files), "-o", "json").out)
    assert said["falseRollbackRate"] == {"atMost": 0.01}
    errors, latency = said["gates"]
    double = next(each for each in latency["regressions"] if each["margins"] == 2)
    assert 20 < double["mean"] < double["q90"] < 600
    assert double["badRequests"] < double["requests"]
    assert errors["regressions"][0]["mean"] is None
    assert [step["step"] for step in errors["steps"]] == [step["step"] for step in said["steps"]]
    assert said["simulation"] == []


def test_traffic_comes_from_a_recording_and_simulations_stand_beside(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ["--recording", str(files / "past.jsonl.gz"), "--simulate", "2", "-o", "json"]
    ended = call(capsys, "plan", "-f", str(files / "rollout.yaml"), *source)
    assert ended.code == 0
    said = json.loads(ended.out)
    assert said["requestsPerSecond"] == pytest.approx(100, rel=0.05)
    assert [each["worse"] for each in said["simulation"]] == [None, "errors", "latency"]
    assert all(each["runs"] == 2 for each in said["simulation"])
    assert said["simulation"][0]["rolledBack"] == 0
    assert said["simulation"][2]["rolledBack"] == 2
    assert "simulating 2 rollouts of an equal candidate" in ended.err


def test_a_simulation_is_shown_beside_its_prediction(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ended = call(capsys, *given(files, "--simulate", "1"))
    assert "1 simulated rollouts each, beside what is predicted" in ended.out
    assert "latency worse by 2x" in ended.out


def test_a_plot_is_a_picture_that_loads_nothing(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = tmp_path / "plan.svg"
    assert call(capsys, *given(files, "--plot", str(drawn))).code == 0
    text = drawn.read_text(encoding="utf-8")
    picture = ET.fromstring(text)  # noqa: S314 - our own
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3
    assert "href" not in text
    for line in lines:
        heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
        assert heights == sorted(heights, reverse=True)  # chances only grow


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say what the traffic is: --rps NUMBER, or --source URL"),
        (["--rps", "10", "--source", "http://127.0.0.1:1"], "say what the traffic is"),
        (["--rps", "10"], "gate errors: the baseline's share of events is not known: give --error-rate"),
        (["--rps", "-1", "--error-rate", "1%"], "requests a second must be above 0 and finite, got -1"),
        (["--rps", "nan", "--error-rate", "1%"], "requests a second must be above 0 and finite, got nan"),
        (["--rps", "10", "--error-rate", "2"], "--error-rate is a share from 0% to 100%"),
        (["--rps", "10", "--error-rate", "1%", "--simulate", "10001"], "--simulate must be 0 to 10000 rollouts"),
        (["--rps", "10", "--error-rate", "1%", "--plot", "p.png"], "--plot draws SVG: name a file that ends in .svg"),
        (["--rps", "10", "--error-rate", "1%", "--share", "x=1%"], "--share x: the rollout has no such signal"),
    ],
)
def test_bad_options_are_refused_with_value_and_remedy(
    options: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "plan", "-f", str(files / "rollout.yaml"), *options)
    assert ended.code == ExitCode.WRONG
    assert message in ended.err


def test_a_plot_that_cannot_be_written_is_said(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *given(files, "--plot", "/no/such/folder/plan.svg"))
    assert ended.code == ExitCode.WRONG
    assert "--plot /no/such/folder/plan.svg" in ended.err
