"""Checks of sets to match and of matchings, on the host before anything compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.assignments.potentials import MatchingInput, store_of
from jaxstruct.core.checks import NoOutput, check_record
from jaxstruct.core.spec import array, checked_int32, features, refuse


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
    check_record("inputs", inputs, MatchingInput, "jaxstruct.assignments.prepare")
    options = "number_of_features", "row_features", "column_features"
    axes: dict[str, int] = dict(zip(options, widths, strict=True))
    for field, letter, option in zip(("features", "rows", "columns"), "PRC", options, strict=True):
        features(f"inputs.{field}", getattr(inputs, field), f"n {letter}", axes, option)
    sizes = checked_int32("inputs.sizes", inputs.sizes, "n 2", sizes=axes)
    most = [axes["R"], axes["C"]]
    wrong = ((sizes < 1) | (sizes > most)).any(axis=1)
    refuse("inputs.sizes", sizes, wrong, f"1..{most[0]} rows and 1..{most[1]} columns")
    if inputs.pairs is None:
        if (sizes.prod(axis=1) > axes["P"]).any():
            raise ValueError(
                f"inputs.features hold {axes['P']} pairs, fewer than r c of some example"
            )
        return
    _check_pairs(checked_int32("inputs.pairs", inputs.pairs, "n P 2", sizes=axes), sizes)
    if complete:
        _check_possible(inputs, sizes)


def _sets(sizes: np.ndarray) -> str:
    return f"{sizes[0]} rows and {sizes[1]} columns"


def _check_pairs(pairs: np.ndarray, sizes: np.ndarray) -> None:
    real = pairs[:, :, 0] >= 0
    outside = real & ((pairs < 0) | (pairs >= sizes[:, None])).any(axis=2)
    refuse("inputs.pairs", pairs, outside, lambda i, _: _sets(sizes[i]))
    places = pairs[:, :, 0].astype(np.int64) * (sizes.max() + 1) + pairs[:, :, 1]
    falls = np.zeros_like(real)
    falls[:, 1:] = (np.diff(places, axis=1) <= 0) & real[:, 1:]
    words = "pairs in the order of rows and columns, once each"
    refuse("inputs.pairs", pairs, falls, lambda i, p: f"{words}, after {pairs[i, p - 1].tolist()}")


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
    sizes, allowed = np.asarray(inputs.sizes), allowed_pairs(inputs)
    n, R, C = allowed.shape
    y = array("outputs", outputs, "n R", sizes={"n": n, "R": R})
    rows, columns = sizes[:, :1], sizes[:, 1:]
    outside = (y < -1) | (y >= columns) | ((y >= 0) & (np.arange(R) >= rows))
    refuse("outputs", y, outside, lambda i, _: f"{_sets(sizes[i])}, and -1 for no column")
    twice = (y[:, :, None] == np.arange(C)).sum(axis=1).max(axis=1, initial=0) > 1
    refuse("outputs", y, twice, "no column twice")
    barred = (y >= 0) & ~np.take_along_axis(allowed, np.maximum(y, 0)[:, :, None], 2)[:, :, 0]
    refuse("outputs", y, barred, "a pair that the input has: list it with its features")
    matched, smaller = (y >= 0).sum(axis=1), sizes.min(axis=1)
    refuse(
        "outputs", y, complete & (matched < smaller),
        lambda i: f"{smaller[i]} pairs, all of the smaller set matched, not {matched[i]}: or take "
        "unmatched=True",
    )  # fmt: skip
