"""The model that reads digits, with counters of which digits it reads.

Runs in the model servers' environment only, whose packages the type checker does not see.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

import numpy as np
from mlserver import types
from numpy.typing import NDArray
from prometheus_client import Counter

from e2e.demo.serving.answering import NetworkModel

_READ = Counter("digits_read", "Images that were given a digit", ("model", "version", "digit"))


class DigitsModel(NetworkModel):
    """Answers images with the probability of each digit, and the digit with the highest."""

    async def load(self) -> bool:
        """Open the network and make its counters visible, at zero."""
        await super().load()
        classes = self._session.get_outputs()[0].shape[1]
        self._read = [_READ.labels(self.name, self.version, digit) for digit in range(classes)]
        return True

    def _decide(self, probability: NDArray[np.float32]) -> types.ResponseOutput:
        digits = probability.argmax(axis=1)
        for digit in digits:
            self._read[digit].inc()
        # The codec would make a column of it.
        return types.ResponseOutput(name="digit", shape=[len(digits)], datatype="INT64", data=digits.tolist())
