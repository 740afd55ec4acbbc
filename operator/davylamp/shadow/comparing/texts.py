"""Two answers of generated texts."""

import math
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from rapidfuzz.distance import Levenshtein

from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparison import Difference, Measure
from davylamp.shadow.formats.parsing import parsed
from davylamp.shadow.formats.reading import Choice, Texts, UnreadableError
from davylamp.shadow.task import Notion, Rules

#: Characters that similarity looks at, of one text and of all of an answer: its cost grows with their square. Half of
#: them are the last ones, for models that fail do so late.
MOST_CHARACTERS: Final = 8_000
MOST_CHARACTERS_IN_ALL: Final = 64_000
#: Of each text at least, however many there are.
FEWEST_CHARACTERS: Final = 100
#: How English refusals begin; servers of open models have no field for them.
_REFUSAL: Final = re.compile(
    r"\W*(?:(?:i['’]?m|i am) (?:very |so |really )?sorry\b"
    r"|sorry, (?:but )?i\b"
    r"|i can(?:not|['’]?t)\b"
    r"|i(?:['’]m| am) (?:unable|not able) to\b"
    r"|as an ai\b"
    r"|i (?:must|have to) (?:decline|refuse)\b)",
    re.IGNORECASE,
)


def compare_texts(first: Texts, second: Texts, rules: Rules) -> Findings:
    """Compare choices one by one; the least similar ones are measured.

    Parameters
    ----------
    first, second
        The baseline's and the candidate's.
    rules
        With the least similarity.
    """
    findings = Findings()
    findings.differ(Difference.STRUCTURE, len(first.choices) != len(second.choices))
    pairs = list(zip(first.choices, second.choices, strict=False))
    longest = max(FEWEST_CHARACTERS, min(MOST_CHARACTERS, MOST_CHARACTERS_IN_ALL // len(pairs)))
    similarities = [_look_at(pair, longest, rules, findings) for pair in pairs]
    findings.measure(Measure.SIMILARITY, min(similarities))
    before, after = (sum(len(pair[side].text) for pair in pairs) for side in (0, 1))
    if before:
        findings.measure(Measure.LENGTH_RATIO, after / before)
    places = [place for pair in pairs if (place := _first_difference(*pair)) is not None]
    if places:
        findings.measure(Measure.FIRST_DIFFERENCE, min(places))
    changes = [change for pair in pairs for change in _changes(*pair)]
    if changes:
        findings.measure(Measure.LOG_PROBABILITY_CHANGE, sum(changes) / len(changes))
    return findings


def _look_at(pair: tuple[Choice, Choice], longest: int, rules: Rules, findings: Findings) -> float:
    first, second = pair
    findings.differ(Difference.FINISH_REASON, first.finish != second.finish)
    findings.differ(Difference.REFUSAL, _refuses(first) is not _refuses(second))
    findings.differ(Difference.EMPTY, _is_empty(first) is not _is_empty(second))
    findings.differ(Difference.TOOL_CALLS, first.tools != second.tools)
    if first.text == second.text:
        return 1.0
    findings.differ(Difference.JSON_VALIDITY, _is_json(first.text) is not _is_json(second.text))
    similarity = _similarity(first.text, second.text, longest)
    findings.differ(Difference.TEXT, similarity < rules.similarity or rules.notion is Notion.EXACT)
    return similarity


def _similarity(first: str, second: str, longest: int) -> float:
    """Return how similar two texts are, 0 to 1; of longer ones, as their beginnings, their ends and lengths have it."""
    lengths = sorted((len(first), len(second)))
    if lengths[1] <= longest:
        return Levenshtein.normalized_similarity(first, second)
    half = longest // 2
    parts = ((first[:half], second[:half]), (first[-half:], second[-half:]))
    # No two texts are more similar than their lengths.
    return min(lengths[0] / lengths[1], *(Levenshtein.normalized_similarity(*part) for part in parts))


def _refuses(choice: Choice) -> bool:
    return choice.refused or _REFUSAL.match(choice.text) is not None


def _is_empty(choice: Choice) -> bool:
    return not choice.tools and not choice.text.strip()


def _is_json(text: str) -> bool:
    """Whether a text is an object or a list in JSON; a bare word or number was not meant as JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        parsed(text.encode("utf-8", "surrogatepass"))
    except UnreadableError:
        return False
    return True


def _first_difference(first: Choice, second: Choice) -> int | None:
    """Return the place of the first token that differs, or of the first word where there are no tokens."""
    if first.tokens and second.tokens:
        return _place(first.tokens, second.tokens)
    return None if first.text == second.text else _place(first.text.split(), second.text.split())


def _place(first: Sequence[str], second: Sequence[str]) -> int | None:
    same = _common(first, second)
    return None if same == len(first) == len(second) else same


def _common(first: Sequence[Any], second: Sequence[Any]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _changes(first: Choice, second: Choice) -> list[float]:
    """Return the candidate's log-probability less the baseline's of each token before the first that differs."""
    same = _common(first.tokens, second.tokens)
    pairs = zip(first.log_probabilities[:same], second.log_probabilities[:same], strict=False)
    return [after - before for before, after in pairs if math.isfinite(before) and math.isfinite(after)]
