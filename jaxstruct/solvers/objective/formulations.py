"""The seven formulations of the thesis (3.4 to 3.7, appendix A) in one canonical form.

With phi_i(y) = s delta Psi_i(y) every formulation has the constraints <w, phi_i(y)> >= b - xi_i,
b lowered by s (K(x_i, y_i) - K(x_i, y)) where potentials are known, and the dual
    max  sum beta b - 1/2 |sum beta phi|^2 - 1/2 sum_i r_i (sum_y beta_iy)^2,
         beta >= 0,  sum_y beta_iy <= cap_i,
where the thesis's alpha_iy is s beta_iy and (v_i: example weight, 1 unless given)

                  s           b           cap_i      r_i
    SVM0          1           1           none       0
    SVM1          1           1           C v_i / n  0
    SVM2          1           1           none       n / (C v_i)
    SVM1 slack    Delta       Delta       C v_i / n  0
    SVM1 margin   1           Delta       C v_i / n  0
    SVM2 slack    sqrt Delta  sqrt Delta  none       n / (C v_i)
    SVM2 margin   1           sqrt Delta  none       n / (C v_i)
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import on_device
from jaxstruct.core.types import AnyArray, Array, PyTree


class Formulation(NamedTuple):
    """One of the seven, as numbers, so that all share one compiled solver.

    Fields:
      name: as users write it.
      scale_power: s = Delta ** scale_power, one of 0, 1/2, 1.
      bound_power: b = Delta ** bound_power, one of 0, 1/2, 1.
      penalty: 0 hard margin, 1 linear slack, 2 squared slack.
    """

    name: str
    scale_power: float
    bound_power: float
    penalty: int


FORMULATIONS = {
    item.name: item
    for item in (
        Formulation("svm0", 0.0, 0.0, 0),
        Formulation("svm1", 0.0, 0.0, 1),
        Formulation("svm2", 0.0, 0.0, 2),
        Formulation("svm1_slack", 1.0, 1.0, 1),
        Formulation("svm1_margin", 0.0, 1.0, 1),
        Formulation("svm2_slack", 0.5, 0.5, 2),
        Formulation("svm2_margin", 0.0, 0.5, 2),
    )
}


def formulation_named(name: str | Formulation) -> Formulation:
    """The formulation of a name, e.g. "svm1_margin" (a Formulation passes through).

    Raises:
      ValueError: the name is none of the seven.
    """
    if isinstance(name, Formulation):
        return name
    if not isinstance(name, str) or name not in FORMULATIONS:
        raise ValueError(f"formulation is {text_of(name)}; choose one of {', '.join(FORMULATIONS)}")
    return FORMULATIONS[name]


class Objective(NamedTuple):
    """What a training minimises.

    Fields:
      problem: the structure. inputs, outputs: n examples, as they come or in `Buckets`.
      formulation, C: see the module. example_weights: [n] v_i; None for 1.
    """

    problem: Problem
    inputs: PyTree
    outputs: PyTree
    formulation: Formulation
    C: float
    example_weights: np.ndarray | None = None


class Penalty(NamedTuple):
    """What C and the example weights make of a formulation.

    Fields:
      scale_power, bound_power: scalars, see Formulation.
      cap: [n] bound on sum_y beta_iy; infinity but for linear slack.
      ridge: [n] r_i.
    """

    scale_power: AnyArray
    bound_power: AnyArray
    cap: AnyArray
    ridge: AnyArray


def penalty(formulation: Formulation, C: float, weights: np.ndarray, n: int, dtype: str) -> Penalty:
    """The dual's cap and ridge for C and example weights, as `penalty_numbers` in a run's dtype."""
    numbers = penalty_numbers(formulation, C, weights, n)
    return Penalty(*(on_device(value, dtype) for value in numbers))


def penalty_numbers(formulation: Formulation, C: float, weights: np.ndarray, n: int) -> Penalty:
    """The dual's cap and ridge for C and example weights in float64.

    Args:
      formulation: one of the seven.
      C: the trade-off of the thesis; it is divided by n here, as there.
      weights: [N] example weights v_i >= 0; an example of weight 0 has no part in the training.
      n: the number of examples that C is divided by (rows of padding not counted).
    """
    used = weights > 0
    safe = np.where(used, weights, 1.0)
    unbounded = np.where(used, np.inf, 0.0)
    zeros = np.zeros_like(safe)
    cap, ridge = {
        0: (unbounded, zeros),
        1: (C * weights / n, zeros),
        2: (unbounded, np.where(used, n / (C * safe), 0.0)),
    }[formulation.penalty]
    return Penalty(formulation.scale_power, formulation.bound_power, cap, ridge)


def power_of_loss(losses: Array, power: Array) -> Array:
    """Delta ** power for power in {0, 1/2, 1}, with 0 ** 0 = 1."""
    root = jnp.sqrt(jnp.maximum(losses, 0))
    return jnp.where(power == 0, 1, jnp.where(power == 1, losses, root)).astype(losses.dtype)


def violation(losses: Array, margins: Array, terms: Penalty) -> Array:
    """H(y) = b - s <w, delta Psi_i(y)> (algorithm 3, line 6); an infinite margin gives -inf."""
    bound = power_of_loss(losses, terms.bound_power)
    scale = power_of_loss(losses, terms.scale_power)
    return jnp.where(jnp.isposinf(margins), -jnp.inf, bound - scale * margins)
