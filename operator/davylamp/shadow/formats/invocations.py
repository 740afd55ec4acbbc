"""What answers at ``/invocations``: MLflow with predictions, SageMaker with whatever the model writes, often CSV."""

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.arrays import columns_of, inferred_outputs
from davylamp.shadow.formats.openai import is_openai, read_document
from davylamp.shadow.formats.parsing import parsed, within_bounds
from davylamp.shadow.formats.plain import read_raw
from davylamp.shadow.formats.reading import Reading, UnreadableError
from davylamp.shadow.formats.selection import without
from davylamp.shadow.formats.tensorflow import predictions
from davylamp.shadow.task import Rules


def read_invocations(answer: Answer, rules: Rules) -> Reading:
    """Read predictions in any of the forms that servers give them.

    Raises
    ------
    UnreadableError
        If it is empty, or over a bound.
    """
    try:
        document = parsed(answer.body)
    except UnreadableError:
        return _table(answer.body) or read_raw(answer)
    document = without(document, rules.ignore)
    if is_openai(document):
        return read_document(document)
    if type(document) is dict and not document.keys().isdisjoint({"predictions", "outputs", "error"}):
        return predictions(document)
    return inferred_outputs(within_bounds(document))


def _table(body: bytes) -> Reading | None:
    """Return a table of numbers separated by commas; None if it is something else."""
    try:
        rows = [[float(cell) for cell in row.split(b",")] for row in body.splitlines() if row.strip()]
    except ValueError:
        return None
    return columns_of({"": rows}) if rows else None
