"""What can be asked of the potentials of one sequence: the best, k best, levels, sums, samples.

One recursion for all: forward over the ends of segments, and back along what was chosen.

begins[t, s] is the value of what stands before a segment of label s whose first token is t, ends[t,
s] the value of the segmentations of the first t tokens whose last segment has label s:

    ends[t, s] = plus_l begins[t - l, s] times segments[t - l, l - 1, s]
    begins[t, s'] = plus_s ends[t, s] times transitions[s, s']

(S. Sarawagi and W. Cohen, NIPS 2004, equation 4), O(T (L S + S^2)), over any `core.semiring`: the
maximum, the k largest, the maxima of loss levels, log sum exp. Its leading axes are *E here.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import checked_length, checked_size
from jaxstruct.core.derived_inference import or_padding
from jaxstruct.core.scores import noise
from jaxstruct.core.semiring import Best, Ranked, Sums
from jaxstruct.core.spec import one_example
from jaxstruct.core.types import Array, PyTree
from jaxstruct.segments.potentials import PADDING, SegmentPotentials


class Forward(NamedTuple):
    """What the recursion leaves; see the module.

    Fields:
      begins: [T, *E, S]. ends: [T, *E, S], ends[t - 1] of the first t tokens.
      segments: [T, L, S] by the end, of length l + 1, -inf before the first token and beyond the
        length. steps: the same, or None.
      total: [*E] of all segmentations of the sequence.
    """

    begins: PyTree
    ends: PyTree
    segments: Array
    steps: Array | None
    total: PyTree


def _by_end(table: Array, fill: float) -> Array:
    """[T, L, ..] in row t what starts at token t - l, l = 0..L - 1; `fill` before the first."""
    T, L = table.shape[:2]
    first = jnp.arange(T)[:, None] - jnp.arange(L)[None]
    found = table[jnp.maximum(first, 0), jnp.arange(L)[None]]
    return jnp.where((first >= 0)[..., None], found, fill)


def forward(
    rule: Best, potentials: SegmentPotentials, length: Array, steps: Array | None = None
) -> Forward:
    """The recursion over all positions.

    Args:
      steps: [T, L, S] int32 of `Levels`, or None.
    """
    segments, transitions, start, stop = potentials
    T, L, S = segments.shape
    begin = rule.of(jnp.zeros(S, segments.dtype) if start is None else start)
    real = (jnp.arange(T) < length)[:, None, None]
    scores = jnp.where(real, _by_end(segments, -jnp.inf), -jnp.inf)
    ways = None if steps is None else _by_end(steps, 0)

    def step(window: PyTree, row: tuple[Array, Array | None]) -> tuple[PyTree, tuple]:
        score, way = row
        ended = rule.reduce(rule.times(rule.moved(window, way), score))
        onward = jax.tree.map(lambda leaf: leaf[..., None], ended)
        begun = rule.reduce(rule.times(onward, transitions))
        return jax.tree.map(pushed, window, begun), (rule.entry(window, 0), ended)

    def opened(leaf: Array) -> Array:
        none = jnp.full((*leaf.shape[:-1], L, S), -jnp.inf, leaf.dtype)
        return none.at[..., 0, :].set(leaf)

    def pushed(leaf: Array, new: Array) -> Array:
        return jnp.concatenate([jnp.expand_dims(new, -2), leaf[..., :-1, :]], axis=-2)

    _, (begins, ends) = jax.lax.scan(step, jax.tree.map(opened, begin), (scores, ways))
    last = jax.tree.map(lambda leaf: leaf[jnp.maximum(length - 1, 0)], ends)
    total = rule.reduce(last if stop is None else rule.times(last, stop))
    empty = rule.of(jnp.zeros((), segments.dtype))
    total = jax.tree.map(lambda a, b: jnp.where(length > 0, a, b), total, empty)
    return Forward(begins, ends, scores, ways, total)


def trace_back(
    rule: Best, potentials: SegmentPotentials, length: Array, found: Forward,
    at: Array | int = 0, key: Array | None = None,
) -> Array:  # fmt: skip
    """[T] int32 codes of the segmentation at place `at` of `found.total`.

    Args:
      at: a rank or a level. key: of `Sums`, which draws.
    """
    (T, L, S), dtype = potentials.segments.shape, potentials.segments.dtype
    stop = jnp.zeros(S, dtype) if potentials.stop is None else potentials.stop
    noises = None, None
    if key is not None:
        keys = jax.random.split(key, (T, 2))
        noises = [jax.vmap(lambda key, n=n: noise(key, (n,), dtype))(keys[:, i])
                  for i, n in enumerate((S, L))]  # fmt: skip

    def step(carry: tuple, row: tuple) -> tuple[tuple, Array]:
        label, begin, at = carry
        t, ended, score, way, (of_label, of_length) = row  # segments that end before token t
        onward = jnp.where(t == length, stop, potentials.transitions[:, label])
        new, place = rule.choose(ended, onward, at, noise=of_label)
        rows = jnp.maximum(t - 1 - jnp.arange(L), 0)
        before = jax.tree.map(lambda leaf: jnp.moveaxis(leaf[rows][..., new], 0, -1), found.begins)
        own = None if way is None else way[:, new]
        n, place = rule.choose(before, score[:, new], place, own, of_length)
        chosen = t == begin
        label = jnp.where(chosen, new, label).astype(jnp.int32)
        begin = jnp.where(chosen, t - 1 - n, begin).astype(jnp.int32)
        at = jnp.where(chosen, place, at).astype(jnp.int32)
        code = jnp.where(t <= length, 2 * label + (begin == t - 1), PADDING)
        return (label, begin, at), code.astype(jnp.int32)

    start = jnp.int32(0), jnp.asarray(length, jnp.int32), jnp.asarray(at, jnp.int32)
    rows = jnp.arange(1, T + 1), found.ends, found.segments, found.steps, noises
    return jax.lax.scan(step, start, rows, reverse=True)[1]


class Segmentation(NamedTuple):
    """codes: [T] int32, or [k, T], see `potentials`. score: F, or [k]."""

    codes: Array
    score: Array


class SegmentMarginals(NamedTuple):
    """segments: [T, L, S] probability of each segment, 0 of padding. log_partition: log Z."""

    segments: Array
    log_partition: Array


def checked(potentials: SegmentPotentials, length: Array) -> tuple[SegmentPotentials, Array]:
    """Potentials and length of one sequence as arrays of one floating dtype.

    Raises:
      ValueError: a shape does not fit, or the potentials are no floating-point numbers.
    """
    potentials = one_example(
        "potentials", potentials, {}, segments="T L S", transitions="S S", start="S", stop="S"
    )
    return potentials, checked_length(length, potentials.segments.shape[0])


def viterbi(potentials: SegmentPotentials, length: Array) -> Segmentation:
    """The best segmentation of one sequence.

    Args:
      potentials: of one sequence. length: int32 scalar, 0 <= length <= T.

    Returns:
      Its codes and score. Ties go to the lowest label of the last segment, then to its shortest
      length, and so on towards the front.

    Raises:
      ValueError: a shape or a dtype does not fit.
    """
    potentials, length = checked(potentials, length)
    found = forward(Best(), potentials, length)
    return Segmentation(trace_back(Best(), potentials, length, found), found.total)


def k_best(potentials: SegmentPotentials, length: Array, k: int) -> Segmentation:
    """The k best segmentations, all different, the best first.

    Args:
      k: how many, a Python integer. Others as in `viterbi`.

    Returns:
      codes [k, T] and scores [k]; -1 throughout and -inf where there are fewer.

    Raises:
      ValueError: k < 1; a shape or a dtype does not fit.
    """
    rule = Ranked(checked_size("k", k))
    potentials, length = checked(potentials, length)
    found = forward(rule, potentials, length)
    codes = jax.vmap(lambda at: trace_back(rule, potentials, length, found, at))(jnp.arange(k))
    scores = jnp.stack(found.total)
    return Segmentation(or_padding(codes, scores), scores)


def log_partition(potentials: SegmentPotentials, length: Array) -> Array:
    """log sum_y exp F(y) over all segmentations of one sequence, as `viterbi` takes them."""
    return forward(Sums(), *checked(potentials, length)).total


def marginals(potentials: SegmentPotentials, length: Array) -> SegmentMarginals:
    """P of each segment under exp F / Z: the derivative of log Z in its potential."""
    potentials, length = checked(potentials, length)

    def of(segments: Array) -> Array:
        return log_partition(potentials._replace(segments=segments), length)

    total, found = jax.value_and_grad(of)(potentials.segments)
    return SegmentMarginals(found, total)


def sample(potentials: SegmentPotentials, length: Array, key: Array) -> Array:
    """[T] codes of a segmentation drawn from exp F / Z: forward sums, drawn back from the end."""
    potentials, length = checked(potentials, length)
    found = forward(Sums(), potentials, length)
    return trace_back(Sums(), potentials, length, found, key=key)
