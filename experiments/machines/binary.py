"""Binary machines with a bias that is not regularised (thesis 2.2 to 2.5), in float64 on the host.

With t_i = +-1 the class of example i and beta_i = alpha_i t_i, the duals (2.8) to (2.10) with a
bias b are, in one form,

    max  sum alpha_i - 1/2 sum_ij beta_i beta_j K(x_i, x_j) - 1/2 sum_i r_i alpha_i^2,
         0 <= alpha_i <= cap_i,   sum_i beta_i = 0,

where the equation is the bias's (the thesis leaves it out where it drops b), and

                   cap_i      r_i
    hard margin    none       0
    L1 (2.6)       C v_i / n  0
    L2 (2.7)       none       n / (C v_i)

A step moves beta_i up and beta_j down by as much. With v_i = t_i - f_i - r_i beta_i, f_i =
sum_j beta_j K(x_i, x_j), a point is optimal when no v_i of an example that may go up exceeds a v_j
of one that may go down; between the two lies the bias. i is the largest v, j the partner of largest
gain (Fan, Chen and Lin 2005, second order). Steps are made in the part of the examples that violate
most, whose kernel matrix is held (Joachims 1999).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from jaxstruct.core.checks import checked_number
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.multiclass.structure import KernelInput

Array = np.ndarray
MILDEST_FIRST = (
    Status.CONVERGED, Status.ROUNDING, Status.PASS_LIMIT, Status.NOT_SEPARABLE, Status.NOT_FINITE,
)  # fmt: skip
PART = 256
"""Examples of a part: all of a machine that separates two classes of CLINC150 are one."""
STEPS = 20
"""Steps an example between two certificates, and 1000 more."""
EASED = 0.1
"""A part is solved until its violation is this much of what it was, or the goal."""


class Rows(NamedTuple):
    """Inputs as the dual sees them.

    Fields:
      x: [n, d] dense or sparse, or the kernel values [n, n]. kernel: whether it is these.
      centre: [d] what was taken from dense rows, which changes no optimum, since the bias is free.
    """

    x: Any
    kernel: bool
    centre: Array

    def values(self, a: Array, b: Array) -> Array:
        """[a, b] K(x_i, x_j)."""
        if self.kernel:
            return self.x[np.ix_(a, b)]
        found = self.x[a] @ self.x[b].T
        return found.toarray() if issparse(found) else found

    def scores(self, index: Array, of: Array, beta: Array) -> Array:
        """[index] sum_j beta_j K(x_i, x_j), j in `of`."""
        if self.kernel:
            return self.values(index, of) @ beta
        return self.x[index] @ (self.x[of].T @ beta)

    def weights(self, index: Array, beta: Array) -> Array:
        """w = sum_i beta_i x_i (2.12), [d]; coefficients [n] of kernel values."""
        if self.kernel:
            return np.bincount(index, beta, len(self.x))
        return self.x[index].T @ beta


def rows_of(inputs: PyTree, number_of_features: int | None = None) -> Rows:
    """Dense, sparse or kernel inputs in float64, see `fit_binary`."""
    if isinstance(inputs, KernelInput):
        return Rows(np.asarray(inputs.row, np.float64), True, np.zeros(0))
    if not isinstance(inputs, SparseFeatures):
        x = np.asarray(inputs, np.float64)
        centre = x.mean(axis=0)
        return Rows(x - centre, False, centre)
    d, (indices, values) = number_of_features, inputs
    assert d is not None, "sparse inputs do not say how many features there are"
    if isinstance(indices, Ragged) and isinstance(values, Ragged):
        every, width = np.arange(len(indices)), max(1, int(indices.lengths.max(initial=1)))
        indices, values = indices.padded(every, width, d), values.padded(every, width)
    indices, values = np.asarray(indices), np.asarray(values, np.float64)
    places = np.arange(0, indices.size + 1, indices.shape[1])
    x = csr_array((values.ravel(), indices.ravel(), places), shape=(len(indices), d + 1))
    return Rows(x[:, :d], False, np.zeros(d))


class BinaryMachines(NamedTuple):
    """M trained machines F_m(x) = <w_m, x> + b_m; arrays are NumPy's.

    Fields:
      weights: {"weights": W [d, M], "bias": b [M]}; of kernel values {"coefficients": [n, M],
        "bias"}. W is the expansion sum_i t_i alpha_i x_i (2.12) of each machine, of a hard margin
        scaled so that the least margin is 1.
      status: how the worst of them ended (of `MILDEST_FIRST`), statuses: each of them.
      primal, dual, gap: [M], primal >= optimum >= dual up to rounding in float64.
      margin_bound: [M] no hyperplane has a larger geometric margin; known for svm0, else NaN.
      members: [M, s] int32 the examples of each machine, n where there are no more.
      alpha: [M, s] their multipliers. signs: [M, s] their t_i. slack: [M, s] their xi_i.
      steps: [M] pairwise steps.
      formulation, C: what was solved.
    """

    weights: PyTree
    status: Status
    statuses: tuple[Status, ...]
    primal: Array
    dual: Array
    gap: Array
    margin_bound: Array
    members: Array
    alpha: Array
    signs: Array
    slack: Array
    steps: Array
    formulation: str
    C: float

    def __repr__(self) -> str:
        """One line without the arrays."""
        return (
            f"BinaryMachines(machines={len(self.primal)}, status={self.status}, formulation="
            f"{self.formulation!r}, C={self.C:.6g}, primal={self.primal.sum():.6g} in sum, "
            f"support vectors={int(np.sum(self.alpha > 0))})"
        )


class Rules(NamedTuple):
    """When a machine stops; see `fit_binary`."""

    tolerance: float
    max_passes: int
    min_margin: float


class Dual(NamedTuple):
    """The dual of one machine over its examples `index` [s]: [s] signs, bounds, ridges."""

    rows: Rows
    index: Array
    signs: Array
    cap: Array
    ridge: Array


class Point(NamedTuple):
    """Multipliers of a machine and what they prove; v as above, bias at the centre of the rows."""

    alpha: Array
    v: Array
    bias: float
    slack: Array
    primal: float
    dual: float
    scale: float


def fit_binary(
    inputs: PyTree,
    signs: Array,
    formulation: str = "svm1",
    C: float = 1.0,
    *,
    number_of_features: int | None = None,
    tolerance: float = 1e-3,
    max_passes: int = 200,
    min_margin: float = 1e-3,
    dtype: str = "float32",
) -> BinaryMachines:
    """Trains binary machines, one after the other (thesis 2.3, 2.4).

        svm0 (2.5)  min 1/2 |w|^2                            t_i (<w, x_i> + b) >= 1
        svm1 (2.6)  min 1/2 |w|^2 + C/n sum_i xi_i           t_i (<w, x_i> + b) >= 1 - xi_i
        svm2 (2.7)  min 1/2 |w|^2 + C/(2n) sum_i xi_i^2      the same

    Args:
      inputs: [n, d] dense, `SparseFeatures` of n rows (padded or ragged), or the `KernelInput` of
        `kernel_inputs(gram)`, n x n.
      signs: [n] of -1 and 1, or [n, M], a column a machine; 0 leaves an example out.
      formulation: svm0, svm1 or svm2.
      C: divided by n, the number of ALL examples, in each machine: an example's slack costs the
        same in machines that see few. Ignored by svm0.
      number_of_features: d, needed with sparse inputs alone.
      tolerance: each machine stops when P - D is at most tolerance P.
      max_passes: bound on the certificates, with `STEPS` an example between two.
      min_margin: svm0 gives a machine up once its margin is proven to be below this fraction of
        the largest distance of its examples from their mean.
      dtype: of the weights that are returned.

    Returns:
      BinaryMachines; look at `status` first: CONVERGED, PASS_LIMIT, ROUNDING (float64 hides the
      rest), NOT_SEPARABLE (svm0) or NOT_FINITE.

    Raises:
      ValueError: a machine lacks one of the two signs.
    """
    rules = Rules(checked_number("tolerance", tolerance, 1e-12), max_passes, min_margin)
    rows = rows_of(inputs, number_of_features)
    n = rows.x.shape[0]
    table = np.asarray(signs).reshape(n, -1).astype(np.int8)
    _check_sides(table)
    members, own = _members(table, n)
    found = [
        _machine(_dual(rows, *pair, formulation, C), formulation == "svm0", rules)
        for pair in zip(members, own, strict=True)
    ]
    return _gathered(rows, members, own, found, formulation, C, dtype)


def _check_sides(signs: Array) -> None:
    for sign in (1, -1):
        bare = np.flatnonzero(~(signs == sign).any(axis=0))
        if bare.size:
            raise ValueError(
                f"signs[:, {bare[0]}] has no {sign} ({bare.size} such): a machine needs examples "
                "on both sides"
            )


def _members(signs: Array, n: int) -> tuple[Array, Array]:
    """[M, s] examples and signs of each machine; all of them where some machine sees most."""
    counts = np.count_nonzero(signs, axis=0)
    machines = signs.shape[1]
    if 2 * counts.max() > n:
        everyone = np.broadcast_to(np.arange(n, dtype=np.int32), (machines, n))
        return everyone, np.ascontiguousarray(signs.T)
    machine, example = np.nonzero(signs.T)
    place = np.arange(len(machine)) - np.repeat(np.cumsum(counts) - counts, counts)
    members = np.full((machines, counts.max()), n, np.int32)
    own = np.zeros(members.shape, np.int8)
    members[machine, place], own[machine, place] = example, signs[example, machine]
    return members, own


def _dual(rows: Rows, members: Array, signs: Array, formulation: str, C: float) -> Dual:
    """Of the examples that take part in a machine."""
    index = members[signs != 0]
    t, price = signs[signs != 0].astype(np.float64), C / rows.x.shape[0]
    cap = np.full(len(t), price if formulation == "svm1" else np.inf)
    ridge = np.full(len(t), 1 / price if formulation == "svm2" else 0.0)
    return Dual(rows, index, t, cap, ridge)


def _movable(dual: Dual, alpha: Array) -> tuple[Array, Array]:
    """[s] whether beta_i may grow, and whether it may shrink."""
    below, above, positive = alpha < dual.cap, alpha > 0, dual.signs > 0
    return np.where(positive, below, above), np.where(positive, above, below)


def _machine(dual: Dual, hard: bool, rules: Rules) -> tuple[Point, Status, int]:
    """One machine, certificate by certificate, until it has a status; its steps."""
    radius = _radius(dual) if hard else 0.0
    goal, steps = min(0.1, 10 * rules.tolerance), 0
    finest = 4 * np.finfo(np.float64).eps
    best = now = _point(dual, np.zeros(len(dual.signs)), hard)
    for _ in range(rules.max_passes):
        alpha, made = _ascended(dual, now, goal)
        steps += made
        now = _point(dual, alpha, hard)
        if not math.isfinite(now.dual):
            return now, Status.NOT_FINITE, steps
        if now.primal - now.dual <= best.primal - best.dual or not math.isfinite(best.primal):
            best = now
        if best.primal - best.dual <= rules.tolerance * best.primal < math.inf:
            return best, Status.CONVERGED, steps
        if hard and _margin_bound(best) < rules.min_margin * radius:
            return best, Status.NOT_SEPARABLE, steps
        if goal < finest:
            return best, Status.ROUNDING, steps
        goal /= 4
    return best, Status.PASS_LIMIT, steps


def _radius(dual: Dual) -> float:
    """The largest distance of an example from the mean of all."""
    s, every = len(dual.index), dual.index
    mean = dual.rows.scores(every, every, np.full(s, 1 / s))
    own = np.array([dual.rows.values(i, i)[0, 0] for i in every[:, None]])
    return math.sqrt(max(0, np.max(own - 2 * mean) + mean.mean()))


def _margin_bound(point: Point) -> float:
    return 1 / math.sqrt(2 * max(point.dual, np.finfo(np.float64).tiny))


def _point(dual: Dual, alpha: Array, hard: bool) -> Point:
    """What multipliers prove, made anew from the inputs."""
    rows, index, t, cap, ridge = dual
    beta = alpha * t
    f = rows.scores(index, index, beta)
    v = t - f - ridge * beta
    up, down = _movable(dual, alpha)
    bias = (v[up].max(initial=-np.inf) + v[down].min(initial=np.inf)) / 2
    square, margins = beta @ f, t * (f + bias)
    slack = np.maximum(0, 1 - margins)
    bound = float(alpha.sum() - square / 2 - ridge @ alpha**2 / 2)
    if hard:
        least = margins.min()
        primal, scale = (square / 2 / least**2, 1 / least) if least > 0 else (np.inf, 1.0)
        return Point(alpha, v, bias, slack, float(primal), bound, float(scale))
    stiff = np.where(cap > 0, 1 / np.where(ridge > 0, ridge, 1), 0)
    cost = stiff @ slack**2 / 2 if ridge.any() else cap @ slack
    return Point(alpha, v, bias, slack, float(square / 2 + cost), bound, 1.0)


def _ascended(dual: Dual, point: Point, goal: float) -> tuple[Array, int]:
    """Multipliers whose violation is at most the goal, or after the steps of one pass."""
    rows, index, t, _, ridge = dual
    alpha, v, steps, most = point.alpha.copy(), point.v.copy(), 0, STEPS * len(t) + 1000
    while steps < most:
        up, down = _movable(dual, alpha)
        violation = v[up].max(initial=-np.inf) - v[down].min(initial=np.inf)
        if not violation > goal:
            break
        part = _part(up, down, v)
        own = Dual(rows, index[part], t[part], dual.cap[part], ridge[part])
        eased = max(goal, EASED * violation)
        new, made = _in_pairs(own, alpha[part], v[part], eased, most - steps)
        change = (new - alpha[part]) * t[part]
        v -= rows.scores(index, own.index, change)
        v[part] -= own.ridge * change
        alpha[part] = new
        steps += max(made, 1)
    return alpha, steps


def _part(up: Array, down: Array, v: Array) -> Array:
    """Places of the examples that violate most on either side; all where they are few."""
    if len(v) <= PART:
        return np.arange(len(v))
    high, low = np.where(up, v, -np.inf), np.where(down, v, np.inf)
    first, second = np.argpartition(-high, PART // 2), np.argpartition(low, PART // 2)
    return np.union1d(first[: PART // 2], second[: PART // 2])


def _in_pairs(dual: Dual, alpha: Array, v: Array, goal: float, most: int) -> tuple[Array, int]:
    """Multipliers after steps of pairs within some examples, and how many steps."""
    values, t = dual.rows.values(dual.index, dual.index), dual.signs
    alpha, v, stiff = alpha.copy(), v.copy(), np.diagonal(values) + dual.ridge
    for count in range(most):
        up, down = _movable(dual, alpha)
        i = int(np.argmax(np.where(up, v, -np.inf)))
        ahead = v[i] - v
        if not ahead[down].max(initial=-np.inf) > goal:
            return alpha, count
        curvature = np.maximum(stiff[i] + stiff - 2 * values[i], 1e-15 * (stiff[i] + stiff))
        curvature = np.where(curvature > 0, curvature, 1)
        j = int(np.argmax(np.where(down & (ahead > 0), ahead**2 / curvature, -np.inf)))
        size = ahead[j] / curvature[j]
        ends = [dual.cap[i] if t[i] > 0 else 0.0, 0.0 if t[j] > 0 else dual.cap[j]]
        left = abs(ends[0] - alpha[i]), abs(ends[1] - alpha[j])
        size = min(size, *left)
        alpha[i] = ends[0] if size == left[0] else alpha[i] + t[i] * size
        alpha[j] = ends[1] if size == left[1] else alpha[j] - t[j] * size
        v -= size * (values[i] - values[j])
        v[i] -= dual.ridge[i] * size
        v[j] += dual.ridge[j] * size
    return alpha, most


def _gathered(
    rows: Rows, members: Array, signs: Array, found: list[tuple[Point, Status, int]],
    formulation: str, C: float, dtype: str,
) -> BinaryMachines:  # fmt: skip
    """The machines as one record."""
    points, statuses, steps = zip(*found, strict=True)
    alpha, slack = np.zeros(members.shape), np.zeros(members.shape)
    columns, bias = [], []
    for m, point in enumerate(points):
        real = signs[m] != 0
        alpha[m, real], slack[m, real] = point.alpha, point.slack
        w = point.scale * rows.weights(members[m, real], point.alpha * signs[m, real])
        columns.append(w)
        bias.append(point.scale * point.bias - (0.0 if rows.kernel else w @ rows.centre))
    primal, dual = (np.array([getattr(p, name) for p in points]) for name in ("primal", "dual"))
    hard = formulation == "svm0"
    return BinaryMachines(
        {
            "coefficients" if rows.kernel else "weights": np.stack(columns, axis=1).astype(dtype),
            "bias": np.array(bias, dtype),
        },
        max(statuses, key=MILDEST_FIRST.index), tuple(statuses), primal, dual, primal - dual,
        np.array([_margin_bound(point) if hard else np.nan for point in points]),
        members, alpha, signs, slack, np.array(steps), formulation, C,
    )  # fmt: skip


def decision_values(machines: BinaryMachines, inputs: PyTree) -> Array:
    """F_m(x) = <w_m, x> + b_m of each input and machine, [N, M] in the dtype of the weights.

    Args:
      machines: of `fit_binary`.
      inputs: N inputs of the kind that trained them; of kernel values `kernel_inputs(gram,
        self_kernel=...)` with gram [N, n] against the training inputs.
    """
    kernel = "coefficients" in machines.weights
    weights = machines.weights["coefficients" if kernel else "weights"]
    rows, exact = rows_of(inputs, len(weights)), weights.astype(np.float64)
    shift = machines.weights["bias"] + (0.0 if kernel else rows.centre @ exact)
    return (rows.x @ exact + shift).astype(weights.dtype)
