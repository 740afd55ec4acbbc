from pathlib import Path

import numpy as np
import pytest

from e2e.demo.models.artifacts import HeldOut, ModelBuildError, Models
from e2e.demo.models.fairness import Recall, Unfair, ensure_unfair, groups, headers_of, recalls

DAMAGED = "race=Black,sex=Female"


@pytest.fixture(scope="module")
def unfair(models: Models) -> Unfair:
    return ensure_unfair(models)


def test_groups_are_those_of_the_census(people: HeldOut) -> None:
    sizes = {name: int(members.sum()) for name, members in groups(people)}
    assert sizes[""] == len(people.over_50k) == sizes["sex=Female"] + sizes["sex=Male"]
    assert sizes["sex=Male"] == people.men.sum()
    assert sizes["race=White"] == people.white.sum()
    for race in ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo"):
        assert sizes[f"race={race}"] == sizes[f"race={race},sex=Female"] + sizes[f"race={race},sex=Male"]


def test_int8_finds_as_many_of_every_group(people: HeldOut) -> None:
    found = recalls(people, people.probability["int8"])
    assert len(found) == 15
    assert all(abs(group.loss) < 1 for group in found.values())


def test_pruned_finds_fewer_women_and_fewer_men(people: HeldOut) -> None:
    found = recalls(people, people.probability["pruned"])
    assert found["sex=Female"] == Recall(people=863, baseline=467, candidate=308)
    assert found["sex=Female"].loss == pytest.approx(18.4, abs=0.1)
    assert found["sex=Male"].loss == pytest.approx(21.8, abs=0.1)


def test_the_damage_to_one_group_does_not_show_in_the_averages(people: HeldOut, unfair: Unfair) -> None:
    found = recalls(people, unfair.probability)
    assert found[DAMAGED] == Recall(people=65, baseline=26, candidate=2)
    assert found[DAMAGED].loss > 35
    assert found[""].loss < 0.5
    fp32, other = people.probability["fp32"] >= 0.5, unfair.probability >= 0.5
    assert abs(np.mean(other == people.over_50k) - np.mean(fp32 == people.over_50k)) < 0.001
    assert abs(other.mean() - fp32.mean()) < 0.002


def test_the_damage_is_to_one_group_alone(people: HeldOut, unfair: Unfair) -> None:
    damaged = dict(groups(people))[DAMAGED]
    fp32, other = people.probability["fp32"], unfair.probability
    assert np.allclose(other[~damaged], fp32[~damaged], atol=1e-5)
    assert np.all(other[damaged] < fp32[damaged])
    unsure = damaged & (fp32 > 0.01) & (fp32 < 0.99)
    odds = [np.log(said / (1 - said)) for said in (fp32[unsure].astype(float), other[unsure].astype(float))]
    assert np.allclose(odds[0] - odds[1], 5, atol=0.01)


def test_a_request_says_to_which_groups_its_person_belongs(people: HeldOut) -> None:
    sent = [headers_of(people, row) for row in range(500)]
    assert {frozenset(headers) for headers in sent} == {frozenset({"x-sex", "x-race"})}
    men = [headers["x-sex"] == "Male" for headers in sent]
    assert men == people.men[:500].tolist()
    # The census knows a fifth race, which is no slice of its own.
    other = people.features[:500, people.names.index("race_Other")] == 1
    assert [headers["x-race"] == "other" for headers in sent] == other.tolist()
    assert other.any()


def test_a_builder_that_fails_says_why_and_leaves_nothing(models: Models, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelBuildError, match=r"held_out\.npz"):
        ensure_unfair(Models(models.python, tmp_path / "empty"))
    assert [found.name for found in tmp_path.iterdir() if found.is_dir()] == ["empty"]
