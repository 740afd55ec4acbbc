"""Many streams in one pass: not one bit differs from one by one."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats import noncentral
from gatestats.noncentral import log_normalisers, log_normalisers_of_many
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.odds_ratio_batch import OddsRatioBlock, advance_many
from gatestats.state import State
from gatestats.ticks import OneArmCounts, Tick, TwoArmCounts, Worse

PLAIN = OddsRatioDesign(1.25)
DESIGNS = [
    PLAIN,
    OddsRatioDesign(),
    OddsRatioDesign(1.25, Worse.LOWER),
    OddsRatioDesign(2.0, planned_ticks=2),
    OddsRatioDesign(1.25, mde=2.0),
    OddsRatioDesign(1.5, Worse.LOWER, planned_ticks=3, mde=4.0),
]
EMPTY = TwoArmCounts(0, 0, 0, 0)


@st.composite
def ticks(draw: st.DrawFn) -> TwoArmCounts:
    # small tables, and large ones with short, long and very long supports
    largest = draw(st.sampled_from([5, 60, 3000, 10**6]))
    baseline, candidate = draw(st.integers(0, largest)), draw(st.integers(0, largest))
    events = [draw(st.integers(0, min(total, 900))) for total in (baseline, candidate)]
    return TwoArmCounts(events[0], baseline, events[1], candidate, apart=draw(st.booleans()))


ROUNDS = st.integers(1, 8).flatmap(
    lambda streams: st.tuples(
        st.lists(st.sampled_from(DESIGNS), min_size=streams, max_size=streams),
        st.lists(st.lists(ticks(), min_size=streams, max_size=streams), min_size=1, max_size=4),
    )
)


@given(ROUNDS)
@settings(max_examples=80, deadline=None)
def test_any_streams_advance_to_the_same_bits_as_one_by_one(
    rounds: tuple[list[OddsRatioDesign], list[list[TwoArmCounts]]],
) -> None:
    designs, rows = rounds
    single = [design.start() for design in designs]
    many = list(single)
    for row in rows:
        single = [design.update(state, tick) for design, state, tick in zip(designs, single, row, strict=True)]
        many = advance_many(designs, many, row)
        assert many == single


def many_ticks(streams: int, seed: int) -> list[Tick]:
    random = np.random.default_rng(seed)
    made: list[Tick] = []
    for _ in range(streams):
        total, rate = int(random.integers(10, 3000)), float(random.choice([0.001, 0.02, 0.4]))
        ours = max(1, total // 10)
        made.append(TwoArmCounts(int(random.binomial(total, rate)), total, int(random.binomial(ours, rate)), ours))
    return made


def test_a_block_kept_over_many_ticks_stays_the_same_to_the_bit() -> None:
    designs = [PLAIN, OddsRatioDesign(planned_ticks=5), OddsRatioDesign(2.0, Worse.LOWER)] * 20
    single = [design.start() for design in designs]
    block = OddsRatioBlock.of(designs, single)
    for seed in range(12):
        row = many_ticks(len(designs), seed)
        row[7] = EMPTY
        single = [design.update(state, tick) for design, state, tick in zip(designs, single, row, strict=True)]
        block = block.advance(row)
    assert block.states() == single
    assert block.log_e().tolist() == [design.log_e(state) for design, state in zip(designs, single, strict=True)]
    assert OddsRatioBlock.of(designs, block.states()).states() == single


@pytest.mark.parametrize("planned", [None, 2])
def test_evidence_of_a_block_has_the_same_bits_with_and_without_cash(planned: int | None) -> None:
    for mde in (None, 3.0):
        designs = [OddsRatioDesign(1.25, planned_ticks=planned, mde=mde), OddsRatioDesign(1.5, mde=mde)]
        block = OddsRatioBlock.of(designs, [design.start() for design in designs])
        for seed in range(4):
            block = block.advance(many_ticks(2, seed))
            expected = [design.log_e(state) for design, state in zip(designs, block.states(), strict=True)]
            assert block.log_e().tolist() == expected


def test_a_block_too_large_for_one_pass_is_cut_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [tick for tick in many_ticks(40, 3) if isinstance(tick, TwoArmCounts)]
    log_odds = np.tile(np.linspace(-2, 2, 9), (len(counts), 1))
    whole = log_normalisers_of_many(counts, log_odds)
    monkeypatch.setattr(noncentral, "_LARGEST_BLOCK", 500)
    assert (log_normalisers_of_many(counts, log_odds) == whole).all()
    assert (whole == [log_normalisers(tick, row) for tick, row in zip(counts, log_odds, strict=True)]).all()


def test_streams_without_data_only_let_time_pass() -> None:
    designs = [PLAIN] * 3
    states = advance_many(designs, [design.start() for design in designs], [EMPTY] * 3)
    assert states == [PLAIN.update(PLAIN.start(), EMPTY)] * 3
    assert {state.informative for state in states} == {0}
    assert advance_many([], [], []) == []


def foreign() -> State:
    return OddsRatioDesign(3.0).start()


START = [PLAIN.start()]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: advance_many([PLAIN], START, []), r"got \(1, 1, 0\)"),
        (lambda: advance_many([PLAIN], [foreign()], [EMPTY]), "start again"),
        (lambda: advance_many([PLAIN], START, [OneArmCounts(0, 1)]), "counts TwoArmCounts, got OneArmCounts"),
        (lambda: OddsRatioBlock.of([], []), "got 0 and 0"),
        (lambda: OddsRatioBlock.of([PLAIN], []), "got 1 and 0"),
        (lambda: OddsRatioBlock.of(DESIGNS, [design.start() for design in DESIGNS]), "mde, or none"),
        (lambda: OddsRatioBlock.of([PLAIN], START).advance([]), "each of 1 streams needs a tick, got 0"),
        (
            lambda: OddsRatioBlock.of([PLAIN], [dataclasses.replace(START[0], sums=(0.0,))]),
            "state.sums must hold 48 values",
        ),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
