"""Tables of labels, row by row: CSV, lines of JSON, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from davylamp.cli.failure import ExitCode, FailureError

_ROWS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns are meant.

    Parameters
    ----------
    id, label
        Of the request ids and the labels.
    time
        Of the times; empty if there is none.
    """

    id: str
    label: str
    time: str


@dataclass(frozen=True, slots=True)
class Row:
    """One label as it is posted, and where it stands."""

    place: str
    item: Mapping[str, Any]


def rows_of(file: Path, columns: Columns) -> Iterator[Row]:
    """Yield the rows of a table.

    Parameters
    ----------
    file
        Its name says by its end what it is.
    columns
        Which are meant.

    Raises
    ------
    FailureError
        If the file cannot be read, a column is missing, or a row has no id or no label.
    """
    readers = {".csv": _csv, ".jsonl": _lines, ".ndjson": _lines, ".parquet": _parquet}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise _wrong(f"{file}: the name must end with .csv, .jsonl or .parquet")
    try:
        for place, row in reader(file, columns):
            yield Row(place, _item(f"{file}, {place}", row, columns))
    except OSError as failed:
        raise _wrong(f"{file}: {failed.strerror or failed}") from failed
    except UnicodeDecodeError as failed:
        raise _wrong(f"{file} is not UTF-8") from failed


def _item(place: str, row: Mapping[str, Any], columns: Columns) -> Mapping[str, Any]:
    names = {"id": columns.id, "label": columns.label} | ({"time": columns.time} if columns.time else {})
    for name in names.values():
        if name not in row:
            raise _wrong(f"{place}: there is no column {name}; there are {', '.join(map(str, row)) or 'none'}")
    item = {field: row[name] for field, name in names.items()}
    for field in ("id", "label"):
        if item[field] is None or item[field] == "":
            raise _wrong(f"{place}: {names[field]} is empty")
    time = item.pop("time", None)
    made = {"id": str(item["id"]), "label": item["label"]}
    return made if time in {None, ""} else {**made, "time": _time(time)}


def _time(time: Any) -> str:
    if isinstance(time, datetime):
        # Parquet's own times without a zone are UTC by its rules.
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()
    return str(time)


def _csv(file: Path, _: Columns) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with file.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.DictReader(text)
        try:
            for row in reader:
                yield f"line {reader.line_num}", row
        except csv.Error as wrong:
            raise _wrong(f"{file}, line {reader.line_num}: {wrong}") from wrong


def _lines(file: Path, _: Columns) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with file.open(encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as wrong:
                    raise _wrong(f"{file}, line {number}: no JSON") from wrong
                if not isinstance(row, dict):
                    raise _wrong(f"{file}, line {number}: must be an object")
                yield f"line {number}", row


def _parquet(file: Path, columns: Columns) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError as missing:
        raise _wrong(f"{missing.name} is not installed: Parquet needs davylamp[parquet]") from missing
    try:
        table = ParquetFile(file)
        wanted = [name for name in (columns.id, columns.label, columns.time) if name in table.schema_arrow.names]
        number = 0
        for batch in table.iter_batches(_ROWS_AT_ONCE, columns=wanted):
            for row in batch.to_pylist():
                number += 1
                yield f"row {number}", row
    except ArrowException as wrong:
        raise _wrong(f"{file} is no Parquet file that can be read: {wrong}") from wrong


def _wrong(text: str) -> FailureError:
    return FailureError(text, ExitCode.WRONG)
