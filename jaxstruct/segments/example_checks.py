"""What `segmenter` refuses before anything compiles: values of the examples, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.chains import example_checks as chain_checks
from jaxstruct.core.spec import array, checked_lengths, refuse
from jaxstruct.segments.losses import SegmentLoss

_MADE = ": segment_inputs makes what training reads"


def check_inputs(d: int, phrases: int, longest: int, inputs: Any, training: bool) -> None:
    """Raise ValueError unless padded inputs are of d features and f phrases; inputs: [n]."""
    sizes = chain_checks.check_features(d, inputs.features)
    length = checked_lengths("inputs.length", inputs.length, sizes["n"], 0, sizes["T"])
    name, within = "inputs.phrases", (range(phrases + 1), f"{phrases} for no phrase")
    array(name, inputs.phrases, "n T M P", "integers", sizes, within)
    if sizes["M"] > longest:
        raise ValueError(
            f"{name} must be [n, T, M, P], M <= longest = {longest}: it is {sizes['M']}"
        )
    if not training or inputs.gram is None:  # a dual solver refuses these when it asks
        return
    for name, axes in (("gram", "n T T"), ("same", "n T M P")):
        array(f"inputs.{name}", getattr(inputs, name), axes, None, sizes, advice=_MADE)
    chain_checks.check_gram(inputs.features, np.asarray(inputs.gram), length)


def check_codes(allowed: np.ndarray, length: np.ndarray, outputs: Any) -> None:
    """Raise ValueError unless outputs [n, T] are codes of segmentations of these lengths.

    Args:
      allowed: [L, S] bool, the lengths that segments of each label may have.
    """
    L, S = allowed.shape
    y = chain_checks.check_labels(2 * S, length, outputs, {"n": len(length)})
    begins, label, steps = y % 2 == 1, y // 2, np.arange(y.shape[1])
    real = y >= 0
    before = np.pad(label, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    words = "2 s + 1 to begin a segment of label s, and 2 s to carry it on, but none of {} is open"
    inside = real & ~begins & (label != before)
    refuse("outputs", y, inside, lambda i, t: words.format(label[i, t]))
    place = steps - np.maximum.accumulate(np.where(begins, steps, 0), axis=1)
    long = real & (~allowed[np.minimum(place, L - 1), label] | (place >= L))
    most = allowed.sum(axis=0)
    words = "a segment of label {} of at most {} tokens: raise longest, or split it"
    refuse("outputs", y, long, lambda i, t: words.format(label[i, t], most[label[i, t]]))


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
