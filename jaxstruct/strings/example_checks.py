"""What the problems of candidate sets refuse before anything compiles: values of the examples."""

from __future__ import annotations

import numpy as np

from jaxstruct.core.checks import (
    as_array,
    check_integers,
    check_record,
    check_sparse,
)
from jaxstruct.core.static import Static
from jaxstruct.core.types import Array, PyTree, SparseFeatures
from jaxstruct.strings.inputs import CandidateFeatures, JointCandidates, KernelCandidates


def _checked_numbers(numbers: PyTree) -> np.ndarray:
    """[n, K] the candidates; every list holds one, none holds one twice, padding is on the right.

    Raises:
      ValueError: they are not so.
    """
    numbers = as_array("inputs.numbers", numbers, "[n, K] integers, the candidates")
    check_integers("inputs.numbers", numbers)
    if numbers.ndim != 2:
        raise ValueError(f"inputs.numbers must be [n, K], got shape {numbers.shape}")
    real = numbers >= 0
    empty = np.flatnonzero(~real.any(axis=1)) if numbers.shape[1] else np.arange(len(numbers))
    if empty.size:
        raise ValueError(
            f"inputs.numbers[{empty[0]}] has no candidate ({empty.size} such): Gen(x) must hold an "
            "output for every input"
        )
    low = numbers.min()
    gaps = np.argwhere(~real[:, :-1] & real[:, 1:])
    if low < -1 or gaps.size:
        at = gaps[0].tolist() if gaps.size else np.argwhere(numbers == low)[0].tolist()
        raise ValueError(
            f"inputs.numbers{at} is {numbers[tuple(at)]}: expected rows 0.. of the table of "
            "outputs, and -1 as padding on the right only"
        )
    ranked = np.sort(numbers, axis=1)
    twice = np.argwhere((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0))
    if twice.size:
        i, k = twice[0]
        raise ValueError(
            f"inputs.numbers[{i}] has candidate {ranked[i, k]} twice: a list holds every output "
            "once (number_candidates drops what comes again)"
        )
    return numbers


def _check_below(numbers: np.ndarray, size: int, what: str) -> None:
    if numbers.max() >= size:
        i, k = np.argwhere(numbers >= size)[0]
        raise ValueError(
            f"inputs.numbers[{i}, {k}] is {numbers[i, k]}, but {what} has {size} outputs: number "
            "all candidates by one table"
        )


def _check_outputs(losses: Array | None, numbers: np.ndarray, outputs: PyTree) -> None:
    """Every true output is a candidate; of losses by list, a cheapest one.

    Raises:
      ValueError: one is not.
    """
    outputs = as_array("outputs", outputs, "[n] integers, numbers of candidates")
    if outputs.shape != (len(numbers),) or outputs.dtype.kind not in "iu":
        raise ValueError(
            f"outputs must be [n = {len(numbers)}] integers, numbers of candidates, got "
            f"{outputs.dtype} of shape {outputs.shape}"
        )
    own = (numbers == outputs[:, None]) & (numbers >= 0)
    missing = np.flatnonzero(~own.any(axis=1))
    if missing.size:
        i = missing[0]
        raise ValueError(
            f"outputs[{i}] is {outputs[i]}, no candidate of its input ({missing.size} such): add "
            'it to Gen(x), or train on the best candidate (number_candidates, missing="add" or '
            '"best")'
        )
    if losses is None:
        return
    table = np.asarray(losses)
    _check_below(numbers, len(table), "loss")
    if table.ndim == 2:
        return
    costs = np.where(numbers >= 0, table[np.maximum(numbers, 0)], np.inf)
    ahead = np.flatnonzero(costs.min(axis=1) < table[outputs])
    if ahead.size:
        i = ahead[0]
        raise ValueError(
            f"outputs[{i}] is {outputs[i]} of loss {table[outputs[i]]:g}, but another candidate "
            f"costs {costs[i].min():g} ({ahead.size} such): losses by list ask for a best target"
        )


def _dense_shape(inputs: CandidateFeatures, d: int) -> tuple[int, ...]:
    features = as_array("inputs.features", inputs.features, f"[n, K, d = {d}] numbers")
    if features.ndim != 3 or features.shape[2] != d:
        raise ValueError(
            f"inputs.features must be [n, K, number_of_features = {d}], got shape {features.shape}"
        )
    return features.shape[:2]


def _sparse_shape(features: SparseFeatures, d: int) -> tuple[int, ...]:
    indices, values = np.asarray(features.indices), np.asarray(features.values)
    check_sparse("inputs.features", indices, values, d, "[n, K, m]")
    return indices.shape[:2]


def check_features(d: Static, losses: Array | None, inputs: PyTree, outputs: PyTree = None) -> None:
    """Raise ValueError unless inputs are `CandidateFeatures` of d features that fit together."""
    check_record("inputs", inputs, CandidateFeatures, "strings.feature_inputs")
    numbers = _checked_numbers(inputs.numbers)
    sparse = isinstance(inputs.features, SparseFeatures)
    shape = _sparse_shape(inputs.features, d.value) if sparse else _dense_shape(inputs, d.value)
    if shape != numbers.shape:
        raise ValueError(
            f"inputs.features are of {list(shape)} candidates, inputs.numbers of "
            f"{list(numbers.shape)}"
        )
    if outputs is not None:
        _check_outputs(losses, numbers, outputs)


def _check_anchors(anchors: np.ndarray, real: np.ndarray, A: int) -> None:
    """In training every input is an anchor: of another one no coefficient could change."""
    wrong = np.argwhere(real & ((anchors < 0) | (anchors >= A)))
    if wrong.size:
        raise ValueError(
            f"inputs of example {wrong[0][0]} are none of the {A} anchors, so that training could "
            "not change their scores: give the square kernel matrix of the training set, or rows "
            "taken of it; new=True is for prediction"
        )


def check_kernel(
    sizes: Static, losses: Array | None, inputs: PyTree, outputs: PyTree = None
) -> None:
    """Raise ValueError unless inputs are `KernelCandidates` on m anchors and M outputs."""
    m, M = sizes.value
    check_record("inputs", inputs, KernelCandidates, "strings.kernel_inputs")
    numbers = _checked_numbers(inputs.numbers)
    n = len(numbers)
    shapes = np.shape(inputs.row), np.shape(inputs.anchor)
    if shapes != ((n, m), (n,)):
        raise ValueError(
            f"inputs.row and .anchor must be [n, m] = [{n}, {m}] and [n], got shapes {shapes}"
        )
    check_integers("inputs.anchor", np.asarray(inputs.anchor))
    _check_below(numbers, M, "output_gram")
    if outputs is not None:
        _check_anchors(np.asarray(inputs.anchor), np.ones(n, bool), m)
        _check_outputs(losses, numbers, outputs)


def check_joint(
    number_of_pairs: Static, losses: Array | None, inputs: PyTree, outputs: PyTree = None
) -> None:
    """Raise ValueError unless inputs are `JointCandidates` against A pairs."""
    A = number_of_pairs.value
    check_record("inputs", inputs, JointCandidates, "strings.joint_inputs")
    numbers = _checked_numbers(inputs.numbers)
    shapes = np.shape(inputs.rows), np.shape(inputs.anchors)
    if shapes != ((*numbers.shape, A), numbers.shape):
        raise ValueError(
            f"inputs.rows and .anchors must be [n, K, A] = {[*numbers.shape, A]} and [n, K], got "
            f"shapes {shapes}"
        )
    check_integers("inputs.anchors", np.asarray(inputs.anchors))
    if outputs is not None:
        _check_anchors(np.asarray(inputs.anchors), numbers >= 0, A)
        _check_outputs(losses, numbers, outputs)
