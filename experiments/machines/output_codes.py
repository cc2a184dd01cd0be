"""Several classes by binary machines: one against all, all pairs, error-correcting codes (2.6.1).

A code is a matrix of -1, 0 and 1, a row a class, a column a machine: machine m learns to separate
the classes of 1 from those of -1 and never sees those of 0 (Dietterich and Bakiri 1995; zeros after
Allwein, Schapire and Singer 2000). One against all is 2 I - 1, all pairs have a column a pair.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from experiments.machines.binary import BinaryMachines, fit_binary
from jaxstruct.core.types import PyTree

TRIES = 100
"""Random codes that are drawn for the best of them."""


def one_against_all_code(k: int) -> np.ndarray:
    """Returns [k, k] int8: machine r separates class r (1) from all others (-1) (thesis 2.6.1)."""
    return (2 * np.eye(k) - 1).astype(np.int8)


def all_pairs_code(k: int) -> np.ndarray:
    """Returns [k, k (k - 1) / 2] int8: a machine for each pair r < s, 1 for r, -1 for s, else 0.

    Columns in the order (0, 1), (0, 2), ..., (k - 2, k - 1).
    """
    pairs = np.array(list(combinations(range(k), 2)))
    code = np.zeros((k, len(pairs)), np.int8)
    code[pairs[:, 0], np.arange(len(pairs))] = 1
    code[pairs[:, 1], np.arange(len(pairs))] = -1
    return code


def random_code(k: int, machines: int, seed: int = 0) -> np.ndarray:
    """Returns a random code [k, machines] int8 whose closest two rows are far apart.

    Of 100 draws that are codes (each column has both signs, no two rows are alike) the one whose
    smallest `row_distances` is largest; the first of these.

    Args:
      k: classes. machines: columns, at least log2 k.
      seed: of numpy.random.default_rng.

    Raises:
      ValueError: no draw is a code: more machines.
    """
    random = np.random.default_rng(seed)
    best, far = None, 0.0
    for _ in range(TRIES):
        draw = random.choice(np.array([-1, 1], np.int8), (k, machines), p=[0.5, 0.5])
        if is_code(draw):
            apart = np.min(row_distances(draw)[~np.eye(k, dtype=bool)])
            if apart > far:
                best, far = draw, apart
    if best is None:
        raise ValueError(
            f"machines is {machines}: none of {TRIES} random codes of {k} classes has "
            "unlike rows and both signs in each column; ask for more machines"
        )
    return best


def row_distances(code: np.ndarray) -> np.ndarray:
    """Returns [k, k] the Hamming distances of rows; an entry beside a 0 counts one half.

    A decoder by Hamming distance corrects (d - 1) // 2 wrong machines of a code without zeros whose
    smallest distance is d.
    """
    rows = np.asarray(code, np.float64)
    return (rows.shape[1] - rows @ rows.T) / 2


def is_code(table: np.ndarray) -> bool:
    """Whether each column of a table of -1, 0 and 1 has both signs, and no two rows are alike."""
    both = (table == 1).any(axis=0) & (table == -1).any(axis=0)
    return bool(both.all()) and len(np.unique(table, axis=0)) == len(table)


def fit_output_code(
    inputs: PyTree, labels: np.ndarray, code: ArrayLike, formulation: str = "svm1", C: float = 1.0,
    **options: Any,
) -> BinaryMachines:  # fmt: skip
    """Trains the machines of a code: on example i machine m has the sign code[y_i, m].

    Args:
      inputs: as in `fit_binary`.
      labels: [n] integers 0..k-1; each class must occur where its column needs it.
      code: [k, M], of this module or your own.
      formulation, C, options: of `fit_binary`; C is divided by all n in every machine.

    Raises:
      ValueError: a machine lacks one of the two signs.
    """
    return fit_binary(inputs, np.asarray(code)[labels], formulation, C, **options)


def decode_largest(values: ArrayLike) -> np.ndarray:
    """Returns f(x) = argmax_r F_r(x) (2.22), [N] int32, for one machine a class.

    Args:
      values: [N, k] decision values. Ties go to the lowest class.
    """
    return np.argmax(values, axis=1).astype(np.int32)


def decode_code(
    code: ArrayLike, values: ArrayLike, rule: str = "hamming", ties: str = "lowest"
) -> np.ndarray:
    """Returns the class whose row is closest to the machines' answers, [N] int32.

        hamming   sum_m (1 - M_ym sign F_m) / 2            (2.6.1: "prevails in most partitions")
        hinge     sum_m max(0, 1 - M_ym F_m)               (by margins)
        linear    sum_m -M_ym F_m                          (by margins)

    sign 0 = 0, so that a machine without an answer, and a class that it never saw, count one half
    in the Hamming distance. With `all_pairs_code` it counts votes: the class of most votes wins.
    With `one_against_all_code` "linear" is the largest value (2.22); under the others several
    machines may claim x.

    Args:
      code: [k, M]. values: [N, M] of `decision_values`.
      rule: hamming, hinge or linear.
      ties: "lowest" class, or "margins": the smallest linear distance among those that tie, then
        the lowest class.
    """
    table, numbers = np.asarray(code, np.float64), np.asarray(values, np.float64)
    linear = -numbers @ table.T
    distances = linear if rule == "linear" else _distances(table, numbers, rule)
    if ties == "margins":
        closest = distances == distances.min(axis=1, keepdims=True)
        distances = np.where(closest, linear, np.inf)
    return np.argmin(distances, axis=1).astype(np.int32)


def _distances(table: np.ndarray, values: np.ndarray, rule: str) -> np.ndarray:
    """[N, k] by Hamming distance or by the hinge loss; an entry 0 counts 1/2, or 1."""
    if rule == "hamming":
        return (table.shape[1] - np.sign(values) @ table.T) / 2
    against = [
        np.maximum(0, 1 - sign * values) @ (table == sign).T.astype(np.float64)
        for sign in (-1, 0, 1)
    ]
    return np.sum(against, axis=0)
