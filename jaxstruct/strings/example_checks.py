"""What the problems of candidate sets refuse before anything compiles: values of the examples."""

from __future__ import annotations

import numpy as np

from jaxstruct.core.checks import check_record
from jaxstruct.core.spec import array, features, refuse
from jaxstruct.core.types import Array, PyTree, Static
from jaxstruct.strings.inputs import CandidateFeatures, JointCandidates, KernelCandidates


def _checked_numbers(given: PyTree, sizes: dict[str, int]) -> np.ndarray:
    """[n, K] the candidates; every list holds one, none holds one twice, padding is on the right.

    Raises:
      ValueError: they are not so.
    """
    name = "inputs.numbers"
    numbers = array(name, given, "n K", sizes=sizes)
    real = numbers >= 0
    empty = ~real.any(axis=1)
    refuse(name, numbers, empty, "a candidate: Gen(x) must hold an output for every input")
    gap = np.zeros_like(real)
    gap[:, :-1] = ~real[:, :-1] & real[:, 1:]
    words = "rows 0.. of the table of outputs, and -1 as padding on the right only"
    refuse(name, numbers, gap | (numbers < -1), words)
    ranked = np.sort(numbers, axis=1)
    twice = ((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)).any(axis=1)
    words = "every candidate once (number_candidates drops what comes again)"
    refuse(name, numbers, twice, words)
    return numbers


def _check_below(numbers: np.ndarray, size: int, what: str) -> None:
    words = f"rows of {what}, 0..{size - 1}: number all candidates by one table"
    refuse("inputs.numbers", numbers, numbers >= size, words)


def _check_outputs(losses: Array | None, numbers: np.ndarray, outputs: PyTree) -> None:
    """Every true output is a candidate; of losses by list, a cheapest one.

    Raises:
      ValueError: one is not.
    """
    y = array("outputs", outputs, "n", sizes={"n": len(numbers)})
    known = ((numbers == y[:, None]) & (numbers >= 0)).any(axis=1)
    refuse(
        "outputs", y, ~known, "a candidate of its input: add it to Gen(x), or train on the best "
        'candidate (number_candidates, missing="add" or "best")',
    )  # fmt: skip
    if losses is None:
        return
    table = np.asarray(losses)
    _check_below(numbers, len(table), "loss")
    if table.ndim == 1:
        costs = np.where(numbers >= 0, table[np.maximum(numbers, 0)], np.inf).min(axis=1)
        words = "a best target, as losses by list ask for: it costs {:g}, another candidate {:g}"
        wrong = costs < table[y]
        refuse("outputs", y, wrong, lambda i: words.format(table[y[i]], costs[i]))


def check_features(d: Static, losses: Array | None, inputs: PyTree, outputs: PyTree = None) -> None:
    """Raise ValueError unless inputs are `CandidateFeatures` of d features that fit together."""
    check_record("inputs", inputs, CandidateFeatures, "strings.feature_inputs")
    sizes = {"number_of_features": d.value}
    numbers = _checked_numbers(inputs.numbers, sizes)
    features("inputs.features", inputs.features, "n K", sizes)
    if outputs is not None:
        _check_outputs(losses, numbers, outputs)


def _check_anchors(name: str, anchors: np.ndarray, real: np.ndarray, A: int) -> None:
    """In training every input is an anchor: of another one no coefficient could change."""
    refuse(
        name, anchors, real & ((anchors < 0) | (anchors >= A)),
        f"one of the {A} anchors, for training cannot change scores of other inputs: give the "
        "square kernel matrix of the training set, or rows taken of it; new=True is for prediction",
    )  # fmt: skip


def check_kernel(
    sizes: Static, losses: Array | None, inputs: PyTree, outputs: PyTree = None
) -> None:
    """Raise ValueError unless inputs are `KernelCandidates` on m anchors and M outputs."""
    m, M = sizes.value
    check_record("inputs", inputs, KernelCandidates, "strings.kernel_inputs")
    axes = {"anchors": m}
    numbers = _checked_numbers(inputs.numbers, axes)
    array("inputs.row", inputs.row, "n anchors", None, axes)
    anchor = array("inputs.anchor", inputs.anchor, "n", sizes=axes)
    _check_below(numbers, M, "output_gram")
    if outputs is not None:
        _check_anchors("inputs.anchor", anchor, np.ones(len(numbers), bool), m)
        _check_outputs(losses, numbers, outputs)


def check_joint(
    number_of_pairs: Static, losses: Array | None, inputs: PyTree, outputs: PyTree = None
) -> None:
    """Raise ValueError unless inputs are `JointCandidates` against A pairs."""
    axes = {"pairs": number_of_pairs.value}
    check_record("inputs", inputs, JointCandidates, "strings.joint_inputs")
    numbers = _checked_numbers(inputs.numbers, axes)
    array("inputs.rows", inputs.rows, "n K pairs", None, axes)
    anchors = array("inputs.anchors", inputs.anchors, "n K", sizes=axes)
    if outputs is not None:
        _check_anchors("inputs.anchors", anchors, numbers >= 0, axes["pairs"])
        _check_outputs(losses, numbers, outputs)
