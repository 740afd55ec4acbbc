"""What the join store is to do, as plainly as it can be written: facts in lists, and counts taken anew from them."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from davylamp.labels.records import NOBODY, Cell, Label, Prediction, Terms

BUCKETS = (1, 10, 60, 300, 900, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400, 14 * 86400, 30 * 86400)


@dataclass
class Fact:
    """A prediction and all that happened to it."""

    prediction: Prediction
    slices: list[str]
    served: datetime
    expires: datetime
    truth: str | None = None
    #: When and by which label it was joined.
    joined: tuple[datetime, Label] | None = None
    expired: bool = False


@dataclass
class Model:
    terms: Terms
    facts: list[Fact] = field(default_factory=list)
    forgotten: list[Fact] = field(default_factory=list)
    waiting: dict[str, tuple[Label, datetime]] = field(default_factory=dict)
    arrivals: Counter[tuple[Cell, str]] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)

    def take(self, message: Prediction | Label, now: datetime) -> str:
        self.end(now, message.id)
        return self.predict(message, now) if isinstance(message, Prediction) else self.tell(message, now)

    def end(self, now: datetime, only: str | None = None) -> None:
        """End what is over; the moment at which somebody does so makes no difference."""
        for name, (_, until) in list(self.waiting.items()):
            if until <= now and only in {None, name}:
                del self.waiting[name]
                self.waits["out"] += 1
                self.arrivals[NOBODY, "unknown"] += 1
        for fact in self.facts:
            if fact.joined is None and fact.expires <= now and only is None:
                fact.expired = True

    def forget(self, now: datetime) -> None:
        over = [fact for fact in self.facts if fact.expires + self.terms.remember <= now]
        self.forgotten += over
        self.facts = [fact for fact in self.facts if fact not in over]

    def predict(self, prediction: Prediction, now: datetime) -> str:
        same = [fact for fact in self.facts if fact.prediction.id == prediction.id]
        if any(fact.prediction.cell.whole == prediction.cell.whole for fact in same):
            return "known"
        served = prediction.served_at or now
        fact = Fact(prediction, self.named(prediction), served, now + self.terms.time_to_live)
        self.facts.append(fact)
        if prediction.id in self.waiting:
            label, _ = self.waiting.pop(prediction.id)
            self.waits["out"] += 1
            self.join(fact, label, now)
        else:
            for truth in [other.truth for other in same if other.truth is not None][:1]:
                self.join(fact, Label(prediction.id, truth), now)
        return "new"

    def named(self, prediction: Prediction) -> list[str]:
        cell = prediction.cell
        known: list[str] = []
        for fact in self.forgotten + self.facts:
            if (fact.prediction.cell.whole, fact.prediction.cell.attempt) == (cell.whole, cell.attempt):
                known += [name for name in fact.slices if name != "other" and name not in known]
        named: list[str] = []
        for name in prediction.slices:
            if name not in known and len(known) >= self.terms.most_slices:
                name = "other"  # noqa: PLW2901 - as the rule says it
            elif name not in known:
                known.append(name)
            named += [name] if name not in named else []
        return named

    def tell(self, label: Label, now: datetime) -> str:
        facts = [fact for fact in self.facts if fact.prediction.id == label.id]
        if facts:
            said = {self.meet(fact, label, now) for fact in facts}
            return next(word for word in ("joined", "late", "contradictory", "duplicate") if word in said)
        if label.id in self.waiting:
            word = "duplicate" if self.waiting[label.id][0].label == label.label else "contradictory"
            self.arrivals[NOBODY, word] += 1
            return word
        self.waiting[label.id] = (label, now + self.terms.wait)
        self.waits["in"] += 1
        return "waiting"

    def meet(self, fact: Fact, label: Label, now: datetime) -> str:
        if fact.truth is not None:
            word = "duplicate" if fact.truth == label.label else "contradictory"
        elif fact.expired or fact.expires <= now:
            fact.truth, fact.expired, word = label.label, True, "late"
        else:
            self.join(fact, label, now)
            return "joined"
        self.arrivals[fact.prediction.cell.whole, word] += 1
        return word

    def join(self, fact: Fact, label: Label, now: datetime) -> None:
        fact.truth = label.label
        fact.joined = (now, label)
        self.arrivals[fact.prediction.cell.whole, "joined"] += 1

    # -- counts -----------------------------------------------------------------------------------------------------

    def counts(self) -> Counter[tuple[Cell, str]]:
        """Return every counter that is not 0."""
        counted: Counter[tuple[Cell, str]] = Counter()
        counted.update({(cell, f"arrival:{word}"): times for (cell, word), times in self.arrivals.items()})
        counted.update({(NOBODY, f"waiting_{way}"): times for way, times in self.waits.items()})
        for fact in self.forgotten + self.facts:
            self._count(fact, counted)
        return Counter({key: value for key, value in counted.items() if value})

    def _count(self, fact: Fact, counted: Counter[tuple[Cell, str]]) -> None:
        cell, pair = fact.prediction.cell, fact.prediction.pair
        cells = [Cell(cell.namespace, cell.rollout, cell.attempt, cell.cohort, part) for part in ("", *fact.slices)]
        kind = "classes" if pair.positive is None else "binary"
        counted.update((place, f"predictions:{kind}") for place in cells)
        counted[cell.whole, "received"] += 1
        counted[cell.whole, "slices_over"] += "other" in fact.slices
        counted[cell.whole, "expired"] += fact.expired
        if fact.joined is None:
            return
        at, label = fact.joined
        known = label.known_at if label.known_at is not None and label.known_at < at else at
        delay = min(max((known - fact.served).total_seconds(), 0), 366 * 86400)
        counted[cell.whole, f"delay:{sum(delay > edge for edge in BUCKETS)}"] += 1
        counted[cell.whole, "delay_ms"] += int(delay * 1000)
        if pair.labelled_by_decision and pair.baseline.decision != pair.positive:
            counted[cell.whole, "not_comparable"] += 1
            return
        said = {"baseline": pair.baseline, "candidate": pair.candidate}
        is_positive = label.label == pair.positive
        right = {
            who: answer.decision == label.label
            if pair.positive is None
            else (answer.decision == pair.positive) == is_positive
            for who, answer in said.items()
        }
        who_was_right = {"11": "both_right", "00": "both_wrong", "10": "baseline_right", "01": "candidate_right"}
        result = who_was_right[f"{right['baseline']:d}{right['candidate']:d}"]
        truth = "any" if pair.positive is None else "positive" if is_positive else "negative"
        for place in cells:
            counted[place, f"pair:{truth}:{result}"] += 1
            for who, answer in said.items():
                if pair.positive is None:
                    word, held_against = ("Right", "right") if right[who] else ("Wrong", "wrong")
                else:
                    word = f"{'T' if right[who] else 'F'}{'P' if answer.decision == pair.positive else 'N'}"
                    held_against = truth
                counted[place, f"outcome:{who}:{word}"] += 1
                if answer.score is not None:
                    tenth = min(int(answer.score * 10), 9)
                    counted[place, f"bin:{who}:{tenth}:{held_against}"] += 1
                    counted[place, f"score:{who}:{tenth}"] += round(answer.score * 1_000_000)
