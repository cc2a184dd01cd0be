"""What certificates say of features far from the origin, held against proven optima.

    python -m tests.solvers.certificate_runs --runs=200 --seed=0 --solvers=fit,joint

Every run draws examples of three features (normal, plus a mean, times a scale), trains with one
solver and asks whether the optimum lies in [dual - rounding, primal + rounding]. Counted for each
solver, dtype and mean: runs that end CONVERGED; of these the ones whose interval does not hold the
optimum, the ones where P of the returned weights is above it, and the ones where no proof decides;
and runs that end in ROUNDING. `tests.solvers.test_certificate` makes a few of them.
"""

from __future__ import annotations

import argparse
import collections
import itertools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.sparse import csr_array

import jaxstruct as js
from experiments.machines.weston_watkins import fit_weston_watkins
from jaxstruct import multiclass
from jaxstruct.baselines import fit_random_field
from tests.solvers.cases import dense_multipliers, flat
from tests.truth.proven_optimum import Exact, Field, Machine, random_field, structural

D, K, T, S = 3, 3, 4, 2
"""Features and classes; tokens and labels of a chain."""
MEANS = (0.0, 5.0, 20.0, 50.0, 200.0, 1e6)
SIZES = ((5, 0.3), (16, 0.35), (40, 0.25), (120, 0.06), (600, 0.03), (2000, 0.01))
SMALL = 40
"""Up to so many examples are trained on every kind of input, more on dense ones alone."""
LOSS = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.25], [4.0, 1.0, 0.0]])
TOLERANCES = {"float32": (1e-2, 1e-3, 1e-4, 1e-5), "float64": (1e-2, 1e-3, 1e-6, 1e-9)}
SUMS = 1e-9
"""Relative to P, what a bound may be missed by unseen: that of the sums here."""


class Case(NamedTuple):
    """x [n, d] in the dtype of the run (chains: [n, T, d]), labels y, C and how it is trained."""

    x: np.ndarray
    y: np.ndarray
    C: float
    kind: str
    formulation: str
    dtype: str
    tolerance: float
    mean: float

    def psi(self) -> np.ndarray:
        """[n, k, D] of the features as the run holds them."""
        x = self.x.astype(Exact)
        if self.kind == "chain":
            return _chain_features(x)
        return np.einsum("id,kp->ikdp", x, np.eye(K)).reshape(len(x), K, -1)

    def gram(self) -> np.ndarray:
        """[n, n] inner products, rounded once to the dtype of the run."""
        x = self.x.astype(Exact)
        return (x @ x.T).astype(self.dtype)

    def inputs(self) -> Any:
        """As the solver takes them."""
        if self.kind == "sparse":
            rows = js.from_scipy(csr_array(self.x))
            return js.SparseFeatures(*(leaf.padded(np.arange(len(leaf)), D) for leaf in rows))
        return multiclass.kernel_inputs(self.gram()) if self.kind == "kernel" else self.x

    def problem(self, loss: np.ndarray | None = None) -> js.Problem:
        """The structure."""
        if self.kind == "kernel":
            return multiclass.kernel_multiclass(len(self.x), K, loss=loss, dtype=self.dtype)
        return multiclass.multiclass(D, K, loss=loss, dtype=self.dtype)

    def weights(self, found: Any) -> np.ndarray:
        """[D] the returned weights, exact sums of the features where they are coefficients."""
        if self.kind == "kernel":
            coefficients = np.asarray(found.weights["coefficients"]).astype(Exact)
            return (self.x.astype(Exact).T @ coefficients).ravel()
        return flat(found.weights)


class Outcome(NamedTuple):
    """How a run ended, its interval, the returned weights and the multipliers [n, k] if known."""

    status: str
    primal: float
    dual: float
    rounding: float
    weights: np.ndarray
    truth: Machine | Field
    multipliers: np.ndarray | None = None


def _chain_features(x: np.ndarray) -> np.ndarray:
    """[n, S^T, D] the emission counts of each labelling and its label pairs."""
    rows = np.eye(S)
    features = []
    for labels in itertools.product(range(S), repeat=T):
        own = rows[list(labels)]
        emitted = np.einsum("itd,ts->ids", x, own).reshape(len(x), -1)
        pairs = np.broadcast_to((own[:-1].T @ own[1:]).ravel(), (len(x), S * S))
        features.append(np.concatenate([emitted, pairs], axis=1))
    return np.stack(features, axis=1)


def _chosen_kind(random: np.random.Generator, n: int, solver: str) -> str:
    kinds = {"joint": ("kernel",), "blocks": ("dense", "sparse")}.get(
        solver, ("dense", "sparse", "kernel")
    )
    if solver == "field":
        kinds = (*kinds, "chain")
    return str(random.choice(kinds)) if n <= SMALL else kinds[0]


def drawn_case(seed: int, number: int, solver: str) -> Case:
    """The case of one run."""
    random = np.random.default_rng([seed, number])
    mean = MEANS[number % len(MEANS)]
    sizes, shares = zip(*SIZES, strict=True)
    n = min(int(random.choice(sizes, p=shares)), 120 if solver == "joint" else 2000)
    kind = _chosen_kind(random, n, solver)
    dtype = str(random.choice(("float32", "float64"), p=(0.75, 0.25)))
    scale = 2.0 ** random.integers(-10, 11)
    shape = (n, T, D) if kind == "chain" else (n, D)
    spread = random.normal(size=shape)
    if kind == "kernel" and random.random() < 0.5:  # inner products that no dtype rounds
        spread = np.round(8 * spread) / 8
    x = (scale * (spread + mean)).astype(dtype)
    classes = S if kind == "chain" else K
    scores = spread @ random.normal(size=(D, classes))
    noise = random.choice([0.0, 0.3, 1.0]) * np.abs(scores).mean()
    y = np.argmax(scores + noise * random.normal(size=scores.shape), axis=-1).astype(np.int32)
    size = scale**2 * (1 + mean**2) ** random.uniform()  # else hardly a run with a mean ends
    C = float(np.float32(10 ** random.uniform(-2, 4.5) / size))
    names = {"weston_watkins": ("svm1", "svm2"), "joint": ("svm1_slack", "svm2_margin")}
    formulation = str(random.choice(names.get(solver, ("svm1_margin", "svm2_slack"))))
    tolerance = float(random.choice(TOLERANCES[dtype]))
    return Case(x, y, C, kind, formulation, dtype, tolerance, mean)


def _weston_watkins(case: Case) -> Outcome:
    found = fit_weston_watkins(
        case.problem(), case.inputs(), case.y, case.formulation, case.C,
        tolerance=case.tolerance, max_passes=1000,
    )  # fmt: skip
    ones = np.ones((len(case.y), K))
    truth = structural(case.formulation, case.psi(), ones, case.y, case.C, pairs=True)
    interval = found.primal, found.dual, found.rounding
    return Outcome(found.status.name, *interval, case.weights(found), truth, found.alpha)


def _structural(case: Case) -> Machine:
    return structural(case.formulation, case.psi(), LOSS[case.y], case.y, case.C)


def _joint(case: Case) -> Outcome:
    numbers = np.tile(np.arange(K, dtype=np.int32), (len(case.y), 1))
    gram = np.kron(case.gram(), np.eye(K, dtype=case.dtype))
    found = js.fit(
        js.strings.joint_candidates(len(gram), loss=LOSS, dtype=case.dtype),
        js.strings.joint_inputs(gram, numbers), case.y, case.formulation, case.C,
        tolerance=case.tolerance, max_passes=60,
    )  # fmt: skip
    coefficients = np.asarray(found.weights["coefficients"]).astype(Exact).reshape(-1, K)
    interval = found.primal, found.dual, found.certificate.rounding
    weights, multipliers = case.x.astype(Exact).T @ coefficients, dense_multipliers(found, K)
    return Outcome(found.status.name, *interval, weights.ravel(), _structural(case), multipliers)


def _fit(case: Case, train: Callable = js.fit, **options: Any) -> Outcome:
    found = train(
        case.problem(LOSS), case.inputs(), case.y, case.formulation, case.C,
        tolerance=case.tolerance, max_passes=60, **options,
    )  # fmt: skip
    interval = found.primal, found.dual, found.certificate.rounding
    weights, truth = case.weights(found), _structural(case)
    multipliers = dense_multipliers(found, K) if train is js.fit else None
    return Outcome(found.status.name, *interval, weights, truth, multipliers)


def _blocks(case: Case) -> Outcome:
    return _fit(case, js.fit_in_blocks, blocks=2)


def _field(case: Case) -> Outcome:
    chain = case.kind == "chain"
    if chain:
        problem, inputs, truths = js.chains.chain(D, S, dtype=case.dtype), js.chains.chain_inputs(
            js.ragged(list(case.x))
        ), case.y @ S ** np.arange(T)[::-1]  # fmt: skip
        outputs: Any = js.ragged(list(case.y))
    else:
        problem, inputs, truths, outputs = case.problem(), case.inputs(), case.y, case.y
    found = fit_random_field(
        problem, inputs, outputs, case.C, tolerance=case.tolerance, max_iterations=200
    )
    interval = found.primal, found.dual, found.rounding
    truth = random_field(case.psi(), truths, case.C)
    return Outcome(found.status.name, *interval, case.weights(found), truth)


SOLVERS = {
    "weston_watkins": _weston_watkins, "joint": _joint, "fit": _fit,
    "blocks": _blocks, "field": _field,
}  # fmt: skip


class Verdict(NamedTuple):
    """What the truth says of one run.

    Fields:
      status: of the run, or REFUSED. outside: by how much, relative to it, the interval is beside
        the optimum; 0 where it holds it. above: the same of P of the returned weights.
      decided: whether the proof says either.
    """

    status: str
    outside: float = 0.0
    above: float = 0.0
    decided: bool = True


def judged(case: Case, outcome: Outcome) -> Verdict:
    """The interval of a run against the optimum."""
    low, high = outcome.dual - outcome.rounding, outcome.primal + outcome.rounding
    upper = outcome.truth.primal(outcome.weights)
    above = max(0.0, (upper - high) / upper)
    lower = -np.inf
    if outcome.multipliers is not None and isinstance(outcome.truth, Machine):
        wrong = np.arange(K)[None] != case.y[:, None]
        lower = outcome.truth.dual(outcome.multipliers[wrong])
    room = SUMS * upper
    if lower < low - room or upper > high + room:  # else the optimum is in between
        proven = outcome.truth.bounds()
        lower, upper = max(lower, proven[0]), min(upper, proven[1])
    outside = max(low - upper, lower - high, 0.0) / upper
    decided = outside > SUMS or (lower >= low - room and upper <= high + room)
    return Verdict(outcome.status, outside * (outside > SUMS), above * (above > SUMS), decided)


def run(seed: int, number: int, solver: str) -> tuple[Case, Verdict]:
    """One run."""
    case = drawn_case(seed, number, solver)
    with jax.enable_x64(True) if case.dtype == "float64" else nullcontext():
        try:
            outcome = SOLVERS[solver](case)
        except ValueError as error:  # a rounded Gram matrix that is none any more
            if "kernel" not in case.kind:
                raise
            return case, Verdict("REFUSED " + str(error)[:40])
    return case, judged(case, outcome)


def main() -> None:
    """Make the runs of each solver and count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="of each solver")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solvers", default=",".join(SOLVERS))
    asked = parser.parse_args()
    print("solver dtype mean: runs CONVERGED outside worst P_above undecided ROUNDING others")
    for solver in asked.solvers.split(","):
        table = collections.defaultdict(list)
        for number in range(asked.runs):
            case, verdict = run(asked.seed, number, solver)
            table[case.dtype, case.mean].append(verdict)
            if verdict.status == "CONVERGED" and (verdict.outside or verdict.above):
                print(f"  run {number} {solver} {case[2:]} n={len(case.y)}: {verdict}", flush=True)
        for (dtype, mean), verdicts in sorted(table.items()):
            done = [one for one in verdicts if one.status == "CONVERGED"]
            outside = [one.outside for one in done if one.outside > 0]
            ends = collections.Counter(one.status for one in verdicts)
            rounding, _ = ends.pop("ROUNDING", 0), ends.pop("CONVERGED", 0)
            print(
                f"{solver} {dtype} {mean:g}: {len(verdicts)} {len(done)} {len(outside)} "
                f"{max(outside, default=0):.1e} {sum(one.above > 0 for one in done)} "
                f"{sum(not one.decided for one in done)} {rounding} {dict(ends)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
