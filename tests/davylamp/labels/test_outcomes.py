"""What a label counts, against tables written by hand and against counts that numpy takes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.labels.outcomes import Answer, Pair, counted
from tests.davylamp.labels.samples import pair


def counts(what: Pair, label: str) -> dict[str, int]:
    return dict(counted(what, label))


@pytest.mark.parametrize(
    ("baseline", "candidate", "label", "expected"),
    [
        ("1", "1", "1", ("TP", "TP", "positive:both_right")),
        ("1", "0", "1", ("TP", "FN", "positive:baseline_right")),
        ("0", "1", "1", ("FN", "TP", "positive:candidate_right")),
        ("0", "0", "1", ("FN", "FN", "positive:both_wrong")),
        ("1", "1", "0", ("FP", "FP", "negative:both_wrong")),
        ("1", "0", "0", ("FP", "TN", "negative:candidate_right")),
        ("0", "1", "0", ("TN", "FP", "negative:baseline_right")),
        ("0", "0", "0", ("TN", "TN", "negative:both_right")),
    ],
)
def test_both_decisions_and_the_pair_are_counted(
    baseline: str, candidate: str, label: str, expected: tuple[str, str, str]
) -> None:
    first, second, both = expected
    assert counts(pair(baseline, candidate), label) == {
        f"outcome:baseline:{first}": 1,
        f"outcome:candidate:{second}": 1,
        f"pair:{both}": 1,
    }


def test_of_several_classes_all_but_the_declared_one_are_negative() -> None:
    said = counts(pair("cat", "dog", positive="bird"), "cow")
    assert said == {"outcome:baseline:TN": 1, "outcome:candidate:TN": 1, "pair:negative:both_right": 1}


def test_without_a_positive_class_only_right_and_wrong_are_counted() -> None:
    said = counts(pair("cat/0.7", "dog/0.2", positive=None), "cat")
    assert said == {
        "outcome:baseline:Right": 1,
        "outcome:candidate:Wrong": 1,
        "pair:any:baseline_right": 1,
        "bin:baseline:7:right": 1,
        "score:baseline:7": 700_000,
        "bin:candidate:2:wrong": 1,
        "score:candidate:2": 200_000,
    }


@pytest.mark.parametrize(
    ("score", "place"), [("0", 0), ("0.0999999", 0), ("0.1", 1), ("0.55", 5), ("0.9999", 9), ("1", 9)]
)
def test_the_last_bin_holds_1_and_each_other_its_lower_edge(score: str, place: int) -> None:
    said = counts(pair(f"1/{score}", "1"), "0")
    assert said[f"bin:baseline:{place}:negative"] == 1
    assert said[f"score:baseline:{place}"] == round(float(score) * 1_000_000)


@pytest.mark.parametrize("score", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_score_that_is_no_probability_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="a score must be 0 to 1"):
        Answer("1", score)


# Labels that exist only because of a decision (a loan that was granted is repaid or not).


@pytest.mark.parametrize("candidate", ["1", "0"])
def test_where_the_decision_brings_the_label_only_what_the_baseline_granted_counts(candidate: str) -> None:
    granted = pair("1", candidate, labelled_by_decision=True)
    assert counts(granted, "1") == counts(pair("1", candidate), "1")
    declined = pair("0", candidate, labelled_by_decision=True)
    assert not declined.comparable
    assert counts(declined, "1") == {}


def test_labels_by_decision_need_a_positive_class() -> None:
    with pytest.raises(ValueError, match="positive class"):
        pair(positive=None, labelled_by_decision=True)


def test_selective_labels_do_not_favour_the_variant_that_declines() -> None:
    """A candidate that declines at random is worse; among all that happen to have a label it would seem as good.

    The baseline grants whom it thinks good, and labels come for those alone, plus a few of the declined that were
    granted by hand because they were known to be good or bad. Oracle: recall among comparable requests by numpy.
    """
    rng = np.random.default_rng(7)
    good = rng.random(20_000) < 0.5
    baseline = np.where(rng.random(20_000) < 0.9, good, ~good)
    candidate = np.where(rng.random(20_000) < 0.7, good, ~good)
    tallies: Counter[str] = Counter()
    for g, b, c in zip(good, baseline, candidate, strict=True):
        what = pair(str(int(b)), str(int(c)), labelled_by_decision=True)
        tallies.update(dict(counted(what, str(int(g)))))
    assert tallies["outcome:baseline:FN"] == tallies["outcome:baseline:TN"] == 0
    among = good & baseline
    recall = tallies["outcome:candidate:TP"] / (tallies["outcome:candidate:TP"] + tallies["outcome:candidate:FN"])
    assert recall == pytest.approx(np.mean(candidate[among]), abs=1e-12)
    assert tallies["pair:positive:baseline_right"] == int(np.sum(among & ~candidate))


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3, st.floats(0, 1)), max_size=60))
def test_counts_are_the_confusion_matrix_and_the_histogram(rows: list[tuple[int, int, int, float]]) -> None:
    tallies: Counter[str] = Counter()
    for truth, baseline, candidate, score in rows:
        tallies.update(dict(counted(pair(f"{baseline}/{score!r}", str(candidate)), str(truth))))
    table = np.array([row[:3] for row in rows]).reshape(-1, 3)
    scores = np.array([row[3] for row in rows])
    words = {(1, 1): "TP", (0, 1): "FP", (1, 0): "FN", (0, 0): "TN"}
    for (truth, decision), word in words.items():
        for column, who in ((1, "baseline"), (2, "candidate")):
            wanted = int(np.sum((table[:, 0] == truth) & (table[:, column] == decision)))
            assert tallies[f"outcome:{who}:{word}"] == wanted
    for truth, word in ((1, "positive"), (0, "negative")):
        # Edges by the same product as the bins: 0.3 * 10 is 3 in floating point, and 0.3 < 3 / 10 nowhere.
        heights = np.bincount(np.minimum((scores[table[:, 0] == truth] * 10).astype(int), 9), minlength=10)
        assert [tallies[f"bin:baseline:{place}:{word}"] for place in range(10)] == heights.tolist()
    assert sum(tallies[f"pair:{t}:{r}"] for t in ("positive", "negative") for r in RESULTS) == len(rows)


RESULTS = ("both_right", "both_wrong", "baseline_right", "candidate_right")
