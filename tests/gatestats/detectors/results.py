"""Looking through a result for numbers that no result may hold."""

import dataclasses
import math
from collections.abc import Iterator, Mapping


def numbers(result: object) -> Iterator[float]:
    """Yield every number in a result, however deep."""
    if dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            yield from numbers(getattr(result, field.name))
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from numbers(value)
    elif isinstance(result, tuple):
        for value in result:
            yield from numbers(value)
    elif isinstance(result, float | int):
        yield result


def has_nan(result: object) -> bool:
    """Tell whether a result holds NaN."""
    return any(math.isnan(number) for number in numbers(result))
