"""The least primal among the multiples of w, by a few oracle passes.

With m = s <w, phi> (s, b, phi as in `formulations`) the primal of c w, c > 0, is

    P(c w) = c^2 |w|^2 / 2 + sum_i penalty(max(0, max_y b_i(y) - c m_i(y))),

convex in c. A pass of oracles at some c finds one output of each example, so one line b - c m below
its maximum. The lines of all passes so far make a model that is nowhere above P(c w), and the least
point of the model is the next c (Kelley, "The cutting-plane method for solving convex programs",
1960, with the quadratic term as it is and a model for each example). Block ascent raises the dual
smoothly, while the primal of its w jumps where C is large: with |w|^2 / 2 = 8 and C = 100 it was
9.24 at w and 8.60 at 1.001 w, the dual 8.58.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.types import PyTree
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms
from jaxstruct.solvers.objective.formulations import Formulation, Penalty

PASSES = 4
"""At most so many of a search: two or three decide."""

BOUNDS, HALVINGS = (0.5, 2.0), 45
"""Where c is looked for, by so many halvings, to 4e-14. A line of a pass at c is off by what rounds
there, divided by c; a w that is off by more than a factor of 2 is no solution yet."""

_DOUBLE = partial(np.asarray, dtype=np.float64)


class Ray(NamedTuple):
    """The multiples of a w that a pass of oracles has certified.

    Fields:
      formulation, terms: what is solved. squares, dual_squares: [N] terms of |w|^2 and of
        |sum beta phi|^2. lines: (b [N], m [N]) of each pass.
    """

    formulation: Formulation
    terms: Penalty
    squares: np.ndarray
    dual_squares: np.ndarray
    lines: tuple[tuple[np.ndarray, np.ndarray], ...]

    def met(self, c: float, examples: ExampleTerms) -> Ray:
        """The ray with the lines of another pass, at c w."""
        return self._replace(lines=(*self.lines, _lines(c, examples)))

    def products(self, c: float) -> tuple[np.ndarray, np.ndarray]:
        """What `certify` takes at c w: the terms of its squared norm and of that of the dual."""
        return c**2 * self.squares, self.dual_squares

    def lowest(self) -> tuple[float, float]:
        """(c, value): where the model of P(c w) is least, and what it is there."""
        low, high = BOUNDS
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._model(middle)[1] >= 0 else (middle, high)
        return float(high), self._model(high)[0]

    def _model(self, c: float) -> tuple[float, float]:
        """(value, right derivative, or one of both at a kink) at c."""
        cap, ridge, square = self.terms.cap, self.terms.ridge, float(np.sum(self.squares))
        heights, margins = np.zeros(len(cap)), np.zeros(len(cap))
        for bounds, slopes in self.lines:
            height = bounds - c * slopes
            above = height > heights
            heights, margins = np.where(above, height, heights), np.where(above, slopes, margins)
        value, slope = c**2 * square / 2, c * square
        if self.formulation.penalty == 1:
            return value + float(cap @ heights), slope - float(cap @ margins)
        used = ridge > 0
        weighted = heights[used] / ridge[used]
        return value + float(heights[used] @ weighted) / 2, slope - float(margins[used] @ weighted)


def _lines(c: float, examples: ExampleTerms) -> tuple[np.ndarray, np.ndarray]:
    bounds, values = map(_DOUBLE, (examples.bound_found, examples.value))
    finite = np.isfinite(values)  # no output was found: none is violated
    return np.where(finite, bounds, 0), np.where(finite, bounds - values, 0) / c


def ray_of(
    formulation: Formulation,
    terms: Penalty,
    examples: ExampleTerms,
    primal_products: np.ndarray | None = None,
    dual_products: np.ndarray | None = None,
) -> Ray | None:
    """The ray through w, of what `certify` took; None where P(w) says P(c w), or w = 0."""
    of_w = examples.product if primal_products is None else primal_products
    of_dual = examples.product if dual_products is None else dual_products
    squares, dual_squares = map(_DOUBLE, (of_w, of_dual))
    if formulation.penalty == 0 or not 0 < np.sum(squares) < np.inf:
        return None
    terms = terms._replace(cap=_DOUBLE(terms.cap), ridge=_DOUBLE(terms.ridge))
    return Ray(formulation, terms, squares, dual_squares, (_lines(1.0, examples),))


def multiple(w: PyTree, c: float) -> PyTree:
    """c w, in the dtype of w and where w is; made on the host, so that no program is compiled."""

    def scaled(leaf: jax.Array) -> jax.Array:
        place = leaf.sharding if leaf.committed else None  # another place is another program
        return jax.device_put(np.asarray(leaf) * leaf.dtype.type(c), place)

    return jax.tree.map(scaled, w)


class Scaled(NamedTuple):
    """One of the multiples of w, certified by a pass.

    Fields:
      c: which. certificate: of c w, whose scale is c. examples: what the pass said, on the host.
      slack: of every row, in the order of a round's.
    """

    c: float
    certificate: Certificate
    examples: ExampleTerms
    slack: np.ndarray


def least_multiple(
    ray: Ray,
    at: Callable[[float], Scaled],
    wanted: float,
    alike: Callable[[Sequence[float]], Sequence[float]] = lambda numbers: numbers,
) -> list[Scaled]:
    """The passes of a search for P(c w) <= wanted; none where the model excludes that.

    Args:
      at: a pass at c w. alike: makes numbers those of the first process.
    """
    passes: list[Scaled] = []
    while len(passes) < PASSES:
        c, value = alike(ray.lowest())
        if not value <= wanted:
            break
        passes.append(at(c))
        if not passes[-1].certificate.primal > wanted:
            break
        ray = ray.met(passes[-1].c, passes[-1].examples)
    return passes
