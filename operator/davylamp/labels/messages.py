"""The bodies of requests, as users and comparators write them. Pure; one wrong item refuses the whole body.

Rule 1: what is read is what is meant: a repeated key, NaN or an unknown field is refused, with the place.
Rule 2: a class is a text. True and 1 are the class "1", and false and 0 the class "0", on both sides of a join, since
one side's tools write the one and the other's the other.
"""

import json
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from davylamp.core.slices import class_of
from davylamp.errors import SpecError
from davylamp.labels.outcomes import Answer, Pair
from davylamp.labels.records import Cell, Label, Prediction

#: Items in one body.
MOST_ITEMS: Final = 1_000
#: Slices of one request.
MOST_SLICES: Final = 64
_LONGEST: Final = 256
#: Control characters, and surrogates, which cannot be stored.
_REFUSED: Final = frozenset({"Cc", "Cs"})
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_Body = TypeVar("_Body", bound=BaseModel)


def class_text(value: object) -> object:
    """Return the class that a value names; anything that names none as it is."""
    match value:
        case bool():
            return str(int(value))
        case int():
            return str(value)
        case float() if value.is_integer():
            return str(int(value))
        case float():
            return repr(value)
        case str():
            return class_of(value)
        case _:
            return value


def _storable(text: str) -> str:
    if not text.isprintable() and any(unicodedata.category(character) in _REFUSED for character in text):
        raise ValueError("must hold no control characters")
    return text


def _slice_name(text: str) -> str:
    if "=" not in text.strip("="):
        raise ValueError("must be name=value")
    return text


def _text_only(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be a time such as 2026-12-01T12:00:00Z")  # noqa: TRY004 - what pydantic reports
    return value


def _sensible(time: datetime) -> datetime:
    if not _FIRST <= time < _LAST:
        raise ValueError(f"must lie between {_FIRST.year} and {_LAST.year}")
    return time


_Text = Annotated[str, Field(min_length=1, max_length=_LONGEST), AfterValidator(_storable)]
_Class = Annotated[_Text, BeforeValidator(class_text)]
_Slice = Annotated[_Text, AfterValidator(_slice_name)]
_Time = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_text_only), AfterValidator(_sensible)]


class Event(BaseModel):
    """What every CloudEvent says of itself. Its id names the event and not the request; others may be there."""

    model_config = ConfigDict(extra="allow", frozen=True)

    specversion: Literal["1.0"]
    id: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    type: Annotated[str, Field(min_length=1)]
    time: _Time | None = None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _LabelItem(_Strict):
    """One label."""

    id: _Text
    label: _Class
    time: _Time | None = None

    def value(self, time: datetime | None = None) -> Label:
        """Return the label, known since ``time`` where it does not say."""
        return Label(self.id, self.label, self.time or time)


class _Labels(_Strict):
    labels: Annotated[tuple[_LabelItem, ...], Field(min_length=1, max_length=MOST_ITEMS, strict=False)]


class _AnswerItem(_Strict):
    decision: bool | _Class
    score: Annotated[float, Field(ge=0, le=1)] | None = None

    def value(self, positive: str | None) -> Answer:
        """Return the answer; where only positive or not is known, "" is the other class."""
        if isinstance(self.decision, bool):
            return Answer((positive or "1") if self.decision else "", self.score)
        return Answer(self.decision, self.score)


class _PredictionItem(_Strict):
    id: _Text
    namespace: _Text
    rollout: _Text
    attempt: _Class
    cohort: _Class
    slices: Annotated[tuple[_Slice, ...], Field(max_length=MOST_SLICES, strict=False)] = ()
    baseline: _AnswerItem
    candidate: _AnswerItem
    positive: _Class | None = None
    labelledByDecision: bool = False  # noqa: N815 - as in the API of rollouts
    time: _Time | None = None

    def value(self) -> Prediction:
        """Return the prediction."""
        binary = isinstance(self.baseline.decision, bool) or isinstance(self.candidate.decision, bool)
        positive = self.positive if self.positive is not None or not binary else "1"
        answers = self.baseline.value(positive), self.candidate.value(positive)
        pair = Pair(*answers, positive, labelled_by_decision=self.labelledByDecision)
        cell = Cell(self.namespace, self.rollout, self.attempt, self.cohort)
        return Prediction(self.id, cell, self.slices, pair, self.time)


class _Predictions(_Strict):
    predictions: Annotated[tuple[_PredictionItem, ...], Field(min_length=1, max_length=MOST_ITEMS, strict=False)]


def parse_labels(body: bytes) -> tuple[Label, ...]:
    """Read ``{"labels": [{"id", "label", "time"}...]}``.

    Raises
    ------
    SpecError
        If it is anything else.
    """
    return tuple(item.value() for item in checked(_Labels, document(body)).labels)


def parse_predictions(body: bytes) -> tuple[Prediction, ...]:
    """Read ``{"predictions": [...]}``.

    Raises
    ------
    SpecError
        If it is anything else.
    """
    found = []
    for place, item in enumerate(checked(_Predictions, document(body)).predictions):
        try:
            found.append(item.value())
        except ValueError as wrong:
            raise SpecError(f"predictions[{place}]: {wrong}") from wrong
    return tuple(found)


def labels_in(data: Any, time: datetime | None) -> tuple[Label, ...]:
    """Read the data of an event: one label, or an object with many.

    Raises
    ------
    SpecError
        If it is neither.
    """
    if isinstance(data, dict) and "labels" in data:
        return tuple(item.value(time) for item in checked(_Labels, data).labels)
    return (checked(_LabelItem, data).value(time),)


def document(body: bytes) -> Any:
    """Read JSON strictly.

    Raises
    ------
    SpecError
        If it is none, or could be read in two ways.
    """
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as wrong:
        raise SpecError(f"the body is no JSON: {wrong}") from wrong


def checked(kind: type[_Body], value: Any) -> _Body:
    """Return what a document says.

    Raises
    ------
    SpecError
        If it is not as it must be; the message names the first place.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as wrong:
        first = wrong.errors(include_input=False, include_url=False)[0]
        raise SpecError(f"{_place(first['loc'])}: {first['msg']}") from wrong


def _place(location: Sequence[int | str]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.lstrip(".") or "the body"


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice in one object")
    return found
