"""Shadow traffic: who compares, what is replayed, and what the pairs of answers must show."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from davylamp.api.v1alpha1.names import HeaderName, ServiceName, Text
from davylamp.api.v1alpha1.quantities import DurationBetween, PercentBetween
from davylamp.api.v1alpha1.rules import ATOMIC_LIST, ATOMIC_MAP
from davylamp.api.v1alpha1.strict import Strict

#: The comparator listens on so many ports, one for each rollout of its namespace.
FIRST_PORT: Final = 8090
LAST_PORT: Final = 8105
#: A rollout's requests over gRPC arrive so much above its port.
GRPC_ABOVE: Final = 100

_REQUIRED: Final = (
    "Whether a shadow step, and promotion, wait until this gate has shown that the candidate is no worse. "
    "Default: true."
)

Method = Annotated[str, Text(r"^[A-Z]+$", 16, "write an HTTP method in capitals, such as POST")]
PathPattern = Annotated[
    str,
    Text(
        r"^/[-a-zA-Z0-9._~/:*]*$",
        256,
        "write a path such as /v2/models/*/infer: '*' stands for text without '/', '**' for any text",
    ),
]
JSONPath = Annotated[
    str,
    Text(
        r"^\$.*$",
        256,
        "write a JSONPath (RFC 9535), such as $.outputs[0].data; a filter may only ask for @ and one place in it, and "
        "not by match() or search()",
    ),
]
QueryName = Annotated[
    str, Text(r"^[-a-zA-Z0-9._~]+$", 64, "write the name of a parameter as it stands in the query, such as api_key")
]
#: Of every field that takes them.
_PATHS: Final = (
    "JSONPaths (RFC 9535), whose filters may only ask for @ and one place in it, without match() and search()."
)


class ShadowStep(Strict):
    """Requests that both variants answer, off the live path."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    sample: Annotated[str, PercentBetween("0%", "100%", open_low=True, example="20%")] = Field(
        "100%", description="Share of the mirrored requests that both variants answer."
    )
    min_pairs: int = Field(
        1000, ge=1, le=1_000_000_000, description="Least number of pairs of answers that are compared at this step."
    )
    max_duration: Annotated[str, DurationBetween("1m", "90d")] = Field(
        "24h",
        description="How long the step waits for its pairs, and a step without a weight or the last that mirrors for "
        "its proof. After that the rollout is held and a person is told; it never goes on without them.",
    )


class MirroredProtocol(StrEnum):
    """How mirrored requests travel."""

    HTTP = "HTTP"
    GRPC = "GRPC"


class Comparator(Strict):
    """Where mirrored requests go."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    name: ServiceName = Field(
        "davylamp-shadow", description="Name of the comparator's Service, in the namespace of the ModelRollout."
    )
    port: int = Field(
        FIRST_PORT,
        ge=FIRST_PORT,
        le=LAST_PORT,
        description="Port that belongs to this rollout alone: the port says whose a request is.",
    )
    protocol: MirroredProtocol = Field(
        MirroredProtocol.HTTP,
        description="How the requests of the route travel: HTTP, which goes to the port, or GRPC, which goes to the "
        "port 100 above.",
    )


class Notion(StrEnum):
    """What counts as a disagreement."""

    DECISION = "Decision"
    VALUES = "Values"
    EXACT = "Exact"


class AnswerFormat(StrEnum):
    """How answers are read."""

    AUTO = "Auto"
    OPEN_INFERENCE = "OpenInference"
    TENSORFLOW = "TensorFlow"
    INVOCATIONS = "Invocations"
    OPENAI = "OpenAI"
    JSON = "JSON"
    RAW = "Raw"


class Compare(Strict):
    """How two answers to the same request are compared."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    format: AnswerFormat = Field(
        AnswerFormat.AUTO, description="How answers are read. Auto chooses by their content and the path."
    )
    disagreement: Notion = Field(
        Notion.DECISION,
        description="What counts as a disagreement: Decision, where labels, the highest class or the side of the "
        "threshold differ; Values, where a number is outside of the tolerance; Exact, where anything is.",
    )
    absolute: float = Field(0.0001, ge=0, le=1_000_000, description="Absolute tolerance of numbers.")
    relative: float = Field(0.001, ge=0, le=1, description="Relative tolerance of numbers, as a fraction.")
    threshold: float = Field(0.5, ge=0, le=1, description="A score at or above it decides for the positive class.")
    top_k: int = Field(5, ge=1, le=100, description="How many classes the overlap looks at.")
    similarity: float = Field(0.9, ge=0, le=1, description="Least similarity of two texts that agree, 0 to 1.")
    cosine: float = Field(0.99, ge=-1, le=1, description="Least cosine of two embeddings that agree.")
    select: tuple[JSONPath, ...] = Field(
        (),
        max_length=16,
        description=f"What is compared in JSON; empty for all of it. {_PATHS}",
        json_schema_extra=ATOMIC_LIST,
    )
    ignore: tuple[JSONPath, ...] = Field(
        (), max_length=16, description=f"What is not compared in JSON. {_PATHS}", json_schema_extra=ATOMIC_LIST
    )


class Capture(Strict):
    """Disagreeing pairs that are kept for people to look at."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    pairs: int = Field(
        0, ge=0, le=100, description="How many are kept at once, a uniform sample of all; 0 keeps nothing."
    )
    redact: tuple[JSONPath, ...] = Field(
        (),
        max_length=16,
        description=f"What is blotted out of requests and answers before they are kept. {_PATHS}",
        json_schema_extra=ATOMIC_LIST,
    )


class Shadow(Strict):
    """How requests are replayed to both variants, and how their answers are compared."""

    comparator: Comparator | None = Field(
        None, description="Where mirrored requests go. Default: {name: davylamp-shadow, port: 8090}."
    )
    methods: tuple[Method, ...] | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="Methods that are replayed. Default: [POST].",
        json_schema_extra=ATOMIC_LIST,
    )
    paths: tuple[PathPattern, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="Paths that are replayed. Default: those that predict, by any protocol that is known.",
        json_schema_extra=ATOMIC_LIST,
    )
    pass_headers: tuple[HeaderName, ...] | None = Field(
        None,
        max_length=16,
        description="Headers with credentials that are passed on, such as authorization. Default: all are stripped.",
        json_schema_extra=ATOMIC_LIST,
    )
    pass_query: tuple[QueryName, ...] | None = Field(
        None,
        max_length=16,
        description="Parameters of the query whose names speak of credentials and which are passed on, such as "
        "api_key. Default: all are stripped.",
        json_schema_extra=ATOMIC_LIST,
    )
    noise: Annotated[str, PercentBetween("0%", "50%", example="5%")] | None = Field(
        None,
        description="Share of the pairs that go to the baseline twice, to see how it differs from itself. Default: 5%.",
    )
    timeout: Annotated[str, DurationBetween("1s", "10m")] | None = Field(
        None, description="Longest time for one answer. Default: 10s."
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Most requests at once to each variant, from each replica: it begins with one, and adds to it "
        "while the variants answer quickly. Default: 8.",
    )
    max_body_bytes: int | None = Field(
        None,
        ge=1024,
        le=16_777_216,
        description="Largest request and answer that are compared, decoded. Default: 1048576.",
    )
    compare: Compare | None = Field(None, description="How two answers to the same request are compared.")
    capture: Capture | None = Field(
        None, description="Disagreeing pairs that are kept for people to look at. Default: none."
    )


class DisagreementGate(Strict):
    """How many pairs may disagree."""

    limit: Annotated[str, PercentBetween("0%", "50%", open_low=True, example="2%")] | None = Field(
        None, description="Largest share of disagreeing pairs. Default: 2%."
    )
    over_noise: Annotated[str, PercentBetween("0%", "50%", open_low=True)] | None = Field(
        None,
        description="Largest share of disagreeing pairs beyond that of the baseline with itself, in percentage points. "
        "Without it the noise is shown and not judged.",
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)


class StatusMismatchGate(Strict):
    """How many of the requests that the baseline answers may fail, or end otherwise, at the candidate."""

    limit: Annotated[str, PercentBetween("0%", "50%", open_low=True)] | None = Field(
        None, description="Largest share of pairs with another status. Default: 0.5%."
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)


class ScoreShiftGate(Strict):
    """How far the distribution of scores may move, in either direction."""

    tolerance: Annotated[str, PercentBetween("0%", "50%", open_low=True, example="2%")] | None = Field(
        None, description="Largest difference of the two distributions at any edge, in percentage points. Default: 2%."
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)


class ConfidenceGate(Strict):
    """How far the confidence in the chosen class may fall."""

    tolerance: Annotated[str, PercentBetween("0%", "50%", open_low=True, example="5%")] | None = Field(
        None, description="Largest growth of the share below any edge of confidence, in percentage points. Default: 5%."
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)


class PairedLatencyGate(Strict):
    """How much slower the candidate may be on the same request."""

    slowdown: Annotated[str, PercentBetween("0%", "100%", open_low=True, example="10%")] | None = Field(
        None, description="The median request may take so much longer. Default: 10%."
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)
