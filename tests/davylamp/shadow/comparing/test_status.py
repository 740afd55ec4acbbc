from __future__ import annotations

from typing import Any

import pytest

from davylamp.shadow.comparison import Comparison, Difference, Kind, Unread
from davylamp.shadow.exchange import Answer, Failure
from davylamp.shadow.task import Notion
from e2e.bench.answers import CHAT, GRPC_METHOD, INFER, answer, chat, delta, floats, grpc_answer, grpc_message, stream
from tests.davylamp.shadow.bodies import compared

GOOD = answer(floats(0.5))
FAILED: list[Answer | Failure] = [
    *Failure,
    *(answer(floats(0.5), status=status) for status in (302, 400, 404, 500)),
]


@pytest.mark.parametrize("notion", Notion)
@pytest.mark.parametrize("failed", FAILED)
def test_a_candidate_that_fails_where_the_baseline_answers_disagrees(failed: Any, notion: Notion) -> None:
    assert compared(INFER, GOOD, failed, notion=notion) == Comparison(
        Kind.STATUS, differences=frozenset({Difference.STATUS}), disagrees=True
    )


@pytest.mark.parametrize("second", [GOOD, *FAILED])
@pytest.mark.parametrize("failed", FAILED)
def test_a_baseline_that_fails_says_nothing_about_the_candidate(failed: Any, second: Any) -> None:
    assert compared(INFER, failed, second) == Comparison(Kind.STATUS, unread=Unread.BASELINE_FAILED)


@pytest.mark.parametrize("other", [GOOD, *FAILED])
def test_a_variant_that_asks_for_less_is_no_evidence_on_either_side(other: Any) -> None:
    throttled = answer(floats(0.5), status=429)
    for pair in ((throttled, other), (other, throttled), (throttled, throttled)):
        assert compared(INFER, *pair) == Comparison(Kind.STATUS, unread=Unread.THROTTLED)


def test_exhausted_resources_of_grpc_are_no_evidence() -> None:
    good = grpc_message([{"name": "x", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1]}}])
    assert compared(GRPC_METHOD, good, grpc_answer(b"", status=8)).unread is Unread.THROTTLED
    assert compared(INFER, GOOD, answer(floats(0.5), status=208)).unread is None


def test_the_status_of_grpc_counts_in_its_own_numbers() -> None:
    good = grpc_message([{"name": "x", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1]}}])
    bad = grpc_answer(b"", status=13)

    assert not compared(GRPC_METHOD, good, good).differences
    assert compared(GRPC_METHOD, good, bad).differences == {Difference.STATUS}
    assert compared(GRPC_METHOD, bad, good).unread is Unread.BASELINE_FAILED


def test_two_kinds_of_success_are_compared_by_their_bodies() -> None:
    assert compared(INFER, GOOD, answer(floats(0.5), status=201)).differences == frozenset()


def test_a_failure_that_calls_itself_success_is_one() -> None:
    good = stream(delta(content="a", finish="stop"))
    bad = stream(delta(content="a"), {"error": {"message": "out of memory"}})

    assert compared(CHAT, good, bad).differences == {Difference.STATUS}
    assert compared(CHAT, good, bad).disagrees
    assert compared(CHAT, bad, good).unread is Unread.BASELINE_FAILED


@pytest.mark.parametrize("notion", Notion)
@pytest.mark.parametrize("broken", [b"", b"<html>", {"outputs": []}, b"[" * 10_000, chat("a")])
def test_a_candidate_that_cannot_be_read_where_the_baseline_can_disagrees(broken: Any, notion: Notion) -> None:
    found = compared(INFER, GOOD, broken, notion=notion)

    assert (found.kind, set(found.differences), found.disagrees) == (Kind.TENSORS, {Difference.STRUCTURE}, True)


@pytest.mark.parametrize("second", [b"<html>", floats(0.5), chat("a")])
def test_a_baseline_that_cannot_be_read_is_never_the_same(second: Any) -> None:
    found = compared(INFER, b"<html>", second)

    assert (found.unread, found.disagrees) == (Unread.BASELINE_UNREADABLE, False)


def test_a_baseline_over_a_bound_is_counted_as_that() -> None:
    assert compared(INFER, b"[" * 100_000, floats(0.5)).unread is Unread.BOUND


def test_another_kind_of_answer_disagrees() -> None:
    assert compared("/predictions/x", {"a": 1}, b"text").differences == {Difference.STRUCTURE}


def test_bytes_are_the_same_or_not() -> None:
    assert not compared("/predictions/x", b"\xff\x00", b"\xff\x00").disagrees
    found = compared("/predictions/x", b"\xff\x00", b"\xff\x01")
    assert (found.kind, set(found.differences), found.disagrees) == (Kind.RAW, {Difference.BYTES}, True)
