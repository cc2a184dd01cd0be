"""Potentials of a dependency tree and the score of a tree under them.

Every word has a head, another word or the root, and every arc a label of R (one where arcs have
none). F(y) = sum_m potentials[y_m, m, r_m]. Exactly one word hangs on the root, as in Universal
Dependencies. Heads are 0 for the root and 1..T for words; children are words 0..T-1, so that word m
is head m + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxstruct.core.checks import checked_length
from jaxstruct.core.semiring import lift
from jaxstruct.core.types import AnyArray, Array, static

PADDING = -1
"""The head and the label of positions beyond the length of a sentence."""


class Parse(NamedTuple):
    """A dependency tree over at most T words.

    Fields:
      heads: [T] int32, 0 for the root and 1..T for words, PADDING beyond the length.
      labels: [T] int32 of the arcs into each word, PADDING beyond the length; None without labels.
    """

    heads: AnyArray
    labels: Any = None


@static
class TreeKind:
    """Which outputs there are.

    Fields:
      labelled: whether arcs have labels. projective: whether no two arcs cross. labels: R.
    """

    labelled: bool
    projective: bool
    labels: int

    def parse(self, heads: Array, labels: Array) -> Parse:
        """Heads and labels as outputs have them."""
        return Parse(heads, labels if self.labelled else None)


def arcs_differ(a: Parse, b: Parse) -> Array:
    """[..] bool: the words into which two trees have another arc."""
    found = a.heads != b.heads
    return found if a.labels is None else found | (a.labels != b.labels)


class Decoded(NamedTuple):
    """Heads and labels [T] of a tree (or [k, T] of several) and its score F (or [k])."""

    heads: Array
    labels: Array
    score: Array


def decoded(heads: Array, labels: Array, score: Array, length: Array) -> Decoded:
    """A tree, PADDING beyond the length, and throughout where its score is -inf; or k trees."""
    some = (score > -jnp.inf)[..., None]
    real = some & lift(is_word(length, heads.shape[-1]), some)
    heads, labels = (jnp.where(real, leaf, PADDING).astype(jnp.int32) for leaf in (heads, labels))
    return Decoded(heads, labels, score)


def is_word(length: Array, words: int) -> Array:
    """[T] bool: the positions before `length`."""
    return jnp.arange(words) < length


def real_arcs(length: Array, words: int) -> Array:
    """[T + 1, T] bool: arcs from the root or another word of the sentence to a word of it."""
    head, child = jnp.arange(words + 1)[:, None], jnp.arange(words)[None]
    return (head <= length) & (child < length) & (head != child + 1)


def score_tree(potentials: Array, heads: Array, labels: Array | None, length: Array) -> Array:
    """F(y) of one tree, differentiable in the potentials.

    Args:
      potentials: [T + 1, T, R]. heads, labels: [T] int32; positions beyond `length` are ignored.
        Labels are None for the first of all. length: int32 scalar.
    """
    potentials = jnp.asarray(potentials)
    _, T, R = potentials.shape
    label = 0 if labels is None else jnp.clip(labels, 0, R - 1)
    at = jnp.clip(heads, 0, T), jnp.arange(T), label
    return jnp.sum(jnp.where(is_word(length, T), potentials[at], 0))


def checked_potentials(potentials: Array, length: Array) -> tuple[Array, Array]:
    """Potentials [T + 1, T, R] and length of one sentence; what is no arc of it is -inf.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials = jnp.asarray(potentials)
    shape = potentials.shape
    if len(shape) != 3 or 0 in shape or shape[0] != shape[1] + 1:
        raise ValueError(
            "potentials must be [T + 1, T, R] of one sentence (head, child, label; R = 1 without "
            f"labels), T >= 1 and R >= 1, got shape {shape}; use jax.vmap for a batch"
        )
    if not jnp.issubdtype(potentials.dtype, jnp.floating):
        raise ValueError(f"potentials must be floating-point numbers, got {potentials.dtype}")
    length = checked_length(length, shape[1], 1)
    real = real_arcs(length, shape[1])[..., None]
    return jnp.where(real, potentials, -jnp.inf), length
