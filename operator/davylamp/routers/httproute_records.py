"""What is recorded about the rules of an HTTPRoute, and found again after others moved them. Pure."""

import hashlib
import json
from collections.abc import Sequence

from davylamp.routers.httproute_rules import (
    Rule,
    Share,
    backends_of,
    rules_of,
    shared,
    shares,
    with_baseline,
    with_rules,
)
from davylamp.routers.marks import MAX_RECORDS, Manifest, Marks, Original, Pair


def key_of(rule: Rule) -> str:
    """Return what a rule is recognised by."""
    marks = json.dumps([rule.get("name"), rule.get("matches")], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(marks.encode()).hexdigest()[:12]


def original_of(rule: Rule, share: Share) -> Original:
    """Return what has to be known to give the rule back as it is."""
    refs = backends_of(rule)
    candidate = refs[share.candidates[0]].get("weight") if share.candidates else None
    return Original(
        rule=share.rule,
        key=key_of(rule),
        baseline=refs[share.baselines[0]].get("weight"),
        candidate=candidate,
        added=not share.candidates,
        bare=rule.get("filters") == [],
    )


def recorded(manifest: Manifest, found: Sequence[Share], originals: Sequence[Original]) -> dict[int, Original]:
    """Return the record of each rule in `found` that has one.

    A rule is recognised by its name and matches, among equals by its place; a rule whose matches were edited by its
    place alone, if it still points to the baseline.
    """
    rules = rules_of(manifest)
    same_key = [(share, o) for share in found for o in originals if o.key == key_of(rules[share.rule])]
    candidates = [
        *((share, o) for share, o in same_key if o.rule == share.rule),
        *same_key,
        *((share, o) for share in found for o in originals if o.rule == share.rule and share.baselines),
    ]
    records: dict[int, Original] = {}
    taken: set[int] = set()
    for share, original in candidates:
        if share.rule not in records and id(original) not in taken:
            records[share.rule] = original
            taken.add(id(original))
    return records


def records_of(manifest: Manifest, pair: Pair, marks: Marks) -> tuple[Original, ...]:
    """Return what was recorded for this pair, and the rules that are not recorded yet as they are now."""
    before = marks.records(pair)
    found = shared(manifest, pair)
    known = recorded(manifest, found, before)
    rules = rules_of(manifest)
    new = [original_of(rules[share.rule], share) for share in found if share.rule not in known]
    kept = before if len(before) + len(new) <= MAX_RECORDS else tuple(known.values())
    return (*kept, *new)


def with_baselines(manifest: Manifest, pair: Pair, marks: Marks) -> Manifest:
    """Put the baseline back, at weight 0, into recorded rules that somebody left to the candidate alone."""
    rules = rules_of(manifest)
    found = [share for share in shares(manifest, pair) if not share.baselines]
    records = recorded(manifest, found, marks.records(pair))
    return with_rules(manifest, {s.rule: with_baseline(rules[s.rule], s, pair) for s in found if s.rule in records})
