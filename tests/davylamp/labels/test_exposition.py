"""The counters of the database as Prometheus reads them."""

from datetime import datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from davylamp.errors import Unavailable
from davylamp.labels.database import Database
from davylamp.labels.exposition import Exposition, described
from davylamp.labels.records import Terms
from tests.davylamp.labels.samples import DAY, HOUR, NOW, OPENED, label, opened, pair, prediction

CELL = {"namespace": "ml", "rollout": "credit", "attempt": "1", "cohort": "0"}
ROLLOUT = {"namespace": "ml", "rollout": "credit"}


class Scraper:
    """Reads as Prometheus does; the clock stands still until it is set."""

    def __init__(self, database: Database, now: datetime = NOW) -> None:
        self.now = now
        self.exporter = database.exporter()
        OPENED.append(self.exporter)
        self.registry = CollectorRegistry()
        self.registry.register(Exposition(self.exporter, Terms(), lambda: self.now))

    def read(self, name: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Return the samples of a name that carry these labels, by the values of their others."""
        text = generate_latest(self.registry).decode()
        return {
            tuple(value for key, value in sample.labels.items() if key not in labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }


def test_outcomes_pairs_and_scores_are_exported_by_cell(url: str) -> None:
    database, store = opened(url)
    scraper = Scraper(database)
    store.take([prediction(f"r{n}", pair("1/0.95", "0/0.25"), slices=("sex=F",)) for n in range(3)], NOW)
    store.take([label("r0"), label("r1", "0")], NOW)
    for part in ("", "sex=F"):
        where = {**CELL, "slice": part}
        assert scraper.read("davylamp_label_predictions_total", **where) == {(): 3}
        assert scraper.read("davylamp_label_outcomes_total", **where, variant="baseline") == {
            ("TP",): 1,
            ("FP",): 1,
            ("TN",): 0,
            ("FN",): 0,
        }
        assert scraper.read("davylamp_label_pairs_total", **where, label="positive") == {
            ("both_right",): 0,
            ("both_wrong",): 0,
            ("baseline_right",): 1,
            ("candidate_right",): 0,
        }
        assert scraper.read("davylamp_label_calibration_total", **where, variant="candidate") == {
            ("2", "positive"): 1,
            ("2", "negative"): 1,
        }
        assert scraper.read("davylamp_label_score_sum_total", **where, variant="candidate") == {("2",): 0.5}


def test_counters_begin_at_0_with_the_first_request(url: str) -> None:
    database, store = opened(url)
    scraper = Scraper(database)
    assert scraper.read("davylamp_label_predictions_total") == {}
    classes = pair("cat", "dog", positive=None)
    store.take([prediction("a"), prediction("b", classes, rollout="animals")], NOW)
    assert set(scraper.read("davylamp_label_outcomes_total", rollout="credit", variant="candidate").values()) == {0}
    assert len(scraper.read("davylamp_label_pairs_total", rollout="credit")) == 8
    animals = {**CELL, "rollout": "animals", "slice": "", "variant": "baseline"}
    assert scraper.read("davylamp_label_outcomes_total", **animals) == {("Right",): 0, ("Wrong",): 0}
    assert len(scraper.read("davylamp_label_pairs_total", rollout="animals", label="any")) == 4
    assert set(scraper.read("davylamp_label_arrivals_total", **ROLLOUT).values()) == {0}


def test_a_rollout_shows_what_arrives_what_is_open_and_how_late_labels_are(url: str) -> None:
    database, store = opened(url)
    scraper = Scraper(database, NOW + 30 * DAY)
    store.take([prediction(f"r{n}") for n in range(5)], NOW)
    store.take([label("r0", known_at=NOW + HOUR), label("r1"), label("r1"), label("r0", "0")], NOW + 2 * HOUR)
    assert scraper.read("davylamp_label_open_predictions", **ROLLOUT) == {(): 3}
    store.take([label("r2"), label("nobody")], NOW + 30 * DAY)
    assert scraper.read("davylamp_label_arrivals_total", **ROLLOUT) == {
        ("joined",): 2,
        ("late",): 1,
        ("duplicate",): 1,
        ("contradictory",): 1,
        ("unknown",): 0,
    }
    store.tidy(NOW + 30 * DAY)
    assert scraper.read("davylamp_label_open_predictions", **ROLLOUT) == {(): 0}
    assert scraper.read("davylamp_label_expired_predictions_total", **ROLLOUT) == {(): 3}
    assert scraper.read("davylamp_label_waiting_labels") == {(): 1}
    buckets = scraper.read("davylamp_label_delay_seconds_bucket", **ROLLOUT)
    assert (buckets["900.0",], buckets["3600.0",], buckets["21600.0",], buckets["+Inf",]) == (0, 1, 2, 2)
    assert scraper.read("davylamp_label_delay_seconds_sum", **ROLLOUT) == {(): 3 * 3600}
    assert scraper.read("davylamp_label_delay_seconds_count", **ROLLOUT) == {(): 2}


def test_a_silent_attempt_is_exported_no_longer_and_comes_back_with_all_its_counts(url: str) -> None:
    database, store = opened(url)
    scraper = Scraper(database)
    store.take([prediction("a"), prediction("b")], NOW)
    store.take([label("a")], NOW + DAY)
    scraper.now = NOW + 31 * DAY
    assert scraper.read("davylamp_label_outcomes_total") == {}
    # The label of b is late by now: it changes the rollout as a whole and no outcome of the attempt.
    store.take([label("b"), prediction("c")], NOW + 31 * DAY)
    assert scraper.read("davylamp_label_outcomes_total", **CELL, slice="", variant="baseline")["TP",] == 1


def test_one_process_exports_and_another_takes_over_with_the_same_totals(url: str) -> None:
    (first, store), (second, _) = opened(url), opened(url)
    one, other = Scraper(first), Scraper(second)
    store.take([prediction("r"), label("r")], NOW)
    joined = {("joined",): 1.0}
    for scraper, exports in ((one, True), (other, False)):
        assert scraper.read("davylamp_label_exporter") == {(): float(exports)}
        arrivals = scraper.read("davylamp_label_arrivals_total", **ROLLOUT)
        assert {key: value for key, value in arrivals.items() if value} == (joined if exports else {})
    one.exporter.close()
    assert other.read("davylamp_label_arrivals_total", **ROLLOUT)["joined",] == 1
    assert one.read("davylamp_label_exporter") == {(): 0}


def test_a_lost_connection_exports_nothing_rather_than_zeros(url: str) -> None:
    database, store = opened(url)
    scraper = Scraper(database)
    store.take([prediction("r")], NOW)
    assert scraper.read("davylamp_label_exporter") == {(): 1}
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE davylamp_label_attempts")
    with pytest.raises(Unavailable):
        scraper.read("davylamp_label_exporter")
    database.prepare()
    assert scraper.read("davylamp_label_exporter") == {(): 1}


def test_describing_asks_no_database(url: str) -> None:
    database, _ = opened(url)
    database.close()
    names = {family.name for family in Exposition(database.exporter(), Terms(), lambda: NOW).describe()}
    assert {"davylamp_label_outcomes", "davylamp_label_delay_seconds", "davylamp_label_exporter"} <= names


def test_what_is_described_for_people_is_what_is_exported(url: str) -> None:
    database, _ = opened(url)
    exported = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.type
        for family in Exposition(database.exporter(), Terms(), lambda: NOW).describe()
    }
    assert {each.name: each.type for each in described()} == exported
