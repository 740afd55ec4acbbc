"""Pairs by slice, from the mirror to the counters and to the join of labels."""

import json
from dataclasses import replace
from typing import Any

import pytest

from davylamp.core.slices import Attribute
from davylamp.labels.messages import parse_predictions
from davylamp.shadow.comparing import compare
from davylamp.shadow.predictions import LabelsService, Predictions
from davylamp.shadow.task import SlicedBy, Slicing
from tests.davylamp.shadow.servers import comparing, counted, port, received, request, send, task, upstream, value

SEX = Attribute("sex", ("Female", "Male"), protected=False, header="x-sex")
JOB = Attribute("job", ("cook", "nurse"), protected=False)
SLICING = Slicing((SlicedBy(SEX), SlicedBy(JOB, path="$.job")), (("job", "sex"),), "key", "a-1", "0")


def saying(score: float) -> bytes:
    """Return the answer of a variant that gives this score."""
    output = {"name": "probability", "datatype": "FP32", "shape": [1], "data": [score]}
    body = json.dumps({"model_name": "credit", "outputs": [output]}).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize("filling", ["", "x" * 100_000])
async def test_a_pair_is_counted_for_everybody_and_in_each_of_its_slices(filling: str) -> None:
    body = json.dumps({"job": "nurse", "filling": filling}).encode()
    async with upstream(saying(0.9)) as first, upstream(saying(0.2)) as second:
        mine = replace(task(first.address, second.address), slicing=SLICING)
        async with comparing(mine, compare=compare) as comparator:
            await send(port(comparator), request(body, headers="x-sex: Female\r\n"))
            flipped = {"attempt": "a-1", "baseline": "positive", "changed": "true"}
            await counted(comparator, "slice_pairs_total", 1, slice="", **flipped)
            for label in ("sex=Female", "job=nurse", "job=nurse,sex=Female"):
                assert value(comparator, "slice_pairs_total", slice=label, **flipped) == 1
            assert value(comparator, "slice_pairs_total", slice="sex=Male", **flipped) == 0


async def test_a_slice_that_has_the_baseline_alone_is_not_compared() -> None:
    async with upstream(saying(0.9)) as variant:
        away = replace(SLICING, diverted=("sex=Female",))
        mine = replace(task(variant.address, variant.address), slicing=away)
        async with comparing(mine, compare=compare) as comparator:
            await send(port(comparator), request(headers="x-sex: Female\r\n"))
            await received(comparator, "Diverted")
            assert not variant.requests
            await send(port(comparator), request(request_id="2", headers="x-sex: Male\r\n"))
            await counted(comparator, "pairs_total", pair="candidate")
    assert len(variant.requests) == 2


async def test_what_was_decided_can_be_read_by_the_join_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Predictions, "add", lambda _, prediction: sent.append(prediction))
    async with upstream(saying(0.9)) as first, upstream(saying(0.25)) as second:
        mine = replace(task(first.address, second.address), slicing=replace(SLICING, positive=">50K"))
        labels = LabelsService("http://127.0.0.1:9")
        async with comparing(mine, compare=compare, labels=labels) as comparator:
            await send(port(comparator), request(request_id="r-7", headers="x-sex: Female\r\n"))
            await counted(comparator, "slice_pairs_total", slice="", attempt="a-1", baseline="positive", changed="true")
    (prediction,) = parse_predictions(json.dumps({"predictions": sent}).encode())
    assert (prediction.id, prediction.cell.attempt, prediction.cell.cohort) == ("r-7", "a-1", "0")
    assert set(prediction.slices) == {"sex=Female", "job=other", "job=other,sex=Female"}
    assert (prediction.pair.baseline.decision, prediction.pair.candidate.decision) == (">50K", "")
    assert prediction.pair.baseline.score == pytest.approx(0.9)
    assert prediction.pair.candidate.score == pytest.approx(0.25)
