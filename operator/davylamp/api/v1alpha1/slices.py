"""Slices: groups of requests that must not pay for the speed-up, and what must be shown for each of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, model_validator

from davylamp.api.v1alpha1.names import HeaderName, Text
from davylamp.api.v1alpha1.quantities import PercentBetween
from davylamp.api.v1alpha1.rules import ATOMIC_LIST, ATOMIC_MAP, Rule, keyed_by, validations
from davylamp.api.v1alpha1.shadow import JSONPath
from davylamp.api.v1alpha1.strict import Strict
from davylamp.core.plan import BETWEEN_GROUPS, SliceMeasure

MAX_ATTRIBUTES: Final = 4
MAX_VALUES: Final = 16
#: Slices of a rollout, and the gates on all of them.
MAX_SLICES: Final = 32
MAX_SLICE_GATES: Final = 128
MAX_SLICE_LABEL: Final = 160

_REQUIRED: Final = (
    "Whether promotion waits until this gate has shown of every slice with enough pairs that the candidate is no worse "
    "for it. Default: true."
)
AttributeName = Annotated[
    str, Text(r"^[a-z][a-z0-9_]*$", 24, "write a short name: lower-case letters, digits and '_', such as age_band")
]
AttributeValue = Annotated[
    str,
    Text(
        r"^[-+. A-Za-z0-9_/()]+$", 40, "write a value as requests carry it: letters, digits, spaces and - + . _ / ( )"
    ),
]
TensorName = Annotated[str, Text(r"^[-._:A-Za-z0-9]+$", 128, "write the name of an input tensor")]

_ONE_PLACE = Rule(
    "(has(self.header) ? 1 : 0) + (has(self.jsonPath) ? 1 : 0) + (has(self.tensor) ? 1 : 0) == 1",
    "an attribute comes from one place: write one of header, jsonPath or tensor, and remove the rest",
)
_VALUES_OR_BINS = Rule(
    "has(self.values) != has(self.bins)",
    "write the values that have a slice of their own, or for a number the edges of its bins",
)
_VALUES_ONCE = Rule(
    "!has(self.values) || self.values.all(value, self.values.exists_one(other, other == value))",
    "a value has one slice: write each once",
    ".values",
)
_RISING = Rule(
    "!has(self.bins) || (self.bins.isSorted() && self.bins.all(edge, self.bins.exists_one(other, other == edge)))",
    "the edges of bins rise: write each once, the smallest first",
    ".bins",
)


class Tensor(Strict):
    """A number in a tensor of an Open Inference request."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    name: TensorName = Field(description="Name of the input.")
    column: int = Field(0, ge=0, le=65_535, description="Column of the first row, from 0.")


class SliceAttribute(Strict):
    """What requests are sliced by."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_PLACE, _VALUES_OR_BINS, _VALUES_ONCE, _RISING))

    name: AttributeName = Field(description="Name of the attribute, such as sex or age_band.")
    header: HeaderName | None = Field(
        None, description="Request header that carries it; the only place that a route can see, too."
    )
    json_path: JSONPath | None = Field(None, description="Where it stands in the body, as a JSONPath (RFC 9535).")
    tensor: Tensor | None = Field(None, description="Where it stands in an Open Inference request.")
    values: tuple[AttributeValue, ...] | None = Field(
        None,
        min_length=1,
        max_length=MAX_VALUES,
        description="The values that have a slice of their own; every other one is counted as other.",
        json_schema_extra=ATOMIC_LIST,
    )
    bins: tuple[float, ...] | None = Field(
        None,
        min_length=1,
        max_length=MAX_VALUES - 1,
        description="Edges of the bins of a number, rising: [25, 45] makes <25, 25-45 and >=45.",
        json_schema_extra=ATOMIC_LIST,
    )
    protected: bool = Field(
        True,
        description="Whether values are shown as keyed hashes in metrics, status, events and logs. Set it to false for "
        "what everybody may read.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if [self.header, self.json_path, self.tensor].count(None) != 2:
            raise ValueError(_ONE_PLACE.message)
        if (self.values is None) == (self.bins is None):
            raise ValueError(_VALUES_OR_BINS.message)
        if self.values is not None and len(set(self.values)) < len(self.values):
            raise ValueError(_VALUES_ONCE.message)
        if self.bins is not None and list(self.bins) != sorted(set(self.bins)):
            raise ValueError(_RISING.message)
        return self


class When(StrEnum):
    """How two margins go together."""

    EITHER = "Either"
    BOTH = "Both"


class Drop(Strict):
    """The largest loss inside a slice that is accepted."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    absolute: Annotated[str, PercentBetween("0%", "50%", open_low=True, example="1.5%")] | None = Field(
        None, description="In percentage points."
    )
    relative: Annotated[str, PercentBetween("0%", "90%", open_low=True, example="5%")] | None = Field(
        None, description="As part of the baseline's rate."
    )
    when: When = Field(
        When.EITHER, description="With both margins: whether a loss beyond Either of them counts, or one beyond Both."
    )


_DROPS: Final = frozenset(SliceMeasure) - BETWEEN_GROUPS
_DROP_OR_WIDENING = Rule(
    f"self.metric in {sorted(measure.value for measure in _DROPS)} "
    "? has(self.maxDrop) && !has(self.maxWidening) && (has(self.maxDrop.absolute) || has(self.maxDrop.relative)) "
    ": has(self.maxWidening) && !has(self.maxDrop)",
    "a rate has a maxDrop with absolute, relative or both; a difference between groups has a maxWidening",
)


class SliceGate(Strict):
    """What every slice must show."""

    model_config = ConfigDict(json_schema_extra=validations(_DROP_OR_WIDENING))

    metric: SliceMeasure = Field(
        description="What is compared between the variants: a rate inside the slice, or (equalizedOddsDifference, "
        "demographicParityDifference) how it differs from everybody else's. All but selectionRate and "
        "demographicParityDifference need labels."
    )
    max_drop: Drop | None = Field(
        None,
        description="Largest loss inside a slice: by how much the rate may fall, or for falsePositiveRate may rise.",
    )
    max_widening: Annotated[str, PercentBetween("0%", "40%", open_low=True, example="2%")] | None = Field(
        None, description="By how many percentage points a slice may lose more than everybody else does."
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)

    @model_validator(mode="after")
    def _margins(self) -> Self:
        drop = self.max_drop
        if self.metric in _DROPS:
            given = drop is not None and (drop.absolute or drop.relative)
            if not given or self.max_widening is not None:
                raise ValueError(_DROP_OR_WIDENING.message)
        elif self.max_widening is None or drop is not None:
            raise ValueError(_DROP_OR_WIDENING.message)
        return self


class OnSliceRegression(StrEnum):
    """What follows when a slice has regressed."""

    ROLL_BACK = "RollBack"
    ROLL_BACK_SLICE = "RollBackSlice"


class WhenTooSmall(StrEnum):
    """What follows for a slice with too few pairs to be judged."""

    REPORT = "Report"
    HOLD = "Hold"


Intersection = Annotated[
    tuple[AttributeName, ...], Field(min_length=2, max_length=MAX_ATTRIBUTES, json_schema_extra=ATOMIC_LIST)
]
_PositiveText = Annotated[
    str,
    Text(r"^[-+. <>=A-Za-z0-9_]+$", 40, "write the positive class as answers and labels carry it, such as 1 or >50K"),
]


class Slices(Strict):
    """Who must not pay for the speed-up, and how that is seen."""

    attributes: tuple[SliceAttribute, ...] | None = Field(
        None,
        max_length=MAX_ATTRIBUTES,
        description="What requests are sliced by.",
        json_schema_extra=keyed_by("name"),
    )
    intersections: tuple[Intersection, ...] | None = Field(
        None,
        max_length=4,
        description="Attributes whose combinations are slices too, such as [[race, sex]].",
        json_schema_extra=ATOMIC_LIST,
    )
    positive: _PositiveText | None = Field(
        None, description='The positive class, as answers and labels carry it. Default: "1".'
    )
    labelled_by_decision: bool | None = Field(
        None,
        description="Whether a request gets a label only because the baseline decided positively, as with credit: then "
        "only pairs under such decisions are compared. Default: false.",
    )
    min_support: int | None = Field(
        None, ge=1, le=1_000_000, description="Pairs below which a slice is too small to judge. Default: 50."
    )
    min_labels: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description="Labelled pairs in all before a slice may be called too small; promotion waits for them. "
        "Default: 1000.",
    )
    when_too_small: WhenTooSmall | None = Field(
        None,
        description="What follows for slices that are too small: Report names them in the decision, Hold keeps the "
        "candidate from being promoted. Default: Report.",
    )
    gates: tuple[SliceGate, ...] | None = Field(
        None, max_length=8, description="What every slice must show.", json_schema_extra=keyed_by("metric")
    )
    on_regression: OnSliceRegression | None = Field(
        None,
        description="RollBack takes all traffic back; RollBackSlice sends the slice to the baseline by rules of the "
        "route in front, and the rest goes on: for attributes that come by header. Default: RollBack.",
    )
