"""Checks of queries, samples and their outputs, on the host before anything compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.checks import check_record
from jaxstruct.core.spec import array, checked_lengths, features
from jaxstruct.rankings.inputs import SampleInput
from jaxstruct.rankings.losses import Measure, table_loss

MOST_RELEVANT = 30
"""The largest relevance: gains are 2^relevance."""
MOST_CELLS = 128
"""Numbers of true, and of false positives that a loss is tried for."""


def _check_inputs(d: int, inputs: Any) -> dict[str, int]:
    """The sizes n and k; ValueError unless inputs are padded rows of d features."""
    check_record("inputs", inputs, SampleInput, "sample_inputs")
    sizes = {"number_of_features": d}
    features("inputs.rows", inputs.rows, "n k", sizes, kind="floats")
    checked_lengths("inputs.length", inputs.length, sizes["n"], 1, sizes["k"])
    return sizes


def check_rankings(d: int, inputs: Any, outputs: Any = None) -> None:
    """Raise ValueError unless these are queries, to train on with the relevance of documents."""
    sizes = _check_inputs(d, inputs)

    def checked(name: str, grades: Any) -> np.ndarray:
        grades_of = range(MOST_RELEVANT + 1), "relevances"
        return array(name, grades, "n k", "integers", sizes, grades_of, length=inputs.length)

    given = inputs.relevance
    if given is not None:
        given = checked("inputs.relevance", given)
    if outputs is None:
        return
    found = checked("outputs", outputs)
    if given is None or (given != found).any():
        raise ValueError(
            "inputs.relevance must be the outputs of a training, since F compares documents of "
            "different relevance: sample_inputs(rows, relevance)"
        )
    if ((found == found[:, :1]) | (found < 0)).all():
        raise ValueError(
            "outputs have no query with documents of different relevance: no order to learn"
        )


def check_labels(d: int, measure: Measure, inputs: Any, outputs: Any = None) -> None:
    """Raise ValueError unless these are samples, to train on with labels 0 and 1."""
    sizes = _check_inputs(d, inputs)
    if outputs is None:
        return
    length = np.asarray(inputs.length)
    found = array("outputs", outputs, "n k", "integers", sizes, range(2), length=length)
    for i, (P, n) in enumerate(zip((found > 0).sum(1).tolist(), length.tolist(), strict=True)):
        if measure.at is not None and measure.at >= n:
            raise ValueError(
                f"at must be below the examples of a sample, got {measure.at} where inputs[{i}] "
                f"has {n}: all of them would be labelled positive"
            )
        _check_losses(measure, P, n, f"outputs[{i}] has {P} positives of {n}")


def _check_losses(measure: Measure, P: int, n: int, where: str) -> None:
    """Raise ValueError unless Delta is 0 for the truth, and >= 0 in every cell (of large samples in
    many)."""
    if not callable(measure.name):
        return
    tp, fp = (np.unique(np.linspace(0, most, MOST_CELLS).astype(int)) for most in (P, n - P))
    tp, fp = (each.reshape(-1).astype(float) for each in np.meshgrid(tp, fp, indexing="ij"))
    losses = np.asarray(table_loss(measure, tp, fp, np.full(len(tp), P), np.full(len(tp), n)))
    truth = int(np.flatnonzero((tp == P) & (fp == 0))[0])
    if losses.shape != tp.shape or losses[truth] != 0:
        raise ValueError(
            "loss must be 0 for the true labels and of the shape of its arguments, got "
            f"{losses[truth] if losses.shape == tp.shape else losses.shape} where {where}"
        )
    wrong = np.flatnonzero(~(losses >= 0) | np.isinf(losses))
    if wrong.size:
        j = wrong[0]
        raise ValueError(
            f"loss must be finite and >= 0, got {losses[j]} for tp {tp[j]:g}, fp {fp[j]:g}, "
            f"fn {P - tp[j]:g}, tn {n - P - fp[j]:g}: a measure that is to be large is 1 - it, and "
            "quotients need jnp.maximum(.., 1) below"
        )
