"""Potentials of segmentations, and the codes of tokens that write a segmentation down.

A segmentation of l tokens divides them into segments of 1..L tokens, each with a label in 0..S - 1.
It is [T] int32 codes: 2 s + 1 where a segment of label s begins, 2 s inside it, PADDING beyond the
length. Every segmentation has one such array, and no other has it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array

PADDING = -1
"""The code of positions beyond the length of a sequence."""


class SegmentPotentials(NamedTuple):
    """Potentials of ONE sequence with T positions (padding included), S labels, lengths 1..L.

    F(y) = start[s_1] + sum_j segments[b_j, e_j - b_j - 1, s_j] + sum_j transitions[s_j, s_{j + 1}]
           + stop[s_m]

    over the segments [b_j, e_j) of y, e_j = b_{j + 1}; a sequence of length 0 has the score 0. A
    potential of -inf forbids; every prefix of the sequence must keep a segmentation.

    Fields:
      segments: [T, L, S] of the segments with first token t, length l + 1 and label s. Those that
        reach beyond the length of the sequence are never read.
      transitions: [S, S], the first index is the earlier label.
      start, stop: [S], or None for zeros.
    """

    segments: Array
    transitions: Array
    start: Array | None = None
    stop: Array | None = None


class SegmentTheta(NamedTuple):
    """Potentials as the structure makes them, linear in w but for the length.

    Fields:
      tokens: [T, 3, S] of every token of a segment, and more of its first and of its last one.
      lengths: [L, S]. transitions: [S, S]. start, stop: [S] or None.
      phrases: [T, M, S] of whole segments with first token t of length l + 1 <= M <= L, or None.
      length: int32 scalar.
    """

    tokens: Array
    lengths: Array
    transitions: Array
    start: Array | None
    stop: Array | None
    phrases: Array | None
    length: Array


def over_segments(values: Array, lengths: int) -> Array:
    """[T, L, ..] values[T, ..] at token t + l, that of the last position beyond it."""
    T = values.shape[0]
    return values[jnp.minimum(jnp.arange(T)[:, None] + jnp.arange(lengths)[None], T - 1)]


def segment_potentials(theta: SegmentTheta, allowed: Array) -> SegmentPotentials:
    """What the oracles take. Sums are taken token by token, so that those of integers are exact.

    Args:
      allowed: [L, S] bool, False forbids segments of this length and label.
    """
    L = theta.lengths.shape[0]
    every, first, last = jnp.moveaxis(theta.tokens, 1, 0)
    total = jnp.cumsum(over_segments(every, L), axis=1) + over_segments(last, L)
    total = total + first[:, None] + theta.lengths[None]
    if theta.phrases is not None:
        total = total.at[:, : theta.phrases.shape[1]].add(theta.phrases)
    segments = jnp.where(allowed[None], total, -jnp.inf)
    return SegmentPotentials(segments, theta.transitions, theta.start, theta.stop)


class Codes(NamedTuple):
    """What the codes [T] of a segmentation say of each token.

    Fields:
      real, begins, ends: [T] bool. label: [T], 0 on padding.
      place: [T] how many tokens of its segment stand before it.
    """

    real: Array
    begins: Array
    ends: Array
    label: Array
    place: Array


def read_codes(y: Array) -> Codes:
    """The codes [T] of a segmentation, taken apart."""
    real, steps = y >= 0, jnp.arange(y.shape[0])
    begins = real & (y % 2 == 1)
    following = jnp.append(y[1:], PADDING)
    ends = real & ((following < 0) | (following % 2 == 1))
    place = steps - jax.lax.cummax(jnp.where(begins, steps, 0))
    return Codes(real, begins, ends, jnp.maximum(y, 0) // 2, place)


def token_parts(theta: SegmentTheta, y: Array) -> Array:
    """[T] the parts of F(y) at each token: of a whole segment at its last, of labels at its first.

    They sum to F(y).
    """
    T, L = theta.tokens.shape[0], theta.lengths.shape[0]
    real, begins, ends, label, place = read_codes(y)
    steps, length = jnp.arange(T), jnp.minimum(place, L - 1)
    every, first, last = theta.tokens[steps, :, label].T
    parts = jnp.where(real, every, 0) + jnp.where(begins, first, 0)
    parts = parts + jnp.where(ends, last + theta.lengths[length, label], 0)
    before = theta.transitions[label[:-1], label[1:]]
    parts = parts.at[1:].add(jnp.where(begins[1:], before, 0))
    if theta.phrases is not None:
        M = theta.phrases.shape[1]
        whole = theta.phrases[steps - place, jnp.minimum(length, M - 1), label]
        parts = parts + jnp.where(ends & (length < M), whole, 0)
    if theta.start is not None:
        parts = parts.at[0].add(jnp.where(real[0], theta.start[label[0]], 0))
    if theta.stop is not None:
        at_end = ends & (jnp.append(y[1:], PADDING) < 0)
        parts = parts + jnp.where(at_end, theta.stop[label], 0)
    return parts


def is_allowed(potentials: SegmentPotentials, y: Array) -> Array:
    """Whether the segments of y are of lengths that their labels take."""
    L = potentials.segments.shape[1]
    codes = read_codes(y)
    starts = jnp.arange(y.shape[0]) - codes.place
    own = potentials.segments[starts, jnp.minimum(codes.place, L - 1), codes.label]
    return ~jnp.any(codes.ends & ((codes.place >= L) | (own == -jnp.inf)))


def score(theta: SegmentTheta, y: Array) -> Array:
    """F(y), linear in the potentials."""
    return jnp.sum(token_parts(theta, y))
