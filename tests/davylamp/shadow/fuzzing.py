"""Broken answers of every format, by the hundred thousand: ``python -m tests.davylamp.shadow.fuzzing --inputs 100000``.

Deterministic by the seed; input number n of a seed is the same in every run.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
from collections import Counter
from random import Random
from typing import Final

from davylamp.shadow.comparing import compare
from davylamp.shadow.comparison import Comparison
from davylamp.shadow.exchange import Answer, Call, Outcome
from davylamp.shadow.formats.redaction import redacted
from davylamp.shadow.formats.side_by_side import differences_of
from davylamp.shadow.task import Notion, Rules
from tests.davylamp.shadow.bodies import VALID

#: MiB that the process may grow by, after it has seen a tenth of the inputs.
MOST_GROWTH: Final = 64
_NASTY: Final = (
    *(b"NaN -Infinity 1e999 -1e308 5e-324 -0.0 0 -1 1e1 2.5 9223372036854775808 -9223372036854775809".split()),
    *(b'18446744073709551616 null true "" [] {} [[]] data: [DONE] "data" "shape" "outputs" "choices" "b64"'.split()),
    *(b'"error":1, "index":-1, "\\ud800" "\\u0000" \xef\xbb\xbf \xff\xfe \xff'.split()),
    *(b"1" + b"0" * zeros for zeros in (400, 5000)),
    *(b"[" * depth for depth in (70, 3000)),
    b'{"a":' * 70,
    b"\n\n",
    b"\r",
    b"\x00",
)
_RULES: Final = (
    Rules(),
    Rules(notion=Notion.VALUES, absolute=0.0, relative=0.0),
    Rules(notion=Notion.EXACT),
    Rules(select=("$..score", "$.outputs[*].data", "$[?@.a]")),
    Rules(ignore=("$.outputs[0]", "$..name", "$.choices[*].logprobs")),
)


class BrokenError(AssertionError):
    """A rule does not hold for an input."""


def mutated(body: bytes, random: Random) -> bytes:
    """Return the body with one to six things done to it."""
    for _ in range(random.randint(1, 6)):
        start = random.randint(0, len(body))
        stop = min(len(body), start + random.choice((0, 1, 1, 2, 8, 40)))
        match random.randrange(7):
            case 0:
                body = body[:start] + random.randbytes(stop - start) + body[stop:]
            case 1:
                body = body[:start] + body[stop:]
            case 2:
                body = body[:start] + body[start:stop] * random.choice((2, 3, 200)) + body[stop:]
            case 3:
                body = body[:start]
            case 4:
                body = body[:start] + random.choice(_NASTY) + body[stop:]
            case 5:
                body = _with_another_value(body, random)
            case _:
                other = random.choice(list(VALID.values()))[1].body
                body = body[:start] + other[random.randint(0, len(other)) :]
    return body[: 1 << 20]


def _with_another_value(body: bytes, random: Random) -> bytes:
    """Replace what stands between two signs of JSON, so that it often stays JSON."""
    ends = [place for place, sign in enumerate(body) if sign in b",:[]{}"]
    if len(ends) < 2:
        return body
    place = random.randrange(len(ends) - 1)
    return body[: ends[place] + 1] + random.choice(_NASTY) + body[ends[place + 1] :]


def check(call: Call, first: Answer, second: Answer, rules: Rules) -> Comparison:
    """Compare, and raise BrokenError if the outcome is none that may be."""
    found = compare(call, Outcome(first, 0.1), Outcome(second, 0.1), rules)
    numbers = [*found.measures.values(), *(number for pair in found.scores + found.confidences for number in pair)]
    if not all(map(math.isfinite, numbers)):
        raise BrokenError(f"not finite: {found}")
    if not all(0 <= number <= 1 for pair in found.scores + found.confidences for number in pair):
        raise BrokenError(f"outside of 0..1: {found}")
    if found.unread is not None and (found.disagrees or found.differences):
        raise BrokenError(f"unread and yet different: {found}")
    if found.disagrees and not found.differences:
        raise BrokenError(f"disagrees without a difference: {found}")
    return found


def run_one(seed: int, number: int) -> tuple[str, Comparison]:
    """Try one input in all ways; return its format and how the valid answer compares with it."""
    random = Random(f"{seed}/{number}")  # noqa: S311
    name = random.choice(list(VALID))
    call, valid = VALID[name]
    rules = random.choice(_RULES)
    body = mutated(valid.body, random)
    broken = Answer(valid.status, valid.headers, body, valid.protocol)
    found = check(call, valid, broken, rules)
    check(call, broken, valid, rules)
    same = check(call, broken, broken, rules)
    if same.differences:
        raise BrokenError(f"differs from itself: {same}")
    kept = redacted(body, "application/json", ("$..name", "$.outputs[*].data"))
    differences_of(kept, redacted(valid.body, "application/json", ()))
    return name, found


def run(inputs: int, seed: int, progress: int = 0) -> Counter[tuple[str, str]]:
    """Try so many inputs; return how often each outcome came, by format."""
    counts: Counter[tuple[str, str]] = Counter()
    before = 0
    for number in range(inputs):
        name, found = run_one(seed, number)
        counts[name, found.unread or ("Different" if found.differences else "Same")] += 1
        if number == inputs // 10:
            before = _mebibytes()
        if progress and (number + 1) % progress == 0:
            print(f"{number + 1} inputs, {_mebibytes()} MiB at most", flush=True)  # noqa: T201
    if _mebibytes() - before > MOST_GROWTH:
        raise BrokenError(f"grew from {before} to {_mebibytes()} MiB")
    return counts


def _mebibytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(arguments: list[str]) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    for (name, outcome), count in sorted(run(given.inputs, given.seed, max(1, given.inputs // 20)).items()):
        print(f"{name:24} {outcome:20} {count:8}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
