"""Semirings of dynamic programs: the maximum, the k largest, a maximum for each level, log sums.

The best output, the k best, loss levels, log Z and samples of a structure differ in one thing: what
alternatives are reduced to. A recursion that is written with the functions of `Best` is all of
them:

    forward     values'[s'] = plus_s values[s] times scores[s, s']
    backward    which s made a place of values'[s'], and of which place of values[s]

A value is an array, or a tuple of arrays. Its leading axis, where it has one (`leading`), holds the
places: the levels. Ranks are a tuple. Places of `Best` and `Sums` are 0. Arrays may have the batch
on the last axis, over which XLA vectorises on a CPU. Where outputs are trees, two parts of an
output meet in the `product` of their values, and `split` is the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.device import runs_on_cpu
from jaxstruct.core.scores import drawn, finite_or_zero, k_largest, noise, positive_or_one
from jaxstruct.core.types import Array, PyTree

UNROLLED = 16
"""Up to so many alternatives a fold is written out; a loop over more takes a few a round."""


def lift(column: Array, like: Array) -> Array:
    """The array, with axes of length 1 in front until it has as many as `like`."""
    return column.reshape((1,) * (like.ndim - column.ndim) + column.shape)


def fold(count: int, together: int, plus: Callable, term: Callable) -> PyTree:
    """plus(.. plus(term(0), term(1)) .., term(count - 1)), so that no table of all terms is made.

    A loop takes so many terms `together`; with fewer than two rounds of it there is no loop.
    """

    def several(value: PyTree, places: Any) -> PyTree:
        return reduce(lambda value, n: plus(value, term(n)), places, value)

    rounds = (count - 1) // together
    if rounds < 2:
        return several(term(0), range(1, count))
    rest = count - rounds * together

    def turn(i: Array, value: PyTree) -> PyTree:
        return several(value, (rest + i * together + j for j in range(together)))

    return jax.lax.fori_loop(0, rounds, turn, several(term(0), range(1, rest)))


def better_of(first: tuple[Array, Array], new: tuple[Array, Array]) -> tuple[Array, Array]:
    """The pair (value, place) of the larger value; of equals the first."""
    better = new[0] > first[0]
    return jnp.where(better, new[0], first[0]), jnp.where(better, new[1], first[1])


def argmax_first(count: int, term: Callable, *, loop: bool = False) -> tuple[Array, Array]:
    """(max, argmax) over n = 0..count - 1 of term(n); ties to the lowest n.

    With `loop` there is a loop even for a few, for a term that is read several times: XLA would
    compute it anew for each reader.
    """

    def pair(n: Array | int) -> tuple[Array, Array]:
        value = term(n)
        return value, jnp.full(value.shape, n, jnp.int32)

    few = max(1, min(2, (count - 1) // 2))
    return fold(count, few if loop and count <= UNROLLED else 8, better_of, pair)


def best_of_first(count: Array, most: int, term: Callable) -> tuple[Array, Array]:
    """`argmax_first` over n = 0..count - 1, a number of the program, at least 1 and at most `most`.

    On a CPU a loop, two terms a turn; elsewhere one array operation over all.
    """
    if not runs_on_cpu():
        values = Best().listed(count, most, term)
        return jnp.max(values, axis=0), jnp.argmax(values, axis=0).astype(jnp.int32)

    def several(i: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        for n in (jnp.minimum(2 * i + j, count - 1) for j in range(2)):
            value = term(n)
            found = better_of(found, (value, jnp.broadcast_to(n, value.shape)))
        return found

    shape = jax.eval_shape(term, count)
    none = jnp.full(shape.shape, -jnp.inf, shape.dtype), jnp.zeros(shape.shape, jnp.int32)
    return jax.lax.fori_loop(0, (count + 1) // 2, several, none)


class Best:
    """The maximum; of equal alternatives the first."""

    leading = 0

    def together(self, count: int) -> int:
        """How many of `count` alternatives a turn of a loop takes."""
        return 4 if count > UNROLLED else UNROLLED

    def of(self, scores: Array) -> PyTree:
        """The values of single alternatives with these scores, at place 0."""
        return scores

    def plus(self, a: PyTree, b: PyTree) -> PyTree:
        """The value of the alternatives of both."""
        return jnp.maximum(a, b)

    def join(self, *values: PyTree) -> PyTree:
        """The value of the alternatives of all."""
        return reduce(self.plus, values)

    def times(self, values: PyTree, scores: Array) -> PyTree:
        """The values after scores were added to every alternative."""
        return jax.tree.map(lambda leaf: leaf + lift(scores, leaf), values)

    def moved(self, values: PyTree, steps: Any) -> PyTree:
        """The values after the steps from place to place that parts make: see `Levels`."""
        del steps
        return values

    def entry(self, values: PyTree, n: Array | int) -> PyTree:
        """Values [N, ..] of alternative n."""
        return jax.tree.map(lambda leaf: leaf[(slice(None),) * self.leading + (n,)], values)

    def reduce(self, values: PyTree) -> PyTree:
        """[..] of values [N, ..]."""
        N = jax.tree.leaves(values)[0].shape[self.leading]
        return fold(N, self.together(N), self.plus, lambda n: self.entry(values, n))

    def contract(self, values: PyTree, table: Array) -> PyTree:
        """[.., M, B] plus over n of values [N, .., B] times a table [N, .., M, B or 1]."""

        def term(n: Array | int) -> PyTree:
            parts = jax.tree.map(lambda leaf: leaf[..., None, :], self.entry(values, n))
            return self.times(parts, table[n])

        return fold(len(table), self.together(len(table)), self.plus, term)

    def total(self, count: Array, most: int, term: Callable) -> PyTree:
        """plus over n = 0..count - 1 of term(n); the program knows no more than count <= most.

        On a CPU a loop over those that there are; elsewhere one array operation over all.
        """
        shapes = jax.eval_shape(term, count)
        if runs_on_cpu():
            none = jax.tree.map(lambda leaf: jnp.full(leaf.shape, -jnp.inf, leaf.dtype), shapes)
            return jax.lax.fori_loop(0, count, lambda n, value: self.plus(value, term(n)), none)
        return self.reduce(self.listed(count, most, term))

    def scan(self, step: Callable, values: PyTree, rows: PyTree) -> PyTree:
        """The values after step(rule, values, row) of every row, in turn: a loop of the program."""
        return jax.lax.scan(lambda own, row: (step(self, own, row), None), values, rows)[0]

    def listed(self, count: Array, most: int, term: Callable) -> PyTree:
        """Values [most, ..] of term(n), -inf from n = count on."""
        places = jnp.arange(most)
        values = jax.vmap(term, out_axes=self.leading)(jnp.minimum(places, count - 1))

        def real(leaf: Array) -> Array:
            there = (places < count).reshape(-1, *(1,) * (leaf.ndim - self.leading - 1))
            return jnp.where(there, leaf, -jnp.inf)

        return jax.tree.map(real, values)

    def product(self, a: PyTree, b: PyTree, count: Array | None = None) -> PyTree:
        """The values of pairs, one alternative of each; `a` has no place from `count` on."""
        del count
        return jax.tree.map(jnp.add, a, b)

    def split(
        self, a: PyTree, b: PyTree, at: Array, noise: Any = None
    ) -> tuple[Array, Array, Array]:
        """(n, place in a, place in b) of the pair that made place `at` of the reduced products.

        Args:
          a, b: values of [N, ..]. at: [..] int32. noise: [N, ..] of `Sums`.
        """
        n, at = self.choose(a, b, at, noise=noise)
        return n, at, at

    def choose(
        self, values: PyTree, scores: Any, at: Array, step: Any = None, noise: Any = None
    ) -> tuple[Array, Array]:
        """The alternative that made place `at` of the reduction of `values` times `scores`.

        Args:
          values: of [N, ..]. scores: [N, ..]. at: [..] int32. step: [N or 1, ..] of the part that
            the values were `moved` by, before the reduction or after it. noise: of `Sums`.

        Returns:
          n and its place in the values, [..] int32.
        """
        del step, noise
        return argmax_first(len(scores), lambda n: values[n] + scores[n])[1], at


def _log(total: Array, top: Array) -> Array:
    """log(total exp(top)), -inf of 0."""
    return jnp.where(total > 0, jnp.log(positive_or_one(total)) + top, -jnp.inf)


class Sums(Best):
    """log sum exp, -inf of nothing; `choose` draws from the terms of the sum by Gumbel `noise`."""

    def plus(self, a: PyTree, b: PyTree) -> PyTree:
        """Log of the sum of both."""
        return self.join(a, b)

    def join(self, *values: PyTree) -> PyTree:
        """Log of the sum of all, as `reduce` but not in one array, which takes longer."""
        top = finite_or_zero(jax.lax.stop_gradient(reduce(jnp.maximum, values)))
        total = reduce(jnp.add, [jnp.exp(value - top) for value in values])
        return _log(total, top)

    def reduce(self, values: PyTree) -> PyTree:
        """log sum exp, whose derivative is 0 where all terms are -inf."""
        top = finite_or_zero(jax.lax.stop_gradient(jnp.max(values, axis=0)))
        return _log(jnp.sum(jnp.exp(values - top[None]), axis=0), top)

    def total(self, count: Array, most: int, term: Callable) -> PyTree:
        """As in `Best`, in two loops: first the largest term, then the sum."""
        if not runs_on_cpu():
            return super().total(count, most, term)
        top = finite_or_zero(Best().total(count, most, term))

        def add(n: Array, total: Array) -> Array:
            return total + jnp.exp(term(n) - top)

        return jnp.log(jax.lax.fori_loop(0, count, add, jnp.zeros_like(top))) + top

    def contract(self, values: PyTree, table: Array) -> PyTree:
        """As in `Best`, by exponentials of all terms."""
        return self.reduce(self.times(values[..., None, :], table))

    def choose(
        self, values: PyTree, scores: Any, at: Array, step: Any = None, noise: Any = None
    ) -> tuple[Array, Array]:
        """n with the probability of its term; noise: [N, ..] of `core.scores`."""
        del step
        drawn = argmax_first(len(scores), lambda n: values[n] + scores[n] + noise[n], loop=True)
        return drawn[1], at


class Drawn(Sums):
    """`Sums` whose derivative is that of one output, drawn: each sum draws a term to stand for it.

    An output reads a value once at most. Then its terms are drawn as `Sums.choose` would.
    """

    def __init__(self, key: Array) -> None:
        """Draw by the key, another for every sum."""
        self.key = key

    def join(self, *values: PyTree) -> PyTree:
        """As `reduce`."""
        return self.reduce(jnp.stack(jnp.broadcast_arrays(*values)))

    def reduce(self, values: PyTree) -> PyTree:
        """log sum exp, as a constant added to the term that is drawn."""
        self.key, own = jax.random.split(self.key)
        n = drawn(values, noise(own, values.shape, values.dtype))
        chosen = jnp.take_along_axis(values, n[None], 0)[0]
        rest = jnp.where(chosen > -jnp.inf, super().reduce(values) - chosen, 0)
        return chosen + jax.lax.stop_gradient(rest)

    def scan(self, step: Callable, values: PyTree, rows: PyTree) -> PyTree:
        """As in `Best`; each turn has a key of its own."""
        self.key, own = jax.random.split(self.key)
        keys = jax.random.split(own, jax.tree.leaves(rows)[0].shape[0])

        def turn(values: PyTree, row: tuple[Array, PyTree]) -> tuple[PyTree, None]:
            return step(Drawn(row[0]), values, row[1]), None

        return jax.lax.scan(turn, values, (keys, rows))[0]


def merged(a: tuple, b: tuple) -> tuple:
    """The largest of two falling lists of arrays, as many as a has; b has no more.

    The j-th, from 0, is max over i of min(a[j - i], b[i - 1]): of the first j, j - i are of a and i
    of b. No step waits for another, so that XLA computes nothing twice.
    """

    def ranked(j: int) -> Array:
        inner = [jnp.minimum(a[j - i], b[i - 1]) for i in range(1, min(j, len(b)) + 1)]
        return reduce(jnp.maximum, [*b[j : j + 1], *inner], a[j])

    return tuple(ranked(j) for j in range(len(a)))


class Ranked(Best):
    """The k largest, falling; of equal ones the first alternative, then the better place.

    A value is a tuple of k arrays: joined on an axis XLA would write them element by element.
    """

    def __init__(self, k: int) -> None:
        """Keep k."""
        self.k = k

    def together(self, count: int) -> int:
        """One: a merge is long enough."""
        del count
        return 1

    def of(self, scores: Array) -> PyTree:
        """A rank of the scores, and no other."""
        return (scores, *[jnp.full_like(scores, -jnp.inf)] * (self.k - 1))

    def plus(self, a: PyTree, b: PyTree) -> PyTree:
        """The k largest of two falling lists."""
        return merged(a, b)

    def pick(self, lists: PyTree, rank: Array) -> tuple[Array, Array, Array]:
        """(n, its place, the entry) at a rank [..] among N falling lists, k arrays [N, ..]."""
        shape = (lists[0].shape[0], *rank.shape)
        places = jnp.arange(shape[0]).reshape(-1, *(1,) * rank.ndim)

        def take(count: Array | int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            """Take the largest of the heads off its list."""
            heads, taken = carry
            n = argmax_first(shape[0], lambda n: heads[n], loop=True)[1]
            hit = (places == n[None]) & (count < rank)[None]
            taken = jnp.where(hit, taken + 1, taken)
            for j in range(1, self.k):
                heads = jnp.where(hit & (taken == j), lists[j], heads)
            return heads, taken

        start = (jnp.broadcast_to(lists[0], shape), jnp.zeros(shape, jnp.int32))
        heads, taken = jax.lax.fori_loop(0, self.k - 1, take, start)
        value, n = argmax_first(shape[0], lambda n: heads[n], loop=True)
        return n, jnp.sum(jnp.where(places == n[None], taken, 0), axis=0), value

    def choose(
        self, values: PyTree, scores: Any, at: Array, step: Any = None, noise: Any = None
    ) -> tuple[Array, Array]:
        """The one of rank `at`."""
        del step, noise
        return self.pick(self.times(values, scores), at)[:2]


class Sorted(Ranked):
    """`Ranked` in one array [k, ..]: the program does not grow with k."""

    leading = 1

    def of(self, scores: Array) -> PyTree:
        """As in `Ranked`."""
        return jnp.stack(super().of(scores))

    def plus(self, a: PyTree, b: PyTree) -> PyTree:
        """As in `Ranked`."""
        return k_largest(self.k, jnp.concatenate([a, b]))[0]

    def reduce(self, values: PyTree) -> PyTree:
        """As in `Ranked`, in one sort."""
        return k_largest(self.k, _in_order(values))[0]

    def contract(self, values: PyTree, table: Array) -> PyTree:
        """As in `Ranked`, in one sort."""
        return self.reduce(self.times(values[..., None, :], table))

    def product(self, a: PyTree, b: PyTree, count: Array | None = None) -> PyTree:
        """The k largest sums of an entry of each list."""
        del count
        pairs = a[:, None] + b[None]
        return k_largest(self.k, pairs.reshape(-1, *pairs.shape[2:]))[0]

    def choose(
        self, values: PyTree, scores: Any, at: Array, step: Any = None, noise: Any = None
    ) -> tuple[Array, Array]:
        """As in `Ranked`."""
        del step, noise
        flat = _in_order(self.times(values, scores))
        places = jnp.arange(len(flat)).reshape(-1, *(1,) * at.ndim)
        found = k_largest(self.k, flat, jnp.broadcast_to(places, flat.shape))[1]
        place = jnp.take_along_axis(found, at[None], 0)[0]
        return place // self.k, place % self.k


def _in_order(lists: Array) -> Array:
    """[N k, ..] the entries of lists [k, N, ..], list after list."""
    return jnp.swapaxes(lists, 0, 1).reshape(-1, *lists.shape[2:])


class Levels(Best):
    """The maximum of each of H levels; a part of step c leads from level h to targets[c, h].

    Args:
      targets: [C, H] levels; H or more where the step leads to none. Step 0 stays: its targets are
        0..H - 1.
    """

    leading = 1

    def __init__(self, targets: np.ndarray) -> None:
        """Find the levels from which each one is reached."""
        C, self.levels = targets.shape
        came = [[np.flatnonzero(row == h) for h in range(self.levels)] for row in targets]
        width = max(len(one) for row in came for one in row)
        self.sources = np.full((C, self.levels, width), self.levels, np.int32)
        for c, row in enumerate(came):
            for h, one in enumerate(row):
                self.sources[c, h, : len(one)] = one

    def together(self, count: int) -> int:
        """Always a loop, for what reads the result at several levels would compute it anew."""
        return 4 if count > UNROLLED else max(1, min(4, (count - 1) // 2))

    def of(self, scores: Array) -> PyTree:
        """Level 0 of the scores, and no other."""
        nothing = jnp.full((self.levels - 1, *scores.shape), -jnp.inf, scores.dtype)
        return jnp.concatenate([scores[None], nothing])

    def moved(self, values: PyTree, steps: Any) -> PyTree:
        """The best from which each level is reached by steps [..]."""
        nothing = jnp.full_like(values[:1], -jnp.inf)
        found = values
        for c, rows in enumerate(self.sources[1:], 1):
            ways = [_rows(values, nothing, places) for places in rows.T]
            found = jnp.where(steps == c, reduce(jnp.maximum, ways), found)
        return found

    def product(self, a: PyTree, b: PyTree, count: Array | None = None) -> PyTree:
        """The levels of a pair add up, those beyond the last are dropped; `a` may have fewer."""
        H = self.levels
        nothing = jnp.full((len(a) - 1, *b.shape[1:]), -jnp.inf, b.dtype)
        shifted = jnp.concatenate([nothing, b])

        def with_level(h: Array, best: Array) -> Array:
            own = jax.lax.dynamic_slice_in_dim(shifted, len(a) - 1 - h, H)
            return jnp.maximum(best, own + jax.lax.dynamic_index_in_dim(a, h))

        none = jnp.full(jnp.broadcast_shapes(a[:1].shape, b.shape), -jnp.inf, b.dtype)
        most = len(a) if count is None else jnp.minimum(count, len(a))
        return jax.lax.fori_loop(0, most, with_level, none)

    def split(
        self, a: PyTree, b: PyTree, at: Array, noise: Any = None
    ) -> tuple[Array, Array, Array]:
        """The first pair that attains the maximum, of the lowest level in a."""
        del noise

        def pair(h: int) -> Array:
            rest = jnp.broadcast_to(lift(at - h, b), (1, *b.shape[1:]))
            own = jnp.take_along_axis(b, jnp.maximum(rest, 0), 0)[0]
            return jnp.where(rest[0] >= 0, a[h] + own, -jnp.inf)

        values = jnp.stack([pair(h) for h in range(len(a))], axis=1)
        place = jnp.argmax(values.reshape(-1, *at.shape), axis=0).astype(jnp.int32)
        n, h = place // len(a), place % len(a)
        return n, h, at - h

    def choose(
        self, values: PyTree, scores: Any, at: Array, step: Any = None, noise: Any = None
    ) -> tuple[Array, Array]:
        """The first maximum of level `at`, and the level before it, the lowest of equals."""
        del noise
        step = jnp.zeros((1, *at.shape), jnp.int32) if step is None else step
        sources = jnp.asarray(self.sources)[step, at[None]]

        def way(q: int) -> tuple[Array, Array]:
            level = sources[..., q]
            own = jnp.take_along_axis(values, level[None], 0, mode="clip")[0]
            own = jnp.where(level < self.levels, own, -jnp.inf)
            return own, jnp.broadcast_to(level, own.shape)

        value, place = reduce(better_of, map(way, range(sources.shape[-1])))
        n = argmax_first(len(scores), lambda n: value[n] + scores[n], loop=True)[1]
        return n, jnp.take_along_axis(place, n[None], 0)[0]


def _rows(values: Array, nothing: Array, places: np.ndarray) -> Array:
    """Rows of values at constant places, `nothing` beyond them; runs of neighbours are slices."""
    H = len(values)
    a, b = places[:-1], places[1:]
    together = ((b == a + 1) & (b < H)) | ((a == H) & (b == H))
    parts = []
    for run in np.split(places, np.flatnonzero(~together) + 1):
        none = jnp.broadcast_to(nothing, (len(run), *values.shape[1:]))
        parts.append(none if run[0] == H else values[run[0] : run[0] + len(run)])
    return jnp.concatenate(parts)
