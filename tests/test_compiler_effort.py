"""What the compiler makes at full effort, where the tests compile with the least effort.

Every recursion of the oracles once more at full effort, on the random cases of their own tests:
there the answers at the least effort are held against enumeration, here the answers at full effort
against those. CKY is the search for the best tree of a level with one level for all.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest

from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment
from jaxstruct.alignments.potentials import AlignmentPotentials
from jaxstruct.chains.oracles.decoding import k_best, viterbi
from jaxstruct.chains.oracles.hamming_levels import best_of_levels
from jaxstruct.chains.oracles.sums import marginals
from jaxstruct.trees.oracles.inside_outside import rule_marginals
from jaxstruct.trees.oracles.k_best_trees import k_best_trees, tree_levels
from tests.chains.oracles import truth as chains
from tests.solvers.cases import random_case
from tests.trees.oracles import truth as trees

ROOT = pathlib.Path(__file__).parents[1]
FEW_TOKENS = trees.SMALL._replace(tokens=3)
OPTIMISED = {"xla_backend_optimization_level": 3}
CHAIN = {
    "viterbi": viterbi,
    "k best": partial(k_best, k=2),
    "marginals": marginals,
    "levels": best_of_levels,
}
TREE = {
    "k best": partial(k_best_trees, k=2),
    "marginals": rule_marginals,
    "levels": partial(tree_levels, levels=FEW_TOKENS.tokens),
}


def assert_the_same(oracle, *several):
    """Integers equal where sums are exact, and nearly everywhere; floats to single precision.

    Args:
      several: (arguments, [n] bool: tied) of equal shapes.
    """
    lowered = jax.jit(oracle).lower(*several[0][0])
    quick, full = lowered.compile(), lowered.compile(OPTIMISED)
    for arguments, tied in several:
        assert_equal_answers(quick(*arguments), full(*arguments), tied)


def assert_equal_answers(quick, full, tied):
    quick, full = jax.tree.map(np.asarray, (quick, full))
    finite = 0
    for a, b in zip(jax.tree.leaves(quick), jax.tree.leaves(full), strict=True):
        assert a.dtype == b.dtype and len(a) == len(tied)
        if np.issubdtype(a.dtype, np.floating):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
            finite += np.isfinite(a).sum()
        else:
            np.testing.assert_array_equal(a[tied], b[tied])
            apart = (a != b).reshape(len(a), -1).any(axis=1)
            assert apart.mean() < 0.01
    assert finite >= len(tied) / 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name, number", [("viterbi", 2), ("k best", 7), ("marginals", 2), ("levels", 7)]
)
def test_chain_oracles(name, number):
    """The recursion is shared: varying tables in both orders once, then the oracles in turns."""
    given = chains.cases(*chains.STRUCTURES[number].values)
    potentials = chains.as_dtype(given.potentials, "float32")
    arguments = potentials, given.length
    if name == "levels":
        random = np.random.default_rng(0)
        lines = random.integers(-2, 3, (2, len(given.length), 6)).astype(np.float32)
        arguments = potentials, given.y_true, given.length, lines[0], np.abs(lines[1])
    assert_the_same(jax.vmap(CHAIN[name]), (arguments, given.tied))


@pytest.mark.thorough
@pytest.mark.parametrize("name", TREE)
def test_tree_oracles(name):
    """Odd seeds have integer potentials."""
    several = []
    for seed in (2, 3):
        given = trees.cases(trees.OWN, FEW_TOKENS, seed)
        potentials = trees.as_dtype(given.potentials, "float32")
        axes, arguments = [None, given.axes, 0], [given.rules, potentials, given.length]
        if name == "levels":
            axes.insert(2, 0)
            counts = np.random.default_rng(0).random((50, *potentials.spans.shape[1:])) < 0.5
            arguments.insert(2, counts)
        several.append((arguments, np.full(50, seed % 2 == 1)))
    assert_the_same(jax.vmap(TREE[name], tuple(axes)), *several)


@pytest.mark.thorough
@pytest.mark.parametrize("oracle", [global_alignment, local_alignment])
def test_alignment_oracles(oracle):
    random, count = np.random.default_rng(0), 600
    tied = np.arange(count) % 2 == 0
    pairs, gaps = random.normal(size=(count, 6, 5)), random.normal(0.4, 0.5, (2, count))
    pairs[tied], gaps[:, tied] = np.round(pairs[tied]), np.round(gaps[:, tied])
    potentials = AlignmentPotentials(*(leaf.astype(np.float32) for leaf in (pairs, *gaps)))
    lengths = random.integers(0, [7, 6], (count, 2)).astype(np.int32)
    assert_the_same(jax.vmap(oracle), ((potentials, lengths), tied))


TRAINING = """
import jax
jax.config.update("jax_enable_x64", True)
from jaxstruct import Settings, fit
from tests.solvers.cases import random_case
case = random_case(4)
settings = Settings(variant="auto", working_sets="grown")
found = fit(case.problem(), case.x, case.y, "svm1_slack", 10.0, tolerance=1e-6, settings=settings)
print(found.status.name, found.primal, found.dual)
"""


@pytest.mark.parametrize("plain", ["0", "1"])
def test_a_fit_as_users_have_it(plain):
    """In a process of its own, whose options no test has set, with what JAX does not document and
    without."""
    call = subprocess.run(
        [sys.executable, "-c", TRAINING],
        env=os.environ | {"XLA_FLAGS": "", "JAXSTRUCT_PLAIN": plain, "PYTHONPATH": str(ROOT)},
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, *ends = call.stdout.split()
    optimum = random_case(4).truth("svm1_slack", 10.0).objective
    assert status == "CONVERGED"
    np.testing.assert_allclose(np.array(ends, float), optimum, rtol=2e-6)
