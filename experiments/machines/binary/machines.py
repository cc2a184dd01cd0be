"""`fit_binary`: any number of binary machines with a bias, trained side by side and certified."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.machines.binary.centred_rows import centred, held, on_device
from experiments.machines.binary.examples import KernelRows, number_of, rows_of, scores_of_all
from experiments.machines.binary.training import Rules, Trained, groups_of, terms_of, trained
from jaxstruct.core.checks import FINEST, checked_example_weights, checked_number
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree

MILDEST_FIRST = (
    Status.CONVERGED, Status.ROUNDING, Status.PASS_LIMIT, Status.NOT_SEPARABLE, Status.NOT_FINITE,
)  # fmt: skip


class BinaryMachines(NamedTuple):
    """M trained machines F_m(x) = <w_m, x> + b_m; arrays are NumPy's.

    Fields:
      weights: {"weights": W [d, M], "bias": b [M]}; of kernel values {"coefficients": [n, M],
        "bias"}. W is the expansion sum_i t_i alpha_i x_i (2.12) of each machine, of a hard margin
        scaled so that the least margin is 1, of the others by a hair where rounding asks for it.
      status: how the worst of them ended (of `MILDEST_FIRST`), statuses: each of them.
      primal, dual, gap: [M], primal >= optimum >= dual up to `rounding` [M], primal that of these
        very weights. Both are proven in float64 from the inputs as given, see `certificate`.
      margin_bound: [M] no hyperplane has a larger geometric margin; known for svm0, else NaN.
      members: [M, s] int32 the examples of each machine, n where there are no more.
      alpha: [M, s] their multipliers. signs: [M, s] their t_i. slack: [M, s] their xi_i.
      steps: [M] pairwise steps.
      formulation, C: what was solved.
    """

    weights: PyTree
    status: Status
    statuses: tuple[Status, ...]
    primal: np.ndarray
    dual: np.ndarray
    gap: np.ndarray
    rounding: np.ndarray
    margin_bound: np.ndarray
    members: np.ndarray
    alpha: np.ndarray
    signs: np.ndarray
    slack: np.ndarray
    steps: np.ndarray
    formulation: str
    C: float

    def __repr__(self) -> str:
        """One line without the arrays."""
        return (
            f"BinaryMachines(machines={len(self.primal)}, status={self.status}, formulation="
            f"{self.formulation!r}, C={self.C:.6g}, primal={self.primal.sum():.6g} in sum, "
            f"support vectors={int(np.sum(self.alpha > 0))})"
        )


class SupportVectors(NamedTuple):
    """The examples that carry one machine (2.13, 2.14): alpha_i > 0.

    Fields:
      example: [v] positions in the training set, rising. alpha: [v]. signs: [v] t_i.
      slack: [v] xi_i, 0 on the margin, more for outliers.
    """

    example: np.ndarray
    alpha: np.ndarray
    signs: np.ndarray
    slack: np.ndarray


def fit_binary(
    inputs: PyTree,
    signs: np.ndarray,
    formulation: str = "svm1",
    C: float = 1.0,
    *,
    number_of_features: int | None = None,
    example_weights: np.ndarray | None = None,
    tolerance: float = 1e-3,
    max_passes: int = 200,
    min_margin: float = 1e-3,
    dtype: str = "float32",
) -> BinaryMachines:
    """Trains binary machines with a bias that is not regularised (thesis 2.3, 2.4).

        svm0 (2.5)  min 1/2 |w|^2                            t_i (<w, x_i> + b) >= 1
        svm1 (2.6)  min 1/2 |w|^2 + C/n sum_i v_i xi_i       t_i (<w, x_i> + b) >= 1 - xi_i
        svm2 (2.7)  min 1/2 |w|^2 + C/(2n) sum_i v_i xi_i^2  the same

    All machines are one program: steps in pairs of multipliers, on the kernel matrix of a
    machine's examples where these are at most 4096 (always for kernel values that all machines
    share), on parts of it otherwise. (2.8) to (2.10) print a dual without the bias and with signed
    multipliers; here alpha >= 0 and sum_i t_i alpha_i = 0. As the bias is free, inputs are centred
    first, which changes no optimum.

    Args:
      inputs: [n, d] dense, `SparseFeatures` of n rows (padded or ragged), or the `KernelInput` of
        `kernel_inputs(gram)`, n x n.
      signs: [n] of -1 and 1, or [n, M], a column a machine; 0 leaves an example out.
      formulation: svm0, svm1 or svm2.
      C: divided by n, the number of ALL examples, in each machine: an example's slack costs the
        same in machines that see few. Ignored by svm0.
      number_of_features: d, needed with sparse inputs alone.
      example_weights: [n] v_i >= 0.
      tolerance: each machine stops when P - D, with its rounding, is at most tolerance P.
      max_passes: bound on the passes, of several thousand steps each.
      min_margin: svm0 gives a machine up once its margin is proven to be below this fraction of
        the largest distance of its examples from their mean.
      dtype: "float32", certified down to 1e-5, or "float64" (needs jax's x64 mode), to 1e-12.

    Returns:
      BinaryMachines; look at `status` first: CONVERGED, PASS_LIMIT, ROUNDING (the dtype hides the
      rest), NOT_SEPARABLE (svm0) or NOT_FINITE.

    Raises:
      ValueError: a machine lacks one of the two signs, or dtype does not certify tolerance.
    """
    finest = checked_number("tolerance", tolerance, FINEST[dtype])
    rules = Rules(finest, max_passes, min_margin, dtype)
    rows = rows_of(inputs, number_of_features)
    n = number_of(rows)
    v = checked_example_weights(example_weights, n)
    table = _two_sided(np.asarray(signs).reshape(n, -1).astype(np.int8), v)
    members, own = _members(table, n)
    with np.errstate(over="ignore", invalid="ignore"):  # a status says so
        data = centred(rows, (v > 0) & table.any(axis=1))
        examples = on_device(data, dtype)
    parts = [
        trained(
            data, examples, members[at], terms_of(own[at], members[at], v, formulation, C), rules
        )
        for at in groups_of(members, n, examples)
    ]
    kernel = isinstance(rows, KernelRows)
    return _gathered(members, own, parts, "coefficients" if kernel else "weights", formulation, C)


def _two_sided(signs: np.ndarray, example_weights: np.ndarray) -> np.ndarray:
    """[n, M] as they are, refused where a machine has no example of weight of one sign."""
    used = signs[example_weights > 0]
    for sign in (1, -1):
        bare = np.flatnonzero(~(used == sign).any(axis=0))
        if bare.size:
            raise ValueError(
                f"signs[:, {bare[0]}] has no {sign} ({bare.size} such): a machine needs "
                "examples of weight > 0 on both sides"
            )
    return signs


def _members(signs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
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


def _gathered(
    members: np.ndarray,
    signs: np.ndarray,
    parts: list[Trained],
    name: str,
    formulation: str,
    C: float,
) -> BinaryMachines:
    """The machines of all groups as one record; `name` is that of their weights."""

    def joined(pick: Any) -> np.ndarray:
        return np.concatenate([pick(part) for part in parts])

    statuses = tuple(Status(int(each)) for each in joined(lambda part: part.statuses))
    primal, dual = joined(lambda part: part.proof.primal), joined(lambda part: part.proof.dual)
    bound = joined(lambda part: part.proof.margin_bound)
    weights = np.ascontiguousarray(joined(lambda part: part.proof.weights).T)
    return BinaryMachines(
        weights={name: weights, "bias": joined(lambda part: part.proof.bias)},
        status=max(statuses, key=MILDEST_FIRST.index),
        statuses=statuses,
        primal=primal,
        dual=dual,
        gap=primal - dual,
        rounding=joined(lambda part: part.proof.rounding),
        margin_bound=bound if formulation == "svm0" else np.full_like(bound, np.nan),
        members=members,
        alpha=joined(lambda part: part.proof.alpha),
        signs=signs,
        slack=joined(lambda part: part.proof.slack),
        steps=joined(lambda part: part.steps),
        formulation=formulation,
        C=C,
    )


_scores_of_all = jax.jit(scores_of_all)


def decision_values(machines: BinaryMachines, inputs: PyTree) -> np.ndarray:
    """F_m(x) = <w_m, x> + b_m of each input and machine, [N, M] in the dtype of the weights.

    Args:
      machines: of `fit_binary`.
      inputs: N inputs of the kind that trained them; of kernel values `kernel_inputs(gram,
        self_kernel=...)` with gram [N, n] against the training inputs.
    """
    kernel = "coefficients" in machines.weights
    weights = machines.weights["coefficients" if kernel else "weights"]
    examples = held(rows_of(inputs, len(weights)), weights.dtype.name)
    return np.asarray(_scores_of_all(examples, weights)) + machines.weights["bias"][None, :]


def support_vectors(machines: BinaryMachines, machine: int = 0) -> SupportVectors:
    """The support vectors of one of the machines; all others have alpha_i = 0 exactly."""
    rows = (
        machines.members[machine], machines.alpha[machine], machines.signs[machine],
        machines.slack[machine],
    )  # fmt: skip
    carried = machines.alpha[machine] > 0
    return SupportVectors(*(row[carried] for row in rows))
