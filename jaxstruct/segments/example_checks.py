"""What `segmenter` refuses before anything compiles: values of the examples, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.chains import example_checks as chain_checks
from jaxstruct.core.checks import as_array
from jaxstruct.core.spec import checked_lengths
from jaxstruct.segments.losses import SegmentLoss


def check_inputs(d: int, phrases: int, longest: int, inputs: Any, training: bool) -> None:
    """Raise ValueError unless padded inputs are of d features and f phrases; inputs: [n]."""
    n, T = chain_checks.check_features(d, inputs.features)
    if T < 1:
        raise ValueError("inputs need at least one (padded) position, got T = 0")
    length = checked_lengths("inputs.length", inputs.length, n, 0, T)
    wanted = f"[n, T, M, P] integers, n = {n}, T = {T}, M <= longest = {longest}"
    given = as_array("inputs.phrases", inputs.phrases, wanted)
    fits = given.ndim == 4 and given.shape[:2] == (n, T) and given.shape[2] <= longest
    if not fits or given.dtype.kind not in "iu":
        raise ValueError(f"inputs.phrases must be {wanted}, got {given.dtype} of {given.shape}")
    if given.size and not 0 <= given.min() <= given.max() <= phrases:
        raise ValueError(
            f"inputs.phrases must be in 0..{phrases}, the number of phrases for none, got "
            f"{given.min()}..{given.max()}"
        )
    if not training or inputs.gram is None:  # a dual solver refuses these when it asks
        return
    if np.shape(inputs.gram) != (n, T, T) or np.shape(inputs.same) != given.shape:
        raise ValueError("inputs lack what training reads: make them by segment_inputs")
    chain_checks.check_gram(inputs.features, np.asarray(inputs.gram), length)


def check_codes(allowed: np.ndarray, length: np.ndarray, outputs: Any) -> None:
    """Raise ValueError unless outputs [n, T] are codes of segmentations of these lengths.

    Args:
      allowed: [L, S] bool, the lengths that segments of each label may have.
    """
    L, S = allowed.shape
    y = as_array("outputs", outputs, "[n, T] integer codes")
    if y.ndim != 2 or y.shape[0] != len(length):
        raise ValueError(f"outputs must be [n, T] as the inputs, got shape {y.shape}")
    chain_checks.check_labels(2 * S, length, y)
    begins, label, steps = y % 2 == 1, y // 2, np.arange(y.shape[1])
    real = y >= 0
    before = np.pad(label, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    wrong = np.argwhere(real & ~begins & (label != before))
    if wrong.size:
        i, t = wrong[0]
        raise ValueError(
            f"outputs[{i}, {t}] is {y[i, t]}, inside a segment of label {label[i, t]}, but no such "
            f"segment is open: 2 s + 1 begins a segment of label s, 2 s carries it on"
        )
    place = steps - np.maximum.accumulate(np.where(begins, steps, 0), axis=1)
    wrong = np.argwhere(real & ~allowed[np.minimum(place, L - 1), label] | real & (place >= L))
    if wrong.size:
        i, t = wrong[0]
        most = int(allowed[:, label[i, t]].sum())
        raise ValueError(
            f"outputs[{i}, {t}] stands in a segment of label {label[i, t]} of more than {most} "
            f"tokens, the most that it may have ({len(wrong)} such): raise longest, or split it"
        )


def check_counts(loss: SegmentLoss, outputs: Any) -> None:
    """Raise ValueError unless every true output has fewer segments that count than N."""
    y = np.asarray(outputs)
    begins = (y % 2 == 1) & (y >= 0)
    if loss.outside is not None:
        begins &= y // 2 != loss.outside
    counts = begins.sum(axis=1)
    if counts.size and min(loss.most_segments, y.shape[1] + 1) <= counts.max():
        i = int(counts.argmax())
        raise ValueError(
            f"most_segments is {loss.most_segments}, but outputs[{i}] has {counts[i]} segments "
            f"that count: the loss f1 needs most_segments > {counts[i]}"
        )
