"""How much work a function is, counted from its trace alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import PyTree

_REPEATED = "repeated_"

_known: dict[tuple, Any] = {}


def repeated(function: Callable, turns: int) -> Callable:
    """The same function, which `work_of` counts `turns` times: the body of a loop that runs on.

    Args:
      function: of arrays. turns: about how many turns the loop takes, of an unknown length.
    """

    def one(*arguments: Any) -> Any:
        return function(*arguments)

    one.__name__ = one.__qualname__ = f"{_REPEATED}{turns}"
    return jax.jit(one)


def _turns(equation: Any) -> int:
    """How often what is inside an equation runs."""
    name = str(equation.params.get("name", ""))
    if name.startswith(_REPEATED):
        return int(name.removeprefix(_REPEATED))
    return equation.params.get("length", 1)


def scan_counts(given: dict) -> tuple[int, int]:
    """(constants, carried values) of a scan, by the parameters of its equation."""
    if "num_consts" in given:
        return given["num_consts"], given["num_carry"]
    constants, carried, _ = given["ft_in"].unpack()
    return len(constants), len(carried)


class Work(NamedTuple):
    """What a function takes.

    Fields:
      numbers: that it computes, each turn of a loop of known length counted; a turn of a loop of
        unknown length counts once, unless `repeated` says how often, a product of matrices by its
        multiplications.
      equations: of its trace, those of loops and of inner functions counted once: what is compiled.
    """

    numbers: float
    equations: int


def inner_jaxprs(equation: Any) -> list[Any]:
    """The jaxprs in the parameters of an equation."""
    found = []
    for parameter in equation.params.values():
        for value in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
            if hasattr(value, "jaxpr"):
                found.append(value.jaxpr)
            elif hasattr(value, "eqns"):
                found.append(value)
    return found


def _work(jaxpr: Any) -> Work:
    numbers, equations = 0.0, len(jaxpr.eqns)
    for equation in jaxpr.eqns:
        if inner := inner_jaxprs(equation):
            within, more = map(sum, zip(*map(_work, inner), strict=True))
            numbers, equations = numbers + _turns(equation) * within, equations + more
            continue
        size = 0
        for out in equation.outvars:
            size += math.prod(getattr(out.aval, "shape", ()))
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            size *= math.prod(shape[axis] for axis in contracted)
        numbers += size
    return Work(numbers, equations)


def work_of(function: Callable, *arguments: Any) -> Work:
    """The work of a function, a rough measure, good to distinguish a thousand from a million.

    Args:
      function: of arrays. arguments: arrays or `jax.ShapeDtypeStruct`s; nothing is computed.
    """
    return _work(jax.make_jaxpr(function)(*arguments).jaxpr)


def measure_once(measure: Callable, name: str, function: Callable, *given: PyTree) -> Any:
    """measure(function, *given), taken once for all arguments of the same shapes under this name.

    Args:
      measure: `work_of`, or another function of traces alone.
    """
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(given))
    key = measure, name, jax.tree.structure(given), shapes
    if key not in _known:
        _known[key] = measure(function, *given)
    return _known[key]
