"""How graph structures find labellings: exact, with a bound, or without one; their oracles."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.contract import Bounded, Contenders, Oracles
from jaxstruct.core.types import Array, PyTree, static
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.oracles.enumeration import all_scores, best_of_all, numbered
from jaxstruct.graphs.oracles.reweighted import reweighted
from jaxstruct.graphs.oracles.variable_elimination import best_labelling, best_other
from jaxstruct.graphs.potentials import GraphPotentials, score_labels

EXACT = ("elimination", "enumeration")
BOUNDED = ("reweighted",)
UNBOUNDED = ("modes", "propagation")
RELAXED = "relaxed"
"""Not one of labellings: its outputs are marginals, see `marginals`."""
OF_RELAXED = (
    'problem has inference="relaxed", whose outputs are marginals: give the problem of labellings '
    "with the same options, it takes the same weights"
)
"""Why a relaxed problem has no inference of its own."""
NAMES = (*BOUNDED, *EXACT, *UNBOUNDED, RELAXED)


@static
class Decoding:
    """Which oracle serves a structure.

    Fields:
      name: one of `NAMES`. passes: of message passing, at most.
    """

    name: str
    passes: int


class Best(NamedTuple):
    """The best labelling found, and at least max F; None where it is the value itself."""

    labels: Array
    bound: Array | None

    @property
    def answer(self) -> Array | Bounded:
        """As an oracle returns it."""
        return self.labels if self.bound is None else Bounded(self.labels, self.bound)


class View(NamedTuple):
    """How the outputs of a structure are labellings of graphs.

    Fields:
      graph: theta -> (GraphPotentials, plan of elimination or None).
      costs: y_true -> [V, S] of a loss that adds up over nodes; of others it raises ValueError.
      loss: (y_true, y) -> Delta. plain: y_true -> [V] labels, PADDING beyond the last node.
      decoding: which oracle finds them.
    """

    graph: Partial
    costs: Partial
    loss: Partial
    plain: Partial
    decoding: Decoding


def best_found(decoding: Decoding, potentials: GraphPotentials, plan: Elimination | None) -> Best:
    """The best labelling of one graph by the oracle named.

    Args:
      decoding: static. potentials: of one graph. plan: where elimination is wanted.

    Returns:
      `Best`; the bound is +inf of an oracle that knows none.

    Raises:
      ValueError: elimination is wanted and there is no plan.
    """
    if decoding.name == "elimination":
        if plan is None:
            raise ValueError(
                'inference="elimination" needs plans: make the inputs with graph_inputs(.., '
                "plans=True)"
            )
        return Best(best_labelling(potentials, plan).labels, None)
    if decoding.name == "enumeration":
        return Best(best_of_all(potentials).labels, None)
    if decoding.name == "reweighted":
        found = reweighted(potentials, decoding.passes)
        return Best(found.labels, found.bound)
    if decoding.name == "modes":
        found = conditional_modes(potentials)
    else:
        found = belief_propagation(
            potentials, kind="max", schedule="serial", passes=decoding.passes, damping=0.3
        )
    return Best(found.labels, jnp.full((), jnp.inf, potentials.nodes.dtype))


def score(view: View, theta: PyTree, y: Array) -> Array:
    """F(y)."""
    return score_labels(view.graph(theta)[0], view.plain(y))


def decode(view: View, theta: PyTree) -> Array:
    """argmax_y F(y)."""
    return best_found(view.decoding, *view.graph(theta)).labels


def _loss_augmented(view: View, theta: PyTree, y_true: Array, scale: Array) -> Array | Bounded:
    """Of an additive loss: what a wrong label costs goes to its node."""
    potentials, plan = view.graph(theta)
    nodes = potentials.nodes + scale * view.costs(y_true)
    return best_found(view.decoding, potentials._replace(nodes=nodes), plan).answer


def _output(trace: tuple[Array, Array], level: Array) -> Array:
    return numbered(*trace, level)


def _contenders(view: View, theta: PyTree, y_true: Array) -> Contenders:
    """Every labelling is a level."""
    potentials, _ = view.graph(theta)
    scores, trace = all_scores(potentials), (potentials.nodes, potentials.number_of_nodes)
    every = numbered(*trace, jnp.arange(len(scores)))
    losses = jax.vmap(view.loss, (None, 0))(y_true, every)
    wrong = jnp.any(every != view.plain(y_true)[None], axis=1)
    return Contenders(losses, jnp.where(wrong, scores, -jnp.inf), trace)


def _best_other(view: View, theta: PyTree, y_true: Array) -> Best:
    """The best y != y_true: some node has another label, whichever it is; ties to the lowest."""
    (potentials, plan), right = view.graph(theta), view.plain(y_true)
    if view.decoding.name == "elimination" and plan is not None:
        return Best(best_other(potentials, plan, right).labels, None)
    V, S = potentials.nodes.shape

    def without(v: Array) -> tuple[Array, Array, Array]:
        barred = (jnp.arange(V) == v)[:, None] & (jnp.arange(S)[None] == right[v])
        rest = potentials._replace(nodes=jnp.where(barred, -jnp.inf, potentials.nodes))
        best = best_found(view.decoding, rest, plan)
        value = score_labels(rest, best.labels)
        real, bound = v < potentials.number_of_nodes, value if best.bound is None else best.bound
        return best.labels, jnp.where(real, value, -jnp.inf), jnp.where(real, bound, -jnp.inf)

    every, values, bounds = jax.vmap(without)(jnp.arange(V))
    first = jnp.argmax(values)
    y = jnp.where(values[first] > -jnp.inf, every[first], y_true)
    return Best(y, None if view.decoding.name in EXACT else jnp.max(bounds))


def _best_wrong(view: View, theta: PyTree, y_true: Array) -> Array | Bounded:
    return _best_other(view, theta, y_true).answer


def _one_level(like: Array, _: Array) -> Array:
    """Zero-one: all wrong outputs are of one level."""
    return jnp.ones(1, like.dtype)


def _best_by_level(
    view: View, theta: PyTree, y_true: Array, offsets: Array, slopes: Array
) -> Array | Bounded:
    best = _best_other(view, theta, y_true)
    if best.bound is None:
        return best.labels
    return Bounded(best.labels, offsets[0] + slopes[0] * best.bound)


def labelling_oracles(view: View, additive: bool, others: Array | None) -> Oracles:
    """The oracles of labellings.

    Args:
      additive: whether the loss adds up over nodes.
      others: an array of the dtype where the best other labelling is looked for, node by node; a
        loss that does not add up is zero-one then. None where it is not.
    """
    augmented = Partial(_loss_augmented, view) if additive else None
    if view.decoding.name == "enumeration":
        return Oracles(Partial(_contenders, view), _output, augmented)
    found = Oracles(
        loss_augmented_decode=augmented,
        best_wrong=None if others is None else Partial(_best_wrong, view),
    )
    if additive or others is None:
        return found
    return found._replace(
        level_losses=Partial(_one_level, others), best_by_level=Partial(_best_by_level, view)
    )
