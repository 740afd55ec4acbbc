from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.coding import CodingError, TooLargeError, decoded

CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
}
CODINGS = [name for name in CODERS if name != "identity"]
BODY = b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[0.5,0.25]}]}'
LIMIT = 1 << 20
bodies = st.binary(max_size=300)


@given(body=bodies, names=st.lists(st.sampled_from(list(CODERS)), max_size=4))
def test_codings_are_undone_in_the_order_opposite_to_that_in_which_they_were_applied(
    body: bytes, names: list[str]
) -> None:
    coded = body
    for name in names:
        coded = CODERS[name](coded)

    assert decoded(coded, ", ".join(names), LIMIT) == body


def test_names_are_read_without_regard_to_case_and_spaces() -> None:
    assert decoded(gzip.compress(BODY), " GZip ,", LIMIT) == BODY


def test_deflate_without_its_wrapper_is_understood() -> None:
    raw = zlib.compressobj(wbits=-15)

    assert decoded(raw.compress(BODY) + raw.flush(), "deflate", LIMIT) == BODY


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_body_of_several_parts_is_put_together(name: str) -> None:
    assert decoded(CODERS[name](b"one") + CODERS[name](b"two"), name, LIMIT) == b"onetwo"


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_body_of_endless_parts_is_refused(name: str) -> None:
    with pytest.raises(CodingError, match="too many"):
        decoded(CODERS[name](b"") * 65, name, LIMIT)


@pytest.mark.parametrize("name", CODINGS)
def test_a_body_that_breaks_off_is_no_body(name: str) -> None:
    with pytest.raises(CodingError):
        decoded(CODERS[name](BODY)[:-4], name, LIMIT)


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("damaged", [b"not coded at all", b"\xff" * 50, b""])
def test_a_body_that_is_not_in_its_coding_is_no_body(name: str, damaged: bytes) -> None:
    with pytest.raises((CodingError, TooLargeError)):
        decoded(damaged, name, LIMIT)


def test_an_unknown_coding_is_refused() -> None:
    with pytest.raises(CodingError, match="unknown"):
        decoded(BODY, "gzip, compress", LIMIT)


def test_a_coding_too_many_is_refused() -> None:
    with pytest.raises(CodingError, match="5 codings"):
        decoded(BODY, "gzip, gzip, gzip, gzip, gzip", LIMIT)


@pytest.mark.parametrize("name", CODINGS)
def test_a_body_is_decoded_up_to_the_limit_and_no_further(name: str) -> None:
    noise = random.Random(7).randbytes(1000)  # noqa: S311 - test data
    coded = CODERS[name](noise)

    assert decoded(coded, name, 1000) == noise
    with pytest.raises(TooLargeError):
        decoded(coded, name, 999)


@pytest.mark.parametrize("name", CODINGS)
def test_a_bomb_is_refused_by_its_ratio(name: str) -> None:
    bomb = CODERS[name](bytes(10**7))

    with pytest.raises(TooLargeError):
        decoded(bomb, name, 10**8)


def test_a_bomb_in_a_bomb_is_refused_by_the_ratio_to_what_came() -> None:
    bomb = gzip.compress(gzip.compress(bytes(10**7)))

    with pytest.raises(TooLargeError):
        decoded(bomb, "gzip, gzip", 10**8)


def test_a_body_without_coding_has_the_limit_too() -> None:
    assert decoded(b"abc", "identity", 3) == b"abc"
    with pytest.raises(TooLargeError):
        decoded(b"abcd", "", 3)


@given(body=bodies, name=st.sampled_from(CODINGS))
def test_any_bytes_are_decoded_or_refused(body: bytes, name: str) -> None:
    try:
        assert len(decoded(body, name, 1000)) <= min(1000, 100 * len(body))
    except (CodingError, TooLargeError):
        return


@given(place=st.integers(0, 60), flipped=st.integers(1, 255), name=st.sampled_from(CODINGS))
def test_a_damaged_body_is_decoded_or_refused(place: int, flipped: int, name: str) -> None:
    coded = bytearray(CODERS[name](BODY))
    coded[place % len(coded)] ^= flipped
    try:
        assert len(decoded(bytes(coded), name, 1000)) <= 1000
    except (CodingError, TooLargeError):
        return
