"""Confidence of labelled graphs and of sets of labels: by elimination, or of all labellings."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct import graphs
from jaxstruct.confidence.ways import Marginals, Ways, listed_loss, of_likelihood, positions
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array
from jaxstruct.graphs import (
    MOST_LABELLINGS,
    Elimination,
    GraphPotentials,
    GraphTheta,
    SetTheta,
    all_scores,
    elimination,
    graph_likelihood,
    graph_potentials_of,
    k_best_labellings,
    k_best_of_all,
    sample_labelling,
    sample_of_all,
    set_graph,
)


def _shares_of_all(potentials: GraphPotentials) -> tuple[Array, Array]:
    """([V, S] probabilities, log Z) of one small graph."""
    V, S = potentials.nodes.shape
    scores = all_scores(potentials)
    table = jax.nn.softmax(scores).reshape((S,) * V)
    shares = [jnp.sum(table, axis=tuple(a for a in range(V) if a != v)) for v in range(V)]
    real = (jnp.arange(V) < potentials.number_of_nodes)[:, None]
    return jnp.where(real, jnp.stack(shares), 0), jax.nn.logsumexp(scores)


def _shares(potentials: GraphPotentials, plan: Elimination | None) -> tuple[Array, Array]:
    if plan is None:
        return _shares_of_all(potentials)
    found = graphs.marginals(potentials, plan)
    return found.nodes, found.log_partition


def _best(potentials: GraphPotentials, plan: Elimination | None, k: int) -> tuple[Array, Array]:
    return k_best_of_all(potentials, k) if plan is None else k_best_labellings(potentials, plan, k)


def _draw(potentials: GraphPotentials, plan: Elimination | None, key: Array) -> Array:
    if plan is None:
        return sample_of_all(potentials, key)
    return sample_labelling(potentials, plan, key)


def _best_labels(problem: Problem, theta: GraphTheta, k: int) -> tuple[Array, Array]:
    return _best(graph_potentials_of(theta), theta.plan, k)


def _label_shares(problem: Problem, theta: GraphTheta) -> tuple[Marginals, Marginals]:
    found = Marginals(*_shares(graph_potentials_of(theta), theta.plan))
    return found, Marginals(positions(theta.number_of_nodes), positions())


def _draw_labels(problem: Problem, theta: GraphTheta, key: Array) -> Array:
    return _draw(graph_potentials_of(theta), theta.plan, key)


def _loss_of_all(problem: Problem, theta: GraphTheta, y: Array, b: Array) -> Array:
    scores = all_scores(jax.lax.stop_gradient(graph_potentials_of(theta)))
    return listed_loss(scores, problem.model.score(theta, y), b)


PLANNED = Ways(_best_labels, of_likelihood(graph_likelihood), _label_shares, _draw_labels)
ENUMERATED = PLANNED._replace(log_loss=_loss_of_all)


def _set_plan(theta: SetTheta) -> Elimination | None:
    """None where all sets are listed; without pairs any number of labels can be eliminated."""
    L = theta.labels.shape[0]
    if 2**L <= MOST_LABELLINGS:
        return None
    return elimination(L, np.zeros((0, 2), np.int32))


def _best_sets(problem: Problem, theta: SetTheta, k: int) -> tuple[Array, Array]:
    return _best(set_graph(problem, theta), _set_plan(theta), k)


def _set_shares(problem: Problem, theta: SetTheta) -> tuple[Marginals, Marginals]:
    shares, log_z = _shares(set_graph(problem, theta), _set_plan(theta))
    return Marginals(shares[:, 1], log_z), Marginals(positions(), positions())


def _draw_set(problem: Problem, theta: SetTheta, key: Array) -> Array:
    return _draw(set_graph(problem, theta), _set_plan(theta), key)


def _set_loss(problem: Problem, theta: SetTheta, y: Array, b: Array) -> Array:
    graph, plan = set_graph(problem, theta), _set_plan(theta)
    score = problem.model.score(theta, y)
    if plan is None:
        return listed_loss(all_scores(jax.lax.stop_gradient(graph)), score, b)
    graph = graph._replace(nodes=b * graph.nodes, pairs=b * graph.pairs)
    return graphs.log_partition(graph, plan) - b * score


SETS = Ways(_best_sets, _set_loss, _set_shares, _draw_set)


def ways_of_theta(problem: Problem, theta: GraphTheta | SetTheta) -> Ways:
    """The ways of a graph's or a set's theta.

    Raises:
      ValueError: no exact oracle serves it.
    """
    inference = problem.model.decode.args[-1].inference.name
    if inference == "relaxed":
        raise ValueError(
            'problem has inference="relaxed", whose outputs are marginals: give the problem of '
            "labellings with the same options, it takes the same weights"
        )
    if isinstance(theta, SetTheta):
        if theta.pairs is not None and 2 ** theta.labels.shape[0] > MOST_LABELLINGS:
            raise ValueError(
                f"problem has {theta.labels.shape[0]} labels with pairs, more sets than the "
                f"{MOST_LABELLINGS} that are listed: pairs=False has no such limit"
            )
        return SETS
    if theta.plan is not None:
        return PLANNED
    if inference != "enumeration":
        raise ValueError(
            f'inputs have no plans, without which inference="{inference}" gives neither the k best '
            "nor probabilities: make them with graph_inputs(.., plans=True)"
        )
    return ENUMERATED
