from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2_contingency

from davylamp.shadow.exchange import Protocol
from davylamp.shadow.reception import Arrived
from davylamp.shadow.sampling import Purpose, RecentRequests, Sampler, identity, repetition

ARRIVED = Arrived("POST", "/v2/models/a/infer", (("x-request-id", "1"),), b"body")
IDS = [number.to_bytes(16) for number in range(20000)]


def chosen(rollout: str, share: float, purpose: Purpose = Purpose.SAMPLE) -> np.ndarray:
    sampler = Sampler(rollout)
    return np.array([sampler.chooses(each, purpose, share) for each in IDS])


def test_a_request_that_is_sent_again_has_the_same_identity_whatever_else_changed() -> None:
    again = Arrived("POST", "/v2/models/a/infer", (("x-retry", "1"), ("x-request-id", "1")), b"other")

    assert identity(again) == identity(ARRIVED)
    assert identity(replace(again, protocol=Protocol.GRPC)) == identity(ARRIVED)


@pytest.mark.parametrize("headers", [(), (("x-request-id", ""),)])
def test_a_request_without_an_id_is_known_by_its_content(headers: tuple[tuple[str, str], ...]) -> None:
    nameless = replace(ARRIVED, headers=headers)

    assert identity(nameless) == identity(replace(nameless, headers=(("x-tenant", "a"),)))
    others = replace(nameless, method="PUT"), replace(nameless, target="/"), replace(nameless, body=b"")
    assert len({identity(each) for each in (nameless, *others)}) == 4


def test_a_request_without_an_id_of_its_own_is_known_by_its_trace() -> None:
    traced = replace(ARRIVED, headers=(("traceparent", "00-a-b-01"),))

    assert identity(traced) == identity(replace(traced, body=b"other"))
    assert identity(traced) != identity(replace(traced, headers=(("traceparent", "00-a-c-01"),)))
    assert identity(replace(traced, headers=(*traced.headers, *ARRIVED.headers))) == identity(ARRIVED)


@pytest.mark.parametrize("header", ["x-request-id", "traceparent"])
def test_a_repetition_has_the_same_id_and_content_and_may_differ_in_all_else(header: str) -> None:
    sent = replace(ARRIVED, headers=((header, "1"),))

    assert repetition(sent) == repetition(replace(sent, headers=(("x-retry", "1"), (header, "1"))))
    others = replace(sent, headers=((header, "2"),)), replace(sent, body=b"other"), replace(sent, target="/")
    assert len({repetition(each) for each in (sent, *others)}) == 4


@pytest.mark.parametrize("headers", [(), (("x-request-id", ""), ("x-tenant", "a"))])
def test_nothing_is_a_repetition_that_has_no_id(headers: tuple[tuple[str, str], ...]) -> None:
    assert repetition(replace(ARRIVED, headers=headers)) is None


def test_parts_of_the_content_do_not_run_into_each_other() -> None:
    one, other = Arrived("POST", "/a", (), b"b"), Arrived("POST", "/", (), b"ab")

    assert identity(one) != identity(other)


@given(text=st.text(max_size=50))
def test_any_id_gives_an_identity(text: str) -> None:
    assert len(identity(replace(ARRIVED, headers=(("x-request-id", text),)))) == 16


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.95])
def test_the_share_of_requests_is_the_one_asked_for(share: float) -> None:
    assert binomtest(int(chosen("credit", share).sum()), len(IDS), share).pvalue > 1e-3


def test_none_and_all_are_chosen_exactly() -> None:
    assert not chosen("credit", 0.0).any()
    assert chosen("credit", 1.0).all()


def test_replicas_choose_alike_and_a_larger_share_keeps_what_a_smaller_one_chose() -> None:
    assert (chosen("credit", 0.3) == chosen("credit", 0.3)).all()
    assert (chosen("credit", 0.4) | ~chosen("credit", 0.3)).all()


@pytest.mark.parametrize(
    "other", [chosen("credit", 0.5, Purpose.NOISE), chosen("fraud", 0.5)], ids=["purpose", "rollout"]
)
def test_choices_for_another_purpose_or_rollout_are_independent(other: np.ndarray) -> None:
    sample = chosen("credit", 0.5)
    table = [[(sample & other).sum(), (sample & ~other).sum()], [(~sample & other).sum(), (~sample & ~other).sum()]]

    assert chi2_contingency(np.array(table)).pvalue > 1e-3


def test_recent_requests_are_remembered_and_old_ones_forgotten() -> None:
    recent = RecentRequests(capacity=100)
    for number, each in enumerate(IDS[:1000]):
        assert each not in recent
        recent.add(each)
        assert all(before in recent for before in IDS[max(0, number - 49) : number + 1])
        assert sum(before in recent for before in IDS[: number + 1]) <= 100
