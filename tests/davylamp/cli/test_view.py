from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.status import Signal
from davylamp.cli import quantity, signal_rows
from davylamp.cli.glyphs import ASCII, UNICODE
from davylamp.cli.view import render, render_many, summary
from tests.davylamp.api.manifests import paths
from tests.davylamp.cli.drawing import assert_golden, drawn
from tests.davylamp.cli.rollouts import NOON, SITUATIONS, Manifest, baking, damaged, errors, rolled_back, with_status

situations = pytest.mark.parametrize("situation", SITUATIONS)


@situations
@pytest.mark.parametrize("width", [80, 120])
def test_a_rollout_looks_as_it_was_drawn(situation: str, width: int) -> None:
    assert_golden(f"{situation}-{width}", drawn(render(SITUATIONS[situation](), NOON), width))


def test_several_rollouts_look_as_they_were_drawn() -> None:
    pictures = render_many([baking(), rolled_back()], NOON)
    assert_golden("many-100", drawn(pictures, 100))


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.001, 0.002, "[-0.10, +0.20]"),
        (0.0, None, "at least +0.00"),
        (None, 0.05, "at most +5.00"),
        (None, None, ""),
    ],
)
def test_limits_of_which_one_is_not_known_are_shown_by_the_other(
    low: float | None, high: float | None, text: str
) -> None:
    assert quantity.limits(low, high, quantity.Unit.SHARE, "-") == text


@situations
@pytest.mark.parametrize("width", [20, 40, 60, 79, 80, 111, 112, 119, 120, 160, 300])
def test_no_line_is_longer_than_the_terminal(situation: str, width: int) -> None:
    lines = drawn(render(SITUATIONS[situation](), NOON), width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


@situations
def test_a_terminal_without_unicode_gets_plain_signs(situation: str) -> None:
    text = drawn(render(SITUATIONS[situation](), NOON), 80, encoding="ascii")
    assert text.isascii()


@situations
@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_in_an_object_reaches_the_terminal_as_a_command(situation: str, terminal: bool) -> None:
    text = drawn(render(SITUATIONS[situation](), NOON), 80, terminal=terminal)
    rest = re.sub(r"\x1b\[[0-9;]*m", "", text) if terminal else text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", rest)
    assert terminal == ("\x1b[" in text)


def test_what_is_damaged_is_named_and_markup_is_shown_as_it_is() -> None:
    text = drawn(render(damaged(), NOON), 120)
    assert "status.weight cannot be read" in text
    assert "[bold]markup[/bold]" in text


@pytest.mark.parametrize(
    "manifest",
    [{}, {"metadata": None}, {"spec": 3, "status": []}, {"status": {"signals": {}}}, {"metadata": {"name": ["x"]}}],
)
def test_anything_that_calls_itself_a_rollout_is_drawn(manifest: dict[str, Any]) -> None:
    assert "?" in drawn(render(manifest, NOON), 80)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data(), junk=JUNK, width=st.integers(10, 200))
def test_an_object_that_was_spoilt_anywhere_is_drawn(data: st.DataObject, junk: Any, width: int) -> None:
    manifest = copy.deepcopy(data.draw(st.sampled_from(list(SITUATIONS.values())))())
    place = data.draw(st.sampled_from(paths(manifest)[1:]))
    container: Any = manifest
    for part in place[:-1]:
        container = container[part]
    container[place[-1]] = junk

    assert drawn(render(manifest, NOON), width)
    assert "\n" not in summary(manifest)


def test_a_ladder_of_a_policy_is_shown() -> None:
    manifest = baking()
    del manifest["spec"]["steps"]
    manifest["spec"]["policyRef"] = {"kind": "RolloutPolicy", "name": "classifier"}
    policy = PolicySpec.parse({"steps": [{"weight": 5}, {"weight": 33}]})

    assert "33 %" not in drawn(render(manifest, NOON), 80)
    assert "33 %" in drawn(render(manifest, NOON, policy=policy), 80)


def test_a_long_ladder_is_cut_around_the_current_step() -> None:
    manifest = baking()
    manifest["spec"]["steps"] = [{"weight": weight, "bake": "1m"} for weight in range(1, 51)]
    manifest["status"]["step"] |= {"index": 30, "summary": "31/50"}

    ladder = next(line for line in drawn(render(manifest, NOON), 120).splitlines() if "steps" in line)
    assert "▶ 31 %" in ladder
    assert ladder.count("..") == 2


@pytest.mark.parametrize(("height", "sentences"), [(60, 2), (20, 0)])
def test_several_rollouts_leave_out_calm_sentences_where_the_terminal_is_low(height: int, sentences: int) -> None:
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=120, height=height, force_terminal=True, color_system=None)
    console.print(render_many([baking(), rolled_back()], NOON))
    text = console.file.getvalue()  # type: ignore[attr-defined]

    assert text.count("evidence that it is no worse 7.94 of 20") == sentences
    assert "evidence of a regression 1e+7" in text, "what is bad is said at any height"


def test_no_rollouts_are_said_to_be_none() -> None:
    assert drawn(render_many([], NOON), 80) == "no rollouts\n"


@given(now=st.none() | st.floats(-400, 400), threshold=st.none() | st.floats(-400, 400), width=st.integers(1, 40))
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_bar_is_as_wide_as_it_was_asked_and_full_at_the_threshold(
    glyphs: Any, now: float | None, threshold: float | None, width: int
) -> None:
    evidence = signal_rows.Evidence("worse", now, threshold, accuses=True)

    text = signal_rows.bar(evidence, glyphs, width).plain

    assert cell_len(text) == width + 2
    full = now is not None and threshold is not None and threshold > 0 and now >= threshold
    assert (text[1:-1] == glyphs.full * width) == full


def test_half_the_evidence_in_nats_is_half_the_bar() -> None:
    evidence = signal_rows.Evidence("worse", 1.24, 2.48, accuses=True)
    assert signal_rows.bar(evidence, UNICODE, 8).plain == "▕████░░░░▏"


def test_a_gate_that_is_not_waited_for_is_drawn_without_weight() -> None:
    optional, required = (Signal.parse(errors(required=flag)) for flag in (False, True))
    names = [signal_rows.numbers(signal, UNICODE, 120)[0] for signal in (optional, required)]
    assert [any(getattr(span.style, "bold", False) for span in text.spans[:3]) for text in names] == [False, True]


@pytest.mark.parametrize(
    ("manifest", "line"),
    [
        (baking(), "ml/credit Progressing at 25 %: baking at 25 % for 190 of 600 s"),
        (with_status(None), "ml/credit not seen yet"),
    ],
)
def test_a_line_says_phase_weight_and_message(manifest: Manifest, line: str) -> None:
    assert summary(manifest) == line
