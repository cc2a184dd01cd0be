"""Drawn series, and the machines that predict them: scikit-learn's token by token, and the chain.

Every machine is chosen on series apart by the mean absolute error; a constant feature is the bias,
which is regularised like all weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import jaxstruct as js
from experiments.structured_regression.structure import RealInput, in_units, real_chain

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
