"""Small functions as one kernel: on a CPU an operation by itself costs more than what it computes.

XLA's CPU runtime calls a kernel for every operation (or fusion of some), a tenth of a microsecond
and more each, and a loop over small arrays is mostly these calls. A function that is marked here
becomes one kernel, loops and all: ten pairwise steps of 16 blocks of 24 slots take 11 us for 19.
Products of larger matrices are better left outside, and what such a kernel cannot hold at all must
be: scatters, sorts and calls of libraries. A loop that writes rows with `dynamic_update_slice` is a
scatter that it can hold.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxpr_as_fun

from jaxstruct.core.work import inner_jaxprs, scan_counts

SWITCH = "JAXSTRUCT_ONE_KERNEL"
"""A variable of the environment: with 0 functions are not marked, should a compiler not bear it."""

_left_out: list[bool] = []

FEW = 64
"""An array of so few numbers may be copied."""


def runs_on_cpu() -> bool:
    """Whether programs that are traced now will run on a CPU."""
    return jax.default_backend() == "cpu"


@contextlib.contextmanager
def without_marks() -> Iterator[None]:
    """Within, functions are traced as any other."""
    _left_out.append(True)
    try:
        yield
    finally:
        _left_out.pop()


def one_kernel(function: Callable) -> Callable:
    """The same function, compiled as one kernel where the program runs on a CPU.

    The mark is one that XLA itself puts on small loops; a compiler that does not know it compiles
    the function as any other. Values are the same.

    Args:
      function: of arrays by position, all of which it reads there: nothing traced may be bound to
        it. Without sorts, `cond` and calls of libraries; it may be under `vmap` and inside loops.
    """

    @functools.wraps(function)
    def marked(*arguments: Any) -> Any:
        if _left_out or not runs_on_cpu() or os.environ.get(SWITCH) == "0":
            return function(*arguments)
        leaves, inside = jax.tree.flatten(arguments)

        def flat(*leaves: Any) -> Any:
            return function(*jax.tree.unflatten(inside, leaves))

        closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*leaves)
        read = read_inputs(closed.jaxpr, [True] * len(closed.out_avals))
        read = [is_read and jnp.size(leaf) > 0 for leaf, is_read in zip(leaves, read, strict=True)]

        def of_read(*given: Any) -> Any:
            rest = iter(given)
            every = [
                next(rest) if is_read else jnp.zeros(jnp.shape(leaf), jnp.result_type(leaf))
                for leaf, is_read in zip(leaves, read, strict=True)
            ]
            return jaxpr_as_fun(closed)(*every), _first_numbers(given, closed.out_avals)

        given = [leaf for leaf, is_read in zip(leaves, read, strict=True) if is_read]
        # of a constant XLA would drop the read; one by one, so that linear ones can be transposed
        given = [jax.lax.optimization_barrier(leaf) for leaf in given]
        marks: Any = {"xla_cpu_small_call": "true", "inlineable": "false"}
        marked_results: Any = set_xla_metadata(jax.jit(of_read)(*given), **marks)
        found, firsts = marked_results
        return jax.tree.unflatten(jax.tree.structure(shapes), _beside(found, firsts))

    return marked


def _beside(found: Sequence[Any], firsts: jax.Array) -> list[Any]:
    """The results, the smallest of them so that it seems to depend on the first numbers."""
    found = list(found)
    smallest = min(range(len(found)), key=lambda number: jnp.size(found[number]) or math.inf)
    found[smallest], _ = jax.lax.optimization_barrier((found[smallest], firsts))
    return found


def _first_numbers(given: Sequence[Any], outputs: Sequence[Any]) -> jax.Array:
    """The sum of the first numbers of arrays: reads that XLA cannot drop.

    XLA ends the process on an array that a kernel is given and does not read. Arrays of the shape
    of an output are left out, since one that is written in place would be copied for the read:
    what is written is read.
    """
    written = {(out.shape, out.dtype) for out in outputs if out.size > FEW}
    others = [leaf for leaf in given if (leaf.shape, leaf.dtype) not in written]
    firsts = [jnp.ravel(jax.lax.slice(leaf, (0,) * leaf.ndim, (1,) * leaf.ndim)) for leaf in others]
    return sum((first.astype(jnp.float32) for first in firsts), start=jnp.zeros(1, jnp.float32))


def read_inputs(jaxpr: Any, wanted: Sequence[bool]) -> list[bool]:
    """Which inputs of a jaxpr its wanted outputs depend on, loops seen through."""
    live = {var for var, is_wanted in zip(jaxpr.outvars, wanted, strict=True) if is_wanted}
    live = {var for var in live if not hasattr(var, "val")}
    for equation in reversed(jaxpr.eqns):
        outputs = [out in live for out in equation.outvars]
        if any(outputs):
            inputs = zip(equation.invars, _read_by(equation, outputs), strict=True)
            live |= {var for var, is_read in inputs if is_read and not hasattr(var, "val")}
    return [var in live for var in jaxpr.invars]


def _read_by(equation: Any, wanted: list[bool]) -> list[bool]:
    """Which inputs of an equation its wanted outputs depend on."""
    name, given = equation.primitive.name, equation.params
    if name == "while":
        of_cond = given["cond_nconsts"], given["cond_jaxpr"].jaxpr
        return _read_by_while(of_cond, (given["body_nconsts"], given["body_jaxpr"].jaxpr), wanted)
    if name == "scan":
        consts, carried = scan_counts(given)
        carry, rows = wanted[:carried], wanted[carried:]
        while True:
            read = read_inputs(given["jaxpr"].jaxpr, [*carry, *rows])
            more = [a or b for a, b in zip(carry, read[consts : consts + carried], strict=True)]
            if more == carry:
                return [*read[:consts], *carry, *read[consts + carried :]]
            carry = more
    inner = inner_jaxprs(equation)
    if len(inner) == 1 and name in ("jit", "pjit", "closed_call", "core_call"):
        return read_inputs(getattr(inner[0], "jaxpr", inner[0]), wanted)
    return [True] * len(equation.invars)


def _read_by_while(cond: tuple[int, Any], body: tuple[int, Any], carry: list[bool]) -> list[bool]:
    (cond_consts, cond_jaxpr), (body_consts, body_jaxpr) = cond, body
    by_cond = read_inputs(cond_jaxpr, [True])
    carry = [a or b for a, b in zip(carry, by_cond[cond_consts:], strict=True)]
    while True:
        read = read_inputs(body_jaxpr, carry)
        more = [a or b for a, b in zip(carry, read[body_consts:], strict=True)]
        if more == carry:
            return [*by_cond[:cond_consts], *read[:body_consts], *carry]
        carry = more
