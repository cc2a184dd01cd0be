"""Primal, dual and gap from the terms of each example, summed on the host in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import rows_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, PyTree
from jaxstruct.solvers.objective.formulations import Formulation, Penalty

ROUNDINGS = 1.0
"""By how many eps an inner product of few terms may be off in the run's dtype, see `roundings`."""
FEW_TERMS = 128
"""Up to so many terms a sum is off by no more than `ROUNDINGS` says."""
SURE = 1000
"""A plane is proven to beat the oracle where it does by so many times the rounding."""

_DOUBLE = partial(np.asarray, dtype=np.float64)


class ExampleTerms(NamedTuple):
    """What an oracle call says of each example, all [N], at the w it was made at.

    Fields:
      worst: max_y H(y), or its bound. value: H of the output found, equal to worst where the oracle
        is exact. slack: max(0, worst).
      known: max(0, max over S_i of H).
      bound: sum_y beta b. product: <w, sum_y beta phi>. multiplier_sum: sum_y beta.
      size: of the terms that worst is the sum of. reach: max over S_i of |phi|. Both say how much
        rounding there is.
      claim: the H that the oracle claims of the output found less the H that it has.
      bound_found: b of that output.
    """

    worst: AnyArray
    value: AnyArray
    slack: AnyArray
    known: AnyArray
    bound: AnyArray
    product: AnyArray
    multiplier_sum: AnyArray
    size: AnyArray
    reach: AnyArray
    claim: AnyArray = 0.0
    bound_found: AnyArray = 0.0

    @classmethod
    def of_columns(cls, numbers: AnyArray) -> ExampleTerms:
        """NumPy's arrays [N], from one of [N, 11] with a column a field."""
        return cls(*np.ascontiguousarray(np.asarray(numbers).T))


class Certificate(NamedTuple):
    """What is proven of an iterate.

    primal >= optimum >= dual, up to `rounding`, if the oracle is exact or its bounds hold.

    Fields:
      primal: P(w) of this w, every slack recomputed by the oracle, or the bound that it gives;
        infinite for a hard margin that is not met (see `scale`) and where no bound is known.
      primal_found: P(w) with the slacks of the outputs that the oracle found and of the planes at
        hand, at most the true P(w); below `primal` only where the oracle is inexact.
      dual: D(beta) of this beta, a lower bound of the optimum with any oracle.
      violation: max_i H(y_hat) - xi_i, the paper's stopping rule (algorithm 3, line 9).
      violation_found: the same of the outputs found.
      missed: by how much, beyond rounding, a plane at hand violates more than the oracle said to be
        possible, or the oracle's loss and score of its answer are off; above 0 the oracle is wrong
        and primal is no bound.
      relaxed_gap: the gap over the working sets only, P with slacks from S_i less D.
      mean_slack: 1/n sum_i xi_i over the n examples of positive weight.
      risk_bound: an upper bound on the empirical risk of this w over them, 1/n sum_i xi_i^p with
        p = 2 for the squared slack (SVM2) and 1 for the others. An example that w gets wrong has
        xi_i >= b(Delta) of the output that w gives it, so this bounds the mean Delta of svm1_slack,
        svm1_margin (propositions 9, 12: b = Delta), svm2_slack and svm2_margin (b = sqrt Delta),
        and the mean zero-one loss of svm0, svm1 and svm2 (b = 1; thesis 3.4), which know no Delta.
      scale: by how much w must be multiplied to be the primal solution: for SVM0 to meet the hard
        margin; else not 1 where a multiple of w was certified (`scaling`), of which all that is
        said of w here is.
      margin_bound: |w| / sum beta, an upper bound on the geometric margin that any weights can
        reach on these planes (they contain a convex combination of that norm).
      rounding: by how much P - D may be off because the run's dtype rounds; see `certify`. A gap
        below it is not known to be one.
    """

    primal: float
    primal_found: float
    dual: float
    violation: float
    violation_found: float
    missed: float
    relaxed_gap: float
    mean_slack: float
    risk_bound: float
    scale: float
    margin_bound: float
    rounding: float

    @property
    def gap(self) -> float:
        """P - D."""
        return self.primal - self.dual

    @property
    def oracle(self) -> str:
        """What P rests on: "exact", the outputs found; "bounded", the oracle's bounds, at most
        primal - primal_found above the true P(w); "none", nothing."""
        if not math.isfinite(self.primal):
            return "none"
        return "exact" if self.primal_found >= self.primal else "bounded"


def proven(gap: float, rounding: float, allowance: float) -> bool | None:
    """Whether a gap is within what is allowed: True, False, or None where rounding hides it.

    True if |gap| + rounding <= allowance. None if the gap itself is within, but more rounds are
    unlikely to prove it: it is negative, or below half its rounding, or the rounding alone takes
    all that is allowed.
    """
    if not gap <= allowance < math.inf:
        return False
    if abs(gap) + rounding <= allowance:
        return True
    hopeless = gap < 0 or not rounding < allowance or gap <= rounding / 2
    return None if hopeless else False


def roundings(inputs: PyTree) -> float:
    """By how many eps an inner product with the features of one input may be off.

    A term of a score of an array [n, a, b, ...] goes through at most T = a + b + ... additions (a
    token's m features, then T tokens), so that the sum is off by at most T u sum |terms|, with
    u = eps / 2. Errors of random sign add up to sqrt(T) u sum |terms| (Higham, Mary: A new approach
    to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019). In `certify` |w| |phi|
    and the terms of H stand for sum |terms|; they are so much larger that T / 128 eps are enough
    where that is less. This is what sums in order were found to need (features of one sign, long
    tails, one heavy feature first), not what is proven of them.

    Args:
      inputs: a batch, or one of every bucket, with a leading axis of examples; shapes are seen.
    """
    shapes = [np.shape(leaf)[1:] for leaf in jax.tree.leaves(inputs)]
    return roundings_of_terms(max((sum(shape) for shape in shapes), default=1))


def roundings_of_terms(terms: int) -> float:
    """The same of a sum of so many terms."""
    return ROUNDINGS * max(1.0, min(terms / FEW_TERMS, math.sqrt(terms) / 2))


def roundings_of_rows(inputs: tuple[PyTree, ...], outputs: tuple[PyTree, ...]) -> np.ndarray:
    """[N] of `roundings`, by bucket: one long example leaves those of others as they are."""
    buckets = zip(inputs, outputs, strict=True)
    return np.concatenate([np.full(rows_of(y), roundings(x)) for x, y in buckets])


def coordinate_norm(problem: Problem, w: PyTree, x: PyTree) -> float | None:
    """|w|^2 in float64 on the host; None where w are no orthonormal coordinates.

    Args:
      problem: the structure. w: the weights. x: a batch of inputs, of which only shapes are seen.
    """
    if (
        problem.space.squared_norm is None
        or jax.eval_shape(problem.space.squared_norm, w, x) is None
    ):
        return None
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(w)]
    with np.errstate(over="ignore", invalid="ignore"):  # a run that is not finite says so itself
        return float(sum(leaf @ leaf for leaf in leaves))


def _primal(
    penalty: int, terms: Penalty, squared_norm: float, violations: np.ndarray
) -> tuple[float, float]:
    """(P, scale of w) with these values of max H."""
    if penalty == 0:
        margin = 1 - float(np.max(violations))
        return (squared_norm / 2 / margin**2, 1 / margin) if margin > 0 else (np.inf, 1.0)
    slack, ridged = np.maximum(violations, 0), terms.ridge > 0
    if penalty == 1:
        return squared_norm / 2 + float(np.sum(terms.cap * slack)), 1.0
    squares = slack[ridged] ** 2 / (2 * terms.ridge[ridged])
    return squared_norm / 2 + float(np.sum(squares)), 1.0


def _rounding_of(
    primal_of: Callable[[np.ndarray], tuple[float, float]],
    primal: float,
    eps: float | np.ndarray,
    examples: ExampleTerms,
    cap: np.ndarray,
    squared_norm: float,
    coordinates: float | None,
) -> tuple[float, np.ndarray]:
    """(by how much P - D may be off, [N] by how much an H of each example may be).

    With eps that of the dtype, `roundings` times, an H of example i is off by at most
    e_i = eps (|w| max_y |phi_i(y)| + |terms of H|), so P by P(worst + e) - P(worst), and
    <w, sum beta phi> by sum_i e_i sum_y beta_iy. The sum of planes is off by
    d = eps sum beta |phi|, which adds d^2 / 2. To these come eps sum beta b, what the caps are
    exceeded by, and half of what |w|^2 differs from its inner product. Where w are no coordinates
    (kernel anchors), sum beta |phi| stands for |w|, far above their inner products.
    """
    worst, _, slack, _, bound, _, multiplier_sum, size, reach, *_ = examples
    used = cap > 0
    length = np.sqrt(squared_norm)
    if coordinates is None:
        length = np.sum(multiplier_sum * reach)
    error = eps * (length * reach + size)
    drift = 0.0 if coordinates is None else abs(np.float64(coordinates) - squared_norm) / 2
    moved = primal_of((worst + error)[used])[0] - np.float64(primal)
    excess = np.sum((np.maximum(multiplier_sum - cap, 0) * slack)[used])
    of_sums = np.sum(multiplier_sum * error) + np.sum(eps * multiplier_sum * reach) ** 2 / 2
    return float(drift + moved + excess) + float(of_sums + np.sum(eps * np.abs(bound))), error


def certify(
    formulation: Formulation,
    terms: Penalty,
    examples: ExampleTerms,
    primal_products: np.ndarray | None = None,
    dual_products: np.ndarray | None = None,
    coordinates: float | None = None,
    off_by: float | np.ndarray = ROUNDINGS,
    dtype: np.dtype | None = None,
) -> Certificate:
    """Sum the terms of the examples.

    Where w is sum beta phi, |w|^2 is the sum of <w, sum_y beta phi_i(y)>; a solver whose primal w
    is another one than that of its dual variables gives the terms of both squared norms.

    P = 1/2 |w|^2 + sum_i (C v_i/n) xi_i, or + sum_i (C v_i/2n) xi_i^2; for SVM0, with m = min_i,y
    <w, delta Psi_i(y)> > 0, P(w / m) = |w|^2 / 2 m^2. D as in `formulations`,
    rounding as in `_rounding_of`.

    Args:
      formulation, terms, examples: what is certified.
      primal_products, dual_products: [N] terms of the two squared norms, where they differ.
      coordinates: |w|^2 of `coordinate_norm`, or None.
      off_by: of `roundings` for all inputs, or [N] for each; not used where w are no coordinates.
      dtype: what the numbers behind the terms were rounded to, None for the dtype of the terms.
    """
    off_by = ROUNDINGS if coordinates is None else off_by
    eps = off_by * float(np.finfo(dtype or np.asarray(examples.worst).dtype).eps)
    cap, ridge = map(_DOUBLE, (terms.cap, terms.ridge))
    numbers = ExampleTerms(*map(_DOUBLE, examples))
    worst, value, slack, known, bound, product, multiplier_sum, *_ = numbers
    used = cap > 0
    of_primal = product if primal_products is None else primal_products
    of_dual = product if dual_products is None else dual_products
    squared_norm = max(float(np.sum(of_primal, dtype=np.float64)), 0.0)
    dual_norm = max(float(np.sum(of_dual, dtype=np.float64)), 0.0)
    dual = float(np.sum(bound)) - dual_norm / 2 - float(np.sum(ridge * multiplier_sum**2)) / 2

    of_used = terms._replace(cap=cap[used], ridge=ridge[used])
    primal_of = partial(_primal, formulation.penalty, of_used, squared_norm)
    primal, scale = primal_of(worst[used])
    met = value if formulation.penalty == 0 else np.maximum(value, known)
    found, scale_found = primal_of(met[used])
    relaxed, _ = primal_of(known[used])
    total = float(np.sum(multiplier_sum))
    with np.errstate(over="ignore", invalid="ignore"):
        rounding, error = _rounding_of(
            primal_of, float(primal), eps, numbers, cap, squared_norm, coordinates
        )
        # A plane at hand above the oracle's answer, or a claimed H that the answer lacks: a wrong
        # oracle, where it exceeds all rounding by far.
        off = np.maximum(known - np.maximum(worst, 0), np.abs(numbers.claim))
        finite = used & np.isfinite(error)  # what overflows proves nothing
        missed = np.max((off - SURE * error)[finite], initial=0.0)
    return Certificate(
        primal=float(primal),
        primal_found=float(found),
        dual=dual,
        violation=float(np.max((worst - known)[used])),
        violation_found=float(np.max((value - known)[used])),
        missed=math.inf if math.isnan(missed) else float(missed),
        relaxed_gap=float(relaxed) - dual,
        mean_slack=float(np.mean(slack[used])),
        risk_bound=float(np.mean(slack[used] ** max(formulation.penalty, 1))),
        scale=float(scale if np.isfinite(primal) else scale_found),
        margin_bound=float(np.sqrt(dual_norm) / total) if total > 0 else math.inf,
        rounding=float(rounding) if math.isfinite(rounding) else math.inf,
    )


def block_gaps(formulation: Formulation, terms: Penalty, examples: ExampleTerms) -> np.ndarray:
    """[N] each example's part of P - D (of the outputs found), at a w that is sum beta phi.

    cap xi - sum beta H for a linear slack, xi^2 / 2r + r m^2 / 2 - sum beta H for a squared one
    (m = sum beta); for a hard margin, which has no gap before it is met, xi + |sum beta H|.
    """
    cap, ridge = map(_DOUBLE, (terms.cap, terms.ridge))
    examples = ExampleTerms(*map(_DOUBLE, examples))
    slack, multiplier_sum = np.maximum(examples.value, 0), examples.multiplier_sum
    gained = examples.bound - examples.product
    used = cap > 0
    if formulation.penalty == 1:
        gaps = cap * slack - gained
    elif formulation.penalty == 2:
        squares = slack**2 / (2 * np.where(ridge > 0, ridge, 1))
        gaps = squares + ridge * multiplier_sum**2 / 2 - gained
    else:
        gaps = slack + np.abs(gained)
    return np.where(used, np.maximum(gaps, 0), 0)
