"""The model that decides about an income, with counters of what it decides, and a switch that makes it fail.

Runs in the model servers' environment only, whose packages the type checker does not see.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from mlserver import types
from mlserver.codecs import NumpyCodec
from mlserver.errors import MLServerError
from numpy.typing import NDArray
from prometheus_client import Counter, Gauge

from e2e.demo.serving.answering import NetworkModel
from e2e.demo.serving.faults import FaultSwitch

THRESHOLD: Final = 0.5
_LABELS: Final = ("model", "version")
_SCORED = Counter("income_scored", "Rows that were given a decision", _LABELS)
_POSITIVE = Counter("income_positive", "Rows decided as an income over 50K", _LABELS)
_FAULTS = Counter("income_faults", "Requests failed on purpose", _LABELS)
_FIRST_FAULT = Gauge("income_first_fault_timestamp_seconds", "When the first request was failed on purpose", _LABELS)


class InjectedFaultError(MLServerError):
    """A request was failed on purpose; answered with HTTP 500."""

    def __init__(self) -> None:
        super().__init__("this server was told to fail a share of its requests", status_code=500)


class IncomeModel(NetworkModel):
    """Answers rows of the census with the probability of an income over 50K, and the decision at one half."""

    async def load(self) -> bool:
        """Open the network and make its counters visible, at zero."""
        await super().load()
        extra = self.settings.parameters.extra or {}
        path = extra.get("fault_file")
        self._faults = FaultSwitch(Path(path) if path else None, seed=extra.get("seed", 0))
        labels = (self.name, self.version)
        # Counters that exist from the start let a reader tell "no request yet" from "no server".
        self._scored, self._positive = _SCORED.labels(*labels), _POSITIVE.labels(*labels)
        self._failed, self._first_fault = _FAULTS.labels(*labels), _FIRST_FAULT.labels(*labels)
        self._healthy_so_far = True
        return True

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        """Answer one request, or fail it on purpose."""
        if self._faults.fails():
            self._fail()
        return await super().predict(payload)

    def _decide(self, probability: NDArray[np.float32]) -> types.ResponseOutput:
        decision = probability >= THRESHOLD
        self._scored.inc(len(decision))
        self._positive.inc(int(decision.sum()))
        return NumpyCodec.encode_output("over_50k", decision.astype(np.int64))

    def _fail(self) -> None:
        self._failed.inc()
        if self._healthy_so_far:
            self._healthy_so_far = False
            self._first_fault.set_to_current_time()
        raise InjectedFaultError
