"""Algorithm 3 as printed: the printed loop, the optimum, and every bound on the constraints."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from experiments.machines.reference.reference_algorithm import fit_reference, most_constraints
from jaxstruct.core.status import Status
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.lib.refusals import refused
from tests.solvers.cases import SOFT, case_for, enumerated_problem, flat, random_case
from tests.solvers.test_bounds import K, N, bounded_case, guaranteed, losses, required
from tests.truth.formulations import problem as canonical
from tests.truth.interior_point import solve_qp

C = 5.0


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def fitted(case, formulation, C=C, **options):
    return fit_reference(case.problem(), case.x, case.y, formulation, C, **options)


class Printed:
    """Algorithm 3 in NumPy: outputs enumerated, every QP by the interior point solver of the tests.

    Step 10b, over S_i alone, holds the other multipliers; all of S is optimised after an epoch that
    changed no S_i, as the module says.
    """

    def __init__(self, case, formulation, C):
        self.formulation, self.delta = formulation, losses(case, formulation)
        of_case = case.psi(), case.loss[case.y], case.y, C
        self.form = canonical(formulation, *of_case)
        self.beta = np.zeros_like(self.delta)
        self.S, self.violations = [], []

    def w(self):
        return np.einsum("iy,iyd->d", self.beta * self.form.s, self.form.dpsi)

    def H(self, i):
        H = required(self.formulation, self.delta[i], self.form.dpsi[i] @ self.w())
        H[self.form.truths[i]] = -np.inf
        return H

    def optimise(self, only=None):
        """max beta' b - |w|^2 / 2 - ridge' sums^2 / 2, beta >= 0, sums <= cap, over S or S_i."""
        moved = [(i, y) for i, y in self.S if only in (None, i)]
        i, y = np.array(moved).T
        self.beta[i, y] = 0.0
        phi, same = self.form.s[i, y][:, None] * self.form.dpsi[i, y], i[:, None] == i
        sums = (np.unique(i)[:, None] == i).astype(float)
        capped = sums[np.isfinite(self.form.cap[np.unique(i)])]
        limits = np.concatenate([np.zeros(len(i)), self.form.cap[: len(capped)]])
        found = solve_qp(
            phi @ phi.T + same * self.form.ridge[i], phi @ self.w() - self.form.b[i, y],
            np.concatenate([-np.eye(len(i)), capped]), limits,
        )  # fmt: skip
        self.beta[i, y] = np.where(found.x > 1e-9, found.x, 0.0)  # scores tie where they are equal

    def run(self, epsilon, variant):
        """The epochs up to one that changes nothing, all of S being optimal before it."""
        whole = True
        for epoch in itertools.count(1):
            changed = False
            for i in range(len(self.beta)):
                H = self.H(i)
                slack = max([0.0, *(H[y] for j, y in self.S if j == i)])
                if H.max() > slack + epsilon:
                    self.S.append((i, int(H.argmax())))
                    self.violations.append(H.max() - slack)
                    self.optimise(i if variant == "subspace" else None)
                    changed, whole = True, variant == "full"
            if not changed and whole:
                return epoch
            if not changed:
                self.optimise()
                whole = True


@pytest.mark.parametrize(
    "formulation, variant",
    [("svm0", "full"), ("svm2_margin", "full"),
     *((name, "subspace") for name in FORMULATIONS if name not in ("svm1", "svm2"))],
)  # fmt: skip
def test_it_is_the_printed_loop(formulation, variant):
    """The same constraints in the same order and as many epochs as the loop written down.

    With "subspace", too, the QP over all of S is solved, after the epochs that change nothing.
    At its end P and D bound the optimum of the independent QP, with P - D <= C epsilon.
    """
    case, epsilon = case_for(formulation, n=N, d=8, k=K), 0.05
    printed = Printed(case, formulation, C)
    epochs = printed.run(epsilon, variant)
    found = fitted(case, formulation, epsilon=epsilon, exactness=1e-6, variant=variant)
    i, y = np.array(printed.S).T
    np.testing.assert_array_equal(found.details.example, i)
    np.testing.assert_allclose(found.details.loss, case.loss[case.y[i], y])
    np.testing.assert_allclose(found.details.violation, printed.violations, atol=1e-5)
    assert found.statistics.passes == epochs and found.statistics.planes_kept == len(i)
    of_svm0 = found.certificate.scale if formulation == "svm0" else 1.0
    np.testing.assert_allclose(flat(found.weights), printed.w() * of_svm0, atol=1e-5)
    assert found.status is Status.EPSILON and found.certificate.violation <= epsilon
    optimum = case.truth(formulation, C).objective
    assert found.dual <= optimum * (1 + 1e-9) and found.primal >= optimum * (1 - 1e-9)
    assert found.gap <= epsilon * max(C, optimum)


def test_examples_called_ahead_change_nothing():
    case = random_case(0, n=N, d=8, k=K)
    one, ahead = (fitted(case, "svm2_margin", look_ahead=count) for count in (1, 4))
    for a, b in zip(one.details, ahead.details, strict=True):
        # Scores of one example and of four are sums in orders that hang on the processor.
        np.testing.assert_allclose(a, b, rtol=1e-12 if a.dtype == float else 0)
    counts = one.statistics
    assert counts.passes == ahead.statistics.passes
    assert counts.oracle_calls == ahead.statistics.oracle_calls == counts.passes * N


def proven(formulation, variant):
    """What holds after the printed step of the least rise that `guaranteed` has.

    All of it after step 10a, and after 10b, too, but for SVM2: there the slack of the dual,
    s = n / C sum_y beta_iy, may be above xi_i once other examples have moved w. With d = s - xi_i
    and the violation v the new multiplier gains (v - d)^2 / 2a and fewer of the old ones gain
    d^2 / 2a, a being the denominator of propositions 14 and 15: the larger is v^2 / 8a at least.
    """
    return 0.25 if variant == "subspace" and formulation.startswith("svm2") else 1.0


@pytest.mark.thorough
@pytest.mark.parametrize("variant", ["full", "subspace"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_propositions_6_and_14_to_17_every_constraint_raises_the_dual(formulation, variant):
    """After steps 10a and 10b as printed; `test_bounds` has blocks that are optimal before."""
    case = bounded_case(formulation == "svm0")
    delta = losses(case, formulation)
    psi = case.psi()
    dpsi = psi[np.arange(N), case.y][:, None] - psi
    for C in (0.05, 50.0):
        course = fitted(case, formulation, C, exactness=1e-5, variant=variant).details
        for i, violation, rise in zip(course.example, course.violation, course.rise, strict=True):
            radius = np.linalg.norm(dpsi[i], axis=1).max()
            least = guaranteed(formulation, violation, C, N, radius, delta[i].max())
            assert violation > 0.01
            assert rise >= proven(formulation, variant) * least * (1 - 1e-6)
        assert len(course.example) >= N


@pytest.mark.parametrize("formulation", ["svm2_slack", "svm2_margin"])
def test_propositions_14_and_15_need_the_block_to_be_optimal(formulation):
    """Step 10b with an example whose slack another one took: 0.37 of the printed rise."""
    a, b, c = np.array([1.0, 0.0]), np.array([-0.5, 0.75**0.5]), 0.38 * np.array([0.06, 1.0])
    psi = np.array([[0 * a, -a, -b], [0 * c, -c, -c]])
    case = SimpleNamespace(psi=lambda: psi, loss=1 - np.eye(3))
    found = fit_reference(
        *enumerated_problem(case), np.zeros(2, np.int32), formulation, 20.0, epsilon=0.1,
        variant="subspace",
    ).details  # fmt: skip
    np.testing.assert_array_equal(found.example, [0, 1, 0])
    least = [guaranteed(formulation, v, 20.0, 2, 1.0, 1.0) for v in found.violation]
    share = found.rise / least
    assert share[0] == pytest.approx(1.0) and share[1] > 1
    assert 0.25 < share[2] < 0.4


@pytest.mark.thorough
@pytest.mark.parametrize("variant", ["full", "subspace"])
@pytest.mark.parametrize("formulation", SOFT)
def test_theorem_3_bounds_the_constraints(formulation, variant):
    case = bounded_case(False)
    delta, psi = losses(case, formulation).max(), case.psi()
    radius = np.linalg.norm(psi[np.arange(N), case.y][:, None] - psi, axis=2).max()
    limits = []
    for C, epsilon in ((0.1, 0.99), (0.5, 0.6), (1.0, 0.9), (20.0, 0.1)):
        found = fitted(case, formulation, C, epsilon=epsilon, variant=variant)
        limits.append(most_constraints(formulation, C, N, epsilon, radius, delta, variant))
        assert 0 < found.statistics.planes_kept <= limits[-1]
        np.testing.assert_array_less(found.details.length, radius * (1 + 1e-9))
    assert min(limits) < N * (K - 1)  # else the theorem says nothing here


def test_theorem_3_in_numbers():
    """(3.75) with n = 2, Delta = 3, R = 5, C = 7, epsilon = 1/2."""
    numbers = {
        "svm1_slack": max(24, 8 * 7 * 27 * 25 * 4), "svm1_margin": max(24, 8 * 7 * 3 * 25 * 4),
        "svm2_slack": (7 * 9 * 25 + 6) * 4, "svm2_margin": (7 * 3 * 25 + 6) * 4,
        "svm1": max(8, 8 * 7 * 25 * 4), "svm2": (7 * 25 + 2) * 4,
    }  # fmt: skip
    for name, want in numbers.items():
        assert most_constraints(name, 7.0, 2, 0.5, 5.0, 3.0) == want
        times = 4 if name.startswith("svm2") else 1
        assert most_constraints(name, 7.0, 2, 0.5, 5.0, 3.0, "subspace") == times * want
    assert most_constraints("svm1_margin", 1e-9, 2, 0.5, 5.0, 3.0) == 24
    refused("svm0 has the bound", most_constraints, "svm0", 1.0, 1, 0.1, 1.0)


@pytest.mark.thorough
@pytest.mark.parametrize("variant", ["full", "subspace"])
def test_theorem_2_bounds_the_constraints(variant):
    case = bounded_case(True)
    gamma = 1 / np.sqrt(2 * case.truth("svm0", 1.0).objective)
    for epsilon in (0.999, 0.5, 0.05):
        found = fitted(case, "svm0", 1.0, epsilon=epsilon, variant=variant)
        radius = found.details.length.max()
        assert 0 < found.statistics.planes_kept <= radius**2 / (gamma * epsilon) ** 2
        assert found.dual <= 1 / (2 * gamma**2) * (1 + 1e-9)


def test_kernels_and_coordinates_are_one_machine():
    """A linear kernel: the same constraints, though weights are no coordinates."""
    case = random_case(0, n=N, d=8, k=K)
    problem = kernel_multiclass(N, K, loss=case.loss, dtype="float64")
    inputs = kernel_inputs(case.x @ case.x.T)
    plain = fitted(case, "svm2_slack", exactness=1e-6)
    found = fit_reference(problem, inputs, case.y, "svm2_slack", C, exactness=1e-6)
    for name in ("example", "loss", "violation", "length"):
        np.testing.assert_allclose(
            getattr(found.details, name), getattr(plain.details, name), rtol=1e-5, atol=1e-6
        )
    assert found.dual == pytest.approx(plain.dual, rel=1e-9)


def test_a_hard_margin_that_does_not_exist():
    case = random_case(0, n=N, d=8, k=K)
    twice = case.x.copy()
    twice[1] = twice[0]  # of another class
    assert case.y[0] != case.y[1]
    found = fitted(case._replace(x=twice), "svm0")
    assert found.status is Status.NOT_SEPARABLE
    assert found.certificate.margin_bound < 1e-3 * found.details.length.max()


def test_how_a_run_ends():
    case = random_case(0, n=N, d=8, k=K)
    stopped = fitted(case, "svm2", callback=lambda progress: True)
    assert stopped.status is Status.STOPPED and stopped.primal > stopped.dual
    assert len(stopped.details.example) == stopped.statistics.planes_kept > 0
    short = fitted(case, "svm2", max_epochs=1)
    assert short.status is Status.PASS_LIMIT and short.statistics.passes == 1
    assert short.primal >= case.truth("svm2", C).objective >= short.dual
    x, y = case.x.astype(np.float32) * 1e3, case.y
    fine = fit_reference(case.problem("float32"), x, y, "svm2", C, epsilon=1e-9)
    assert fine.status in (Status.ROUNDING, Status.PASS_LIMIT) and fine.statistics.passes < 1000


def test_refusals():
    case = random_case(0, n=N, d=8, k=K)
    for options, message in (
        ({"epsilon": None}, "tolerance and epsilon are both None"),
        ({"max_epochs": 0}, "max_epochs must be at least 1"),
        ({"look_ahead": 0}, "look_ahead must be at least 1"),
    ):
        refused(message, fitted, case, "svm2", **options)
