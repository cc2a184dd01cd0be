"""No shape of a batch ends the process, and every shape gets the answers of single examples.

A fault in compiled code ends a process, which no test can catch: so all calls are made in another
process, that says before each call what it is about to do. A program compiled as one kernel once
died at 65 trees of one word, in one JAX, and at no smaller batch.
"""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import alignments, assignments, chains, dependencies, graphs, segments, trees

ROOT = pathlib.Path(__file__).parents[1]
SIZES = {"65 of 2": (2, (65,), "float32"), "0 of 2": (2, (0,), "float32"),
         "3 x 2 of 3": (3, (3, 2), "float32"), "2 x 32 of 2": (2, (2, 32), "float64")}  # fmt: skip
"""name -> (the length of an input, the axes of the batch, the type of numbers)."""
S, KEY = 3, np.array([0, 7], np.uint32)
RULES = trees.GrammarRules(np.array([0, 1]), np.array([1, 0]), np.array([1, 2]))


def _chains(T: int, draw: Callable) -> tuple[Any, Any, dict[str, Callable]]:
    given = chains.ChainPotentials(draw(T, S), draw(S, S), draw(S))
    y, level = np.arange(T) % S, (np.zeros(T + 1), np.ones(T + 1))
    return given, T, {
        "viterbi": chains.viterbi,
        "k_best": functools.partial(chains.k_best, k=2),
        "log_partition": chains.log_partition,
        "marginals": chains.marginals,
        "sample": lambda p, length: chains.sample(p, length, KEY),
        "best_of_levels": lambda p, length: chains.best_of_levels(p, y, length, *level),
    }  # fmt: skip


def _segments(T: int, draw: Callable) -> tuple[Any, Any, dict[str, Callable]]:
    return segments.SegmentPotentials(draw(T, 2, S), draw(S, S)), T, {
        "viterbi": segments.viterbi,
        "k_best": functools.partial(segments.k_best, k=2),
        "log_partition": segments.log_partition,
        "marginals": segments.marginals,
        "sample": lambda p, length: segments.sample(p, length, KEY),
    }  # fmt: skip


def _trees(T: int, draw: Callable) -> tuple[Any, Any, dict[str, Callable]]:
    return trees.TreePotentials(draw(T, S), draw(2), draw(S)), T, {
        "cky": lambda p, length: trees.cky(RULES, p, length),
        "k_best": lambda p, length: trees.k_best_trees(RULES, p, length, k=2),
        "log_partition": lambda p, length: trees.log_partition(RULES, p, length),
        "marginals": lambda p, length: trees.rule_marginals(RULES, p, length),
        "sample": lambda p, length: trees.sample_tree(RULES, p, length, KEY),
    }  # fmt: skip


def _dependencies(T: int, draw: Callable, projective: bool) -> tuple[Any, Any, dict[str, Callable]]:
    heads, kind = np.arange(T), {"projective": projective}
    return draw(T + 1, T, 2), T, {
        "best_tree": functools.partial(dependencies.best_tree, **kind),
        "best_wrong": lambda p, length: dependencies.best_wrong_tree(
            p, (heads, heads % 2), length, **kind
        ),
        "k_best": functools.partial(dependencies.k_best_trees, k=2, **kind),
        "log_partition": functools.partial(dependencies.log_partition, **kind),
        "marginals": functools.partial(dependencies.marginals, **kind),
        "sample": lambda p, length: dependencies.sample_tree(p, length, KEY, **kind),
    }  # fmt: skip


def _assignments(T: int, draw: Callable) -> tuple[Any, Any, dict[str, Callable]]:
    y = np.arange(T)
    return draw(T, T + 1), np.array([T, T + 1]), {
        "best": functools.partial(assignments.best_matching, complete=True),
        "k_best": functools.partial(assignments.k_best_matchings, complete=False, k=2),
        "best_wrong": lambda p, length: assignments.best_wrong_matching(
            p, y, length, complete=False
        ),
    }  # fmt: skip


def _alignments(T: int, draw: Callable) -> tuple[Any, Any, dict[str, Callable]]:
    given = alignments.AlignmentPotentials(draw(T, T + 1), draw() ** 2, draw() ** 2)
    return given, np.array([T, T + 1]), {
        "global": alignments.global_alignment,
        "local": alignments.local_alignment,
        "k_best": functools.partial(alignments.k_best_global, k=2),
        "log_partition": functools.partial(alignments.log_partition, local=True),
        "marginals": functools.partial(alignments.marginals, local=False),
        "sample": lambda p, length: alignments.sample(p, length, KEY, local=True),
    }  # fmt: skip


def _graphs(V: int, draw: Callable) -> tuple[Any, Any, dict[str, Callable]]:
    edges = np.stack([np.arange(V - 1), np.arange(1, V)], axis=1).astype(np.int32)
    plan = graphs.elimination(V, edges)

    def of(function: Callable, *more: Any) -> Callable:
        def call(potentials: tuple, length: Any) -> Any:
            nodes, pairs = potentials
            return function(graphs.GraphPotentials(nodes, edges, pairs, length, V - 1), *more)

        return call

    return (draw(V, 2), draw(V - 1, 2, 2)), V, {
        "best": of(graphs.best_labelling, plan),
        "k_best": of(functools.partial(graphs.k_best_labellings, k=2), plan),
        "log_partition": of(graphs.log_partition, plan),
        "marginals": of(graphs.marginals, plan),
        "sample": of(graphs.sample_labelling, plan, KEY),
    }  # fmt: skip


TYPES: dict[str, Callable] = {
    "chains": _chains, "segments": _segments, "trees": _trees, "graphs": _graphs,
    "projective": functools.partial(_dependencies, projective=True),
    "non-projective": functools.partial(_dependencies, projective=False),
    "assignments": _assignments, "alignments": _alignments,
}  # fmt: skip
SUMS = ("log_partition",)
"""Whose gradients are taken as well."""


def _calls(name: str) -> Iterator[tuple[str, Callable]]:
    """(what it is, a call that checks) for all sizes and oracles of a type of output."""
    for size, (T, axes, dtype) in SIZES.items():
        random = np.random.default_rng(T)

        def draw(*shape: int, random: Any = random, dtype: str = dtype, axes: tuple = axes):
            return random.normal(size=(*axes, *shape)).astype(dtype)

        given, length, oracles = TYPES[name](T, draw)
        if name == "assignments" and 0 in axes:
            continue  # JAX cannot read one place of each of no examples
        for oracle, function in oracles.items():
            one = functools.partial(_called, function, length)
            kinds = {"": one} | ({" slope": jax.grad(one)} if oracle in SUMS else {})
            for kind, call in kinds.items():
                check = functools.partial(_check, call, given, axes)
                yield f"{name} {oracle}{kind}, {size}, {dtype}", check


def _called(function: Callable, length: Any, potentials: Any) -> Any:
    return jax.jit(function)(potentials, jnp.asarray(length, jnp.int32))


def _check(call: Callable, given: Any, axes: tuple[int, ...]) -> None:
    """A batch under jit, jit inside, has the answers of its first and last example alone."""
    batched = functools.reduce(lambda inner, _: jax.vmap(inner), axes, call)
    found = jax.jit(batched)(given)
    for at in {tuple(0 for _ in axes), tuple(size - 1 for size in axes)} if 0 not in axes else ():
        alone = call(jax.tree.map(lambda leaf, at=at: leaf[at], given))
        jax.tree.map(functools.partial(_close, at), found, alone)


def _close(at: tuple[int, ...], many: jax.Array, one: jax.Array) -> None:
    fine = 1e-4 if many.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(np.asarray(many)[at], one, rtol=fine, atol=fine)


@pytest.mark.thorough
def test_no_shape_ends_the_process() -> None:
    """What each oracle answers, the tests of its room hold."""
    env = os.environ | {"JAXSTRUCT_PLAIN": "0", "JAX_ENABLE_X64": "1"}
    call = [sys.executable, "-c", "from tests import test_shapes; test_shapes.main()"]
    ran = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, (ran.returncode, ran.stdout.splitlines()[-1:], ran.stderr[-3000:])


def main() -> None:
    """Make all calls, saying before each what it is."""
    for name in TYPES:
        for words, check in _calls(name):
            print(words, flush=True)
            check()
