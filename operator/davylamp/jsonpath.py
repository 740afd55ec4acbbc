"""Which JSONPaths (RFC 9535) a rollout may have: the operator refuses what the comparator would not look for.

Rule 1: a filter looks at what it is about and at nothing else, and knows no regular expression: either could take hours
for one document.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathQuery
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterExpression,
    FilterQuery,
    FunctionExtension,
    LogicalExpression,
    PrefixExpression,
    RelativeFilterQuery,
)
from jsonpath_rfc9535.selectors import FilterSelector

from davylamp.errors import SpecError


class _Environment(JSONPathEnvironment):
    """What paths may be made of."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for name in ("match", "search"):
            del self.function_extensions[name]


_ENVIRONMENT: Final = _Environment()


@lru_cache(maxsize=1024)
def query(path: str) -> JSONPathQuery:
    """Read a JSONPath.

    Raises
    ------
    SpecError
        If it is none, or one that is not looked for.
    """
    try:
        read = _ENVIRONMENT.compile(path)
    except (JSONPathError, ValueError, OverflowError, RecursionError) as error:
        raise SpecError(f"{path[:100]} is no JSONPath of RFC 9535: {str(error)[:200]}") from None
    selectors = (selector for segment in read.segments for selector in segment.selectors)
    filters = (selector.expression for selector in selectors if isinstance(selector, FilterSelector))
    for asked in (inner for expression in filters for inner in _queries(expression)):
        if not isinstance(asked, RelativeFilterQuery) or not asked.query.singular_query():
            raise SpecError(f"{path[:100]} is not looked for: a filter may only ask for @ and one place in it")
    return read


def _queries(expression: Expression) -> Iterator[FilterQuery]:
    """Yield what a filter looks at."""
    match expression:
        case FilterQuery():
            yield expression
        case FilterExpression(expression=inner) | PrefixExpression(right=inner):
            yield from _queries(inner)
        case LogicalExpression() | ComparisonExpression():
            yield from _queries(expression.left)
            yield from _queries(expression.right)
        case FunctionExtension():
            for argument in expression.args:
                yield from _queries(argument)
        case _:  # a literal
            pass
