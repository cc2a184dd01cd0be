"""Small random examples of every structure, with all their outputs written down.

The truth knows Psi-bar(y) = d score(theta, y) / d theta of every output, and what losses say;
it makes no oracle call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

import jaxstruct as js
from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.structure import chain
from jaxstruct.core.transposition import is_linear, linear_leaves
from jaxstruct.core.types import PyTree
from jaxstruct.graphs.inputs import graph_inputs
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.trees.structure import weighted_grammar
from tests.chains.oracles.truth import all_labelings
from tests.trees.structure_cases import all_trees, examples, grammar

B, T, S = 10, 4, 3


class Case(NamedTuple):
    """B examples of one structure, float64.

    Fields:
      problem: the structure. theta, y: [B, ..] potentials and true outputs.
      outputs: [B, K, ..] every output, filled up with the true one. real: [B, K] which are outputs.
    """

    problem: js.Problem
    theta: PyTree
    y: PyTree
    outputs: PyTree
    real: np.ndarray


class Truth(NamedTuple):
    """What enumeration finds.

    Fields:
      psi: [B, K, P] Psi-bar of every output, P floating-point numbers of theta. true: [B, P].
      advantage: [B, K] F(y) - F(y_i); -inf where there is no output. delta: [B, K].
      same: [B, K] whether the output is the true one.
    """

    psi: np.ndarray
    true: np.ndarray
    advantage: np.ndarray
    delta: np.ndarray
    same: np.ndarray


def _numbers(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Of even examples integers, so that outputs tie; the first is all 0."""
    drawn = random.normal(size=(B, *shape))
    drawn[::2] = random.integers(-1, 2, drawn[::2].shape)
    drawn[0] = 0
    return drawn


def _filled(lists: list[list], y: PyTree) -> tuple[PyTree, np.ndarray]:
    """Lists of outputs as [B, K, ..], and which are real."""
    most = max(map(len, lists))
    true = [jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], y) for i in range(len(lists))]
    rows = [
        jax.tree.map(lambda *own: np.stack(own), *own, *[one] * (most - len(own)))
        for own, one in zip(lists, true, strict=True)
    ]
    real = np.arange(most) < np.array([len(own) for own in lists])[:, None]
    return jax.tree.map(lambda *own: np.stack(own), *rows), real


def _potentials(problem: js.Problem, x: PyTree, random: np.random.Generator) -> PyTree:
    """Of weights of its own for every example."""
    w = jax.tree.map(lambda leaf: _numbers(random, *leaf.shape), problem.initial_weights)
    return jax.jit(jax.vmap(problem.model.potentials))(w, x)


def _classes(random: np.random.Generator) -> Case:
    costs = random.integers(1, 4, (4, 4)) * (1.0 - np.eye(4))
    problem = js.multiclass.multiclass(2, 4, loss=costs, dtype="float64")
    y = random.integers(0, 4, B).astype(np.int32)
    outputs = np.broadcast_to(np.arange(4, dtype=np.int32), (B, 4))
    return Case(problem, jnp.asarray(_numbers(random, 4)), y, outputs, np.ones((B, 4), bool))


def _chains(random: np.random.Generator, loss: str = "hamming", order: int = 2) -> Case:
    problem = chain(1, S, start_stop=True, order=order, loss=loss, dtype="float64")
    length = (np.arange(B) % (T + 1)).astype(np.int32)
    shapes = (T, S), (S, S), (S,), (S,), (S, S, S)
    tables = [_numbers(random, *shape) for shape in shapes[: 3 + order]]
    tables[0][np.arange(T) >= length[:, None]] = np.nan  # padding is never read
    lists = [list(all_labelings(S, int(end), T)) for end in length]
    y = np.stack([own[random.integers(len(own))] for own in lists])
    theta = ChainTheta(*map(jnp.asarray, tables), *[None] * (2 - order), jnp.asarray(length))
    return Case(problem, theta, y, *_filled(lists, y))


def _trees(random: np.random.Generator) -> Case:
    problem = weighted_grammar(grammar(), loss="all_node_f1", dtype="float64")
    x, y = examples()
    lists = [all_trees(0, row) for row in range(B)]
    return Case(problem, _potentials(problem, x, random), y, *_filled(lists, y))


def _graphs(random: np.random.Generator, **options: str) -> Case:
    problem = graph_labelling(2, S, dtype="float64", **{"inference": "elimination"} | options)
    sizes = 2 + np.arange(B) % 3
    edges = [np.array([(a, b) for b in range(n) for a in range(b)][: 4 + n]) for n in sizes]
    nodes = [random.normal(size=(n, 2)) for n in sizes]
    lists = [list(all_labelings(S, int(n), 4)) for n in sizes]
    y = js.ragged([own[random.integers(len(own))][:n] for own, n in zip(lists, sizes, strict=True)])
    x, y = js.losses.padded_batch(problem, graph_inputs(nodes, edges, plans=True), y)
    return Case(
        problem, _potentials(problem, x, random), y, *_filled([_wide(own, y) for own in lists], y)
    )


def _wide(labels: list, y: np.ndarray) -> list:
    """Labellings with as much padding as the batch has."""
    return [np.pad(own, (0, y.shape[1] - len(own)), constant_values=-1) for own in labels]


_MAKERS = {"classes": _classes, "chains": _chains, "trees": _trees, "graphs": _graphs}


def case(output_type: str, **options: str | int) -> Case:
    """The examples of an output type, kept for each mode of 64 bits; options of its maker."""
    return _case(output_type, jax.config.jax_enable_x64, **options)


@cache
def _case(output_type: str, x64: bool, **options: str | int) -> Case:
    return _MAKERS[output_type](np.random.default_rng([*_MAKERS].index(output_type)), **options)


def flat(tree: PyTree) -> np.ndarray:
    """[B, P] the floating-point numbers of a batch of theta."""
    leaves = [np.asarray(leaf) for leaf in linear_leaves(tree)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def with_linear_part(theta: PyTree, parts: list) -> PyTree:
    """theta with other floating-point leaves."""
    given = iter(parts)
    return jax.tree.map(lambda leaf: next(given) if is_linear(leaf) else leaf, theta)


@cache
def truth(output_type: str, **options: str) -> Truth:
    """Enumerated, through the score alone."""
    problem, theta, y, outputs, real = case(output_type, **options)

    def of_one(theta: PyTree, y: PyTree, outputs: PyTree) -> tuple:
        def scores(parts: list) -> jax.Array:
            whole = with_linear_part(theta, parts)
            every = jax.vmap(problem.model.score, (None, 0))(whole, outputs)
            return jnp.append(every, problem.model.score(whole, y))

        rows = jax.jacrev(scores)(linear_leaves(theta))
        psi = jnp.concatenate([row.reshape(row.shape[0], -1) for row in rows], axis=1)
        losses = jax.vmap(problem.model.loss, (None, 0))(y, outputs)
        equal = [
            jnp.all(a == b[None], axis=tuple(range(1, a.ndim)))
            for a, b in zip(*map(jax.tree.leaves, (outputs, y)), strict=True)
        ]
        return psi, scores(linear_leaves(theta)), losses, jnp.all(jnp.stack(equal), axis=0)

    psi, scores, delta, same = map(np.asarray, jax.jit(jax.vmap(of_one))(theta, y, outputs))
    advantage = np.where(real, scores[:, :-1] - scores[:, -1:], -np.inf)
    assert (same & real).any(axis=1).all()
    return Truth(psi[:, :-1], psi[:, -1], advantage, np.where(real, delta, 0), same & real)


def differentiated(loss: Callable, problem: js.Problem, **batched: PyTree) -> Callable:
    """(theta, y) -> ([B] values, gradients in the floating-point leaves), one compiled program."""

    def of_one(theta: PyTree, y: PyTree, more: dict) -> tuple:
        def of_parts(parts: list) -> jax.Array:
            return loss(problem, with_linear_part(theta, parts), y, **more)

        return jax.value_and_grad(of_parts)(linear_leaves(theta))

    return partial(lambda run, theta, y: run(theta, y, batched), jax.jit(jax.vmap(of_one)))


def assert_slopes(run: Callable, given: Case, seed: int = 0, step: float = 1e-6) -> None:
    """Gradients are what central differences say, at potentials without ties."""
    random = np.random.default_rng(seed)
    parts = map(np.asarray, linear_leaves(given.theta))
    parts = [leaf + 0.1 * random.normal(size=leaf.shape) for leaf in parts]
    moves = [random.normal(size=leaf.shape) for leaf in parts]
    _, gradient = run(with_linear_part(given.theta, parts), given.y)
    ahead, behind = (
        np.asarray(
            run(
                with_linear_part(
                    given.theta, [a + sign * step * b for a, b in zip(parts, moves, strict=True)]
                ),
                given.y,
            )[0]
        )
        for sign in (1, -1)
    )
    found = sum(
        np.sum((np.asarray(g) * m).reshape(B, -1), axis=1)
        for g, m in zip(gradient, moves, strict=True)
    )
    wanted = (ahead - behind) / (2 * step)
    assert np.abs(wanted).sum() > 1
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def answers(
    loss: Callable, output_type: str, **options: str
) -> tuple[Truth, np.ndarray, np.ndarray]:
    """(what enumeration finds, [B] values, [B, P] gradients) of an output type's examples.

    Gradients are also held against differences.
    """
    given, own = case(output_type, **options), truth(output_type, **options)
    run = differentiated(loss, given.problem)
    value, gradient = run(given.theta, given.y)
    assert_slopes(run, given)
    return own, np.asarray(value), flat(gradient)


def hinge_truth(own: Truth, b: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([B] max(0, max_{y != y_i} b - s (F(y_i) - F(y))), [B, K] the values)."""
    wrong = np.isfinite(own.advantage) & ~own.same
    values = np.where(wrong, b + s * np.where(wrong, own.advantage, 0), -np.inf)
    return np.maximum(values.max(axis=1), 0), values


def softmax_truth(own: Truth, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([B] log sum exp of values [B, K], [B, P] mean Psi-bar less the true one)."""
    total = logsumexp(values, axis=1)
    p = np.exp(values - total[:, None])
    return total, np.einsum("bk,bkp->bp", p, own.psi) - own.true


def assert_among(gradient: np.ndarray, own: Truth, best: np.ndarray, factor: np.ndarray) -> None:
    """Each gradient is factor (Psi-bar(y) - Psi-bar(y_i)) of an output y among the best [B, K]."""
    planes = factor[:, :, None] * (own.psi - own.true[:, None])
    distance = np.abs(planes - gradient[:, None]).max(axis=2)
    assert (np.where(best, distance, np.inf).min(axis=1) < 1e-9).all()
