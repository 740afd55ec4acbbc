"""What the comparator does for one rollout: everything a ModelRollout says about it, as values."""

from dataclasses import dataclass, field
from enum import StrEnum

from davylamp.core.slices import Attribute


class Notion(StrEnum):
    """What counts as a disagreement of two answers."""

    #: The decisions differ: labels, the highest class, the side of the threshold; where there is none, the values.
    DECISION = "Decision"
    #: Some number differs by more than the tolerance, or a text by more than the similarity allows.
    VALUES = "Values"
    #: Anything differs but what is ignored.
    EXACT = "Exact"


class Format(StrEnum):
    """How answers are read; AUTO chooses by content and path."""

    AUTO = "Auto"
    OPEN_INFERENCE = "OpenInference"
    TENSORFLOW = "TensorFlow"
    INVOCATIONS = "Invocations"
    OPENAI = "OpenAI"
    JSON = "JSON"
    RAW = "Raw"


@dataclass(frozen=True, slots=True)
class Rules:
    """How two answers are compared.

    Parameters
    ----------
    format
        How answers are read.
    notion
        What counts as a disagreement.
    absolute, relative
        Tolerances of numbers, >= 0: ``|c - b| <= absolute + relative * |b|`` is close.
    threshold
        Scores at or above it decide for the positive class.
    top_k
        Classes that the overlap looks at, 1..100.
    similarity
        Least normalised similarity of two texts that agree, 0..1.
    cosine
        Least cosine of two embeddings that agree, -1..1.
    select
        JSONPaths (RFC 9535) of what is compared in JSON; empty for everything.
    ignore
        JSONPaths of what is not compared in JSON.
    """

    format: Format = Format.AUTO
    notion: Notion = Notion.DECISION
    absolute: float = 1e-4
    relative: float = 1e-3
    threshold: float = 0.5
    top_k: int = 5
    similarity: float = 0.9
    cosine: float = 0.99
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """What is replayed, and within which limits.

    Parameters
    ----------
    methods
        In capitals.
    paths
        Patterns of whole paths, ``*`` for any text without a slash, ``**`` for any text; empty for those that predict.
    pass_headers
        Lower-case names of credentials that are passed on; all others are stripped.
    pass_query
        Likewise, of parameters of the query.
    timeout
        Of one call, in seconds, > 0.
    concurrency
        Calls at once for each variant, >= 1.
    max_body
        Bytes of a request or an answer, decoded, >= 1.
    """

    methods: frozenset[str] = frozenset({"POST"})
    paths: tuple[str, ...] = ()
    pass_headers: frozenset[str] = frozenset()
    pass_query: frozenset[str] = frozenset()
    timeout: float = 10.0
    concurrency: int = 8
    max_body: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Capture:
    """Which disagreeing pairs are kept to be looked at.

    Parameters
    ----------
    pairs
        How many are kept at once, a uniform sample of all; 0 for none.
    redact
        JSONPaths of what is blotted out in requests and answers before anything is kept.
    """

    pairs: int = 0
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlicedBy:
    """An attribute of requests, and where it stands: in a header, at a JSONPath of the body, or in a tensor.

    Parameters
    ----------
    attribute
        What it is.
    path
        JSONPath; empty for none.
    tensor, column
        Name of an input of the Open Inference Protocol, empty for none, and the column of its first row.
    """

    attribute: Attribute
    path: str = ""
    tensor: str = ""
    column: int = 0


@dataclass(frozen=True, slots=True)
class Slicing:
    """How pairs are counted by slice.

    Parameters
    ----------
    by, intersections
        Attributes, and which of them make slices together.
    key
        By which protected values are hashed.
    attempt, cohort
        Under which names pairs are counted now.
    positive
        Text of the positive class.
    diverted
        Labels of the slices that have the baseline alone; their requests are not compared.
    awaits_labels
        Whether decisions are sent on to be joined with labels.
    labelled_by_decision
        Whether a label exists only because of the baseline's decision.
    """

    by: tuple[SlicedBy, ...]
    intersections: tuple[tuple[str, ...], ...]
    key: str
    attempt: str
    cohort: str
    positive: str = "1"
    diverted: tuple[str, ...] = ()
    awaits_labels: bool = True
    labelled_by_decision: bool = False

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What is sliced by."""
        return tuple(each.attribute for each in self.by)


@dataclass(frozen=True, slots=True)
class Task:
    """What the comparator does for one rollout.

    Parameters
    ----------
    namespace, rollout
        Whose it is; the labels of its metrics.
    port
        Where its mirrored requests arrive.
    baseline, candidate
        ``host:port`` of either variant.
    sample
        Share of the requests that are compared, 0..1.
    noise
        Share of the compared requests that go to the baseline twice, 0..1.
    slowdown
        A pair counts as slower when the candidate took more than (1 + slowdown) times as long, >= 0.
    slicing
        How pairs are counted by slice; None if they are not.
    """

    namespace: str
    rollout: str
    port: int
    baseline: str
    candidate: str
    sample: float
    noise: float = 0.05
    slowdown: float = 0.1
    rules: Rules = field(default_factory=Rules)
    replay: Replay = field(default_factory=Replay)
    capture: Capture = field(default_factory=Capture)
    slicing: Slicing | None = None
