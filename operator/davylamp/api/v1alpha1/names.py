"""Names as Kubernetes and Prometheus allow them, each with the sentence that a wrong one gets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from davylamp.api.v1alpha1.rules import Rule, Spelling


@dataclass(frozen=True, slots=True)
class Text(Spelling):
    """Marks a string field that matches a pattern.

    Attributes
    ----------
    pattern
        A regular expression that RE2 and Python read alike, anchored at both ends.
    limit
        Longest text, in characters.
    message
        What to write; shown after the field's path.
    """

    pattern: str
    limit: int
    message: str

    def longest(self) -> int:
        """Return the length of the longest text, in characters."""
        return self.limit

    def rule(self) -> Rule:
        """Return what the API server checks."""
        return Rule(f"self.matches(r'{self.pattern}')", self.message)

    def check(self, text: str) -> str:
        """Return ``text``, or raise ValueError that says what to write instead."""
        if not re.fullmatch(self.pattern, text, re.ASCII):
            raise ValueError(self.message)
        return text


LABEL_NAME_PATTERN: Final = r"^[a-zA-Z_][a-zA-Z0-9_]*$"

ResourceName = Annotated[
    str,
    Text(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        253,
        "write the name of the object alone, without a namespace: lower-case letters, digits, '-' and '.'",
    ),
]
ServiceName = Annotated[
    str,
    Text(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        63,
        "write the name of the Service alone, without a namespace: lower-case letters, digits and '-'",
    ),
]
SignalName = Annotated[
    str,
    Text(
        r"^[a-z][a-z0-9-]*$",
        40,
        "write a short name: lower-case letters, digits and '-', beginning with a letter",
    ),
]
SecretKey = Annotated[
    str,
    Text(
        r"^[-._a-zA-Z0-9]+$",
        253,
        "write a key of the Secret's data: letters, digits, '-', '_' and '.'",
    ),
]
Digest = Annotated[
    str,
    Text(
        r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$",
        135,
        'write the digest of the model artefact as "sha256:" and 64 lower-case hexadecimal digits',
    ),
]
CounterSelector = Annotated[
    str,
    Text(
        r"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^{}]*\})?$",
        1024,
        'write the name of a counter, with label matchers if needed, such as credit_approved_total{decision="yes"}: '
        "no functions such as rate(), since Davylamp counts the raw samples itself",
    ),
]
HttpAddress = Annotated[
    str,
    Text(
        r"^https?://([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[-a-zA-Z0-9._~/]*)?$",
        1024,
        "write an address such as http://prometheus.monitoring:9090: http or https, host, port, path; "
        "no user, password, query or fragment",
    ),
]
HeaderName = Annotated[
    str,
    Text(r"^[-a-zA-Z0-9]+$", 128, "write the name of an HTTP header: letters, digits and '-'"),
]
HeaderValue = Annotated[
    str,
    Text(
        r"^[\x20-\x7e]+$", 1024, "write the value of an HTTP header: visible ASCII characters and spaces, on one line"
    ),
]
