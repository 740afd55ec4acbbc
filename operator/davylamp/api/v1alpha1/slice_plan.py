"""From the settings of slices to the words of the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from davylamp.api.v1alpha1.quantities import parse_percent
from davylamp.api.v1alpha1.slices import (
    MAX_SLICE_GATES,
    MAX_SLICE_LABEL,
    MAX_SLICES,
    OnSliceRegression,
    SliceAttribute,
    SliceGate,
    Slices,
    WhenTooSmall,
)
from davylamp.api.v1alpha1.slices import When as Joined
from davylamp.core.moves import Diversion
from davylamp.core.plan import (
    BETWEEN_GROUPS,
    AbsoluteMargin,
    Direction,
    Gate,
    RelativeMargin,
    Sliced,
    SliceMeasure,
    SliceRules,
)
from davylamp.core.plan import SignalKind as Kind
from davylamp.core.slices import WHOLE, Attribute, Slice, bins_of, declared
from davylamp.errors import SpecError
from davylamp.jsonpath import query

POSITIVE: Final = "1"
_MIN_SUPPORT: Final = 50
_MIN_LABELS: Final = 1000
_EVERYBODY: Final = Slice(WHOLE, ())


def attributes_of(slices: Slices) -> tuple[Attribute, ...]:
    """Return what requests are sliced by."""
    return tuple(_attribute(attribute) for attribute in slices.attributes or ())


def _attribute(attribute: SliceAttribute) -> Attribute:
    edges = attribute.bins or ()
    values = attribute.values or bins_of(edges)
    return Attribute(attribute.name, values, edges, attribute.protected, (attribute.header or "").lower())


def refuse_bad_slices(slices: Slices) -> None:
    """Raise SpecError for settings whose parts, each right by itself, do not fit together."""
    names = {attribute.name for attribute in slices.attributes or ()}
    for group in slices.intersections or ():
        unknown = sorted(set(group) - names)
        if unknown or len(set(group)) < len(group):
            what = f"names {', '.join(unknown)}, which is no attribute" if unknown else "names an attribute twice"
            raise SpecError(f"slices.intersections: [{', '.join(group)}] {what}: name attributes, each once")
    for attribute in slices.attributes or ():
        if attribute.json_path is not None:
            try:
                query(attribute.json_path)
            except SpecError as wrong:
                raise SpecError(f"slices.attributes[{attribute.name}].jsonPath: {wrong}") from wrong
    if slices.gates and not names:
        raise SpecError("slices.gates has gates, and slices.attributes nothing to slice by: add an attribute")
    if names and not slices.gates:
        raise SpecError(
            "slices.attributes would be counted and never judged: add an entry to slices.gates, such as "
            "{metric: truePositiveRate, maxDrop: {absolute: 1.5%}}"
        )
    _refuse_unseen(slices)


def _refuse_unseen(slices: Slices) -> None:
    """Refuse to promise that a slice goes back alone where no route could see it."""
    if slices.on_regression is not OnSliceRegression.ROLL_BACK_SLICE:
        return
    unseen = [attribute.name for attribute in slices.attributes or () if attribute.header is None]
    if unseen and len(unseen) == len(slices.attributes or ()):
        raise SpecError(
            f"slices.onRegression is RollBackSlice, and no route can see {', '.join(unseen)}, which is not a header: "
            "let callers send it as one, or write onRegression: RollBack"
        )


def slice_gates(slices: Slices, key: str) -> Iterator[Gate]:
    """Yield the gates on slices: each metric for everybody and for every slice.

    Parameters
    ----------
    slices
        Settings, checked by `refuse_bad_slices`.
    key
        Of the hash of protected values: the uid of the ModelRollout.

    Raises
    ------
    SpecError
        If they are too many.
    """
    found = declared(attributes_of(slices), slices.intersections or (), key)
    groups = len(found)
    gates = [
        _gate(gate, each)
        for gate in slices.gates or ()
        for each in (found if gate.metric in BETWEEN_GROUPS else (_EVERYBODY, *found))
    ]
    if groups > MAX_SLICES or len(gates) > MAX_SLICE_GATES:
        raise SpecError(
            f"slices: {groups} slices and {len(gates)} gates on them, and at most {MAX_SLICES} and {MAX_SLICE_GATES} "
            "can be judged: declare fewer values or intersections, or fewer gates"
        )
    longest = max((each.label for each in found), key=len, default="")
    if len(longest) > MAX_SLICE_LABEL:
        raise SpecError(
            f"slices: the name {longest[:60]}… has {len(longest)} characters, at most {MAX_SLICE_LABEL} fit"
        )
    yield from gates


def _gate(gate: SliceGate, of: Slice) -> Gate:
    name = gate.metric.value if of.label == WHOLE else f"{gate.metric.value}[{of.label}]"
    worse = Direction.HIGHER if gate.metric is SliceMeasure.FALSE_POSITIVE_RATE else Direction.LOWER
    required = True if gate.required_for_promotion is None else gate.required_for_promotion
    margin: AbsoluteMargin | RelativeMargin
    relative = None
    both = False
    if gate.max_drop is None:
        margin = AbsoluteMargin(parse_percent(gate.max_widening or ""))
    elif gate.max_drop.absolute is None:
        margin = RelativeMargin(parse_percent(gate.max_drop.relative or ""))
    else:
        margin = AbsoluteMargin(parse_percent(gate.max_drop.absolute))
        relative = None if gate.max_drop.relative is None else parse_percent(gate.max_drop.relative)
        both = relative is not None and gate.max_drop.when is Joined.BOTH
    return Gate(name, Kind.SLICE, worse, margin, required=required, sliced=Sliced(gate.metric, of, relative, both))


def slice_rules(slices: Slices, key: str) -> SliceRules | None:
    """Return what holds of all slices; None if none is judged. Arguments as for `slice_gates`."""
    if not slices.gates:
        return None
    return SliceRules(
        min_support=slices.min_support or _MIN_SUPPORT,
        min_labels=slices.min_labels or _MIN_LABELS,
        hold_when_small=slices.when_too_small is WhenTooSmall.HOLD,
        diversions=_diversions(slices, key) if slices.on_regression is OnSliceRegression.ROLL_BACK_SLICE else {},
    )


def _diversions(slices: Slices, key: str) -> dict[str, Diversion]:
    headers = {each.name: each.header for each in attributes_of(slices) if each.header and not each.edges}
    found = (each for each in declared(attributes_of(slices), (), key) if each.parts[0][0] in headers)
    return {each.label: Diversion(headers[each.parts[0][0]], each.parts[0][1]) for each in found}
