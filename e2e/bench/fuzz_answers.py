"""Broken answers of every format, and what must hold of each."""

import math
from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from davylamp.shadow.comparing import compare
from davylamp.shadow.comparison import Comparison
from davylamp.shadow.exchange import Answer, Call, Outcome
from davylamp.shadow.formats.redaction import redacted
from davylamp.shadow.formats.side_by_side import differences_of
from davylamp.shadow.task import Notion, Rules
from e2e.bench.answers import VALID

#: By parser, the answers that are broken for it.
PARSERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "v2-rest": ("open-inference", "open-inference-logits"),
        "v2-triton-binary": ("triton-binary",),
        "v2-grpc": ("grpc", "grpc-raw"),
        "v2-generate": ("generate", "generate-stream"),
        "v1": ("tensorflow-rows", "tensorflow-named", "tensorflow-columns"),
        "invocations": ("mlflow", "sagemaker-csv"),
        "openai-chat": ("chat",),
        "openai-events": ("chat-stream",),
        "openai-completions": ("completions",),
        "openai-embeddings": ("embeddings",),
        "json": ("torchserve",),
        "raw": ("raw",),
    }
)
_LONGEST: Final = 1 << 20
_VALUES: Final = (
    *b"NaN|-Infinity|1e999|-1e308|5e-324|-0.0|0|-1|1e1|2.5|9223372036854775808|18446744073709551616".split(b"|"),
    *b'null|true|false|""|"x"|[]|{}|[[]]|[1]|[null]|{"a":1}|"\\ud800"|"\\u0000"|"FP32"|"BYTES"|"stop"|"AA=="'.split(
        b"|"
    ),
    b"[" * 70 + b"]" * 70,
    b'{"a":' * 70 + b"1" + b"}" * 70,
    b"1" + b"0" * 400,
    b'"' + b"a" * 5000 + b'"',
)
#: How often each of the ways of `mutated` is taken.
_WEIGHTS: Final = (1, 1, 1, 1, 1, 8, 1)
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


def try_answer(parser: str, seed: int, number: int) -> str:
    """Try one input on a parser; return how the valid answer compares with it.

    Raises
    ------
    BrokenError
        If a rule does not hold.
    """
    random = Random(f"{seed}/{parser}/{number}")  # noqa: S311
    call, valid = VALID[random.choice(PARSERS[parser])]
    # Of JSON, a path that is selected chooses another parser than the one that is tried.
    rules = random.choice(_RULES if parser == "json" else [each for each in _RULES if not each.select])
    broken = Answer(valid.status, valid.headers, mutated(valid.body, random), valid.protocol)
    found = check(call, valid, broken, rules)
    same = check(call, broken, broken, rules)
    if same.differences:
        raise BrokenError(f"differs from itself: {same}")
    if same.unread is not None:
        return f"unread: {same.unread.value}"
    return "different" if found.differences else "same"


def try_redaction(_: str, seed: int, number: int) -> str:
    """Try one input on what shows captured pairs."""
    random = Random(f"{seed}/{number}")  # noqa: S311
    valid = random.choice(list(VALID.values()))[1]
    kept = redacted(mutated(valid.body, random), "application/json", ("$..name", "$.outputs[*].data"))
    return "different" if differences_of(kept, redacted(valid.body, "application/json", ())) else "same"


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


def mutated(body: bytes, random: Random) -> bytes:
    """Return the body with one to six things done to it, more often few: most bytes would be no format at all then."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 6))):
        start = random.randint(0, len(body))
        stop = min(len(body), start + random.choice((0, 1, 1, 2, 8, 40)))
        (what,) = random.choices(range(7), weights=_WEIGHTS)
        match what:
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
    return body[:_LONGEST]


def _with_another_value(body: bytes, random: Random) -> bytes:
    """Replace what stands between two signs of JSON, the first of which comes before a value: it often stays JSON."""
    ends = [place for place, sign in enumerate(body) if sign in b",:[]{}"]
    starts = [number for number, place in enumerate(ends[:-1]) if body[place] in b":["]
    if not starts:
        return body
    number = random.choice(starts)
    return body[: ends[number] + 1] + random.choice(_VALUES) + body[ends[number + 1] :]
