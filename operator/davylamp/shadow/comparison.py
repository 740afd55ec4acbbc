"""What comes of comparing two answers to the same request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: The side of a threshold (True is the positive class), or the text of a class.
Decision = bool | str


class Kind(StrEnum):
    """What the answers were understood as."""

    TENSORS = "Tensors"
    TEXT = "Text"
    EMBEDDINGS = "Embeddings"
    JSON = "JSON"
    RAW = "Raw"
    #: No answer, or an error, on one side at least: only the status was compared.
    STATUS = "Status"


class Difference(StrEnum):
    """One way in which two answers differ; a closed set, for it is a label of metrics."""

    STATUS = "Status"
    SHAPE = "Shape"
    DATATYPE = "Datatype"
    #: A number is outside of the tolerance.
    VALUES = "Values"
    #: A number is NaN or infinite on one side only.
    NOT_FINITE = "NotFinite"
    #: A label, the highest class or the side of the threshold differs.
    DECISION = "Decision"
    #: The candidate's set of outputs, fields or choices is another.
    STRUCTURE = "Structure"
    TEXT = "Text"
    FINISH_REASON = "FinishReason"
    REFUSAL = "Refusal"
    EMPTY = "Empty"
    TOOL_CALLS = "ToolCalls"
    JSON_VALIDITY = "JSONValidity"
    EMBEDDING = "Embedding"
    BYTES = "Bytes"


class Measure(StrEnum):
    """One number about a pair; each becomes a histogram with buckets of its own."""

    MAX_ABSOLUTE = "MaxAbsolute"
    MEAN_ABSOLUTE = "MeanAbsolute"
    ULPS = "ULPs"
    TOP_K_OVERLAP = "TopKOverlap"
    KL = "KL"
    JS = "JS"
    RANK_CORRELATION = "RankCorrelation"
    #: How far the baseline's two best classes, or its score and the threshold, were apart where the decision flipped.
    FLIP_MARGIN = "FlipMargin"
    #: Candidate less baseline, of a score.
    SCORE_CHANGE = "ScoreChange"
    SIMILARITY = "Similarity"
    #: Characters, candidate over baseline.
    LENGTH_RATIO = "LengthRatio"
    #: The number of the first token that differs, from 0.
    FIRST_DIFFERENCE = "FirstDifference"
    LOG_PROBABILITY_CHANGE = "LogProbabilityChange"
    COSINE = "Cosine"


class Unread(StrEnum):
    """Why the answers of a pair were not compared."""

    #: Not what the format asks for; of the baseline, so that nothing is known about the candidate.
    BASELINE_UNREADABLE = "BaselineUnreadable"
    #: Over a bound of depth, size or time.
    BOUND = "Bound"
    #: The baseline itself failed, whatever the candidate did.
    BASELINE_FAILED = "BaselineFailed"
    #: A variant asked for less (429, RESOURCE_EXHAUSTED): that is about the load of the shadow, not about the model.
    THROTTLED = "Throttled"
    #: The rollout changed, or ended, while the pair was under way.
    ABANDONED = "Abandoned"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the second of two answers compares with the first.

    Parameters
    ----------
    kind
        What they were understood as.
    unread
        Why they could not be compared; None if they could, and then the pair counts.
    differences
        Empty if they are the same by the rules' tolerances.
    disagrees
        Whether the pair counts as a disagreement, by the rules' notion. A status that differs always does.
    measures
        What was measured; one that has no meaning for the pair is absent, never NaN.
    scores
        (first, second) score or probability of each decision of the pair that has one, 0..1.
    confidences
        (first, second) probability of the chosen class, 0..1.
    decisions
        (first, second) side of the threshold, or else the class, of each item, by the first output that has some.
    """

    kind: Kind
    unread: Unread | None = None
    differences: frozenset[Difference] = frozenset()
    disagrees: bool = False
    measures: Mapping[Measure, float] = field(default_factory=dict)
    scores: tuple[tuple[float, float], ...] = ()
    confidences: tuple[tuple[float, float], ...] = ()
    decisions: tuple[tuple[Decision, Decision], ...] = ()
