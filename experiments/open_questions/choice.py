"""Third question: which violated constraint to take (thesis 5.2).

Algorithm 3 with the QP over all of S after every addition, on outputs that are listed, so that any
violated constraint can be found. A rule says what is added; all end where P - D <= tolerance P.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from experiments.lib.common import Row
from experiments.lib.options import AnyOptions
from experiments.lib.report import Columns, Table, rows_table
from experiments.machines.reference.working_set_dual import WorkingSetDual
from experiments.open_questions.data_sets import DATA_SETS, Split, string_kernels
from experiments.tasks import string_pairs
from jaxstruct.core.problem import joint_feature
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.formulations import FORMULATIONS, Formulation, penalty_numbers

MARGINS = ("svm1_margin", "svm2_margin")
RATIOS = (0.1, 1.0)
"""Values of C / n."""
CALL_SECONDS = (1e-4, 1e-2)
MEASURED = ("constraints", "support", "calls", "qps", "qp_seconds")
SIZES = {"digits": 40, "strings": 16, "wipo": 12}
"""Data set -> training examples; structures that list their outputs, and drawn strings."""
K_BEST = 3
EXACTNESS = 0.1
"""Share of the violation that is let be, to which a QP is solved."""


class Listed(NamedTuple):
    """All m constraints (i, y), y != y_i, of n examples, those of an example side by side.

    Fields:
      gram: [m, m] <delta Psi_i(y), delta Psi_j(y')>. losses: [m]. examples: [m] i.
    """

    gram: np.ndarray
    losses: np.ndarray
    examples: np.ndarray


def listed(name: str, seed: int, n: int, dtype: str) -> Listed:
    """The constraints of n examples of a data set."""
    if name == "strings":
        return _by_kernels(string_kernels(n, seed))
    data = DATA_SETS[name]
    return of_split(data.draw(seed, (n, 0, 0), dtype))


def of_split(split: Split) -> Listed:
    """Of a structure that lists its outputs and has w in orthonormal coordinates."""
    problem, (x, y) = split.problem, split.train

    def planes_and_losses(x: PyTree, y: PyTree) -> tuple[PyTree, Array]:
        outputs = problem.oracles.all_outputs(y)  # the true one first
        features = jax.vmap(lambda each: joint_feature(problem, x, each))(outputs)
        planes = jax.tree.map(lambda leaf: leaf[:1] - leaf[1:], features)
        return planes, jax.vmap(problem.model.loss, (None, 0))(y, outputs)

    planes, every = jax.tree.map(np.asarray, jax.jit(jax.vmap(planes_and_losses))(x, y))
    leaves, losses = jax.tree.leaves(planes), every[:, 1:]
    rows = [leaf.astype(np.float64).reshape(-1, leaf[0, 0].size) for leaf in leaves]
    n, wrong = losses.shape
    gram, examples = sum(part @ part.T for part in rows), np.repeat(np.arange(n), wrong)
    return Listed(np.asarray(gram), losses.ravel().astype(float), examples)


def _by_kernels(kernels: string_pairs.Kernels) -> Listed:
    """Of J = K L, every output that occurs a candidate of every input."""
    own, outputs = kernels.numbers, kernels.numbers.max() + 1
    examples, y = (part.ravel() for part in np.indices((len(own), outputs)))
    examples, y = (part[y != own[examples]] for part in (examples, y))
    true, L = own[examples], kernels.outputs
    differences = L[np.ix_(true, true)] - L[np.ix_(true, y)] - L[np.ix_(y, true)] + L[np.ix_(y, y)]
    gram = kernels.inputs[np.ix_(examples, examples)] * differences
    return Listed(gram, kernels.loss[true, y], examples)


class Machine:
    """S, its dual, and H of every constraint."""

    def __init__(self, data: Listed, formulation: Formulation, C: float, tolerance: float) -> None:
        """S without a constraint."""
        self.n = int(data.examples[-1]) + 1
        scale, self.bounds = (
            data.losses**power for power in (formulation.scale_power, formulation.bound_power)
        )
        self.gram, self.examples = scale[:, None] * data.gram * scale, data.examples
        numbers = penalty_numbers(formulation, C, np.ones(self.n), self.n)
        self.dual = WorkingSetDual(numbers.cap, numbers.ridge)
        self.C, self.squared, self.tolerance = C, formulation.penalty == 2, tolerance
        self.members: list[int] = []

    def required(self) -> np.ndarray:
        """[m] H(y) = b - <w, phi>."""
        return self.bounds - self.gram[:, self.members] @ self.dual.multipliers

    def objective(self, H: np.ndarray) -> tuple[float, float]:
        """(P, D) of w."""
        slack = np.zeros(self.n)
        np.maximum.at(slack, self.examples, H)
        penalty = np.mean(slack**2) / 2 if self.squared else np.mean(slack)
        return float(self.dual.products().sum() / 2 + self.C * penalty), self.dual.value()

    def epsilon(self, primal: float) -> float:
        """Where no constraint is violated by more, P - D <= tolerance P, inexact QPs counted."""
        allowed = (1 - 2 * EXACTNESS) * self.tolerance * primal / self.C
        mean = float(self.dual.largest().mean())
        return float(np.sqrt(mean**2 + 2 * allowed) - mean) if self.squared else allowed

    def add(self, constraints: np.ndarray, epsilon: float) -> None:
        """S <- S + constraints, and the dual over S."""
        for each in constraints:
            self.members.append(int(each))
            row = self.gram[each, self.members]
            self.dual.add(int(self.examples[each]), float(self.bounds[each]), row)
        self.dual.solve(EXACTNESS * epsilon)


Taken = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""(violated constraints of an example, by how much, chance) -> those that are added."""

IN_TURN: Mapping[str, Taken] = {
    "most violated": lambda which, excess, _: which[[np.argmax(excess)]],
    "random": lambda which, _, rng: rng.choice(which, 1),
    "first": lambda which, *_: which[:1],
    f"{K_BEST} best": lambda which, excess, _: which[np.argsort(-excess, kind="stable")[:K_BEST]],
}
"""Rules that visit one example after the other: what they add of its constraints, which are in a
fixed order and each violated by more than epsilon."""
RULES = (*IN_TURN, "worst block", "all blocks")
"""The last two ask all examples at one w, and add the most violated constraint of the example of
the largest violation, or of every example."""


def train(machine: Machine, rule: str, rng: np.random.Generator) -> Row:
    """Algorithm 3 by a rule until P - D <= tolerance P, or nothing is violated.

    Returns:
      constraints of S; support, those with a multiplier; calls, of which each finds the violated
      constraints of one example; qps, and qp_seconds in them; P and D.
    """
    n, turn, calls, seconds, qps = machine.n, 0, 0, 0.0, 0
    starts = np.searchsorted(machine.examples, np.arange(n + 1))
    while True:
        H = machine.required()
        primal, dual = machine.objective(H)
        epsilon = machine.epsilon(primal)
        if primal - dual <= machine.tolerance * primal:
            break
        excess = H - machine.dual.largest()[machine.examples]
        excess[machine.members] = -np.inf
        chosen = np.zeros(0, int)
        if rule in IN_TURN:
            for _ in range(n):
                i, turn, calls = turn % n, turn + 1, calls + 1
                which = np.arange(starts[i], starts[i + 1])
                which = which[excess[which] > epsilon]
                if which.size:
                    chosen = IN_TURN[rule](which, excess[which], rng)
                    break
        else:
            calls += n
            worst = np.array([a + np.argmax(excess[a:b]) for a, b in itertools.pairwise(starts)])
            worst = worst[excess[worst] > epsilon]
            chosen = worst if rule == "all blocks" else worst[np.argsort(-excess[worst])[:1]]
        if not chosen.size:
            break
        begun = time.perf_counter()
        machine.add(chosen, epsilon)
        seconds, qps = seconds + time.perf_counter() - begun, qps + 1
    return {
        "constraints": len(machine.members), "calls": calls, "qps": qps, "qp_seconds": seconds,
        "support": int(np.sum(machine.dual.multipliers > 0)), "primal": primal, "dual": dual,
    }  # fmt: skip


def jobs(options: AnyOptions, dtype: str) -> dict[str, Callable[[], list[Row]]]:
    """What is measured, by the names of its files."""
    return {
        f"choice_{name}_{sample}": partial(_sample, options, name, sample, dtype)
        for sample in range(options.samples) for name in SIZES if name in options.data
    }  # fmt: skip


def _sample(options: AnyOptions, name: str, sample: int, dtype: str) -> list[Row]:
    """A row a formulation, C / n and rule."""
    size = max(4, round(options.share * SIZES[name]))
    data, rows = listed(name, options.seed + sample, size, dtype), []
    for formulation, ratio, rule in itertools.product(MARGINS, RATIOS, RULES):
        machine = Machine(data, FORMULATIONS[formulation], ratio * size, options.gap)
        about = {"data": name, "formulation": formulation, "n": size, "c_over_n": ratio,
                 "sample": sample, "rule": rule}  # fmt: skip
        rng = np.random.default_rng([options.seed, sample])
        rows.append(about | train(machine, rule, rng))
    return rows


def table_of(options: AnyOptions, rows: Sequence[Row]) -> Table:
    """A line a data set, formulation, C / n and rule; means of samples."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        key = row["data"], row["formulation"], row["c_over_n"], row["rule"]
        groups.setdefault(key, []).append(row)
    lines = [
        dict(zip(("data", "formulation", "c_over_n", "rule"), key, strict=True))
        | {name: float(np.mean([row[name] for row in own])) for name in MEASURED}
        for key, own in groups.items()
    ]
    columns: Columns = {
        "data": "data", "formulation": "formulation", "C / n": "c_over_n", "takes": "rule",
        "constraints": "constraints:.0f", "with a multiplier": "support:.0f",
        "calls": "calls:.0f", "QPs": "qps:.0f", "seconds of QPs": "qp_seconds:.3f",
        **{
            ("seconds, a call of", f"{1e3 * cost:g} ms"):
                lambda row, cost=cost: row["qp_seconds"] + cost * row["calls"]
            for cost in CALL_SECONDS
        },
    }  # fmt: skip
    notes = [
        f"Means of {options.samples} samples of {', '.join(f'{n} ({d})' for d, n in SIZES.items())}"
        f" examples, all outputs listed; to a relative gap of {options.gap:g}, looked at after "
        "every QP; the QP over all of S is solved after every addition.",
        "calls: of the oracle, one example each; the last columns add so much time a call to the "
        "seconds of the QPs.",
        f"{sum(row['primal'] - row['dual'] > options.gap * row['primal'] for row in rows)} of "
        f"{len(rows)} runs ended with a larger gap.",
    ]
    return rows_table("Which violated constraint to take", columns, lines, notes)
