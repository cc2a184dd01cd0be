"""How much work a function is, counted from its trace alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

_REPEATED = "repeated_"


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


def _inner(parameter: Any) -> Iterator[Any]:
    """The jaxprs in one parameter of an equation."""
    values = parameter if isinstance(parameter, (tuple, list)) else (parameter,)
    for value in values:
        if hasattr(value, "jaxpr"):
            yield value.jaxpr
        elif hasattr(value, "eqns"):
            yield value


def _work(jaxpr: Any) -> float:
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [one for value in equation.params.values() for one in _inner(value)]
        if inner:
            total += _turns(equation) * sum(map(_work, inner))
            continue
        sizes = [math.prod(getattr(out.aval, "shape", ())) for out in equation.outvars]
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            sizes = [sizes[0] * math.prod(shape[axis] for axis in contracted)]
        total += sum(sizes)
    return total


def _equations(jaxpr: Any) -> int:
    inner = [one for eqn in jaxpr.eqns for value in eqn.params.values() for one in _inner(value)]
    return len(jaxpr.eqns) + sum(map(_equations, inner))


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


def work_of(function: Callable, *arguments: Any) -> Work:
    """The work of a function, a rough measure, good to distinguish a thousand from a million.

    Args:
      function: of arrays. arguments: arrays or `jax.ShapeDtypeStruct`s; nothing is computed.
    """
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    return Work(_work(jaxpr), _equations(jaxpr))
