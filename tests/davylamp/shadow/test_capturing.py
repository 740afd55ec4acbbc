from __future__ import annotations

import json
from collections import Counter
from random import Random

from scipy.stats import chisquare

from davylamp.shadow.capturing import LARGEST_PART, Reservoir, keep_nothing
from davylamp.shadow.comparison import Comparison, Difference, Kind, Measure
from davylamp.shadow.exchange import Answer, Call, Failure, Outcome
from davylamp.shadow.task import Capture

COMPARISON = Comparison(
    Kind.TENSORS,
    differences=frozenset({Difference.VALUES}),
    disagrees=True,
    measures={Measure.MAX_ABSOLUTE: 0.5, Measure.ULPS: float("inf")},
)
FIRST = Outcome(Answer(200, (("content-type", "application/json"), ("set-cookie", "secret")), b'{"a":1}'), 0.1)
SECOND = Outcome(Failure.TIMEOUT, 10.0)


def keep(body: bytes, paths: tuple[str, ...]) -> bytes:
    assert paths == ("$.name",)
    return body.replace(b"Davy", b"****")


def offered(number: int, pairs: int, randomness: Random) -> list[str]:
    reservoir = Reservoir(Capture(pairs, ("$.name",)), keep, randomness)
    for each in range(number):
        call = Call("POST", "/a?user=Davy", (("x-request-id", str(each)), ("x-tenant", "b")), b'{"name":"Davy"}')
        offer(reservoir, call)
    return [pair["request"]["id"] for pair in reservoir.pairs]


def offer(reservoir: Reservoir, call: Call) -> None:
    place = reservoir.place()
    if place is not None:
        reservoir.keep(place, reservoir.view(call, (FIRST, SECOND), COMPARISON))


def random(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - the same in every run


def test_nothing_is_kept_unless_it_is_asked_for() -> None:
    assert offered(10, 0, random(1)) == []
    assert not Reservoir(Capture(), keep, random(1)).is_on


def test_no_more_pairs_are_kept_than_asked_for() -> None:
    assert offered(3, 5, random(1)) == ["0", "1", "2"]
    assert len(offered(1000, 5, random(1))) == 5
    assert len(offered(1000, 10**9, random(1))) == 200


def test_each_pair_is_as_likely_to_be_kept_as_any_other() -> None:
    kept = Counter(each for seed in range(3000) for each in offered(12, 3, random(seed)))

    assert chisquare([kept[str(each)] for each in range(12)]).pvalue > 1e-3


def test_a_pair_is_kept_redacted_and_without_headers_or_query() -> None:
    reservoir = Reservoir(Capture(1, ("$.name",)), keep, random(1))
    call = Call("POST", "/a?user=Davy", (("x-request-id", "7"), ("x-tenant", "Davy")), b'{"name":"Davy"}')
    offer(reservoir, call)

    assert reservoir.pairs == [
        {
            "request": {
                "protocol": "HTTP",
                "method": "POST",
                "path": "/a",
                "id": "7",
                "contentType": "",
                "size": 15,
                "whole": True,
                "text": '{"name":"****"}',
            },
            "baseline": {
                "status": 200,
                "contentType": "application/json",
                "size": 7,
                "whole": True,
                "text": '{"a":1}',
                "seconds": 0.1,
            },
            "candidate": {"failure": "Timeout", "seconds": 10.0},
            "kind": "Tensors",
            "differences": ["Values"],
            "measures": {"MaxAbsolute": 0.5},
        }
    ]


def test_bodies_are_kept_up_to_a_size_and_as_base64_where_they_are_no_text() -> None:
    reservoir = Reservoir(Capture(1), lambda body, _: body, random(1))
    offer(reservoir, Call("POST", "/a", (), b"\xff" * 10**6))

    (pair,) = reservoir.pairs
    assert (pair["request"]["size"], pair["request"]["whole"]) == (10**6, False)
    assert len(pair["request"]["base64"]) == -(-LARGEST_PART // 3) * 4
    assert json.loads(json.dumps(pair)) == pair


def test_a_long_text_is_cut_between_two_characters_and_no_word_is_longer_than_a_line() -> None:
    reservoir = Reservoir(Capture(1), lambda body, _: body, random(1))
    text = "a" + "é" * LARGEST_PART
    offer(reservoir, Call("POST", "/" + "a" * 10**4, (("x-request-id", "b" * 10**4),), text.encode()))

    request = reservoir.pairs[0]["request"]
    assert request["text"] == "a" + "é" * (LARGEST_PART // 2 - 1)
    assert (len(request["path"]), len(request["id"])) == (256, 256)


def test_who_cannot_redact_keeps_nothing() -> None:
    assert keep_nothing(b"secret", ()) == b""
