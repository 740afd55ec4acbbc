"""Who may post: whoever knows a token, or can sign.

Keys stand in files, one a line, so that a new one can be given out before the old one ends. A file is read anew when it
changes. A key is compared in constant time, and is in no message.
"""

import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

SIGNATURE: Final = "x-davylamp-signature"
#: A signature counts for so many seconds around its time. What is posted again within them changes no outcome.
WINDOW: Final = 300
_SIGNED: Final = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})", re.ASCII)
#: Characters of a key, at least.
SHORTEST: Final = 16


class KeyFile:
    """The keys in a file.

    Parameters
    ----------
    path
        Where; None if there is none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._keys: tuple[bytes, ...] = ()

    def read(self) -> tuple[bytes, ...]:
        """Return the keys that count now; none where the file cannot be read. What is too short to be a key is none."""
        if self._path is None:
            return ()
        try:
            status = os.stat(self._path)  # noqa: PTH116 - the same in one call, for every request
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                lines = (line.strip() for line in self._path.read_bytes().splitlines())
                self._keys, self._seen = tuple(line for line in lines if len(line) >= SHORTEST), seen
        except OSError:
            # Withdrawn: nobody is let in by what stood there.
            self._keys, self._seen = (), None
        return self._keys


def signature(key: bytes, body: bytes, at: int) -> str:
    """Return the header by which whoever has a key signs a body at a time in seconds since the epoch."""
    return f"t={at},v1={_digest(key, body, str(at))}"


@dataclass(frozen=True, slots=True)
class Keys:
    """What lets somebody in.

    Parameters
    ----------
    tokens
        Whoever has one of these may post.
    signers
        Whoever signs by one of these may post what is signed.
    """

    tokens: KeyFile
    signers: KeyFile

    def token_fits(self, authorization: str) -> bool:
        """Whether a header ``Authorization`` brings a token."""
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and _any_equal(
            self.tokens.read(), token.strip().encode("utf-8", "surrogateescape")
        )

    def signature_fits(self, header: str, body: bytes, now: datetime) -> bool:
        """Whether a header `SIGNATURE` is that of a body, and of now."""
        signed = _SIGNED.fullmatch(header)
        if signed is None or abs(now.timestamp() - int(signed[1])) > WINDOW:
            return False
        wanted = tuple(_digest(key, body, signed[1]).encode() for key in self.signers.read())
        return _any_equal(wanted, signed[2].encode())


def _digest(key: bytes, body: bytes, at: str) -> str:
    return hmac.new(key, at.encode() + b"." + body, hashlib.sha256).hexdigest()


def _any_equal(known: tuple[bytes, ...], given: bytes) -> bool:
    # All are compared, so that the time tells nothing of which it was.
    return sum(hmac.compare_digest(each, given) for each in known) > 0
