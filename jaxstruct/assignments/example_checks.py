"""Checks of sets to match and of matchings, on the host before anything compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.assignments.inputs import MatchingInput, store_of
from jaxstruct.core.checks import (
    NoOutput,
    check_integers,
    check_record,
    check_sparse,
    checked_int32,
)
from jaxstruct.core.types import PyTree, SparseFeatures


def _check_features(name: str, features: PyTree, d: int, option: str) -> tuple[int, int]:
    """(n, P) of features [n, P, d], dense or sparse."""
    if isinstance(features, SparseFeatures):
        indices = np.asarray(features.indices)
        check_sparse(name, indices, np.asarray(features.values), d, "[n, rows, m]")
        return indices.shape[:2]
    shape = np.shape(features)
    if len(shape) != 3 or shape[2] != d:
        raise ValueError(f"{name} must be [n, rows, {option} = {d}], got shape {shape}")
    return shape[:2]


def allowed_pairs(inputs: MatchingInput) -> np.ndarray:
    """[n, R, C] bool, which pairs may be matched."""
    n, R = np.shape(store_of(inputs.rows))[:2]
    C = np.shape(store_of(inputs.columns))[1]
    if inputs.pairs is None:
        sizes = np.asarray(inputs.sizes)[:, :, None, None]
        return (np.arange(R)[:, None] < sizes[:, 0]) & (np.arange(C) < sizes[:, 1])
    pairs = np.asarray(inputs.pairs)
    allowed = np.zeros((n, R, C), bool)
    i, p = np.nonzero(pairs[:, :, 0] >= 0)
    allowed[i, pairs[i, p, 0], pairs[i, p, 1]] = True
    return allowed


def check_inputs(inputs: Any, widths: tuple[int, int, int], complete: bool) -> None:
    """Raise ValueError unless inputs are padded sets with features of these widths."""
    check_record("inputs", inputs, MatchingInput, "matching_inputs")
    d, e, f = widths
    n, P = _check_features("inputs.features", inputs.features, d, "number_of_features")
    _, R = _check_features("inputs.rows", inputs.rows, e, "row_features")
    _, C = _check_features("inputs.columns", inputs.columns, f, "column_features")
    sizes = checked_int32("inputs.sizes", inputs.sizes, (n, 2))
    wrong = np.flatnonzero(((sizes < 1) | (sizes > [R, C])).any(axis=1))
    if wrong.size:
        i = wrong[0]
        raise ValueError(f"inputs.sizes[{i}] is {sizes[i].tolist()}: expected 1..{R} and 1..{C}")
    if inputs.pairs is None:
        if (sizes.prod(axis=1) > P).any():
            raise ValueError(f"inputs.features hold {P} pairs, fewer than r c of some example")
        return
    _check_pairs(checked_int32("inputs.pairs", inputs.pairs, (n, P, 2)), sizes)
    if complete:
        _check_possible(inputs, sizes)


def _check_pairs(pairs: np.ndarray, sizes: np.ndarray) -> None:
    real = pairs[:, :, 0] >= 0
    wrong = np.argwhere(real & ((pairs < 0) | (pairs >= sizes[:, None])).any(axis=2))
    if wrong.size:
        i, p = wrong[0]
        raise ValueError(
            f"inputs.pairs[{i}][{p}] is {pairs[i, p].tolist()}: example {i} has "
            f"{sizes[i].tolist()} rows and columns"
        )
    places = pairs[:, :, 0].astype(np.int64) * (sizes.max() + 1) + pairs[:, :, 1]
    falls = np.argwhere((np.diff(places, axis=1) <= 0) & real[:, 1:])
    if falls.size:
        i, p = falls[0] + [0, 1]
        raise ValueError(
            f"inputs.pairs[{i}][{p}] is {pairs[i, p].tolist()} after {pairs[i, p - 1].tolist()}: "
            "pairs must be in the order of rows and columns, once each"
        )


def _check_possible(inputs: MatchingInput, sizes: np.ndarray) -> None:
    """Raise `NoOutput` where forbidden pairs leave no complete matching."""
    from scipy.sparse import csr_array  # what jax needs, too
    from scipy.sparse.csgraph import maximum_bipartite_matching

    reasons = {}
    for i, allowed in enumerate(allowed_pairs(inputs)):
        found = int(np.sum(maximum_bipartite_matching(csr_array(allowed)) >= 0))
        if found < sizes[i].min():
            reasons[i] = (
                f"its pairs allow {found} at once, and a complete matching has {sizes[i].min()}: "
                "list more pairs, or let items be unmatched (unmatched=True)"
            )
    if reasons:
        raise NoOutput([*reasons], [*reasons.values()])


def check_matchings(inputs: MatchingInput, outputs: Any, complete: bool) -> None:
    """Raise ValueError unless outputs [n, R] are matchings of the inputs."""
    n, R = np.shape(store_of(inputs.rows))[:2]
    y = np.asarray(outputs)
    check_integers("outputs", y, (n, R))
    sizes, allowed = np.asarray(inputs.sizes), allowed_pairs(inputs)
    C = allowed.shape[2]
    high = np.argwhere((y < -1) | (y >= sizes[:, 1:]) | ((y >= 0) & (np.arange(R) >= sizes[:, :1])))
    if high.size:
        i, row = high[0]
        raise ValueError(
            f"outputs[{i}] matches row {row} to {y[i, row]}: example {i} has {sizes[i].tolist()} "
            "rows and columns (-1 for no column)"
        )
    counts = (y[:, :, None] == np.arange(C)).sum(axis=1)
    twice = np.argwhere(counts > 1)
    if twice.size:
        raise ValueError(f"outputs[{twice[0][0]}] matches column {twice[0][1]} twice")
    barred = (y >= 0) & ~np.take_along_axis(allowed, np.maximum(y, 0)[:, :, None], 2)[:, :, 0]
    if barred.any():
        i, row = np.argwhere(barred)[0]
        raise ValueError(
            f"outputs[{i}] matches row {row} to column {y[i, row]}, a pair that the input does not "
            "have: list it with its features"
        )
    short = np.flatnonzero((y >= 0).sum(axis=1) < sizes.min(axis=1)) if complete else []
    if len(short):
        i = short[0]
        raise ValueError(
            f"outputs[{i}] matches {(y[i] >= 0).sum()} pairs of {sizes[i].min()}: all of the "
            "smaller set must be matched, or take unmatched=True"
        )
