"""Chains of real numbers: support vector regression whose neighbours are predicted together.

An output v has a number for each token (thesis 5.2). A chain of them scores

    E(x, v; w, u) = sum_t [v_t f_t - v_t^2 / 2] - sum_t [u_1 |d_t| + u_2 d_t^2 / 2],
    f_t = <w, Phi(x^t)>,  d_t = v_{t+1} - v_t.

Without neighbours (u = 0, or a single token) the argmax is v = f, a linear regression. The true y
is trained to beat every rival v_t = y_t + B s_t, s_t one of -1, 0, 1, by
Delta(y, v) = sum_t (v_t - y_t)^2 / 2 - epsilon |v_t - y_t|. The slack of an example is then

    xi = max_v Delta(y, v) + E(v) - E(y)
       = max_s sum_t B [s_t (f_t - y_t) - epsilon |s_t|] - <u, rho(v) - rho(y)>,

where rho(v) are the two sums over d_t. Without neighbours this is B sum_t max(0, |f_t - y_t| -
epsilon), the loss of support vector regression, and adding rivals between those of s_t = -1, 0, 1
would change nothing. With neighbours these three are a choice, under which 3^T constraints are
searched by Viterbi in 9 T steps, exactly, for any u: nothing has to be positive semi-definite.

-v_t^2 / 2 has no weight, so it stands in `model.loss`, which is the margin that <w, delta Psi> has
to reach: -sum_t y_t (v_t - y_t) + epsilon |v_t - y_t|, below 0 for some v. Margin re-scaling with
linear slack takes such margins; no other formulation has a meaning here.

Series are drawn, and machines that predict them are scikit-learn's, token by token, and this chain.

Every machine is chosen on series apart by the mean absolute error; a constant feature is the bias,
which is regularised like all weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import jaxstruct as js
from jaxstruct.chains import ChainPotentials, viterbi
from jaxstruct.core.types import AnyArray, Array, PyTree

SIGNS = (0, -1, 1)
"""s_t, the truth first: of equal scores Viterbi takes the first."""


class RealInput(NamedTuple):
    """One sequence, or a batch of them, ragged or padded.

    Fields:
      features: [T, d] Phi of each token. length: of the sequence.
    """

    features: PyTree
    length: AnyArray


class Theta(NamedTuple):
    """[T] f, [2] u, and the length."""

    values: AnyArray
    coupling: AnyArray
    length: AnyArray


class Tables(NamedTuple):
    """unit, B (in units), epsilon, and [K] the levels of predictions (in units)."""

    unit: Array
    step: Array
    epsilon: Array
    levels: Array


def _changes(before: Array, after: Array) -> Array:
    """[2, ...] |d| and d^2 / 2."""
    d = after - before
    return jnp.stack([jnp.abs(d), d**2 / 2])


def _inside(theta: Theta) -> Array:
    """[T] which positions are tokens."""
    return jnp.arange(theta.values.shape[0]) < theta.length


def _potentials(w: dict[str, Array], x: RealInput) -> Theta:
    return Theta(x.features @ w["tokens"], w["coupling"], x.length)


def _score(tables: Tables, theta: Theta, v: Array) -> Array:
    """F(v), the part of E that has weights."""
    v, inside = v * tables.unit, _inside(theta)
    changes = jnp.where(inside[1:], _changes(v[:-1], v[1:]), 0)
    return jnp.where(inside, v, 0) @ theta.values - theta.coupling @ jnp.sum(changes, axis=1)


def _margins(tables: Tables, y: Array, v: Array) -> Array:
    """A token's part of Delta(y, v) + (|y|^2 - |v|^2) / 2."""
    d = (v - y) * tables.unit
    return -(y * tables.unit * d) - tables.epsilon * jnp.abs(d)


def _loss(tables: Tables, y: Array, v: Array) -> Array:
    return jnp.sum(_margins(tables, y, v))


def _best(tables: Tables, theta: Theta, choices: Array, own: Array) -> Array:
    """The v of choices [T, K] with the largest F + sum_t own[t, .]."""
    values = choices * tables.unit
    changes = _changes(values[:-1, :, None], values[1:, None, :])
    potentials = ChainPotentials(
        theta.values[:, None] * values + own, -jnp.tensordot(theta.coupling, changes, 1)
    )
    found = viterbi(potentials, theta.length).labels
    picked = jnp.take_along_axis(choices, jnp.maximum(found, 0)[:, None], axis=1)[:, 0]
    return jnp.where(found < 0, -1, picked)


def _decode(tables: Tables, theta: Theta) -> Array:
    """argmax of E over the levels."""
    shape = theta.values.shape[0], tables.levels.shape[0]
    choices = jnp.broadcast_to(tables.levels, shape)
    return _best(tables, theta, choices, -((choices * tables.unit) ** 2) / 2)


def _loss_augmented_decode(tables: Tables, theta: Theta, y: Array, scale: Array) -> Array:
    rivals = y[:, None] + tables.step * jnp.array(SIGNS)[None]
    return _best(tables, theta, rivals, scale * _margins(tables, y[:, None], rivals))


def _positions(x: RealInput) -> int:
    return np.shape(x.features)[1]


def real_chain(
    d: int, step: float, epsilon: float, levels: np.ndarray, unit: float, dtype: str = "float64"
) -> js.Problem:
    """The problem; inputs are RealInput, outputs `in_units(y, unit)`; trained by svm1_margin.

    Args:
      d: features of a token, a constant among them where there is to be a bias.
      step: B. epsilon: of the loss; from step >= 2 epsilon on Delta is nowhere negative.
      levels: [K] the numbers that can be predicted, of equal scores the first.
      unit: outputs are integers times it, step and levels are rounded to it.

    Returns:
      A problem with weights {"tokens": [d], "coupling": [2]}.
    """
    tables = Tables(
        jnp.asarray(unit, dtype), jnp.asarray(in_units(step, unit)),
        jnp.asarray(epsilon, dtype), jnp.asarray(in_units(levels, unit)),
    )  # fmt: skip
    score, decode, loss, augmented = (
        Partial(function, tables) for function in (_score, _decode, _loss, _loss_augmented_decode)
    )
    return js.make_problem(
        {"tokens": jnp.zeros(d, dtype), "coupling": jnp.zeros(2, dtype)},
        js.Model(_potentials, score, decode, loss),
        js.Oracles(loss_augmented_decode=augmented),
        padding=js.Padding(output_sizes=_positions),
        tested=True,  # by enumeration; the check of a structure refuses margins below 0
    )


def in_units(y: np.ndarray | float, unit: float) -> np.ndarray:
    """Numbers as integers times the unit, rounded."""
    return np.round(np.asarray(y) / unit).astype(np.int32)


METHODS = ("tokens", "smoothed", "windows", "gaussian", "structured")
TITLES = {
    "tokens": "SVR, token by token", "smoothed": "SVR, then a chosen coupling",
    "windows": "SVR of windows", "gaussian": "SVR of windows, Gaussian kernel",
    "structured": "structured",
}  # fmt: skip
KINDS = ("jumps", "smooth")
C_OF_TOKENS = (0.01, 0.1, 1.0, 10.0)
RADII = (1, 2, 3, 5, 8)
GAMMAS = (0.03, 0.1, 0.3)
COUPLINGS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0)
"""u_1 that are tried where it is not learned."""
UNIT = 2.0**-10
"""Numbers are rounded to it."""
AGREEMENT_TOLERANCE = 1e-10
Predictor: TypeAlias = Callable[[np.ndarray], np.ndarray]


class Series(NamedTuple):
    """n series of T tokens: [n, T] what is observed, and what is to be predicted."""

    x: np.ndarray
    y: np.ndarray


class Choices(NamedTuple):
    """What the machines are given.

    Fields:
      epsilon: of all. steps, C: of the chain, to choose from. levels: that it can predict.
      tolerance, dtype: of its training.
    """

    epsilon: float
    steps: Sequence[float]
    C: Sequence[float]
    levels: int
    tolerance: float
    dtype: str


class Trial(NamedTuple):
    """One setting: what it is, how it predicts [n, T], and the solution of `js.fit` if any."""

    setting: dict[str, float]
    predict: Predictor
    solution: js.Solution | None = None


def drawn_series(
    rng: np.random.Generator, kind: str, n: int, T: int, stay: float, noise: float
) -> Series:
    """x = y + noise; y is standard normal at each token, and alike at neighbours.

    Args:
      kind: "jumps", y is drawn anew with probability 1 - stay and else stays; "smooth", y_{t+1} =
        stay y_t + sqrt(1 - stay^2) z. Both have the correlations stay^|t - s|.
    """
    z, shock = rng.normal(size=(n, T)), rng.normal(size=(n, T))
    fresh, y = rng.random((n, T)) >= stay, z.copy()
    for t in range(1, T):
        moved = stay * y[:, t - 1] + np.sqrt(1 - stay**2) * z[:, t]
        y[:, t] = np.where(fresh[:, t], z[:, t], y[:, t - 1]) if kind == "jumps" else moved
    return Series(y + noise * shock, y)


def windows(x: np.ndarray, radius: int) -> np.ndarray:
    """[n, T, 2 radius + 2] tokens t - radius .. t + radius, ends repeated, and a 1."""
    wide = np.pad(x, ((0, 0), (radius, radius)), mode="edge")
    columns = [wide[:, i : i + x.shape[1]] for i in range(2 * radius + 1)]
    return np.stack([*columns, np.ones_like(x)], axis=2)


def linear_svr(C: float, epsilon: float, tolerance: float = 1e-4) -> Any:
    """liblinear's machine: min 1/2 |w|^2 + C sum max(0, |<w, x> - y| - epsilon), no bias."""
    from sklearn.svm import LinearSVR

    return LinearSVR(
        C=C, epsilon=epsilon, loss="epsilon_insensitive", fit_intercept=False, tol=tolerance,
        max_iter=10**6, random_state=0,
    )  # fmt: skip


def _by_tokens(machine: Any, radius: int, train: Series) -> Predictor:
    """How an estimator predicts that has learned windows."""
    rows = windows(train.x, radius)
    machine.fit(rows.reshape(-1, rows.shape[2]), train.y.reshape(-1))
    return lambda x: machine.predict(windows(x, radius).reshape(-1, rows.shape[2])).reshape(x.shape)


def _linear(train: Series, choices: Choices, radii: Iterable[int]) -> Iterator[Trial]:
    for radius, C in itertools.product(radii, C_OF_TOKENS):
        predict = _by_tokens(linear_svr(C, choices.epsilon), radius, train)
        yield Trial({"radius": radius, "C": C}, predict)


def _gaussian(train: Series, choices: Choices) -> Iterator[Trial]:
    from sklearn.svm import SVR

    for radius, C, gamma in itertools.product(RADII, C_OF_TOKENS[1:], GAMMAS):
        machine = SVR(C=C, epsilon=choices.epsilon).set_params(gamma=gamma)
        setting = {"radius": radius, "C": C, "gamma": gamma}
        yield Trial(setting, _by_tokens(machine, radius, train))


def chain_inputs(x: np.ndarray) -> RealInput:
    """Series as the chain takes them: each token's own number and a 1."""
    return RealInput(windows(x, 0), np.full(len(x), x.shape[1], np.int32))


def _chain(train: Series, choices: Choices, step: float) -> js.Problem:
    """Its levels are spread over the numbers that train."""
    levels = np.linspace(train.y.min(), train.y.max(), choices.levels)
    return real_chain(2, step, choices.epsilon, levels, UNIT, choices.dtype)


def _by_chain(problem: js.Problem, weights: Any) -> Predictor:
    return lambda x: UNIT * np.asarray(js.predict(problem, weights, chain_inputs(x)))


def _smoothed(train: Series, choices: Choices) -> Iterator[Trial]:
    """The tokens' machine under a coupling that is chosen, not learned."""
    problem, rows = _chain(train, choices, 1.0), windows(train.x, 0).reshape(-1, 2)
    for C in C_OF_TOKENS:
        w = linear_svr(C, choices.epsilon).fit(rows, train.y.reshape(-1)).coef_
        for u in COUPLINGS:
            weights = {"tokens": w, "coupling": np.array([u, 0.0])}
            yield Trial({"C": C, "u": u}, _by_chain(problem, weights))


def _structured(train: Series, choices: Choices) -> Iterator[Trial]:
    inputs, outputs = chain_inputs(train.x), in_units(train.y, UNIT)
    for step, C in itertools.product(choices.steps, choices.C):
        problem = _chain(train, choices, step)
        solution = js.fit(problem, inputs, outputs, "svm1_margin", C=C, tolerance=choices.tolerance)
        yield Trial({"step": step, "C": C}, _by_chain(problem, solution), solution)


_TRIALS: dict[str, Callable[[Series, Choices], Iterator[Trial]]] = {
    "tokens": partial(_linear, radii=(0,)), "windows": partial(_linear, radii=RADII),
    "gaussian": _gaussian, "smoothed": _smoothed, "structured": _structured,
}  # fmt: skip


def chosen_trial(method: str, train: Series, choose: Series, choices: Choices) -> Trial:
    """The trial of the least mean absolute error on the series that choose."""
    trials = _TRIALS[method](train, choices)
    return min(trials, key=lambda trial: float(np.abs(trial.predict(choose.x) - choose.y).mean()))


def agreement(train: Series, epsilon: float, C: float, dtype: str) -> list[dict[str, Any]]:
    """Without neighbours, a token an example: ours beside scikit-learn's, C the weight of a token.

    libsvm's machine has a bias that is not regularised; with every token once more, x and y
    negated, its best bias is 0, and C counts twice.
    """
    from sklearn.svm import SVR

    rows, outputs = windows(train.x, 0).reshape(-1, 1, 2), in_units(train.y.reshape(-1, 1), UNIT)
    x, y = rows[:, 0], UNIT * outputs[:, 0]
    problem = real_chain(2, 1.0, epsilon, np.zeros(1), UNIT, dtype)
    inputs = RealInput(rows, np.ones(len(x), np.int32))
    solution = js.fit(
        problem, inputs, outputs, "svm1_margin", C=C * len(x), tolerance=AGREEMENT_TOLERANCE
    )
    mirrored = SVR(kernel="linear", C=C / 2, epsilon=epsilon, tol=1e-10)
    mirrored.fit(np.concatenate([x, -x]), np.concatenate([y, -y]))
    weights = {
        "jaxstruct": np.asarray(solution.weights["tokens"]),
        "liblinear": linear_svr(C, epsilon, 1e-10).fit(x, y).coef_,
        "libsvm": mirrored.coef_[0],
    }
    own = weights["jaxstruct"]
    return [
        {
            "C": C,
            "machine": name,
            "objective": float(w @ w / 2 + C * np.maximum(0, np.abs(x @ w - y) - epsilon).sum()),
            "gap": float(solution.gap) if name == "jaxstruct" else None,
            "apart": float(np.abs(x @ (w - own)).max()),
        }
        for name, w in weights.items()
    ]
