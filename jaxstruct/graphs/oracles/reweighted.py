"""Sequential tree-reweighted message passing: the best labelling found, and a bound on all.

    value = F(labels) <= max_y F(y) <= bound,

the bound never rises from one sweep to the next (see `sweeps` for both). It is the optimum of the
linear program over the local polytope or above it: tight on forests, and wherever the program has
an integral optimum and messages converge.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.semiring import Best, Sums
from jaxstruct.core.types import Array
from jaxstruct.graphs.oracles.layout import padded_labels
from jaxstruct.graphs.oracles.sweeps import PASSES, TOLERANCE, begun, checked_call, swept_to_rest
from jaxstruct.graphs.potentials import GraphPotentials


class Reweighted(NamedTuple):
    """What sequential tree-reweighted message passing found of ONE graph.

    Fields:
      labels: [V] int32, the best labelling met; PADDING beyond the last node.
      value: scalar F(labels); -inf where every labelling met is forbidden.
      bound: scalar, at least F of every labelling; -inf where none is allowed.
      passes: int32 scalar, passes (a sweep up and one down) until it stopped.
    """

    labels: Array
    value: Array
    bound: Array
    passes: Array


def _kernel(rule: Best, potentials: GraphPotentials, passes: Array, tolerance: Array) -> Reweighted:
    _, layout, most, tolerance = begun(potentials, passes, tolerance)
    best, _ = swept_to_rest(layout, rule, most, tolerance)
    return Reweighted(padded_labels(layout, best.labels), best.value, best.bound, best.passes)


_of_one = of_one_example(partial(_kernel, Best()))
_sum_of_one = of_one_example(partial(_kernel, Sums()))


def reweighted(
    potentials: GraphPotentials, passes: Array | int = PASSES, tolerance: Array | float = TOLERANCE
) -> Reweighted:
    """The best labelling that tree-reweighted message passing finds, and a bound on all others.

    max_y F(y) = sum_v nodes[v, y_v] + sum_e pairs[e, y_a, y_b] of one graph, from both sides.

    Args:
      potentials: of one graph.
      passes: at most so many sweeps up and down, at least 1; may be traced.
      tolerance: of the gap and of the progress of the bound, relative to max(1, |bound|).

    Returns:
      `Reweighted`. It stops when the gap is closed, the bound rests, or after the last pass. The
      labels are those of the best sweep, the first one of equal values; a sweep decides node after
      node, ties to the lowest label. Bound and value hold up to the rounding of the dtype. Under
      `vmap`, nested or not, one batched program runs for all graphs, each of which stops by itself.
      There is no derivative in JAX; that of a labelling's score is `score_labels`'.

    Raises:
      ValueError: as `graph_potentials`; passes is below 1.

    Source: V. Kolmogorov, "Convergent tree-reweighted message passing for energy minimization",
    PAMI 28, 2006; M. Wainwright, T. Jaakkola and A. Willsky, "MAP estimation via agreement on
    trees", IEEE Transactions on Information Theory 51, 2005.
    """
    return _of_one(*checked_call(potentials, passes, tolerance))


def log_partition_bound(
    potentials: GraphPotentials, passes: Array | int = PASSES, tolerance: Array | float = TOLERANCE
) -> Array:
    """At least log Z = log sum_y exp F(y) of one graph, by tree-reweighted sums.

    Args:
      potentials, passes, tolerance: as `reweighted`.

    Returns:
      A scalar; on a chain in the order of its nodes it is log Z itself after one pass, on other
      graphs above it. -inf where no labelling is allowed. It has no derivative in JAX.

    Raises:
      ValueError: as `reweighted`.

    Source: M. Wainwright, T. Jaakkola and A. Willsky, "A new class of upper bounds on the log
    partition function", IEEE Transactions on Information Theory 51, 2005; T. Meltzer, A. Globerson
    and Y. Weiss, "Convergent message passing algorithms: a unifying view", UAI 2009.
    """
    return _sum_of_one(*checked_call(potentials, passes, tolerance)).bound
