"""Three errors, told apart by what the caller does next.

DavylampError
  SpecError      a person must change something; trying again is useless
    NotFound     what is named does not exist
  Unavailable    a peer did not answer, or not in full; try again, and hold the weight meanwhile
  Conflict       somebody else changed the object; read it again, then decide again
"""


class DavylampError(Exception):
    """Anything that Davylamp raises by intent."""


class SpecError(DavylampError):
    """A person must change something; trying again is useless."""


class Unavailable(DavylampError):  # noqa: N818 - named by the situation, as the design names it
    """A peer did not answer, or not in full. Whether a write took effect is unknown: read again first."""


class Conflict(DavylampError):  # noqa: N818 - as Unavailable
    """Somebody else changed the object since it was read; nothing was written."""


class NotFound(SpecError):  # noqa: N818 - as Unavailable
    """What is named does not exist; a person must create it or name another."""
