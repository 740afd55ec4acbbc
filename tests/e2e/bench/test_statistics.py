"""The benchmark of the statistics, at tiny scale: what it simulates, how it counts, and what it reports."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from scipy.stats import norm

from davylamp.core.model import Variant
from e2e.bench.statistics import agreement, packages, plots, rivals
from e2e.bench.statistics.__main__ import main
from e2e.bench.statistics.bounds import ratio_of_means, share_bounds
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.false_alarms import clustered
from e2e.bench.statistics.ingest import Film, ticks_of
from e2e.bench.statistics.promotion import delays_of_proof
from e2e.bench.statistics.row import Row, table
from e2e.bench.statistics.rules import (
    POCOCK,
    asymptotic,
    ewma,
    failed_checks,
    kayenta,
    stability,
    z_of_all,
    z_of_last,
)
from e2e.bench.statistics.scene import CUT, Line, Outage, Scene, shown
from e2e.bench.statistics.shadow import _won, with_pairs
from e2e.bench.statistics.system import THRESHOLD, alone, first_crossing, whole
from gatestats.detectors.divergences import PopulationStability, population_stability

_CALM = Scene((Line(50, 0.1, servers=(3, 2)), Line(50, 0.1)), 30, missed=0.0, delayed=0.0, restarts=0.0)


def test_arrays_say_what_the_operator_says_of_the_same_raw_samples() -> None:
    assert agreement.difference(1) < 1e-9


def test_what_is_counted_is_what_was_served_but_for_the_ends() -> None:
    ticks = ticks_of(_CALM, 1)
    baseline, candidate = ticks.counts[:, :, 1].sum(axis=0), ticks.counts[:, :, 3].sum(axis=0)
    served = 50 * 300
    assert ((0.85 * 0.9 * served < baseline) & (baseline < 1.02 * 0.9 * served)).all()
    assert ((0.85 * 0.1 * served < candidate) & (candidate < 1.1 * 0.1 * served)).all()
    assert not ticks.seen[:CUT].any()
    assert ticks.apart[ticks.seen[:, 0], 0].all()  # servers are scraped at moments of their own
    assert not ticks.apart[:, 1].any()  # a gateway shows both variants at once


def test_counters_fall_only_when_a_server_restarts_and_scrapes_are_missed() -> None:
    rough = Scene((Line(50, 0.1, servers=(4, 4)),), 200, missed=0.1, restarts=0.02)
    targets = [target for arm in shown(rough, rough.lines[0], np.random.default_rng(1)) for target in arm]
    falls = sum(int((np.diff(target.total) < 0).sum()) for target in targets)
    assert 10 < falls < 60
    assert all(((target.events <= target.total) & (target.total > 0)).all() for target in targets)
    gaps = np.concatenate([np.diff(target.times) for target in targets])
    assert 0.05 < (gaps > 15).mean() < 0.15


def test_an_effect_begins_when_it_is_due_and_an_outage_befalls_both() -> None:
    late = ticks_of(Scene((Line(200, 0.01, 20.0),), 60, ((0, 50),), late=30), 1).counts[:, 0]
    assert late[:29, 2].sum() / late[:29, 3].sum() < 0.02
    assert late[31:, 2].sum() / late[31:, 3].sum() > 0.1
    out = ticks_of(Scene((Line(200, 0.01),), 60, ((0, 50),), outages=(Outage(300, 400, 0.5),)), 1).counts[:, 0]
    for events, total in ((0, 1), (2, 3)):
        assert out[32:39, events].sum() / out[32:39, total].sum() > 0.4


def test_labels_of_requests_from_before_are_not_counted() -> None:
    ticks = ticks_of(Scene((Line(50, 0.1, lag=200.0),), 40, ((0, 20),), missed=0.0), 1).counts[:, 0]
    assert ticks[:20].sum() == 0
    assert ticks[25:, 3].sum() / ticks[25:, 1::2].sum() == pytest.approx(0.2, abs=0.03)


def test_clustered_errors_alarm_where_requests_are_taken_as_independent() -> None:
    runs = [clustered(seed) for seed in range(3)]
    assert max(float(by_requests.max()) for _, by_requests in runs) > THRESHOLD
    assert all(operator.max() < THRESHOLD for operator, _ in runs)


def test_a_reading_holds_no_sample_that_could_not_be_queried_yet() -> None:
    film = Film(Scene(_CALM.lines, 20, delayed=1.0), 1)
    signal = film.signal(0, 10)
    newest = max(s.time for target in signal.targets[Variant.BASELINE] for s in target.total["t"])
    assert newest < Film(_CALM, 1).scene.length + 1.8e9
    assert len(film.reading(10, (0, 1)).signals) == 2


def test_a_regression_is_found_and_the_test_that_knows_it_is_sooner() -> None:
    runs = [alone(Scene((Line(50, 0.01, 5.2),), 60), 1.0, seed) for seed in range(4)]
    ours = [first_crossing(run.higher, THRESHOLD) for run in runs]
    known = [first_crossing(run.conditional, THRESHOLD) for run in runs]
    assert all(look is not None for look in (*ours, *known))
    assert np.mean([look or 0 for look in known]) <= np.mean([look or 0 for look in ours])
    assert all(first_crossing(run.lower, 1.0) is None for run in runs)


def test_equal_variants_stay_below_the_threshold() -> None:
    run = whole(Scene((Line(50, 0.01), Line(5, 0.05)), 40), 1)
    assert run.mean.max() < THRESHOLD
    assert run.others.shape == (40,)
    assert first_crossing(run.mean, THRESHOLD) is None


def test_pairs_won_are_shown_with_the_restarts_of_pairs_lost() -> None:
    random = np.random.default_rng(1)
    lost = shown(Scene((), 300, ((0, 0),), restarts=0.05), Line(20, 0.05), random)[0][0]
    won = _won(lost, random)
    fell = np.diff(lost.total) < 0
    assert fell.sum() > 3
    assert (np.diff(won.events)[~fell] >= 0).all()
    assert (won.events + lost.events <= lost.total).all()
    assert 5 < with_pairs(3) < 200


def test_an_equal_candidate_is_proven_in_about_the_time_that_it_takes_to_know_it() -> None:
    ours, theirs = np.mean([delays_of_proof(50, seed) for seed in range(8)], axis=0)
    assert 0.7 < ours / theirs < 1.6


def test_bounds_are_those_of_clopper_and_pearson_and_of_redrawn_pairs() -> None:
    assert share_bounds(0, 299)[1] == pytest.approx(1 - 0.05 ** (1 / 299))
    assert share_bounds(0, 10)[0] == 0
    assert share_bounds(10, 10)[0] == pytest.approx(0.05**0.1)
    assert share_bounds(10, 10)[1] == 1
    values = np.random.default_rng(1).exponential(10, 400)
    assert ratio_of_means(1.2 * values, values) == pytest.approx((1.2, 1.2, 1.2))
    ratio, low, high = ratio_of_means(np.random.default_rng(2).exponential(12, 400), values)
    assert low < ratio < high


def _counts(candidate: int, looks: int = 60) -> np.ndarray:
    counts = np.zeros((looks, 1, 4), np.int32)
    noise = np.random.default_rng(1).integers(0, 3, (looks, 2))
    counts[:, 0] = np.stack(
        [9 + noise[:, 0], np.full(looks, 900), candidate + noise[:, 1], np.full(looks, 100)], axis=1
    )
    return counts


def test_rules_alarm_at_a_gross_regression_and_not_at_none() -> None:
    bad, fine = _counts(10), _counts(0)
    rules = ((z_of_all, 2.326), (ewma, 3.0), (failed_checks, 5), (kayenta, 1), (stability, 0.05), (asymptotic, 7.1))
    for path, limit in rules:
        assert path(bad)[:, 0].max() >= limit
        assert path(fine)[:, 0].max() < limit
    assert z_of_last(6, bad)[-1] == pytest.approx(z_of_all(bad[-6:])[-1])
    theirs, ours = ((x, n - x) for x, n in bad[-30:, 0].sum(axis=0).reshape(2, 2).tolist())
    known = population_stability(theirs, ours, least_share=0.0)
    assert isinstance(known, PopulationStability)
    assert stability(bad)[-1, 0] == pytest.approx(known.nats)
    assert failed_checks(bad)[:, 0].tolist() == [look // 6 for look in range(1, 61)]


def test_pococks_limit_is_passed_as_seldom_as_it_says() -> None:
    # the density of a standard random walk that has stayed below limit * sqrt(k), carried on step by step
    low, points, looks = -6.0, 401, 180
    grid = np.linspace(low, POCOCK, points)
    density, passed = norm.pdf(grid), float(norm.sf(POCOCK))
    for look in range(2, looks + 1):
        mass = density * (grid[1] - grid[0])
        mass[[0, -1]] /= 2
        top = POCOCK * math.sqrt(look)
        passed += float((mass * norm.sf(top - grid)).sum())
        reached = np.linspace(low * math.sqrt(look), top, points)
        density, grid = norm.pdf(reached[:, None] - grid) @ mass, reached
    assert passed == pytest.approx(0.01 / 12, rel=0.02)


def test_a_package_that_is_missing_is_said_to_be_missing(tmp_path: Path) -> None:
    data, answers = tmp_path / "counts.npz", tmp_path / "answers.json"
    np.savez(data, healthy=np.array([_counts(0)]), regressed=np.array([_counts(10)[:, 0]]), rates=np.array([0.01]))
    packages.main(str(data), str(answers), "1", "river ADWIN")
    found = json.loads(answers.read_text())
    assert "No package metadata was found for river" in found["river ADWIN"]["error"]
    judged = rivals._judged_package("river ADWIN", found["river ADWIN"])
    assert "not to be had here" in rivals.table([judged])


def test_detectors_are_fed_every_answer_and_asked_every_five_minutes() -> None:
    class Third:
        drift_detected = False
        seen = 0

        def update(self, answer: int) -> None:
            self.seen += answer in {0, 1}
            self.drift_detected = self.seen > 100 * 60 + 250

    counts, random = _counts(10)[:, 0], np.random.default_rng(1)
    assert packages._fed(Third(), counts, 0.01, random) == 3
    assert packages._asked(counts, lambda sums: bool(sums[2] > 300)) == 30
    assert packages._asked(counts, lambda sums: bool(sums[2] > 3000)) is None


def test_the_report_holds_a_row_for_each_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert main(["--scale", "0.001", "--workers", "0", "--only", "A0,T7", "--report", str(report)]) == 0
    rows = json.loads(report.read_text())["rows"]
    assert [row["id"] for row in rows] == ["A0", "T7a", "T7b", "T7c", "T7d"]
    assert all(row.keys() == {"id", "target", "measured", "upper_bound", "pass", "unit", "note"} for row in rows)
    assert rows[0]["pass"] is True
    assert rows[1]["pass"] is False  # two runs prove nothing
    assert "T7d" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--scale", "0"])


def test_a_missed_target_is_shown_as_missed() -> None:
    text = table([Row("T1", "rare", 0.02, 0.03, passed=False, unit="%"), Row("T2", "fast", None, None, passed=True)])
    assert "2.00%" in text
    assert "NO" in text
    assert "–" in text


def test_the_plot_is_an_image_with_every_rule(tmp_path: Path) -> None:
    found = [
        rivals.Judged("a & b", 1.0, 10, 0, 20.0, 0.1, 3.0, 0.5),
        rivals.Judged("a & b", 2.0, 10, 4, 10.0, 0.0, 2.0, 0.5),
        rivals.Judged("c", 0.0, note="not to be had here"),
    ]
    plots.draw(found, tmp_path / "plot.svg")
    root = ET.parse(tmp_path / "plot.svg").getroot()  # noqa: S314 - our own file
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a & b" in texts
    assert "c" not in texts
    assert rivals.table(found).count("a & b") == 1
    assert rivals.plain(found)[1]["falsePerThousand"] == 400


def test_runs_have_fixed_seeds_and_do_not_depend_on_the_number_of_processes() -> None:
    one, two = Campaign(0.01, workers=0), Campaign(0.01, workers=1)
    assert one.each("seeds", abs, 300, 7) == two.each("seeds", abs, 300, 7) == [7_000_000, 7_000_001, 7_000_002]
    two.close()
