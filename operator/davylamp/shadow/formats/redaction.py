"""What of a request or an answer may be kept to be looked at.

Rule 1: what cannot be looked into for what is to be blotted out is blotted out as a whole.
Rule 2: all places are found first and blotted out then, so that no rule hides from another what it looks for.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Final

from davylamp.errors import SpecError
from davylamp.shadow.formats.parsing import parsed, within_bounds
from davylamp.shadow.formats.reading import UnreadableError
from davylamp.shadow.formats.selection import matches

#: What stands where something was.
BLOT: Final = "[redacted]"
#: What text does not hold: bytes that only look like it.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def redacted(body: bytes, content_type: str, paths: Sequence[str]) -> str:
    """Return a body as text, without what the paths find.

    Parameters
    ----------
    body
        Without content coding.
    content_type
        As its header says it; a body without one is text if it looks like text.
    paths
        JSONPaths of what is blotted out. If there are any, a body that is no JSON, or over a bound, is told by size and
        hash only, and so is one of bytes that are no text in any case.
    """
    if paths:
        return _blotted(body, paths)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _summary(body)
    return text if _is_text(content_type) or not _CONTROL.search(text) else _summary(body)


def _blotted(body: bytes, paths: Sequence[str]) -> str:
    try:
        document = within_bounds(parsed(body))
        nodes = [node for found in matches(document, paths).values() for node in found]
    except (UnreadableError, SpecError):
        return _summary(body)
    if any(node.parent is None for node in nodes):
        return _summary(body)
    for node in nodes:
        node.value = BLOT
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace").decode()


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith("json")


def _summary(body: bytes) -> str:
    return f"{BLOT} {len(body)} bytes, SHA-256 {hashlib.sha256(body).hexdigest()}"
