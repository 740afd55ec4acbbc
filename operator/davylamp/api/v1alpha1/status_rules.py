"""What the API server refuses in a status, so that no fault of Davylamp's can undo a rollback."""

from __future__ import annotations

from typing import Final

from davylamp.api.v1alpha1.rules import Rule

_ROLLED_BACK = "has(oldSelf.decision) && oldSelf.decision.verdict == 'Rollback'"
_ANOTHER_ATTEMPT = "(has(self.attempt) && self.attempt.id != oldSelf.decision.id)"
_WEIGHT = "(has(self.weight) ? self.weight.requested : 0)"
_OLD_WEIGHT = "(has(oldSelf.weight) ? oldSelf.weight.requested : 0)"

STATUS_RULES: Final = (
    Rule(
        "!has(oldSelf.epoch) || (has(self.epoch) && self.epoch >= oldSelf.epoch)",
        "the epoch never falls: this write comes from an operator that is no longer the leader",
    ),
    Rule(
        "!has(oldSelf.attempt) || (has(self.attempt) && (self.attempt.id == oldSelf.attempt.id ? "
        "self.attempt.number == oldSelf.attempt.number : self.attempt.number > oldSelf.attempt.number))",
        "attempts are counted upwards, and an attempt keeps its number: a new id needs a higher number",
    ),
    Rule(
        "!has(self.decision) || (has(self.attempt) && self.decision.id == self.attempt.id)",
        "a decision is about the attempt that runs: decision.id must be attempt.id",
    ),
    Rule(
        f"!({_ROLLED_BACK}) || {_ANOTHER_ATTEMPT} || (has(self.decision) && self.decision.verdict == 'Rollback')",
        "a rollback is final for its attempt: only a new attempt may get another verdict",
    ),
    Rule(
        f"!({_ROLLED_BACK}) || {_ANOTHER_ATTEMPT} || {_WEIGHT} <= {_OLD_WEIGHT}",
        "the weight does not rise after a rollback: only a new attempt may raise it",
    ),
    Rule(
        f"!has(oldSelf.attempt) || !has(self.attempt) || self.attempt.id == oldSelf.attempt.id || "
        f"{_WEIGHT} <= {_OLD_WEIGHT}",
        "a new attempt does not begin with a raise: write the attempt first, and raise the weight after it",
    ),
)
