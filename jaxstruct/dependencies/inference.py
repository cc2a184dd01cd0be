"""What a dependency tree can be asked besides training: sums over trees, the k best, samples.

P(y | x) = exp(F(x, y)) / Z(x) over all trees with one word on the root, projective or not.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import positions, with_raised
from jaxstruct.core.types import Array, PyTree
from jaxstruct.dependencies.oracles import sums
from jaxstruct.dependencies.oracles.k_best import k_best_trees
from jaxstruct.dependencies.oracles.sampling import sample_tree
from jaxstruct.dependencies.potentials import Parse, TreeKind


def _log_loss(trees: TreeKind, theta: PyTree, y: Parse) -> Array:
    """-log P(y | x) of one tree.

    The potentials of the arcs of y are taken off those into the same words before the sum over all
    trees: log Z and F(y) would be large and nearly equal.
    """
    potentials, length = theta
    _, T, R = potentials.shape
    labels = jnp.clip(y.labels, 0, R - 1) if trees.labelled else jnp.zeros(T, jnp.int32)
    own = potentials[jnp.maximum(y.heads, 0), jnp.arange(T), labels]
    moved = potentials - own[None, :, None]
    return sums.log_partition(moved, length, projective=trees.projective)


def _marginals(trees: TreeKind, theta: PyTree) -> Marginals:
    """[T + 1, T, R] P(y_m = h, r_m = r), or [T + 1, T] without labels."""
    found, total = sums.marginals(theta.potentials, theta.length, projective=trees.projective)
    sizes = positions(theta.length + 1, theta.length)
    return Marginals(found if trees.labelled else found[..., 0], total, sizes)


def _k_best(
    trees: TreeKind, theta: PyTree, k: int, above: Array | float = -jnp.inf
) -> tuple[Parse, Array]:
    found = k_best_trees(theta.potentials, theta.length, k, above, projective=trees.projective)
    return trees.parse(found.heads, found.labels), found.score


def _sample(trees: TreeKind, theta: PyTree, key: Array) -> Parse:
    given = theta.potentials, theta.length, key
    return trees.parse(*sample_tree(*given, projective=trees.projective))


def number_of_trees(words: int, projective: bool) -> int:
    """Trees of so many words with one word on the root: 1, 2, 7, 30 .. projective ones, else
    words^(words - 1)."""
    if not projective:
        return words ** (words - 1)
    return math.comb(3 * words - 2, words - 1) // words


def _most_trees(trees: TreeKind, inputs: PyTree) -> int:
    longest = max(int(np.max(inputs.length, initial=1)), 1)
    return number_of_trees(longest, trees.projective) * trees.labels**longest


def tree_inference(trees: TreeKind, raised: Partial) -> Inference:
    """The inference of dependency trees.

    Args:
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y).
    """
    named = (_log_loss, _marginals, _k_best, _sample)
    own = Inference(
        *(Partial(one, trees) for one in named), most_outputs=Partial(_most_trees, trees)
    )
    return with_raised(own, raised)
