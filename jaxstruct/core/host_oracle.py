"""Oracles in Python: a solver that is not in JAX, such as an integer program, behind a function.

    best = js.host_oracle(solve, lambda theta: jax.ShapeDtypeStruct(theta.shape, jnp.int32))
    js.Model(potentials, score, best, loss)

`best` is called as any function of the contract is, under `jit` and `vmap`; what it computes runs
on the host by `jax.pure_callback`, the examples of a batch side by side in threads.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_size
from jaxstruct.core.contract import Bounded
from jaxstruct.core.transposition import linear_leaves
from jaxstruct.core.types import PyTree


class _Counter:
    """How often a solver ran, counted by several threads."""

    def __init__(self) -> None:
        self.runs, self._lock = 0, threading.Lock()

    def add(self) -> None:
        with self._lock:
            self.runs += 1


@dataclasses.dataclass(frozen=True)
class HostOracle:
    """A function of the contract that a Python solver computes; `host_oracle` makes it.

    Two of the same solver are equal, and compile once.
    """

    solve: Callable
    output: Callable
    bounded: bool
    number: Callable | None
    threads: int
    _counter: _Counter = dataclasses.field(default_factory=_Counter, compare=False, repr=False)

    @property
    def runs(self) -> int:
        """How often solve has been called so far.

        `Solution.oracle_calls` counts the examples that rounds ask for; this counts also the checks
        before a run and rows of padding, and a batch's equal arguments once.
        """
        return self._counter.runs

    def __call__(self, *arguments: PyTree) -> PyTree:
        """The output of one example; under `vmap` of each of a batch."""
        leaves, structure = jax.tree.flatten(arguments)
        axes = [jnp.ndim(leaf) for leaf in leaves]
        wanted = self.output(*arguments)
        dtype = np.dtype(jnp.result_type(*linear_leaves(arguments[0])))
        if self.bounded:  # the threads of callbacks may lack x64, and would halve a float64
            bits: Any = jax.ShapeDtypeStruct((dtype.itemsize // 4,), np.uint32)
            wanted = Bounded(wanted, bits)

        def on_host(*leaves: Any) -> PyTree:
            """Leaves have the axes of all vmaps in front."""
            arrays = [np.asarray(leaf) for leaf in leaves]
            front = arrays[0].shape[: arrays[0].ndim - axes[0]]
            rows = [
                leaf.reshape(-1, *leaf.shape[leaf.ndim - axis :])
                for leaf, axis in zip(arrays, axes, strict=True)
            ]
            examples = [tuple(leaf[b] for leaf in rows) for b in range(len(rows[0]))]
            found = self._solved(structure, wanted, examples)
            return jax.tree.map(
                lambda *each: np.stack(each).reshape(*front, *np.shape(each[0])), *found
            )

        found = jax.pure_callback(on_host, wanted, *leaves, vmap_method="broadcast_all")
        if not self.bounded:
            return found
        bits = found.bound if dtype.itemsize == 8 else found.bound[0]
        return found._replace(bound=jax.lax.bitcast_convert_type(bits, dtype))

    def _solved(self, structure: Any, wanted: PyTree, examples: list[tuple]) -> list[PyTree]:
        """The outputs of a batch in its order; of equal arguments solve is called once."""
        keys = [tuple(leaf.tobytes() for leaf in leaves) for leaves in examples]
        first = {key: b for b, key in reversed(list(enumerate(keys)))}

        def one(b: int) -> PyTree:
            return self._of_one(jax.tree.unflatten(structure, examples[b]), wanted, b)

        pool = ThreadPoolExecutor(self.threads)
        try:
            found = dict(zip(first, pool.map(one, first.values()), strict=True))
        finally:
            pool.shutdown(cancel_futures=True)
        return [found[key] for key in keys]

    def _of_one(self, arguments: tuple, wanted: PyTree, b: int) -> PyTree:
        self._counter.add()
        try:
            answer = self.solve(*arguments)
            return _checked(answer, wanted)
        except Exception as error:
            number = None if self.number is None else int(self.number(*arguments))
            place = f"row {b} of a batch" if number is None else f"example {number}"
            name = getattr(self.solve, "__name__", str(self.solve))
            raise RuntimeError(
                f"host oracle {name} failed on {place}: {type(error).__name__}: {error}"
            ) from error


def _checked(answer: PyTree, wanted: PyTree) -> PyTree:
    """The answer in the dtypes that are wanted; a bound is rounded up.

    Raises:
      ValueError: it is of another structure or shape, no integers, or a bound that is NaN.
    """
    bounded = isinstance(wanted, Bounded)
    if isinstance(answer, Bounded) != bounded:
        raise ValueError(
            f"solve must return {'a' if bounded else 'no'} Bounded, as host_oracle(bounded="
            f"{bounded}) says, got {type(answer).__name__}"
        )
    output, like = (answer.output, wanted.output) if bounded else (answer, wanted)
    if jax.tree.structure(output) != jax.tree.structure(like):
        raise ValueError(f"solve must return an output like {jax.tree.structure(like)}")

    def of_leaf(leaf: Any, like: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        if leaf.shape != like.shape or leaf.dtype.kind not in "biu":
            raise ValueError(
                f"solve must return integers of shape {like.shape}, got {leaf.dtype} of shape "
                f"{leaf.shape}"
            )
        return leaf.astype(like.dtype)

    output = jax.tree.map(of_leaf, output, like)
    if not bounded:
        return output
    bound, kind = float(answer.bound), np.float32 if wanted.bound.shape == (1,) else np.float64
    if np.isnan(bound):
        raise ValueError("solve must return a bound, +inf where none is known, got nan")
    near = kind(bound)
    near = near if near >= bound else np.nextafter(near, kind(np.inf))
    bits: Any = np.array([near]).view(np.uint32)
    return Bounded(output, bits)


def host_oracle(
    solve: Callable,
    output: Callable,
    *,
    bounded: bool = False,
    number: Callable | None = None,
    threads: int | None = None,
) -> HostOracle:
    """A decode or an oracle of the contract, computed by a solver in Python.

    It stands for `Model.decode` (theta), `Oracles.loss_augmented_decode` (theta, y_true, scale) or
    `Oracles.best_wrong` (theta, y_true), in `fit`, `predict` and `losses`. theta must hold what the
    solver needs of the input, as integers where it is not linear in w.

    Args:
      solve: of the arguments of ONE example as NumPy arrays, padded; -> y, integers; it must
        depend on nothing else, break its ties in one way, and may be called by several threads.
      output: of the same arguments -> a pytree of jax.ShapeDtypeStruct, the shapes of y.
      bounded: solve returns Bounded(y, bound), with at least the maximum that it was asked for, as
        a mixed-integer program of a gap above 0 must. `Model.decode` takes none.
      number: of the same arguments -> the number of the example, which errors name; it comes with
        theta as an integer. None: they name the row of the batch.
      threads: that solve side by side; None for as many as the machine has processors. They gain
        where solve releases Python's lock, as compiled solvers do.

    Returns:
      A function of one example. An exception of solve ends the run with one that names the example;
      a run with a checkpoint is taken up from there.

    Raises:
      ValueError: solve, output or number is no function, or threads no number.
    """
    for name, function in (("solve", solve), ("output", output), ("number", number)):
        if not callable(function) and (name != "number" or number is not None):
            raise ValueError(f"{name} must be a function, got {type(function).__name__}")
    count = (os.cpu_count() or 1) if threads is None else checked_size("threads", threads)
    return HostOracle(solve, output, bool(bounded), number, count)
