"""Chains of real numbers: support vector regression whose neighbours are predicted together.

An output v has a number for each token (thesis 5.2). A chain of them scores

    E(x, v; w, u) = sum_t [v_t f_t - v_t^2 / 2] - sum_t [u_1 |d_t| + u_2 d_t^2 / 2],
    f_t = <w, Phi(x^t)>,  d_t = v_{t+1} - v_t.

Without neighbours (u = 0, or a single token) the argmax is v = f, a linear regression. The true y
is trained to beat every rival v_t = y_t + B s_t, s_t one of -1, 0, 1, by
Delta(y, v) = sum_t (v_t - y_t)^2 / 2 - epsilon |v_t - y_t|. The slack of an example is then

    xi = max_v Delta(y, v) + E(v) - E(y)
       = max_s sum_t B [s_t (f_t - y_t) - epsilon |s_t|] - <u, rho(v) - rho(y)>,

where rho(v) are the two sums over d_t. Without neighbours this is B sum_t max(0, |f_t - y_t| -
epsilon), the loss of support vector regression, and adding rivals between those of s_t = -1, 0, 1
would change nothing. With neighbours these three are a choice, under which 3^T constraints are
searched by Viterbi in 9 T steps, exactly, for any u: nothing has to be positive semi-definite.

-v_t^2 / 2 has no weight, so it stands in `model.loss`, which is the margin that <w, delta Psi> has
to reach: -sum_t y_t (v_t - y_t) + epsilon |v_t - y_t|, below 0 for some v. Margin re-scaling with
linear slack takes such margins; no other formulation has a meaning here.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import jaxstruct as js
from jaxstruct.chains import ChainPotentials, viterbi
from jaxstruct.core.types import AnyArray, Array, PyTree

SIGNS = (0, -1, 1)
"""s_t, the truth first: of equal scores Viterbi takes the first."""


class RealInput(NamedTuple):
    """One sequence, or a batch of them, ragged or padded.

    Fields:
      features: [T, d] Phi of each token. length: of the sequence.
    """

    features: PyTree
    length: AnyArray


class Theta(NamedTuple):
    """[T] f, [2] u, and the length."""

    values: AnyArray
    coupling: AnyArray
    length: AnyArray


class Tables(NamedTuple):
    """unit, B (in units), epsilon, and [K] the levels of predictions (in units)."""

    unit: Array
    step: Array
    epsilon: Array
    levels: Array


def _changes(before: Array, after: Array) -> Array:
    """[2, ...] |d| and d^2 / 2."""
    d = after - before
    return jnp.stack([jnp.abs(d), d**2 / 2])


def _inside(theta: Theta) -> Array:
    """[T] which positions are tokens."""
    return jnp.arange(theta.values.shape[0]) < theta.length


def _potentials(w: dict[str, Array], x: RealInput) -> Theta:
    return Theta(x.features @ w["tokens"], w["coupling"], x.length)


def _score(tables: Tables, theta: Theta, v: Array) -> Array:
    """F(v), the part of E that has weights."""
    v, inside = v * tables.unit, _inside(theta)
    changes = jnp.where(inside[1:], _changes(v[:-1], v[1:]), 0)
    return jnp.where(inside, v, 0) @ theta.values - theta.coupling @ jnp.sum(changes, axis=1)


def _margins(tables: Tables, y: Array, v: Array) -> Array:
    """A token's part of Delta(y, v) + (|y|^2 - |v|^2) / 2."""
    d = (v - y) * tables.unit
    return -(y * tables.unit * d) - tables.epsilon * jnp.abs(d)


def _loss(tables: Tables, y: Array, v: Array) -> Array:
    return jnp.sum(_margins(tables, y, v))


def _best(tables: Tables, theta: Theta, choices: Array, own: Array) -> Array:
    """The v of choices [T, K] with the largest F + sum_t own[t, .]."""
    values = choices * tables.unit
    changes = _changes(values[:-1, :, None], values[1:, None, :])
    potentials = ChainPotentials(
        theta.values[:, None] * values + own, -jnp.tensordot(theta.coupling, changes, 1)
    )
    found = viterbi(potentials, theta.length).labels
    picked = jnp.take_along_axis(choices, jnp.maximum(found, 0)[:, None], axis=1)[:, 0]
    return jnp.where(found < 0, -1, picked)


def _decode(tables: Tables, theta: Theta) -> Array:
    """argmax of E over the levels."""
    shape = theta.values.shape[0], tables.levels.shape[0]
    choices = jnp.broadcast_to(tables.levels, shape)
    return _best(tables, theta, choices, -((choices * tables.unit) ** 2) / 2)


def _loss_augmented_decode(tables: Tables, theta: Theta, y: Array, scale: Array) -> Array:
    rivals = y[:, None] + tables.step * jnp.array(SIGNS)[None]
    return _best(tables, theta, rivals, scale * _margins(tables, y[:, None], rivals))


def _positions(x: RealInput) -> int:
    return np.shape(x.features)[1]


def real_chain(
    d: int, step: float, epsilon: float, levels: np.ndarray, unit: float, dtype: str = "float64"
) -> js.Problem:
    """The problem; inputs are RealInput, outputs `in_units(y, unit)`; trained by svm1_margin.

    Args:
      d: features of a token, a constant among them where there is to be a bias.
      step: B. epsilon: of the loss; from step >= 2 epsilon on Delta is nowhere negative.
      levels: [K] the numbers that can be predicted, of equal scores the first.
      unit: outputs are integers times it, step and levels are rounded to it.

    Returns:
      A problem with weights {"tokens": [d], "coupling": [2]}.
    """
    tables = Tables(
        jnp.asarray(unit, dtype), jnp.asarray(in_units(step, unit)),
        jnp.asarray(epsilon, dtype), jnp.asarray(in_units(levels, unit)),
    )  # fmt: skip
    score, decode, loss, augmented = (
        Partial(function, tables) for function in (_score, _decode, _loss, _loss_augmented_decode)
    )
    return js.make_problem(
        {"tokens": jnp.zeros(d, dtype), "coupling": jnp.zeros(2, dtype)},
        js.Model(_potentials, score, decode, loss),
        js.Oracles(loss_augmented_decode=augmented),
        padding=js.Padding(output_sizes=_positions),
        tested=True,  # by enumeration; the check of a structure refuses margins below 0
    )


def in_units(y: np.ndarray | float, unit: float) -> np.ndarray:
    """Numbers as integers times the unit, rounded."""
    return np.round(np.asarray(y) / unit).astype(np.int32)
