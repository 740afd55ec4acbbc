"""Values as rows of the tables, and back."""

import json
from typing import Any

from sqlalchemy import RowMapping

from davylamp.labels.outcomes import Answer, Pair
from davylamp.labels.records import Cell, Held, Label, Prediction, State, Waiting
from davylamp.labels.schema import restored, stored


def held_row(held: Held) -> dict[str, Any]:
    """Return a prediction as a row."""
    prediction, pair = held.prediction, held.prediction.pair
    return {
        "id": prediction.id,
        "namespace": prediction.cell.namespace,
        "rollout": prediction.cell.rollout,
        "attempt": prediction.cell.attempt,
        "cohort": prediction.cell.cohort,
        "slices": json.dumps(prediction.slices, ensure_ascii=False),
        "baseline": pair.baseline.decision,
        "baseline_score": pair.baseline.score,
        "candidate": pair.candidate.decision,
        "candidate_score": pair.candidate.score,
        "positive": pair.positive,
        "by_decision": int(pair.labelled_by_decision),
        "served_at": stored(held.served_at),
        "expires_at": stored(held.expires_at),
        "state": int(held.state),
        "label": held.label,
    }


def held_of(row: RowMapping) -> Held:
    """Return the prediction that a row is."""
    pair = Pair(
        Answer(row["baseline"], row["baseline_score"]),
        Answer(row["candidate"], row["candidate_score"]),
        row["positive"],
        labelled_by_decision=bool(row["by_decision"]),
    )
    cell = Cell(row["namespace"], row["rollout"], row["attempt"], row["cohort"])
    prediction = Prediction(row["id"], cell, tuple(json.loads(row["slices"])), pair)
    times = restored(row["served_at"]), restored(row["expires_at"])
    return Held(prediction, *times, state=State(row["state"]), label=row["label"])


def waiting_row(waiting: Waiting) -> dict[str, Any]:
    """Return a label that waits as a row."""
    label = waiting.label
    known_at = None if label.known_at is None else stored(label.known_at)
    return {"id": label.id, "label": label.label, "known_at": known_at, "until": stored(waiting.until)}


def waiting_of(row: RowMapping) -> Waiting:
    """Return the waiting label that a row is."""
    known_at = None if row["known_at"] is None else restored(row["known_at"])
    return Waiting(Label(row["id"], row["label"], known_at), restored(row["until"]))


def counter_row(cell: Cell, key: str, value: int) -> dict[str, Any]:
    """Return a counter as a row."""
    return {**attempt_row(cell), "cohort": cell.cohort, "part": cell.part, "key": key, "value": value}


def attempt_row(cell: Cell) -> dict[str, Any]:
    """Return what names the attempt of a cell."""
    return {"namespace": cell.namespace, "rollout": cell.rollout, "attempt": cell.attempt}
