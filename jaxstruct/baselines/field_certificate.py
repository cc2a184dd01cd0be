"""What is proven of the weights of a regularised machine, by a gradient alone.

P is 1/2 |w|^2 and a convex function, so that a (sub)gradient g of P at w says

    P(v) >= P(w) + <g, v - w> + 1/2 |v - w|^2 >= P(w) - 1/2 |g|^2    for all v.

Of a random field this is the value of the dual at the marginals of w (`conditional_random_field`),
and tight at the optimum; of a hinge loss it is a dual value, too, but seldom a tight one.

What the run's dtype rounds is counted at the w in question. |A_i| |w| are the sums of the absolute
terms of the potentials theta_i = A_i w: |w|, |x_i| and the structure's own tables in their place.
With eps that of the dtype, `roundings` times, T_i parts in y_i, u_i expected less true parts:

    e_i  = eps T_i (1 + max |A_i| |w|)                     the score of an output is off by so much,
    a_i  = (e^(2 e_i) - 1) (|u_i| + eps T_i true parts) + eps T_i true parts                    u_i,
    l_i  = eps ((e^(2 e_i) - 1) / 2 e_i <|u_i|, |A_i| |w|> + 2 T_i (1 - log P(y_i)))     -log P(y_i)
    d    = C/n sum_i v_i |A_i|' (a_i + eps |u_i|)                                      the gradient.

A marginal p changes by p (1 - p) times a difference of mean scores, which e_i bounds. Terms and
squared norms are added in float64. So P - 1/2 |g|^2 is off by C/n sum_i v_i l_i + |g| |d| + |d|^2/2
to first order. Of kernel machines w are the coefficients, and every kernel value is off by eps of
itself: |A_i| is |K|, and |B|' |K| |B| bounds what |w|^2 is off by. This is counted, as in
`solvers.objective.certificate`, not proven of every order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.baselines.conditional_log_likelihood import Block, values_and_slopes
from jaxstruct.baselines.examples import labels_of
from jaxstruct.baselines.kernel_coordinates import SquaredNorm
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.device import on_device
from jaxstruct.core.transposition import is_linear, linear_leaves, with_linear_leaves
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.certificate import roundings, roundings_of_terms

_LARGEST = 60.0
"""Of 2 e_i: beyond it nothing is known, and numbers stay finite."""


class FieldCertificate(NamedTuple):
    """What is proven of some weights of a random field.

    Fields:
      primal: P(w). dual: P(w) - 1/2 |gradient|^2 <= the optimum, up to rounding; -inf where the
        log loss is not convex. gradient_norm: |gradient of P at w|.
      rounding: by how much primal and dual may be off because the run's dtype rounds.
    """

    primal: float
    dual: float
    gradient_norm: float
    rounding: float

    @property
    def gap(self) -> float:
        """P - D."""
        return self.primal - self.dual


class Precision(NamedTuple):
    """eps of the run's dtype times how often the terms of a sum are rounded.

    Fields:
      scores: of inner products with the features of an example. sums: of those of a block, too.
    """

    scores: Array
    sums: Array


class BlockSums(NamedTuple):
    """What a block of examples says at the distributions of some potentials theta_i.

    Fields:
      values: [B] v_i (-log P(y_i)). off: [B] v_i l_i of the module.
      inner: [B] v_i <theta_i, u_i>.
      unlike: [B] v_i times by how much inner and <A_i w, u_i> may be off together, see `dual_of`.
      slope: sum_i v_i A_i' u_i, shaped as w. error: sum_i v_i |A_i|' (a_i + eps |u_i|).
    """

    values: Array
    off: Array
    inner: Array
    unlike: Array
    slope: PyTree
    error: PyTree


def precision_of(inputs: Buckets, labels: int, dtype: jnp.dtype) -> Precision:
    """Of a run on these inputs in blocks of at most so many labels."""
    eps, of_scores = float(jnp.finfo(dtype).eps), roundings(inputs.parts)
    of_sums = max(of_scores, roundings_of_terms(labels))
    return Precision(*(on_device(eps * times, dtype) for times in (of_scores, of_sums)))


def _absolute(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.abs(leaf) if is_linear(leaf) else leaf, tree)


def _known(leaves: list[Array], theta: list[Array]) -> list[Array]:
    """The leaves without the parts that are barred, where theta is -inf."""
    pairs = zip(leaves, theta, strict=True)
    return [jnp.where(jnp.isfinite(a), leaf, 0) for leaf, a in pairs]


def _each(leaves: list[Array], of_rows: Callable) -> Array:
    """[leaves, B] of the rows of every leaf [B, ...]."""
    return jnp.stack([of_rows(leaf.reshape(len(leaf), -1), axis=1) for leaf in leaves])


def _inner(u: list[Array], v: list[Array]) -> Array:
    """[B] inner products of the examples of two lists of leaves [B, ...]."""
    return jnp.sum(_each([a * b for a, b in zip(u, v, strict=True)], jnp.sum), axis=0)


def _times(factor: Array, leaves: list[Array]) -> list[Array]:
    """factor [B] times leaves [B, ...]."""
    return [factor.reshape(-1, *[1] * (leaf.ndim - 1)) * leaf for leaf in leaves]


@jax.jit
def block_sums(
    problem: Problem,
    weights: PyTree,
    block: Block,
    precision: Precision,
    theta: list[Array] | None = None,
) -> BlockSums:
    """The sums of a block at the distributions of theta [B, ...], of A_i w where it is None."""
    x, y, eps = block.inputs, block.outputs, precision.scores
    here = jax.vmap(problem.model.potentials, (None, 0))(weights, x)
    seen = linear_leaves(here)
    potentials, add = _absolute((problem.model.potentials, problem.space.add))
    reach = jax.vmap(potentials, (None, 0))(_absolute(weights), _absolute(x))
    reach = _known(linear_leaves(reach), seen)
    at = here if theta is None else with_linear_leaves(here, theta)
    values, slope = values_and_slopes(problem, at, y)
    at, u = linear_leaves(at), linear_leaves(slope)
    sizes = reach if theta is None else _known([jnp.abs(leaf) for leaf in at], at)
    truth = jax.tree.map(lambda leaf: leaf[:, None], output_of(y))
    true = jax.vmap(problem.space.combine)(here, truth, jnp.ones((len(values), 1), eps.dtype))
    true = [jnp.abs(leaf) for leaf in linear_leaves(true)]

    # In the letters of the module: off = 2 e_i, wrong = a_i, parts = T_i, sizes = |A_i| |w|.
    parts, distance = jnp.sum(_each(true, jnp.sum), axis=0), [jnp.abs(leaf) for leaf in u]
    off = 2 * eps * parts * (1 + jnp.max(_each(sizes, partial(jnp.max, initial=0)), axis=0))
    growth = jnp.expm1(jnp.minimum(off, _LARGEST))
    bent = jnp.where(off > 0, growth / jnp.where(off > 0, off, 1), 1)
    certain = _times(eps * parts, true)
    doubtful = jax.tree.map(jnp.add, distance, certain)
    wrong = jax.tree.map(jnp.add, _times(growth, doubtful), certain)
    v = jnp.where(block.real, 1 if block.weights is None else block.weights, 0)
    v = v.astype(eps.dtype)
    error = jax.tree.map(lambda a, b: a + precision.sums * b, wrong, distance)
    found, expected = _known(at, seen), _known(seen, seen)
    apart = jax.tree.map(lambda a, b, c: jnp.abs(a - b) + eps * c, found, expected, reach)
    zero = jax.tree.map(jnp.zeros_like, weights)
    return BlockSums(
        values=jnp.where(block.real, v * values, 0),
        off=v * eps * (bent * _inner(sizes, distance) + 2 * parts * (1 + values)),
        inner=v * _inner(found, u),
        unlike=v
        * (
            _inner(apart, wrong)
            + precision.sums * _inner(reach, distance)
            + eps * _inner(sizes, distance)
        ),
        slope=problem.space.add(zero, x, with_linear_leaves(slope, _times(v, u))),
        error=add(zero, _absolute(x), with_linear_leaves(slope, _times(v, error))),
    )


class FieldSums(NamedTuple):
    """`BlockSums` of all examples in float64, on the host."""

    values: float
    off: float
    inner: float
    unlike: float
    slope: PyTree
    error: PyTree


def field_sums(blocks: Iterable[BlockSums]) -> FieldSums:
    """All blocks added up."""

    def on_host(block: BlockSums) -> FieldSums:
        numbers = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), block)
        return FieldSums(*(float(np.sum(leaf)) for leaf in numbers[:4]), *numbers[4:])

    return reduce(partial(jax.tree.map, np.add), map(on_host, blocks))


def primal_of(
    sums: FieldSums, squared_norm: SquaredNorm, weights: PyTree, scale: float, eps: float
) -> tuple[float, float]:
    """(P(w), by how much it may be off) with the sums at A_i w; eps: of `Precision.scores`."""
    primal = squared_norm(weights) / 2 + scale * sums.values
    return primal, scale * sums.off + squared_norm.off(weights, eps) / 2


def dual_of(
    sums: FieldSums, squared_norm: SquaredNorm, scale: float, eps: float
) -> tuple[float, float]:
    """(D(mu), by how much it may be off) with the sums at theta_i, of the distributions mu_i.

    Where u_i is off by a_i, C/n H(mu_i) - 1/2 |w(mu)|^2 is by C/n <theta_i - A_i w, a_i>, which is
    small where theta_i nears A_i w, and by 1/2 |d|^2.
    """
    w = jax.tree.map(lambda leaf: scale * leaf, sums.slope)
    dual = scale * (sums.values - sums.inner) - squared_norm(w) / 2
    turned = scale * scale * squared_norm.of_terms(sums.error)
    return dual, scale * (sums.off + sums.unlike) + (turned + squared_norm.off(w, eps)) / 2


def prove_field(
    problem: Problem,
    squared_norm: SquaredNorm,
    weights: PyTree,
    inputs: Buckets,
    blocks: tuple[Block, ...],
    scale: float,
) -> FieldCertificate:
    """Primal, dual and rounding of weights by one pass over the examples; see the module.

    Args:
      problem: a structure with `inference.log_loss`. squared_norm: of its weights.
      weights: w. inputs, blocks: all examples. scale: C/n.
    """
    labels = max(len(block.real) * labels_of(block.outputs) for block in blocks)
    precision = precision_of(inputs, labels, jnp.result_type(*jax.tree.leaves(weights)))
    eps = float(precision.scores)
    with np.errstate(over="ignore", invalid="ignore"):  # a run that is not finite says so itself
        sums = field_sums(block_sums(problem, weights, block, precision) for block in blocks)
        gradient = jax.tree.map(
            lambda w, g: np.asarray(w, np.float64) + scale * g, weights, sums.slope
        )
        primal, rounding = primal_of(sums, squared_norm, weights, scale, eps)
        slope = math.sqrt(max(squared_norm(gradient), 0.0))
        off = scale * math.sqrt(squared_norm.of_terms(sums.error))
        rounding += slope * off + (off * off + squared_norm.off(gradient, eps)) / 2
    rounding = rounding if math.isfinite(rounding) else math.inf
    return FieldCertificate(primal, lower_bound(primal, slope, problem), slope, rounding)


def lower_bound(objective: float, gradient_norm: float, problem: Problem) -> float:
    """P - 1/2 |gradient|^2 where the log loss of the problem is convex in theta; else -inf."""
    bound = objective - gradient_norm * gradient_norm / 2
    return bound if problem.inference.facts.convex and math.isfinite(bound) else -math.inf


def ending(message: str, gap: float, rounding: float) -> str:
    """The message of a status with what is proven."""
    return f"{message} (gap {gap:.2g}, rounding {rounding:.2g})"
