import json
from typing import Any

import pytest

from davylamp.errors import SpecError, Unavailable
from davylamp.sources.answers import bounded, read_answer, refusal
from tests.davylamp.sources.looks import both, envelope


def body(answer: Any) -> bytes:
    return json.dumps(answer).encode()


def test_a_whole_answer_gives_its_series_and_remarks() -> None:
    answer = read_answer(body(envelope(both("x_total", [1, 2]), infos=["PromQL info: might not be a counter"])))

    assert [series.labels["service"] for series in answer.series] == ["fp32", "int8"]
    assert answer.remarks == ("PromQL info: might not be a counter",)


def test_not_a_number_as_a_bare_word_does_not_break_the_answer() -> None:
    answer = read_answer(
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,NaN]]}]}}'
    )

    assert len(answer.series) == 1


@pytest.mark.parametrize(
    "warnings", [["store is gone"], ["PromQL info: x", "results truncated due to limit"], [5], "partial", {"a": 1}]
)
def test_an_answer_with_warnings_is_no_answer(warnings: Any) -> None:
    with pytest.raises(Unavailable):
        read_answer(body(envelope(both("x_total", [1]), warnings=warnings)))


@pytest.mark.parametrize("warnings", [[], None, ["PromQL info: metric might not be a counter"]])
def test_remarks_among_the_warnings_are_none(warnings: Any) -> None:
    assert len(read_answer(body(envelope(both("x_total", [1]), warnings=warnings))).series) == 2


def test_an_answer_that_says_it_is_partial_is_no_answer() -> None:
    with pytest.raises(Unavailable, match="in part only"):
        read_answer(body(envelope([], isPartial=True)))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        5,
        {},
        {"status": "success"},
        {"status": "success", "data": None},
        {"status": "success", "data": {"resultType": "matrix"}},
        {"status": "success", "data": {"resultType": "matrix", "result": {}}},
        {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}},
        {"status": "success", "data": {"resultType": "string", "result": [1, "1"]}},
        {"status": "success", "data": {"resultType": "new", "result": []}},
        {"status": "success", "data": {"resultType": ["matrix"], "result": []}},
        {"status": "odd", "data": {"resultType": "matrix", "result": []}},
        envelope([5]),
        envelope([{"metric": None, "values": []}]),
        envelope([{"metric": {"a": 5}, "values": []}]),
        envelope([{"values": []}]),
        envelope([{"metric": {}, "values": "x"}]),
        envelope([{"metric": {}, "histograms": {}}]),
    ],
)
def test_an_answer_of_another_form_is_no_answer(answer: Any) -> None:
    with pytest.raises(Unavailable, match=r"form that is not|result type"):
        read_answer(body(answer))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>log in</html>",
        b"\xff\xfe",
        b'{"status"',
        b"[" * 100_000,
        b"9" * 5000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_json_is_no_answer(raw: bytes) -> None:
    with pytest.raises(Unavailable):
        read_answer(raw)


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (200, {"status": "error", "errorType": "bad_data", "error": "parse error"}, SpecError),
        (200, {"status": "error", "errorType": "timeout", "error": "query timed out"}, Unavailable),
        (400, {"status": "error", "errorType": "bad_data", "error": "parse error"}, SpecError),
        (422, {"status": "error", "errorType": "execution", "error": "too many samples"}, SpecError),
        (422, {"error": "the query exceeds a limit (err-mimir-max-query-length)"}, SpecError),
        (422, {"errorType": "execution", "error": "expanding series: rpc error: code = Unavailable"}, Unavailable),
        (400, None, SpecError),
        (401, None, SpecError),
        (403, {"error": "forbidden"}, SpecError),
        (404, "<html>", SpecError),
        (408, None, Unavailable),
        (429, None, Unavailable),
        (499, {"errorType": "canceled"}, Unavailable),
        (500, {"errorType": "internal", "error": "x"}, Unavailable),
        (502, "<html>bad gateway</html>", Unavailable),
        (503, {"errorType": "timeout", "error": "x"}, Unavailable),
        (504, None, Unavailable),
        (204, None, Unavailable),
        (400, {"error": {"not": "text"}, "errorType": ["odd"]}, SpecError),
    ],
)
def test_a_refusal_says_whose_fault_it_is(status: int, answer: Any, error: type[Exception]) -> None:
    raised = refusal(status, body(answer))

    assert type(raised) is error
    assert str(status) in str(raised)


def test_the_servers_words_reach_people_on_one_short_line_without_addresses() -> None:
    said = str(
        refusal(400, body({"error": "bad\n\x1b[31mquery\u202e at https://user:pw@host/x?token=1 " + "z" * 5000}))
    )

    assert "bad [31mquery at …" in said
    assert "pw" not in said
    assert said.isprintable()
    assert len(said) < 400


@pytest.mark.parametrize("text", ["", "\ud800", "\x00" * 50, "a" * 10_000, "http://x"])
def test_any_words_can_be_shown(text: str) -> None:
    shown = bounded(text)

    assert len(shown) <= 301
    shown.encode()
