from pathlib import Path

import numpy as np
import pytest

from e2e.demo.models.artifacts import (
    VARIANTS,
    HeldOut,
    HeldOutDigits,
    Models,
    build_models,
    digits_qualities,
    qualities,
)
from e2e.demo.models.quality import Quality, Top1, quality, top1


@pytest.fixture(scope="module")
def found(people: HeldOut) -> dict[str, Quality]:
    return qualities(people)


def test_the_census_is_all_there(people: HeldOut) -> None:
    assert people.features.shape == (22_611, 104)
    assert 0.66 < people.men.mean() < 0.69
    assert 0.24 < people.over_50k.mean() < 0.26
    assert np.array_equal(people.features[:, people.names.index("sex_Female")] == 0, people.men)


def test_fp32_is_a_good_network(found: dict[str, Quality]) -> None:
    fp32 = found["fp32"]
    assert fp32.accuracy == pytest.approx(0.848, abs=0.004)
    assert fp32.recall_women == pytest.approx(0.56, abs=0.04)
    assert fp32.recall_men == pytest.approx(0.65, abs=0.03)
    assert fp32.differs == 0


def test_int8_is_a_variant_to_promote(found: dict[str, Quality], models: Models) -> None:
    int8, fp32 = found["int8"], found["fp32"]
    assert 0 < int8.differs < 0.005
    assert int8.accuracy == pytest.approx(fp32.accuracy, abs=0.002)
    assert int8.positive == pytest.approx(fp32.positive, abs=0.002)
    assert int8.recall_women == pytest.approx(fp32.recall_women, abs=0.01)
    assert models.onnx("int8").stat().st_size < 0.4 * models.onnx("fp32").stat().st_size


def test_pruned_is_a_variant_to_take_back(found: dict[str, Quality]) -> None:
    pruned, fp32 = found["pruned"], found["fp32"]
    assert pruned.accuracy == pytest.approx(0.826, abs=0.005)
    # The aggregate hides it: accuracy loses two points, the women who earn over 50K lose ten times as much.
    assert fp32.recall_women - pruned.recall_women > 0.13
    assert fp32.positive - pruned.positive > 0.05


def test_half_of_the_digits_is_held_out_and_all_of_them_are_there(images: HeldOutDigits) -> None:
    assert images.pixels.shape == (899, 64)
    assert (images.pixels.min(), images.pixels.max()) == (0, 16)
    assert set(images.digit.tolist()) == set(range(10))
    assert all(said.shape == (899, 10) for said in images.probability.values())
    assert all(np.allclose(said.sum(axis=1), 1, atol=1e-5) for said in images.probability.values())


def test_of_digits_int8_decides_as_fp32_does_and_pruned_decides_one_in_ten_otherwise(images: HeldOutDigits) -> None:
    found = digits_qualities(images)
    assert found["fp32"] == Top1(accuracy=875 / 899, differs=0)
    # Its probabilities do move; of 899 decisions none does.
    assert not np.array_equal(images.probability["int8"], images.probability["fp32"])
    assert found["int8"] == Top1(accuracy=875 / 899, differs=0)
    assert found["pruned"] == Top1(accuracy=809 / 899, differs=88 / 899)


def test_building_again_gives_the_same_models(models: Models, tmp_path: Path) -> None:
    build_models(models.python, tmp_path, progress=print)
    made = [f"{prefix}{variant}.onnx" for prefix in ("", "digits-") for variant in VARIANTS]
    for name in (*made, "held_out.npz", "digits-held_out.npz"):
        assert (tmp_path / name).read_bytes() == (models.folder / name).read_bytes(), name


def test_an_unknown_variant_is_refused_by_name(models: Models) -> None:
    with pytest.raises(ValueError, match="fp32, int8, pruned; got 'int4'"):
        models.onnx("int4")
    with pytest.raises(ValueError, match="fp32, int8, pruned; got 'int4'"):
        models.digits_onnx("int4")


def test_quality_counts_by_group() -> None:
    truth = np.array([True, True, True, True, False, False])
    men = np.array([True, True, False, False, True, False])
    fp32 = np.array([True, True, True, True, False, False])
    decided = np.array([True, True, True, False, True, False])
    assert quality(decided, truth=truth, men=men, fp32=fp32) == Quality(
        accuracy=4 / 6, positive=4 / 6, recall_women=1 / 2, recall_men=1.0, differs=2 / 6
    )


def test_top1_counts_what_is_right_and_what_differs() -> None:
    truth, fp32, decided = np.array([0, 1, 2, 3]), np.array([0, 1, 9, 9]), np.array([0, 5, 2, 9])
    assert top1(decided, truth=truth, fp32=fp32) == Top1(accuracy=2 / 4, differs=2 / 4)


def test_quality_of_a_group_without_anybody_is_no_number() -> None:
    everybody = np.array([True, True])
    with pytest.raises(ValueError, match="nobody"):
        quality(everybody, truth=everybody, men=everybody, fp32=everybody)
