"""How the rules of an HTTPRoute share traffic between a baseline and a candidate. Pure: values in, values out.

Rule 1: nothing given is changed in place; a rule without the baseline is returned as the very same object.
Rule 2: weights are shared in whole percent of what the two variants have together; other backends keep theirs.
Rule 3: no rule is ever left with weights that are all zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from davylamp.core.model import Weight
from davylamp.errors import SpecError
from davylamp.ports import BackendRef
from davylamp.routers.marks import MAX_WEIGHT, Manifest, Pair

Rule = Mapping[str, Any]
Ref = Mapping[str, Any]

_SCALE: Final = 100


@dataclass(frozen=True, slots=True)
class Share:
    """How one rule shares traffic.

    Parameters
    ----------
    rule
        Its index in spec.rules.
    baselines, candidates
        Indices of the two variants' references in its backendRefs; more than one where a backend is named twice.
    baseline, candidate
        Their weights, summed, >= 0.
    others
        The weights of all other backends, summed, >= 0.
    """

    rule: int
    baselines: tuple[int, ...]
    candidates: tuple[int, ...]
    baseline: int
    candidate: int
    others: int

    @property
    def total(self) -> int:
        """What the two variants have together."""
        return self.baseline + self.candidate

    @property
    def weight(self) -> Weight:
        """The candidate's share of the pair, rounded up to whole percent."""
        return Weight(-(-_SCALE * self.candidate // self.total)) if self.total else Weight(0)

    @property
    def place(self) -> str:
        """Where the rule stands, for people."""
        return f"spec.rules[{self.rule}]"


def rules_of(manifest: Manifest) -> Sequence[Rule]:
    """Return the rules of a route."""
    return manifest.get("spec", {}).get("rules") or ()


def backends_of(rule: Rule) -> Sequence[Ref]:
    """Return the backends of a rule; a redirect has none."""
    return rule.get("backendRefs") or ()


def weight_of(ref: Ref) -> int:
    """Return the weight of a reference; the API's default is 1."""
    weight = ref.get("weight", 1)
    return 1 if weight is None else int(weight)


def find(refs: Sequence[Ref], backend: BackendRef, namespace: str) -> tuple[int, ...]:
    """Return where a Service of this namespace is referred to."""
    return tuple(place for place, ref in enumerate(refs) if _is(ref, backend, namespace))


def _is(ref: Ref, backend: BackendRef, namespace: str) -> bool:
    return (
        (ref.get("name"), ref.get("port")) == (backend.name, backend.port)
        and (ref.get("group") or "") == ""
        and (ref.get("kind") or "Service") == "Service"
        and (ref.get("namespace") or namespace) == namespace
    )


def namespace_of(manifest: Manifest) -> str:
    """Return the namespace of an object."""
    return str(manifest.get("metadata", {}).get("namespace", ""))


def shares(manifest: Manifest, pair: Pair) -> tuple[Share, ...]:
    """Return how each rule that names either variant shares traffic."""
    namespace = namespace_of(manifest)
    found = (_share(number, backends_of(rule), pair, namespace) for number, rule in enumerate(rules_of(manifest)))
    return tuple(share for share in found if share.baselines or share.candidates)


def shared(manifest: Manifest, pair: Pair) -> tuple[Share, ...]:
    """Return how each rule that points to the baseline shares traffic."""
    return tuple(share for share in shares(manifest, pair) if share.baselines)


def _share(number: int, refs: Sequence[Ref], pair: Pair, namespace: str) -> Share:
    baselines = find(refs, pair.baseline, namespace)
    candidates = find(refs, pair.candidate, namespace)
    weights = [weight_of(ref) for ref in refs]
    baseline, candidate = (sum(weights[place] for place in places) for places in (baselines, candidates))
    return Share(number, baselines, candidates, baseline, candidate, sum(weights) - baseline - candidate)


# Weights.


def split(share: Share, weight: Weight) -> tuple[int, int]:
    """Return the weights of baseline and candidate that give the candidate exactly `weight` of the pair.

    Raises
    ------
    SpecError
        The weights beside another backend's cannot express it.
    """
    total = _scaled(share)
    candidate, rest = divmod(total * weight.percent, _SCALE)
    if rest or total > MAX_WEIGHT:
        raise SpecError(
            f"{share.place} gives the two variants a weight of {total} beside other backends, "
            f"of which {weight} is no whole number: put the weights of {share.place} on a scale of 100 or 10000"
        )
    return total - candidate, candidate


def lowered(share: Share, weight: Weight) -> tuple[int, int]:
    """Return the weights that give the candidate at most `weight` of the pair, and no more than it has."""
    if share.candidate * _SCALE <= share.total * weight.percent:
        return share.baseline, share.candidate
    total = _scaled(share)
    candidate = total * weight.percent // _SCALE
    return min(total - candidate, MAX_WEIGHT), candidate


def _scaled(share: Share) -> int:
    """Return the pair's total; where no other backend depends on it, one that every whole percent divides."""
    if share.others or (share.total % _SCALE == 0 and 0 < share.total <= MAX_WEIGHT):
        return share.total
    return _SCALE


# Rules.


def with_weights(rule: Rule, share: Share, baseline: int, candidate: int) -> Rule:
    """Return the rule with these weights for the references that are there; a backend's second one gets 0."""
    refs = list(backends_of(rule))
    for places, weight in ((share.baselines, baseline), (share.candidates, candidate)):
        for nth, place in enumerate(places):
            refs[place] = with_weight(refs[place], weight if nth == 0 else 0)
    return with_backends(rule, refs)


def with_weight(ref: Ref, weight: int | None) -> Ref:
    """Return the reference with this weight; None takes the field away."""
    if weight is None:
        return {name: value for name, value in ref.items() if name != "weight"}
    return {**ref, "weight": weight}


def with_backends(rule: Rule, refs: Iterable[Ref]) -> Rule:
    """Return the rule with these backends."""
    return {**rule, "backendRefs": list(refs)}


def with_candidate(rule: Rule, share: Share, pair: Pair) -> Rule:
    """Return the rule with the candidate at weight 0 right behind the baseline, with the baseline's filters."""
    refs = list(backends_of(rule))
    place = share.baselines[0]
    refs.insert(place + 1, with_weight(pointing(refs[place], pair.candidate), 0))
    return with_backends(rule, refs)


def with_baseline(rule: Rule, share: Share, pair: Pair) -> Rule:
    """Return the rule with the baseline at weight 0 right before the candidate, with the candidate's filters."""
    refs = list(backends_of(rule))
    place = share.candidates[0]
    refs.insert(place, with_weight(pointing(refs[place], pair.baseline), 0))
    return with_backends(rule, refs)


def pointing(ref: Ref, backend: BackendRef) -> Ref:
    """Return the reference, pointing to another Service of the same namespace."""
    return {**ref, "name": backend.name, "port": backend.port}


def with_rules(manifest: Manifest, changed: Mapping[int, Rule]) -> Manifest:
    """Return the route with some rules changed."""
    return with_all_rules(manifest, [changed.get(number, rule) for number, rule in enumerate(rules_of(manifest))])


def with_all_rules(manifest: Manifest, rules: Iterable[Rule]) -> Manifest:
    """Return the route with these rules and no others."""
    return {**manifest, "spec": {**manifest.get("spec", {}), "rules": list(rules)}}
