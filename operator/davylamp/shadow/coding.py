"""Content codings undone, within a size and a ratio that a hostile body cannot pass.

Rule 1: nothing is ever inflated beyond the limit, not even to find out how large it is.
Rule 2: a body that breaks off is no body.
"""

import zlib
from collections.abc import Callable
from typing import Final

import brotli
import zstandard

#: Decoded bytes for each that came.
LARGEST_RATIO: Final = 100
_MOST_CODINGS: Final = 4
#: Parts that a gzip or zstd body may be made of; each costs a copy of the rest.
_MOST_PARTS: Final = 64
#: RFC 9659.
_ZSTD_WINDOW: Final = 8 * 2**20


class CodingError(Exception):
    """The coding is unknown, or the body is not what it says."""


class TooLargeError(Exception):
    """What would come out is larger than the limit."""


def decoded(body: bytes, codings: str, limit: int) -> bytes:
    """Return a body without its content codings.

    Parameters
    ----------
    body
        As it came.
    codings
        Value of ``content-encoding``: names in the order in which they were applied.
    limit
        Bytes of the largest result, >= 0.

    Raises
    ------
    CodingError
        If a coding is unknown, there are too many, or the body is damaged.
    TooLargeError
        If the result is larger than the limit, or than 100 times what came.
    """
    names = [name for part in codings.split(",") if (name := part.strip().lower()) not in {"", "identity"}]
    if len(names) > _MOST_CODINGS:
        raise CodingError(f"{len(names)} codings, of at most {_MOST_CODINGS}")
    ceiling = min(limit, LARGEST_RATIO * len(body)) if names else limit
    for name in reversed(names):
        decode = _DECODERS.get(name)
        if decode is None:
            raise CodingError("an unknown coding")
        # What comes out of an inner coding may be smaller again, but never needs to be larger than this.
        body = decode(body, ceiling)
    if len(body) > ceiling:
        raise TooLargeError
    return body


def _gzip(body: bytes, ceiling: int) -> bytes:
    whole = b""
    for _ in range(_MOST_PARTS):
        part, body = _inflate(body, ceiling - len(whole), zlib.MAX_WBITS | 16)
        whole += part
        if not body:
            return whole
    raise CodingError("too many members")


def _deflate(body: bytes, ceiling: int) -> bytes:
    try:
        return _inflate(body, ceiling, zlib.MAX_WBITS)[0]
    except CodingError:
        # Many programs send the raw format under this name.
        return _inflate(body, ceiling, -zlib.MAX_WBITS)[0]


def _inflate(body: bytes, ceiling: int, window: int) -> tuple[bytes, bytes]:
    inflater = zlib.decompressobj(window)
    try:
        whole = inflater.decompress(body, ceiling + 1)
    except zlib.error:
        raise CodingError("damaged") from None
    if len(whole) > ceiling:
        raise TooLargeError
    if not inflater.eof:
        raise CodingError("cut off")
    return whole, inflater.unused_data


def _brotli(body: bytes, ceiling: int) -> bytes:
    decompressor = brotli.Decompressor()
    try:
        whole = bytes(decompressor.process(body, output_buffer_limit=ceiling + 1))
    except brotli.error:
        raise CodingError("damaged") from None
    if len(whole) > ceiling:
        raise TooLargeError
    if not decompressor.is_finished():
        raise CodingError("cut off")
    return whole


def _zstd(body: bytes, ceiling: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    try:
        # The reader keeps to a size, but takes a frame that breaks off for the end; the other way round below.
        if len(decompressor.stream_reader(body, read_across_frames=True).read(ceiling + 1)) > ceiling:
            raise TooLargeError
        whole = b""
        for _ in range(_MOST_PARTS):
            frame = decompressor.decompressobj()
            whole += frame.decompress(body)
            if not frame.eof:
                raise CodingError("cut off")
            body = frame.unused_data
            if not body:
                return whole
    except zstandard.ZstdError:
        raise CodingError("damaged") from None
    raise CodingError("too many frames")


_DECODERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
