"""No shape of a batch ends the process, and every shape gets the answers of single examples.

A fault in compiled code ends a process, which no test can catch: so all calls are made in another
process, that says before each call what it is about to do. A program compiled as one kernel once
died at 65 trees of one word, in one JAX, and at no smaller batch.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from tests.test_every_oracle import CASES

ROOT = pathlib.Path(__file__).parents[1]
SIZES = (((65,), "float32"), ((0,), "float32"), ((3, 2), "float32"), ((2, 32), "float64"))
"""The axes of the batch, and the type of numbers."""
TYPES, ORACLES = tuple(CASES)[:8], slice(1, 3)
"""Without rankings, which are sorted; other cases of a type have the same oracles, of graphs the
exact ones have recursions, and the best output is the first of the k best. Oracles take one of the
sizes each, by turns: all four of seven oracles took 730 s to compile, two of five 295."""


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
    random, sizes = np.random.default_rng(0), itertools.cycle(SIZES)
    for name in TYPES:
        case = CASES[name]()
        for oracle, call in [*case.oracles.items()][ORACLES]:
            axes, dtype = next(sizes)  # none of matchings: JAX cannot read a place of no examples
            print(name, oracle, axes, dtype, flush=True)
            shapes = [(*axes, *np.shape(leaf)) for leaf in jax.tree.leaves(case.potentials)]
            drawn = [random.normal(size=shape).astype(dtype) for shape in shapes]
            given = jax.tree.unflatten(jax.tree.structure(case.potentials), drawn)
            _check(jax.jit(call), given, axes)
