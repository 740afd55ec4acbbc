"""Networks as ONNX files. Runs in the model servers' environment only."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from e2e.demo.models.network import Network

_OPSET: Final = 17


def write_fp32(network: Network, path: Path, *, name: str) -> None:
    """Write the network with single-precision weights: ``features`` [rows, k] to ``probability`` [rows, 1 or classes].

    Parameters
    ----------
    network
        What to write.
    path
        Where to.
    name
        Of the graph.
    """
    nodes = [
        helper.make_node("Sub", ["features", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "scale"], ["layer0"]),
    ]
    constants = {"mean": network.mean, "scale": network.scale}
    last = len(network.weights) - 1
    for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        constants |= {f"weight{layer}": weight, f"bias{layer}": bias}
        into = "score" if layer == last else f"sum{layer}"
        nodes += [
            helper.make_node("MatMul", [f"layer{layer}", f"weight{layer}"], [f"product{layer}"]),
            helper.make_node("Add", [f"product{layer}", f"bias{layer}"], [into]),
        ]
        if layer < last:
            nodes.append(helper.make_node("Relu", [into], [f"layer{layer + 1}"]))
    outputs = len(network.biases[-1])
    likelihood = "Sigmoid" if outputs == 1 else "Softmax"
    nodes.append(helper.make_node(likelihood, ["score"], ["probability"]))
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", len(network.mean)])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["rows", outputs])],
        [_single(name, values) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def write_int8(fp32: Path, path: Path) -> None:
    """Write the network again with 8-bit weights, one scale per column; activations are quantised as they come."""
    # Unsigned weights: processors without VNNI instructions saturate sums of unsigned by signed products.
    quantize_dynamic(fp32, path, per_channel=True, weight_type=QuantType.QUInt8)


def _single(name: str, values: NDArray[np.float64]) -> onnx.TensorProto:
    return numpy_helper.from_array(values.astype(np.float32), name)
