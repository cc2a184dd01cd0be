"""The best label sequence at every Hamming distance from the true one.

Level l holds the y with Delta(y_true, y) = l positions t < length where y^t != y_true^t; the last
of the levels holds all y with at least that many. Any loss of the Hamming distance, slack
re-scaled or margin re-scaled, is then an exact maximum over levels.

With integer costs of wrong labels, level 0 holds y_true alone and level 1 + k every other y whose
costs sum to k: a loss of costs that are multiples of a common unit takes one value a level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import paths as chain_paths
from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.oracles.potential_checks import checked_chain, checked_labels
from jaxstruct.chains.potentials import ChainPotentials, score_labels
from jaxstruct.core.batch_last import in_column_blocks, of_one_example
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array

COLUMNS = 8
"""Examples at a time where levels are sums of costs, of which there are many: 26 labels, 14 letters
and 856 levels take 6.1 ms an example with 8, 10.9 with 16, 8.8 with 64."""


class BestLevel(NamedTuple):
    """The best output of the best level.

    Fields:
      labels: [T] int32, PADDING beyond the length.
      level: int32.
      score: F of `labels`.
      value: offsets[level] + slopes[level] F.
    """

    labels: Array
    level: Array
    score: Array
    value: Array


def _raised(best: Array) -> Array:
    """[.., L, B] each level moved up by one. The last level also keeps what it has."""
    nothing = jnp.asarray(-jnp.inf, best.dtype)
    moved = jax.lax.pad(best, nothing, [(0, 0, 0), (0, 0, 0), (1, -1, 0), (0, 0, 0)])
    last = jnp.arange(best.shape[2]) == best.shape[2] - 1
    return jnp.where(last[None, None, :, None], jnp.maximum(moved, best), moved)


def _differs(y_true: Array, position: Array | int, labels: int) -> Array:
    """[1, S, 1, 1 or B] bool: whether each label is wrong at a position."""
    return (jnp.arange(labels)[:, None] != y_true[position][None])[None, :, None]


class _ByCount(NamedTuple):
    """Levels count wrong labels; the last one keeps what it has.

    A rule has `moved`, which is `best` [c, S, L, B] (c and S the other way round at the `first`
    position) with the labels of a position counted, and `below`, the level from which a path came
    and whether it may also have come from the level `other`.
    """

    y_true: Array

    def moved(self, best: Array, position: Array | int, first: bool = False) -> Array:
        wrong = _differs(self.y_true, position, best.shape[0 if first else 1])
        wrong = jnp.swapaxes(wrong, 0, 1) if first else wrong
        return jnp.where(wrong, _raised(best), best)

    def other(self, levels: int) -> int:
        return levels - 1

    def below(
        self, label: Array, level: Array, position: Array, levels: int
    ) -> tuple[Array, Array]:
        wrong = label != self.y_true[position]
        lower = jnp.where(wrong, jnp.maximum(level - 1, 0), level)
        return lower, wrong & (level == levels - 1)


class _ByCost(NamedTuple):
    """A wrong label moves a path up by its cost, and out of level 0 by one level more.

    Fields:
      costs: [T, S, 1 or B] int32, -1 of right labels. kinds: static, the costs of wrong ones.
    """

    costs: Array
    kinds: tuple[int, ...]

    def moved(self, best: Array, position: Array | int, first: bool = False) -> Array:
        cost = self.costs[position]
        cost = cost[:, None, None] if first else cost[None, :, None]
        nothing = jnp.asarray(-jnp.inf, best.dtype)
        second = jnp.maximum(best[:, :, :1], best[:, :, 1:2])
        wrong = jnp.concatenate([jnp.full_like(second, nothing), second, best[:, :, 2:]], axis=2)
        for kind in self.kinds:
            moved = jax.lax.pad(wrong, nothing, [(0, 0, 0), (0, 0, 0), (kind, -kind, 0), (0, 0, 0)])
            best = jnp.where(cost == kind, moved, best)
        return best

    def other(self, levels: int) -> int:
        del levels
        return 0

    def below(
        self, label: Array, level: Array, position: Array, levels: int
    ) -> tuple[Array, Array]:
        del levels
        cost = chain_steps.at_columns(self.costs[position][None], label)[0]
        lower = jnp.maximum(level - jnp.maximum(cost, 0), 0)
        return lower, (cost >= 0) & (lower == 1)


_Rule: TypeAlias = _ByCount | _ByCost


def _advance(rule: _Rule, alpha: Array, table: Array, addend: Array, index: Array) -> Array:
    best = rule.moved(chain_steps.best_before(alpha, table), index + 1)
    return (best + addend[:, :, None]).reshape(alpha.shape)


def _forward(
    potentials: ChainPotentials, rule: _Rule, length: Array, levels: int, keep: bool
) -> tuple[Array, Array | None]:
    """Scores [c S, L, B] of whole sequences by last label, and the scores to trace back."""
    batch = chain_steps.batch_size(potentials, rule[0], length)
    first = chain_steps.first_scores(potentials, batch)
    nothing = jnp.full((*first.shape[:2], levels - 1, batch), -jnp.inf, first.dtype)
    first = jnp.concatenate([first, nothing], axis=2)
    first = rule.moved(first, 0, potentials.triples is None)
    advance = partial(_advance, rule)
    last, alphas = chain_steps.forward(potentials, length, first, advance, keep)
    return chain_paths.last_labels_first(chain_steps.with_stop(potentials, last)), alphas


def _level_scores(final: Array, length: Array) -> Array:
    """[L, B] F of every level. A sequence of length 0 has only level 0, with F = 0."""
    scores = jnp.max(final, axis=0)
    empty = jnp.where(jnp.arange(scores.shape[0]) == 0, 0, -jnp.inf).astype(scores.dtype)
    return jnp.where((length > 0)[None], scores, empty[:, None])


def _predecessor(
    rule: _Rule,
    state: chain_paths.State,
    level: Array,
    alpha: Array,
    table: Array,
    index: Array,
) -> tuple[Array, Array]:
    """(predecessor, its level) of a path that stands in `state` at `level`."""
    S, c, levels, batch = alpha.shape
    lower, either = rule.below(state.label, level, index + 1, levels)
    column = state.before * levels + lower
    below = chain_steps.at_columns(alpha.reshape(S, c * levels, batch), column)
    other = chain_steps.at_columns(alpha[:, :, rule.other(levels)], state.before)
    better = either[None] & (other > below)
    before = jnp.where(better, other, below)
    into = chain_paths.into(table, state)
    label = chain_steps.argmax_first(S, lambda s: before[s] + into(s), loop=True)[1]
    from_other = chain_steps.at_columns(better[None], label)[0]
    return label, jnp.where(from_other, rule.other(levels), lower)


def _scores_kernel(levels: int, potentials: ChainPotentials, y_true: Array, length: Array) -> Array:
    final, _ = _forward(potentials, _ByCount(y_true), length, levels, keep=False)
    return _level_scores(final, length)


def _best_by(
    rule: _Rule,
    potentials: ChainPotentials,
    y_true: Array,
    length: Array,
    offsets: Array,
    slopes: Array,
    valid: Array,
) -> BestLevel:
    final, alphas = _forward(potentials, rule, length, offsets.shape[0], keep=True)
    scores = _level_scores(final, length)
    usable = valid & (scores > -jnp.inf)
    values = jnp.where(usable, offsets + slopes * jnp.where(usable, scores, 0), -jnp.inf)
    value, level = chain_steps.argmax_first(values.shape[0], lambda level: values[level])
    chosen = chain_steps.at_columns(final, level)
    end = chain_steps.argmax_first(final.shape[0], lambda i: chosen[i])[1]
    path = (chain_paths.last_state(end, potentials), level)
    labels = chain_paths.backward(potentials, length, alphas, path, partial(_predecessor, rule))
    found = value > -jnp.inf
    labels = jnp.where(found[None], labels, y_true)
    score = chain_steps.at_columns(scores[None], level)[0]
    return BestLevel(labels, level, score, value)


def _best_kernel(potentials: ChainPotentials, y_true: Array, *rest: Array) -> BestLevel:
    return _best_by(_ByCount(y_true), potentials, y_true, *rest)


def _best_of_costs(
    kinds: tuple[int, ...], costs: Array, potentials: ChainPotentials, y_true: Array, *rest: Array
) -> BestLevel:
    return _best_by(_ByCost(costs, kinds), potentials, y_true, *rest)


def _scores_of_levels(
    levels: int, found: Array, potentials: ChainPotentials, y_true: Array, length: Array
) -> Array:
    """[L] scores of the best output of every level, each found by itself."""
    held, dtype = jax.lax.stop_gradient(potentials), found.dtype

    def of_level(level: Array) -> Array:
        offsets = jnp.where(jnp.arange(levels) == level, 0, -jnp.inf).astype(dtype)
        ones = jnp.ones(levels, dtype)
        best = _best(held, y_true, length, offsets, ones, offsets > -jnp.inf)
        return score_labels(potentials, best.labels, length)

    return jax.vmap(of_level)(jnp.arange(levels))


def _score_and_value(
    found: BestLevel,
    potentials: ChainPotentials,
    y_true: Array,
    length: Array,
    offsets: Array,
    slopes: Array,
    valid: Array,
) -> tuple[Array, Array]:
    del y_true, valid
    score = score_labels(potentials, found.labels, length)
    score = jnp.where(found.score > -jnp.inf, score, 0)
    return score, offsets[found.level] + slopes[found.level] * score


@cache
def _of_levels(levels: int) -> Callable:
    return of_one_example(partial(_scores_kernel, levels), partial(_scores_of_levels, levels))


_best = of_one_example(_best_kernel, _score_and_value)


@cache
def _best_by_cost(kinds: tuple[int, ...]) -> Callable:
    def scores(found: BestLevel, costs: Array, *rest: Any) -> tuple[Array, Array]:
        del costs
        return _score_and_value(found, *rest)

    kernel = in_column_blocks(partial(_best_of_costs, kinds), COLUMNS)
    return of_one_example(wraps(_best_of_costs)(kernel), scores)


def _check_levels(levels: int, least: int) -> None:
    if checked_size("levels", levels, 0) < least:
        raise ValueError(
            f"there must be at least {least} levels (a cap plus one; T + 1 for all), got {levels}"
        )


def hamming_levels(potentials: ChainPotentials, y_true: Array, length: Array, levels: int) -> Array:
    """The best score at every Hamming distance from y_true.

    F_l = max F(y) over y with sum_{t < length} [y^t != y_true^t] = l, for l < levels - 1; the last
    level, l = levels - 1, takes all y at a distance of at least l. With levels = T + 1 every level
    is exact. One Viterbi recursion whose labels carry their level (thesis 4.4.2: "computing the
    maximization for all possible values of the loss function"); its cost is `levels` times that of
    Viterbi.

    Args:
      potentials: of one chain of T positions and S labels, first or second order.
      y_true: [T] int32, labels in 0..S - 1, PADDING beyond the length.
      length: int32 scalar, 0 <= length <= T.
      levels: how many, at least 1, a Python integer.

    Returns:
      [levels] scores, -inf where no label sequence that is not forbidden has that distance. A
      sequence of length 0 has F_0 = 0 and no other level. The derivative of a score counts what the
      best label sequence of its level uses; it takes a trace back for every level.

    Raises:
      ValueError: levels < 1, shapes do not fit together, or a dtype is not what it should be.
    """
    _check_levels(levels, 1)
    potentials, length = checked_chain(potentials, length)
    return _of_levels(int(levels))(potentials, checked_labels(y_true, potentials), length)


def best_of_levels(
    potentials: ChainPotentials,
    y_true: Array,
    length: Array,
    offsets: Array,
    slopes: Array,
    valid: Array | None = None,
    costs: Array | None = None,
    kinds: tuple[int, ...] = (),
) -> BestLevel:
    """The label sequence of the level that maximises offsets[l] + slopes[l] F_l.

    F_l as in `hamming_levels`, levels = len(offsets). With Delta_l the loss of a level and
    constants of F(y_true), this is the most violated constraint of slack re-scaling (slopes
    Delta_l) and of margin re-scaling (slopes 1), in one program; only the best level is traced
    back. Two levels with offsets (-inf, 0) and slopes (0, 1) give the best y != y_true, the oracle
    of the zero-one loss.

    Args:
      potentials, y_true, length: as in `hamming_levels`.
      offsets: [levels]; -inf excludes a level (level 0 is y_true alone).
      slopes: [levels], >= 0.
      valid: [levels] bool, False excludes a level; None for all.
      costs: [T, S] integers >= 0 of the wrong labels; entries of right ones and beyond the length
        are never read. Level 0 then is y_true alone and level 1 + k all other y whose costs sum to
        k; give 2 + T times the largest cost levels, since the y beyond the last are in none. None:
        levels are Hamming distances.
      kinds: the values that costs may have, static; the time of a step grows with their number.

    Returns:
      BestLevel. Ties go to the lowest level and, within an exact level of Hamming distances, to the
      label sequence that `viterbi` would take; within a capped last level, or one of costs, the
      result is one of the best. If no level
      qualifies (excluded, or F_l = -inf) it is y_true at level 0 with the value -inf. The
      derivatives of score and value hold labels and level fixed.

    Raises:
      ValueError: offsets, slopes and valid are not all [levels], there are fewer than 2 levels, or
        other shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_chain(potentials, length)
    dtype = potentials.emissions.dtype
    offsets, slopes = jnp.asarray(offsets, dtype), jnp.asarray(slopes, dtype)
    valid = jnp.ones(offsets.shape, bool) if valid is None else jnp.asarray(valid, bool)
    if offsets.ndim != 1 or not offsets.shape == slopes.shape == valid.shape:
        raise ValueError(
            "offsets, slopes and valid must all be [levels], got shapes "
            f"{offsets.shape}, {slopes.shape} and {valid.shape}"
        )
    _check_levels(offsets.shape[0], 2)
    y_true = checked_labels(y_true, potentials)
    if costs is None:
        return _best(potentials, y_true, length, offsets, slopes, valid)
    costs = jnp.asarray(costs, jnp.int32)
    if costs.shape != potentials.emissions.shape:
        raise ValueError(
            f"costs must be [T, S] = {list(potentials.emissions.shape)}, got shape {costs.shape}"
        )
    right = y_true[:, None] == jnp.arange(costs.shape[1])[None]
    return _best_by_cost(tuple(kinds))(
        jnp.where(right, -1, costs), potentials, y_true, length, offsets, slopes, valid
    )
