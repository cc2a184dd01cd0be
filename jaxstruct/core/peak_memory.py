"""How many bytes a program holds at once, counted from its trace alone, before it is compiled.

The order of the trace is taken as that of the program: an array is there from the equation that
computes it to the last one that reads it. XLA makes no array of what it can compute while it reads
it (broadcast values, elementwise ones of one reader), computes nothing that no result needs, and
writes into what nothing reads any more, as loops do into what they carry. With these rules the
count was .8 to 1.2 of what the compiler laid out on a CPU for charts and tables, which are most of
the bytes of an oracle, and .6 to 1.7 for programs without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from jaxstruct.core.work import inner_jaxprs, scan_counts

_SHAPES = {"broadcast_in_dim", "iota", "reshape", "squeeze", "expand_dims", "copy"}
"""Of what is there already, or of a number: each reader makes them anew."""

_MOVES = {"slice", "transpose", "dynamic_slice", "gather", "rev", "pad", "select_n"}
"""Made while they are read, as elementwise values are."""

_WRITES = {"dynamic_update_slice", "scatter", "scatter-add", "concatenate"}
_SUMS = {"reduce_sum", "reduce_max", "reduce_min", "reduce_or", "reduce_and", "argmax", "argmin"}
_WHOLE = {"sort", "top_k", "dot_general", "cumsum", "cumlogsumexp", "cummax"}


class _Loop(NamedTuple):
    """A loop.

    Fields:
      body: its jaxpr. carry: how many values it carries, `tested` those that its condition reads.
      operands, inputs: where these begin among the operands of the loop and the inputs of the body.
    """

    body: Any
    carry: int
    tested: list[bool]
    operands: int
    inputs: int


def _bytes(variables: Sequence) -> int:
    return sum(math.prod(var.aval.shape) * var.aval.dtype.itemsize for var in variables)


def _variables(atoms: Sequence) -> list:
    """Those that are no literals."""
    return [atom for atom in atoms if not hasattr(atom, "val")]


def _fused(equation: Any) -> bool:
    """Whether its value can be made while it is read."""
    name = equation.primitive.name
    if name in _SHAPES | _MOVES:
        return True
    if name in _WRITES | _SUMS | _WHOLE or inner_jaxprs(equation):
        return False
    shapes = {var.aval.shape for var in equation.invars} - {()}
    return shapes <= {equation.outvars[0].aval.shape} and len(equation.outvars) == 1


def _loop(equation: Any) -> _Loop | None:
    """Of a while loop or a scan; None of other equations."""
    given = equation.params
    if equation.primitive.name == "scan":
        constants, carry = scan_counts(given)
        return _Loop(given["jaxpr"].jaxpr, carry, [False] * carry, constants, constants)
    if equation.primitive.name != "while":
        return None
    condition, constants = given["cond_jaxpr"].jaxpr, given["cond_nconsts"]
    read = {var for one in condition.eqns for var in _variables(one.invars)}
    tested = [var in read for var in condition.invars[constants:]]
    own = given["body_nconsts"]
    return _Loop(given["body_jaxpr"].jaxpr, len(tested), tested, constants + own, own)


def _wanted_of(loop: _Loop, wanted: list[bool]) -> list[bool]:
    """Which results of its body are needed for those that are wanted of the loop."""
    tested = loop.tested + [False] * (len(wanted) - loop.carry)
    wanted = [a or b for a, b in zip(wanted, tested, strict=True)]
    _, read = _needed(loop.body, wanted)
    more = [var in read for var in loop.body.invars[loop.inputs :][: loop.carry]]
    more += [False] * (len(wanted) - loop.carry)
    more = [a or b for a, b in zip(wanted, more, strict=True)]
    return wanted if more == wanted else _wanted_of(loop, more)


def _operands(equation: Any, wanted: list[bool]) -> list:
    """What an equation reads for the results that are wanted."""
    loop = _loop(equation)
    if loop is None:
        return _variables(equation.invars)
    carried = _wanted_of(loop, wanted)[: loop.carry]
    needed = [True] * loop.operands + carried
    needed += [True] * (len(equation.invars) - len(needed))
    return _variables([var for var, own in zip(equation.invars, needed, strict=True) if own])


def _needed(jaxpr: Any, wanted: Sequence[bool]) -> tuple[list, set]:
    """(the equations that the wanted results need, the variables that are read for them)."""
    read = set(_variables([var for var, own in zip(jaxpr.outvars, wanted, strict=True) if own]))
    equations = []
    for equation in reversed(jaxpr.eqns):
        used = [var in read for var in equation.outvars]
        if any(used):
            equations.append(equation)
            read.update(_operands(equation, used))
    return equations[::-1], read


def _stand_ins(equations: list, results: set) -> dict[Any, frozenset]:
    """Variables of which no array is made, and the arrays that are read in their place."""
    readers: dict[Any, list] = {}
    for equation in equations:
        for var in _variables(equation.invars):
            readers.setdefault(var, []).append(equation)
    found: dict[Any, frozenset] = {}
    for equation in equations:
        var = equation.outvars[0]
        own = readers.get(var, [])
        single = equation.primitive.name in _SHAPES or len(own) == 1
        while_read = all(_fused(one) or one.primitive.name in _WRITES | _SUMS for one in own)
        if _fused(equation) and var not in results and single and while_read:
            parts = (found.get(one, frozenset([one])) for one in _variables(equation.invars))
            found[var] = frozenset().union(*parts)
    return found


def _inside(equation: Any, wanted: list[bool], free: dict[Any, int]) -> int:
    """The bytes that an equation of others needs beside what is there.

    Args:
      wanted: which results. free: the bytes of operands that nothing reads afterwards.
    """
    loop = _loop(equation)
    if loop is not None:
        results = _wanted_of(loop, wanted)
        operands = equation.invars[loop.operands :][: loop.carry]
        taken = set(_variables(operands)) & set(free)
        owned = [False] * loop.inputs + results[: loop.carry]
        owned += [True] * (len(loop.body.invars) - len(owned))  # a row of what is scanned
        rows = zip(equation.outvars[loop.carry :], wanted[loop.carry :], strict=True)
        most = _peak(loop.body, owned, results) + _bytes([var for var, own in rows if own])
        return most - sum(free[var] for var in taken)
    inner, most = inner_jaxprs(equation), []
    for one in inner:
        operands = equation.invars[len(equation.invars) - len(one.invars) :]
        pairs = zip(operands, one.invars, strict=True)
        first = {var: own for var, own in reversed([*pairs]) if not hasattr(var, "val")}
        taken = {own: free[var] for var, own in first.items() if var in free}
        owned = [var in taken for var in one.invars]
        most.append(_peak(one, owned, wanted) - sum(taken.values()))
    return max(most)


def _peak(jaxpr: Any, owned: Sequence[bool], wanted: Sequence[bool]) -> int:
    """The most bytes at once of what a jaxpr computes and of the inputs that it may write into.

    Args:
      owned: which inputs these are. wanted: which results are needed.
    """
    equations, read = _needed(jaxpr, wanted)
    results = set(_variables(jaxpr.outvars)) & read
    stand_ins = _stand_ins(equations, results)
    equations = [one for one in equations if one.outvars[0] not in stand_ins]

    def arrays(atoms: Sequence) -> set:
        return {one for var in _variables(atoms) for one in stand_ins.get(var, (var,))}

    last = {array: n for n, one in enumerate(equations) for array in arrays(one.invars)}
    last |= dict.fromkeys(arrays(list(results)), len(equations))
    held = {v: _bytes([v]) for v, own in zip(jaxpr.invars, owned, strict=True) if own}
    most = sum(held.values())
    for n, equation in enumerate(equations):
        free = {one: held[one] for one in arrays(equation.invars) if last[one] == n and one in held}
        new = {var: _bytes([var]) for var in equation.outvars if var in last}
        if inner_jaxprs(equation):
            more = _inside(equation, [var in last for var in equation.outvars], free)
        else:
            into = _fused(equation) or equation.primitive.name in _WRITES
            more = sum(new.values()) - into * min(sum(new.values()), sum(free.values()))
        most = max(most, sum(held.values()) + more)
        held = {one: size for one, size in held.items() if one not in free} | new
    return most


def peak_bytes(function: Callable, *arguments: Any) -> int:
    """The most bytes that the arrays of a function take at once, arguments not counted.

    Args:
      function: of arrays. arguments: arrays or `jax.ShapeDtypeStruct`s; nothing is computed.
    """
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    return _peak(jaxpr, [False] * len(jaxpr.invars), [True] * len(jaxpr.outvars))
