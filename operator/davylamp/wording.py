"""Text for people, made of what others could have written: names, messages, numbers."""

import unicodedata
from collections.abc import Iterable
from typing import Final

_ELLIPSIS: Final = "…"
#: Control, format (which hold the marks that turn text around), surrogate and private characters show nothing or lie.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def plain(text: str) -> str:
    """Return text on one line, without characters that hide or turn other text."""
    shown = (" " if character in "\n\r\t" else character for character in text)
    return "".join(character for character in shown if unicodedata.category(character) not in _HIDDEN)


def shortened(text: str, limit: int) -> str:
    """Return `plain` text of at most ``limit`` characters (>= 1)."""
    text = plain(text)
    return text if len(text) <= limit else text[: limit - 1] + _ELLIPSIS


def shortened_pieces(pieces: Iterable[str], limit: int) -> str:
    """Join pieces, none of which may be cut, to at most ``limit`` characters (>= 1)."""
    taken: list[str] = []
    length = 0
    for piece in pieces:
        if length + len(piece) > limit:
            while length + 1 > limit:
                length -= len(taken.pop())
            return "".join(taken) + _ELLIPSIS
        taken.append(piece)
        length += len(piece)
    return "".join(taken)
