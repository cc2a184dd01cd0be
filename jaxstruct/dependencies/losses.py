"""Losses of a dependency tree, additive over arcs.

    hamming            Delta = number of words with a wrong head
    labelled_hamming   Delta = number of words with a wrong head or a wrong label

and the same divided by the number of words as "normalised_hamming" and
"normalised_labelled_hamming": 1 - UAS and 1 - LAS of one sentence.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.core.checks import check_choice
from jaxstruct.core.contract import Truth, output_of
from jaxstruct.core.types import Array, static
from jaxstruct.dependencies.potentials import Parse, score_tree

NAMES = ("hamming", "labelled_hamming", "normalised_hamming", "normalised_labelled_hamming")


@static
class ArcLoss:
    """One of the losses of the module.

    Fields:
      of_labels: whether a wrong label counts. by_length: whether it is divided by the length.
      dtype: of Delta.
    """

    of_labels: bool
    by_length: bool
    dtype: str


def arc_loss(name: str, labelled: bool, dtype: str) -> ArcLoss:
    """The loss of a name.

    Raises:
      ValueError: an unknown name, or one of labels where arcs have none.
    """
    check_choice("loss", name, NAMES)
    of_labels = "labelled" in name
    if of_labels and not labelled:
        raise ValueError(f"loss {name!r} needs trees with labels")
    return ArcLoss(of_labels, name.startswith("normalised"), dtype)


def of_count(loss: ArcLoss, y_true: Parse, count: Array) -> Array:
    """The loss of numbers of wrong words."""
    count = count.astype(loss.dtype)
    return count / jnp.maximum(jnp.sum(y_true.heads >= 0), 1) if loss.by_length else count


def agreeing(known: Parse, words: int) -> Array:
    """[T + 1, T, R or 1] bool: the arcs that agree with what is known of a sentence of T words.

    Args:
      known: bool tables, heads [T, H] of any H, labels [T, R] or None.
    """
    heads = known.heads[:, : words + 1]
    heads = jnp.pad(heads, ((0, 0), (0, words + 1 - heads.shape[1]))).T[:, :, None]
    return heads if known.labels is None else heads & known.labels[None]


def delta(loss: ArcLoss, y_true: Parse | Truth, y: Parse) -> Array:
    """Delta(y_true, y) of trees of one sentence, a scalar."""
    if isinstance(y_true, Truth):
        T = y.heads.shape[0]
        costs = arc_costs(loss, y_true, (T + 1, T, 1))
        return score_tree(costs, y.heads, y.labels if loss.of_labels else None, T)
    wrong = y.heads != y_true.heads
    if loss.of_labels:
        wrong |= y.labels != y_true.labels
    return of_count(loss, y_true, jnp.sum(wrong & (y_true.heads >= 0)))


def arc_costs(loss: ArcLoss, y_true: Parse | Truth, shape: tuple[int, ...]) -> Array:
    """[T + 1, T, R or 1] what each arc would cost, 0 on padding and where it agrees with `Truth`.

    Args:
      shape: (T + 1, T, R) of the potentials.
    """
    y = output_of(y_true)
    if isinstance(y_true, Truth):
        known = y_true.numbers if loss.of_labels else y_true.numbers._replace(labels=None)
        right = agreeing(known, shape[1])
    else:
        right = jnp.arange(shape[0])[:, None, None] == y.heads[None, :, None]
        if loss.of_labels:
            right &= jnp.arange(shape[2])[None, None] == y.labels[None, :, None]
    return of_count(loss, y, ~right & (y.heads >= 0)[None, :, None])
