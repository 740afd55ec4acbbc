"""What one label says about the two variants' answers to one request, as increments of counters. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

#: Scores are counted in so many bins of equal width over [0, 1]; the last one holds 1 too.
BINS: Final = 10
#: Sums of scores are kept in whole millionths, so that no order of adding up changes them.
SCORE_UNITS: Final = 1_000_000


class Variant(StrEnum):
    """Who decided."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class Outcome(StrEnum):
    """What a decision was, once the label is known."""

    #: Decided positive, and is.
    TRUE_POSITIVE = "TP"
    #: Decided positive, and is not.
    FALSE_POSITIVE = "FP"
    #: Decided negative, and is.
    TRUE_NEGATIVE = "TN"
    #: Decided negative, and is not.
    FALSE_NEGATIVE = "FN"
    #: The right class, where no class is declared positive.
    RIGHT = "Right"
    #: A wrong class, where no class is declared positive.
    WRONG = "Wrong"


class Truth(StrEnum):
    """What the label is."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    #: No class is declared positive.
    ANY = "any"


class PairResult(StrEnum):
    """Which of the two variants was right about one request."""

    BOTH_RIGHT = "both_right"
    BOTH_WRONG = "both_wrong"
    BASELINE_RIGHT = "baseline_right"
    CANDIDATE_RIGHT = "candidate_right"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one variant said.

    Parameters
    ----------
    decision
        The class.
    score
        In [0, 1]: of the positive class, or, where none is declared, how sure of the decision; None if not known.
    """

    decision: str
    score: float | None = None

    def __post_init__(self) -> None:
        if self.score is not None and not 0 <= self.score <= 1:  # also refuses NaN
            raise ValueError(f"a score must be 0 to 1, got {self.score}")


@dataclass(frozen=True, slots=True)
class Pair:
    """What both variants said about one request.

    Parameters
    ----------
    baseline, candidate
        Their answers.
    positive
        The class that counts as positive; None to count right and wrong only.
    labelled_by_decision
        Whether a label comes only where the baseline decided positive: all others are unknown, whoever was right.
    """

    baseline: Answer
    candidate: Answer
    positive: str | None = None
    labelled_by_decision: bool = False

    def __post_init__(self) -> None:
        if self.labelled_by_decision and self.positive is None:
            raise ValueError("labels that follow the decision need a positive class")

    @property
    def comparable(self) -> bool:
        """Whether a label of this request says the same about both variants.

        Where the baseline's own decision brings the label about, a request that it declined has one only by accident:
        counting such requests would favour the variant that declined them too.
        """
        return not self.labelled_by_decision or self.baseline.decision == self.positive


def counted(pair: Pair, label: str) -> Iterator[tuple[str, int]]:
    """Yield what a label counts: keys of counters, a kind and its labels, and how much; nothing if not comparable.

    Parameters
    ----------
    pair
        What was said.
    label
        The true class.
    """
    if not pair.comparable:
        return
    answers = ((Variant.BASELINE, pair.baseline), (Variant.CANDIDATE, pair.candidate))
    for variant, answer in answers:
        yield f"outcome:{variant}:{outcome_of(pair.positive, answer.decision, label)}", 1
        if answer.score is not None:
            place = min(int(answer.score * BINS), BINS - 1)
            yield f"bin:{variant}:{place}:{_bin_label(pair.positive, answer.decision, label)}", 1
            yield f"score:{variant}:{place}", round(answer.score * SCORE_UNITS)
    result = _RESULTS[_right(pair.positive, pair.baseline, label), _right(pair.positive, pair.candidate, label)]
    yield f"pair:{truth_of(pair.positive, label)}:{result}", 1


def outcome_of(positive: str | None, decision: str, label: str) -> Outcome:
    """Return what a decision was."""
    match truth_of(positive, label):
        case Truth.ANY:
            return Outcome.RIGHT if decision == label else Outcome.WRONG
        case Truth.POSITIVE:
            return Outcome.TRUE_POSITIVE if decision == positive else Outcome.FALSE_NEGATIVE
        case Truth.NEGATIVE:
            return Outcome.FALSE_POSITIVE if decision == positive else Outcome.TRUE_NEGATIVE
        case never:
            assert_never(never)


def truth_of(positive: str | None, label: str) -> Truth:
    """Return on which side of the declared class a label is."""
    if positive is None:
        return Truth.ANY
    return Truth.POSITIVE if label == positive else Truth.NEGATIVE


_GOOD: Final = frozenset({Outcome.TRUE_POSITIVE, Outcome.TRUE_NEGATIVE, Outcome.RIGHT})
_RESULTS: Final = {
    (True, True): PairResult.BOTH_RIGHT,
    (False, False): PairResult.BOTH_WRONG,
    (True, False): PairResult.BASELINE_RIGHT,
    (False, True): PairResult.CANDIDATE_RIGHT,
}


def _right(positive: str | None, answer: Answer, label: str) -> bool:
    return outcome_of(positive, answer.decision, label) in _GOOD


def _bin_label(positive: str | None, decision: str, label: str) -> str:
    """Return what a score is held against: the label, or, where no class is positive, whether the decision was right.

    A score is the probability that the label is positive, or that the decision is right.
    """
    if positive is None:
        return "right" if decision == label else "wrong"
    return truth_of(positive, label).value
