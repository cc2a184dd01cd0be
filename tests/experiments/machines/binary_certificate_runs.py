"""What certificates of binary machines say of features far from the origin, against proven optima.

    python -m tests.experiments.machines.binary_certificate_runs --runs=2000 --seed=0

Every run draws examples of three features (normal, plus a mean, times a scale), trains machines and
asks of each whether its optimum lies in [dual - rounding, primal + rounding]. An independent solver
finds points; their primal and dual are summed in extended precision from the features as they
are, so that the optimum lies between them whatever found them. Counted by dtype of the run and
mean: machines that end CONVERGED; of these the ones whose interval does not hold the optimum, the
ones where P of the returned weights is above it, hard margins that are not scaled to 1, and the
ones where no proof decides; then machines that end in ROUNDING. `test_certificates` makes a few.
"""

from __future__ import annotations

import argparse
import collections
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.sparse import csr_array
from sklearn.svm import SVC

import jaxstruct as js
from experiments.machines.binary import BinaryMachines, fit_binary
from jaxstruct import multiclass
from tests.truth.interior_point import solve_qp

Array = np.ndarray
Exact = np.longdouble
D = 3
MEANS = (0.0, 5.0, 20.0, 50.0, 200.0, 1e6)
SIZES = ((5, 0.25), (16, 0.35), (40, 0.25), (120, 0.1), (600, 0.04), (2000, 0.01))
FEW = 120
"""Up to so many examples go to the interior point method, and are trained as kernel values."""
TOLERANCES = {"float32": (1e-2, 1e-3, 1e-4, 1e-5), "float64": (1e-2, 1e-3, 1e-6, 1e-9)}
SUMS = 1e-12
"""Relative to P, by what a bound may be missed unseen: that of the sums here."""


class Case(NamedTuple):
    """x [n, D], signs [n, M] and how they are trained; costs [n] of the slacks."""

    x: Array
    signs: Array
    C: float
    kind: str
    formulation: str
    dtype: str
    tolerance: float
    mean: float

    def inputs(self) -> Any:
        """As `fit_binary` takes them; inner products are rounded once, to the dtype of x."""
        if self.kind == "sparse":
            return js.from_scipy(csr_array(self.x), width=D)
        x = self.x.astype(Exact)
        gram = (x @ x.T).astype(self.x.dtype)
        return multiclass.kernel_inputs(gram) if self.kind == "kernel" else self.x


class Machine(NamedTuple):
    """One machine in extended precision: x [m, D] about its mean, t [m], cap [m], ridge [m]."""

    x: Array
    t: Array
    cap: Array
    ridge: Array
    centre: Array

    def primal(self, w: Array, b: Any) -> float:
        """P at (w, b) for features as given; of a hard margin once it is scaled to 1."""
        slack = 1 - self.t * (self.x @ w + (b + self.centre @ w))
        half = w @ w / 2
        if np.isinf(self.cap).all() and not self.ridge.any():
            least = 1 - slack.max()
            return float(half / least**2) if least > 0 else np.inf
        slack = np.maximum(slack, 0)
        if self.ridge.any():
            return float(half + np.sum(slack**2 / self.ridge) / 2)
        return float(half + np.sum(self.cap * slack))

    def dual(self, alpha: Array) -> float:
        """D of multipliers, which are made feasible first."""
        alpha = np.clip(alpha.astype(Exact), 0, self.cap)
        sums = [np.sum(alpha[self.t == sign]) for sign in (1, -1)]
        if not min(sums) > 0:
            return 0.0
        alpha = alpha * np.where(self.t > 0, min(1, sums[1] / sums[0]), min(1, sums[0] / sums[1]))
        w = (alpha * self.t) @ self.x
        return float(np.sum(alpha) - w @ w / 2 - np.sum(self.ridge * alpha**2) / 2)

    def bounds(self) -> tuple[float, float]:
        """(lower, upper): what an independent solver proves of the optimum."""
        try:
            w, b, alpha = self._interior_point() if len(self.t) <= FEW else self._pairwise()
        except ArithmeticError:  # it says that it has no proof
            return 0.0, np.inf
        return self.dual(alpha), self.primal(w, b - self.centre @ w)

    def _interior_point(self) -> tuple[Array, Any, Array]:
        """(w, b, alpha) in units of the features, along their singular vectors."""
        m, scale = len(self.t), np.abs(self.x).max()
        x, t = (self.x / scale).astype(np.float64), self.t.astype(np.float64)
        margin = np.hstack([-t[:, None] * x, -t[:, None]])
        P, q, A, b = np.diag([1.0] * D + [0.0]), np.zeros(D + 1), margin, -np.ones(m)
        if np.isfinite(self.cap).all() or self.ridge.any():
            squared = self.ridge.any()
            costs = ((1 / self.ridge if squared else self.cap) * scale**2).astype(np.float64)
            A = np.vstack([np.hstack([A, -np.eye(m)]), np.eye(m, D + 1 + m, D + 1) * -1])
            P, b = np.pad(P, (0, m)), np.append(b, np.zeros(m))
            if squared:
                P[D + 1 :, D + 1 :], q = np.diag(costs), np.zeros(D + 1 + m)
            else:
                q = np.append(q, costs)
        found = solve_qp(P, q, A, b)
        w, z = found.x[: D + 1].astype(Exact), found.z[:m].astype(Exact)
        return w[:D] / scale, w[D], z / scale**2

    def _pairwise(self) -> tuple[Array, Any, Array]:
        scale = np.abs(self.x).max()
        x = (self.x / scale).astype(np.float64)
        gram = x @ x.T + np.diag(self.ridge / scale**2).astype(np.float64)
        C = float(min(self.cap[0] * scale**2, 1e12))
        found = SVC(kernel="precomputed", C=C, tol=1e-8, max_iter=10**6).fit(gram, self.t)
        alpha = np.zeros(len(self.t), Exact)
        alpha[found.support_] = np.abs(found.dual_coef_[0]) / scale**2
        return (alpha * self.t) @ self.x, Exact(found.intercept_[0]), alpha


def drawn_case(seed: int, number: int, most: int = 2000) -> Case:
    """The case of one run; most: examples."""
    random = np.random.default_rng([seed, number])
    mean = MEANS[number % len(MEANS)]
    sizes, shares = zip(*SIZES, strict=True)
    n = min(int(random.choice(sizes, p=shares)), most)
    dtype = str(random.choice(("float32", "float64"), p=(0.75, 0.25)))
    of_data = dtype if random.random() < 0.8 else "float64"
    kind = str(random.choice(("dense", "sparse", "kernel")) if n <= FEW else "dense")
    scale = 10 ** random.uniform(-3, 3)
    spread = random.normal(size=(n, D))
    if kind == "kernel" and random.random() < 0.5:  # inner products that no dtype rounds
        spread, scale = np.round(8 * spread) / 8, 2.0 ** random.integers(-10, 11)
    x = (scale * (spread + mean)).astype(of_data)
    formulation = str(random.choice(("svm0", "svm1", "svm2"), p=(0.2, 0.5, 0.3)))
    signs = _signs(random, spread, formulation)
    size = scale**2 * (1 + mean**2) ** random.uniform()
    C = float(10 ** random.uniform(-2, 4.5 if n <= FEW else 1.5) / size) * n
    tolerance = float(random.choice(TOLERANCES[dtype]))
    return Case(x, signs, C, kind, formulation, dtype, tolerance, mean)


def _signs(random: np.random.Generator, spread: Array, formulation: str) -> Array:
    """[n, M] of one machine or of three that leave examples out, both signs in each."""
    machines = int(random.choice((1, 1, 3)))
    scores = spread @ random.normal(size=(D, machines))
    scores -= np.median(scores, axis=0)
    if formulation != "svm0":
        scores += random.choice([0.0, 0.3, 1.0]) * random.normal(size=scores.shape)
    signs = np.where(scores > 0, 1, -1)
    if machines > 1:
        signs *= random.random(signs.shape) < random.choice([0.4, 0.8])
    signs[scores.argmax(0), range(machines)], signs[scores.argmin(0), range(machines)] = 1, -1
    return signs


class Verdict(NamedTuple):
    """What the truth says of one machine.

    Fields:
      status: of the machine, or REFUSED. outside: by how much, relative to it, the interval is
        beside the optimum; 0 where it holds it. above: the same of P of the returned weights.
      unscaled: of a hard margin, by how much the least margin is below 1, or 1/2 |w|^2 not P.
      decided: whether the proof says either.
    """

    status: str
    outside: float = 0.0
    above: float = 0.0
    unscaled: float = 0.0
    decided: bool = True


def _machine(case: Case, m: int) -> tuple[Machine, Array]:
    used = case.signs[:, m] != 0
    x, n = case.x[used].astype(Exact), len(case.x)
    cost = np.full(len(x), Exact(case.C) / n)
    cap = cost if case.formulation == "svm1" else np.full(len(x), Exact(np.inf))
    ridge = 1 / cost if case.formulation == "svm2" else np.zeros(len(x), Exact)
    centre = x.mean(0)
    return Machine(x - centre, case.signs[used, m].astype(Exact), cap, ridge, centre), used


def judged(case: Case, found: BinaryMachines, m: int) -> Verdict:
    """The interval of one machine against the optimum."""
    truth, used = _machine(case, m)
    status = found.statuses[m].name
    rounding = Exact(found.rounding[m])
    low, high = Exact(found.dual[m]) - rounding, Exact(found.primal[m]) + rounding
    if case.kind == "kernel":
        w = found.weights["coefficients"][:, m].astype(Exact) @ case.x.astype(Exact)
    else:
        w = found.weights["weights"][:, m].astype(Exact)
    b = Exact(found.weights["bias"][m])
    every = np.zeros(len(case.x) + 1)
    every[found.members[m]] = found.alpha[m]
    upper, lower = truth.primal(w, b), truth.dual(every[:-1][used])
    if status != "CONVERGED":
        return Verdict(status)
    above, unscaled = max(0.0, float(1 - high / upper)), 0.0
    if case.formulation == "svm0":
        least = np.min(truth.t * (truth.x @ w + (b + truth.centre @ w)))
        off = float(abs(w @ w / 2 - Exact(found.primal[m])) - rounding) / upper
        unscaled = max(off, float(1 - least - rounding / upper), 0.0)
    room = SUMS * upper
    if lower < low - room or upper > high + room:  # else the optimum is in between
        proven = truth.bounds()
        lower, upper = max(lower, proven[0]), min(upper, proven[1])
    outside = float(max(low - upper, lower - high, 0) / upper)
    decided = outside > SUMS or (lower >= low - room and upper <= high + room)
    return Verdict(status, *(one * (one > SUMS) for one in (outside, above, unscaled)), decided)


def run(seed: int, number: int, most: int = 2000) -> tuple[Case, list[Verdict]]:
    """One run: the verdicts of its machines."""
    case = drawn_case(seed, number, most)
    with jax.enable_x64(True) if case.dtype == "float64" else nullcontext():
        try:
            found = fit_binary(
                case.inputs(), case.signs, case.formulation, case.C, number_of_features=D,
                tolerance=case.tolerance, max_passes=60, dtype=case.dtype,
            )  # fmt: skip
        except ValueError as error:  # a rounded Gram matrix that is none any more
            if case.kind != "kernel":
                raise
            return case, [Verdict("REFUSED " + str(error)[:40])]
    return case, [judged(case, found, m) for m in range(case.signs.shape[1])]


def main() -> None:
    """Make the runs and count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=2000, help="examples")
    asked = parser.parse_args()
    table = collections.defaultdict(list)
    for number in range(asked.first, asked.first + asked.runs):
        case, verdicts = run(asked.seed, number, asked.most)
        table[case.dtype, case.mean] += verdicts
        bad = [v for v in verdicts if v.outside or v.above or v.unscaled or not v.decided]
        if bad:
            print(f"  run {number} {case[2:]} n={len(case.x)}: {bad[0]}", flush=True)
    print("dtype mean: machines CONVERGED outside worst P_above unscaled undecided ROUNDING others")
    for (dtype, mean), verdicts in sorted(table.items()):
        done = [one for one in verdicts if one.status == "CONVERGED"]
        others = collections.Counter(
            one.status for one in verdicts if one.status not in ("CONVERGED", "ROUNDING")
        )
        worst = max((one.outside for one in done), default=0.0)
        outside, above, unscaled = (sum(one[field] > 0 for one in done) for field in (1, 2, 3))
        undecided = sum(not one.decided for one in done)
        hidden = sum(one.status == "ROUNDING" for one in verdicts)
        print(
            f"{dtype} {mean:g}: {len(verdicts)} {len(done)} {outside} {worst:.0e} {above} "
            f"{unscaled} {undecided} {hidden} {dict(others)}"
        )


if __name__ == "__main__":
    main()
