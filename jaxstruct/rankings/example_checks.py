"""Checks of queries, samples and their outputs, on the host before anything compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.checks import as_array, check_record, check_sparse
from jaxstruct.core.spec import checked_lengths
from jaxstruct.core.types import SparseFeatures
from jaxstruct.rankings.inputs import SampleInput
from jaxstruct.rankings.losses import Measure, table_loss

MOST_RELEVANT = 30
"""The largest relevance: gains are 2^relevance."""
MOST_CELLS = 128
"""Numbers of true, and of false positives that a loss is tried for."""


def _check_inputs(d: int, inputs: Any) -> np.ndarray:
    """[n, k] which rows are real; ValueError unless inputs are padded rows of d features."""
    check_record("inputs", inputs, SampleInput, "sample_inputs")
    if isinstance(inputs.rows, SparseFeatures):
        indices, values = map(np.asarray, inputs.rows)
        check_sparse("inputs.rows", indices, values, d, "[n, k, m]")
        n, k = indices.shape[:2]
    else:
        rows = as_array("inputs.rows", inputs.rows, f"[n, k, number_of_features = {d}] numbers")
        if rows.ndim != 3 or rows.shape[2] != d or rows.dtype.kind != "f":
            raise ValueError(
                f"inputs.rows must be [n, k, number_of_features = {d}] floats, got {rows.dtype} of "
                f"shape {rows.shape}"
            )
        n, k = rows.shape[:2]
    length = checked_lengths("inputs.length", inputs.length, n, 1, k)
    return np.arange(k) < length[:, None]


def _check_integers(name: str, given: Any, real: np.ndarray, most: int, words: str) -> np.ndarray:
    """[n, k] integers 0..most where real and -1 elsewhere, or ValueError."""
    found = as_array(name, given, f"[n, k] = {list(real.shape)} {words}")
    if found.shape != real.shape or found.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be [n, k] = {list(real.shape)} {words}, got {found.dtype} of shape "
            f"{found.shape}"
        )
    wrong = np.argwhere(np.where(real, (found < 0) | (found > most), found != -1))
    if wrong.size:
        i, place = wrong[0]
        expected = words if real[i, place] else "-1 on padding"
        raise ValueError(f"{name}[{i}, {place}] is {found[i, place]}: expected {expected}")
    return found


def check_rankings(d: int, inputs: Any, outputs: Any = None) -> None:
    """Raise ValueError unless these are queries, to train on with the relevance of documents."""
    real = _check_inputs(d, inputs)
    words, given = f"relevances 0..{MOST_RELEVANT}", inputs.relevance
    if given is not None:
        given = _check_integers("inputs.relevance", given, real, MOST_RELEVANT, words)
    if outputs is None:
        return
    found = _check_integers("outputs", outputs, real, MOST_RELEVANT, words)
    if given is None or (given != found).any():
        raise ValueError(
            "inputs.relevance must be the outputs of a training, since F compares documents of "
            "different relevance: sample_inputs(rows, relevance)"
        )
    alike = np.where(real, found, found[:, :1])
    if (alike == found[:, :1]).all():
        raise ValueError(
            "outputs have no query with documents of different relevance: no order to learn"
        )


def check_labels(d: int, measure: Measure, inputs: Any, outputs: Any = None) -> None:
    """Raise ValueError unless these are samples, to train on with labels 0 and 1."""
    real = _check_inputs(d, inputs)
    if outputs is None:
        return
    found = _check_integers("outputs", outputs, real, 1, "labels 0 and 1")
    for i, (P, n) in enumerate(zip((found > 0).sum(1), real.sum(1), strict=True)):
        if measure.at is not None and measure.at >= n:
            raise ValueError(
                f"at must be below the examples of a sample, got {measure.at} where inputs[{i}] "
                f"has {n}: all of them would be labelled positive"
            )
        _check_losses(measure, int(P), int(n), f"outputs[{i}] has {P} positives of {n}")


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
