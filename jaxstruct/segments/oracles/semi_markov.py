"""One recursion for all: forward over the ends of segments, and back along what was chosen.

begins[t, s] is the value of what stands before a segment of label s whose first token is t, ends[t,
s] the value of the segmentations of the first t tokens whose last segment has label s:

    ends[t, s] = reduce_l begins[t - l, s] + segments[t - l, l - 1, s]
    begins[t, s'] = reduce_s ends[t, s] + transitions[s, s']

(S. Sarawagi and W. Cohen, NIPS 2004, equation 4), O(T (L S + S^2)). A `Rule` says what a value
carries and what reduce is: the maximum, the k largest, the maxima of loss levels, log sum exp.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.draws import draw
from jaxstruct.core.finite import finite_or_zero, positive_or_one
from jaxstruct.core.largest import k_largest
from jaxstruct.core.types import AnyArray, Array
from jaxstruct.segments.potentials import PADDING, SegmentPotentials


class Rule(Protocol):
    """Values have extra axes [*E], none or one: of ranks or of levels."""

    @property
    def first(self) -> AnyArray:
        """[*E] of the empty segmentation."""
        ...

    def extend(self, values: Array, steps: Array) -> Array:
        """Values [L, S, *E] after segments of these steps [L, S]; their scores come later."""
        ...

    def reduce(self, values: Array) -> Array:
        """[*A, *E] of values [N, *A, *E]."""
        ...

    def choose(self, values: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """(n, its place in E) that made place `at` of the reduction of values [N, *E]."""
        ...

    def came_from(self, values: Array, steps: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """As `choose`, of values [N, *E] before segments of these steps [N]."""
        ...


class Plain:
    """What rules without levels share: a segment leaves the extra axis as it is."""

    def extend(self, values: Array, steps: Array) -> Array:
        """The values."""
        del steps
        return values

    def came_from(self, values: Array, steps: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """As `choose`."""
        del steps
        return self.choose(values, at, key)  # type: ignore[attr-defined]


class Best(Plain):
    """The maximum; ties to the lowest n: of lengths the shortest, of labels the lowest."""

    first = np.zeros(())

    def reduce(self, values: Array) -> Array:
        """The maximum."""
        return jnp.max(values, axis=0)

    def choose(self, values: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """The first maximum."""
        del key
        return jnp.argmax(values), at


class Sums(Plain):
    """log sum exp, -inf of nothing; `choose` draws from the terms of the sum."""

    first = np.zeros(())

    def reduce(self, values: Array) -> Array:
        """log sum exp, whose derivative is 0 where all terms are -inf."""
        top = finite_or_zero(jax.lax.stop_gradient(jnp.max(values, axis=0)))
        total = jnp.sum(jnp.exp(values - top[None]), axis=0)
        return jnp.where(total > 0, jnp.log(positive_or_one(total)) + top, -jnp.inf)

    def choose(self, values: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """n with the probability of its term."""
        return draw(key, values), at


class Ranked(Plain):
    """The k largest, falling."""

    def __init__(self, k: int) -> None:
        """Keep k."""
        self.k = k
        self.first = np.where(np.arange(k) == 0, 0, -np.inf)

    def reduce(self, values: Array) -> Array:
        """The k largest of N k values."""
        flat = jnp.moveaxis(values, -1, 1).reshape(-1, *values.shape[1:-1])
        return jnp.moveaxis(k_largest(self.k, flat)[0], 0, -1)

    def choose(self, values: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """The one of rank `at`."""
        del key
        flat = values.reshape(-1)
        place = k_largest(self.k, flat, jnp.arange(flat.shape[0]))[1][at]
        return place // self.k, place % self.k


class Levels:
    """The maximum of each of H levels; a segment of step c leads from level h to targets[c, h].

    Args:
      targets: [C, H] levels; H or more where the step leads to none.
    """

    def __init__(self, targets: np.ndarray) -> None:
        """Find the levels from which each one is reached."""
        C, H = targets.shape
        came = [[np.flatnonzero(row == h) for h in range(H)] for row in targets]
        width = max(len(one) for row in came for one in row)
        self.sources = np.full((C, H, width), H, np.int32)
        for c, row in enumerate(came):
            for h, one in enumerate(row):
                self.sources[c, h, : len(one)] = one
        self.first = np.where(np.arange(H) == 0, 0, -np.inf)

    def _before(self, values: Array, steps: Array) -> Array:
        """[.., H, Q] the values from which each level is reached, -inf for none."""
        places = jnp.asarray(self.sources)[steps]
        none = jnp.full((*values.shape[:-1], 1), -jnp.inf, values.dtype)
        padded = jnp.concatenate([values, none], axis=-1)
        flat = places.reshape(*places.shape[:-2], -1)
        return jnp.take_along_axis(padded, flat, axis=-1).reshape(places.shape)

    def extend(self, values: Array, steps: Array) -> Array:
        """The best from which each level is reached."""
        return jnp.max(self._before(values, steps), axis=-1)

    def reduce(self, values: Array) -> Array:
        """The maximum of each level."""
        return jnp.max(values, axis=0)

    def choose(self, values: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """The first maximum of level `at`."""
        del key
        return jnp.argmax(values[:, at]), at

    def came_from(self, values: Array, steps: Array, at: Array, key: Any) -> tuple[Array, Array]:
        """The first maximum of level `at`, and the level before it."""
        del key
        before = self._before(values, steps)[:, at]  # [N, Q]
        n, source = jnp.unravel_index(jnp.argmax(before), before.shape)
        return n, jnp.asarray(self.sources)[steps[n], at, source]


class Forward(NamedTuple):
    """What the recursion leaves; see the module.

    Fields:
      begins: [T, S, *E]. ends: [T, S, *E], ends[t - 1] of the first t tokens.
      segments: [T, L, S] by the end, of length l + 1, -inf before the first token and beyond the
        length. steps: the same.
      total: [*E] of all segmentations of the sequence.
    """

    begins: Array
    ends: Array
    segments: Array
    steps: Array
    total: Array


def _by_end(table: Array, fill: float) -> Array:
    """[T, L, ..] in row t what starts at token t - l, l = 0..L - 1; `fill` before the first."""
    T, L = table.shape[:2]
    first = jnp.arange(T)[:, None] - jnp.arange(L)[None]
    found = table[jnp.maximum(first, 0), jnp.arange(L)[None]]
    return jnp.where((first >= 0)[..., None], found, fill)


def _lift(values: Array, like: Array) -> Array:
    """Values with axes of one at the end, as many as `like` has."""
    return values.reshape(*values.shape, *(1,) * (like.ndim - values.ndim))


def forward(
    rule: Rule, potentials: SegmentPotentials, length: Array, steps: Array | None = None
) -> Forward:
    """The recursion over all positions.

    Args:
      steps: [T, L, S] int32 of `Levels`, or None.
    """
    segments, transitions, start, stop = potentials
    T, L, S = segments.shape
    first = jnp.asarray(rule.first, segments.dtype)
    begin = jnp.zeros(S, segments.dtype) if start is None else start
    begin = _lift(begin, first[None]) + first[None]
    real = (jnp.arange(T) < length)[:, None, None]
    scores = jnp.where(real, _by_end(segments, -jnp.inf), -jnp.inf)
    none = jnp.zeros((T, L, 1), jnp.int32)
    ways = none if steps is None else _by_end(steps, 0)

    def step(window: Array, row: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        score, way = row
        values = rule.extend(window, way) + _lift(score, window)
        ended = rule.reduce(values)
        moves = _lift(transitions, values[0][:, None])
        begun = rule.reduce(ended[:, None] + moves)
        return jnp.concatenate([begun[None], window[:-1]]), (window[0], ended)

    window = jnp.full((L, *begin.shape), -jnp.inf, segments.dtype).at[0].set(begin)
    _, (begins, ends) = jax.lax.scan(step, window, (scores, ways))
    last = ends[jnp.maximum(length - 1, 0)]
    last = last if stop is None else last + _lift(stop, last)
    total = jnp.where(length > 0, rule.reduce(last), first)
    return Forward(begins, ends, scores, ways, total)


def trace_back(
    rule: Rule, potentials: SegmentPotentials, length: Array, found: Forward,
    at: Array | int = 0, key: Array | None = None,
) -> Array:  # fmt: skip
    """[T] int32 codes of the segmentation at place `at` of `found.total`.

    Args:
      at: a rank or a level. key: of `Sums`, which draws.
    """
    (T, L, S), dtype = potentials.segments.shape, potentials.segments.dtype
    stop = jnp.zeros(S, dtype) if potentials.stop is None else potentials.stop
    keys = None if key is None else jax.random.split(key, (T, 2))

    def step(carry: tuple, row: tuple) -> tuple[tuple, Array]:
        label, begin, at = carry
        t, ended, score, way, key = row  # segments that end before token t
        onward = jnp.where(t == length, stop, potentials.transitions[:, label])
        new, place = rule.choose(ended + _lift(onward, ended), at, None if key is None else key[0])
        before = found.begins[jnp.maximum(t - 1 - jnp.arange(L), 0), new]
        own = way[:, 0] if way.shape[1] == 1 else way[:, new]
        values = before + _lift(score[:, new], before)
        n, place = rule.came_from(values, own, place, None if key is None else key[1])
        chosen = t == begin
        label = jnp.where(chosen, new, label).astype(jnp.int32)
        begin = jnp.where(chosen, t - 1 - n, begin).astype(jnp.int32)
        at = jnp.where(chosen, place, at).astype(jnp.int32)
        code = jnp.where(t <= length, 2 * label + (begin == t - 1), PADDING)
        return (label, begin, at), code.astype(jnp.int32)

    start = jnp.int32(0), jnp.asarray(length, jnp.int32), jnp.asarray(at, jnp.int32)
    rows = jnp.arange(1, T + 1), found.ends, found.segments, found.steps, keys
    return jax.lax.scan(step, start, rows, reverse=True)[1]
