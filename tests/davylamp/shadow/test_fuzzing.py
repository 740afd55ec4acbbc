"""Broken inputs of every parser, a few of those that ``make bench-fuzz`` tries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.bench.answers import VALID
from e2e.bench.fuzz_answers import PARSERS
from e2e.bench.fuzz_formats import TARGETS, main, run


@pytest.mark.parametrize("name", TARGETS)
def test_every_broken_input_has_an_outcome_and_nothing_of_it_stays(name: str) -> None:
    figures = run(name, 200, seed=1)

    # More than one request may come over a connection.
    assert sum(figures.outcomes.values()) >= 200
    assert len(figures.outcomes) >= 2


@pytest.mark.parametrize("name", sorted({*TARGETS} - {"grpc-requests"}))
def test_an_input_is_the_same_in_every_run(name: str) -> None:
    assert run(name, 50, seed=1).outcomes == run(name, 50, seed=1).outcomes


def test_every_valid_answer_belongs_to_a_parser() -> None:
    assert sorted(name for names in PARSERS.values() for name in names) == sorted(VALID)


def test_the_command_tries_a_parser_in_a_process_of_its_own_and_writes_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"

    assert main(["--only", "raw", "--inputs", "20", "--report", str(report)]) == 0
    (figures,) = json.loads(report.read_text("utf-8"))
    assert (figures["parser"], figures["inputs"], sum(figures["outcomes"].values())) == ("raw", 20, 20)
    assert capsys.readouterr().out.startswith("raw: 20 inputs, ")
