r"""Decisions by predicted costs: how much the loss matters, and how much the optimiser.

    python -m experiments.decisions
    python -m experiments.decisions --tasks=path --degrees=4 --examples=1000 --seeds=3
    python -m experiments.decisions --tasks=salesman_host --degrees=4 --examples=100 --steps=300
    python -m experiments.decisions --degrees=1,2,4,6,8 --examples=100,1000,5000 --noises=0,0.5 \
        --seeds=10

Shortest paths on a grid, knapsacks, round trips and portfolios with costs that are polynomials of
features (`experiments.tasks.decisions`: Elmachtoub and Grigas 2022, PyEPO; the last line above
draws as much as they do, the default a part of it). Portfolios, a minute a data set, and round
trips of `salesman_host`, found by a program in Python, are no part of the default. A linear model
predicts costs, c^ = W' (x, 1); measured is the regret of the decisions that it leads to. W is
trained by

    squares      least squares of the costs, the two-stage way
    spo_plus     the SPO+ loss by Adam
    certified    the SPO+ loss as a structural SVM: `jaxstruct.fit`, with a bound of its optimum
    perturbed    the Fenchel-Young loss with Gaussian noise, by Adam
    blackbox     the regret itself, by Adam on the gradient of an interpolation
    pyepo        the SPO+ loss by PyEPO in torch and the same Adam, of paths and knapsacks, where
                 pyepo, torch and ortools are installed: --methods=spo_plus,pyepo

Adam starts at 0 and takes --steps steps of --batch examples. Costs are divided by their mean over
the training data, so that one rate, one noise and one C' = C / n fit all tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.peers import pyepo_spo_plus, require_pyepo
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.progress import jobs_bar
from experiments.lib.record import Stopwatch, spread
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.decisions import (
    PARTS,
    TASKS,
    Draw,
    Generator,
    listed,
    portfolios,
    round_trips,
    tours,
)
from jaxstruct import Truth, decisions, fit
from jaxstruct.core.types import Array
from jaxstruct.decisions import DecisionInput, Decisions

CERTIFIED = "certified"
METHODS = ("squares", "spo_plus", CERTIFIED, "perturbed", "blackbox")
PYEPO = "pyepo"
UNPROVEN = {"status": None, "primal": None, "dual": None}
SIZES = {"path": 5, "knapsack": 32, "salesman": 7, "portfolio": 50, "salesman_host": 9}
"""Sides of the grid, items and assets as in the papers; 7 towns, whose 360 round trips are listed,
and 9 towns with 20,160."""
UNITS = {"portfolio": 1 / PARTS}
"""What one more in a coordinate of a decision is; features and costs are in it, too."""
CAPACITY = 20
TEST = 1000
RATE = 1e-2
NOISE, DRAWS, STEP = 1.0, 4, 1.0
"""Scale and number of perturbed decisions, step of blackbox gradients. Mean regret in %, of paths
and knapsacks, n = 1000, degrees 1 and 4, two data sets each: scales .25, .5, 1, 2, 4 have 11.8,
11.5, 11.3, 11.3, 11.3, and 10 draws 11.3 for twice the time; steps .1, .3, 1, 10, 20, 50 have 16.9,
14.5, 13.5, 14.1, 14.9, 15.4."""
Key = tuple[str, float, int, int]


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    tasks: Sequence[str] = flag(TASKS[:3], "Some of these.", TASKS, some=True)
    methods: Sequence[str] = flag(METHODS, "Some of these.", (*METHODS, PYEPO), some=True)
    degrees: Sequence[str] = flag(
        ("1", "4", "8"), "Degrees of the costs.", each=int, above=0, some=True
    )
    examples: Sequence[str] = flag(
        ("100", "1000"), "Numbers of training examples.", each=int, above=0, some=True
    )
    noises: Sequence[str] = flag(
        ("0.5",), "Half widths of the noise of costs.", each=float, some=True
    )
    seeds: int = flag(5, "Data sets of each setting.", least=1)
    c_over_n: Sequence[str] = flag(
        ("1", "100"), "Values of C' = C / n of the certified optimum.", each=float, above=0,
        some=True,
    )  # fmt: skip
    steps: int = flag(3000, "Steps of Adam.", least=1)
    batch: int = flag(32, "Examples of a step.", least=1)


class Data(NamedTuple):
    """x [n, p + 1] with a constant, costs c [n, d] over their mean, y [n, d] best decisions."""

    x: np.ndarray
    c: np.ndarray
    y: np.ndarray


def run(options: Options) -> common.Outcome:
    """Train, test, print the table and write it."""
    if PYEPO in options.methods:
        require_pyepo()
    dtype = common.prepare(options)
    settings = [
        (task, float(noise), int(n), int(degree))
        for task in options.tasks for noise in options.noises
        for n in options.examples for degree in options.degrees
    ]  # fmt: skip
    bar = jobs_bar(settings, "decisions", options.progress)
    groups = (
        _rows(options, dtype, key, seed) for key in bar for seed in range(options.seeds)
    )  # fmt: skip
    rows = common.finished_rows(options, groups)
    return common.save(options, _table(options, rows), {"rows": rows}, {"decisions": _plot(rows)})


def set_of(task: str, weights: Any) -> Decisions:
    """The decision set of a task; weights: of a `Generator`."""
    if task == "path":
        return decisions.grid_paths(SIZES[task], SIZES[task])
    if task == "knapsack":
        return decisions.knapsack(weights, CAPACITY)
    if task == "portfolio":
        return portfolios(weights)
    return round_trips(SIZES[task]) if task == "salesman_host" else listed(tours(SIZES[task]))


def _generator(options: Options, key: Key, seed: int) -> Generator:
    task, noise, _, degree = key
    numbers = np.random.SeedSequence([options.seed, seed, TASKS.index(task), degree])
    draw = Draw(task, SIZES[task], degree=degree, noise=noise)
    return Generator(draw, int(numbers.generate_state(1)[0]))


def drawn(options: Options, dtype: str, key: Key, seed: int) -> tuple[Decisions, Data, Data]:
    """(the decision set, training data, test data)."""
    generator = _generator(options, key, seed)
    found, parts = set_of(key[0], generator.weights), []
    scale, unit = None, UNITS.get(key[0], 1)
    for count in (key[2], TEST):
        x, c = generator(count)
        scale = np.mean(c) / unit if scale is None else scale
        x = (unit * np.hstack([x, np.ones((count, 1))])).astype(dtype)
        c = (c / scale).astype(dtype)
        parts.append(Data(x, c, decisions.decide(found, c)))
    return found, parts[0], parts[1]


def _rows(options: Options, dtype: str, key: Key, seed: int) -> Iterator[dict[str, Any]]:
    """A row a method of one data set."""
    found, train, test = drawn(options, dtype, key, seed)
    task, noise, n, degree = key
    setting = {"task": task, "noise": noise, "examples": n, "degree": degree, "seed": seed}
    for method in options.methods:
        if method == PYEPO and task not in ("path", "knapsack"):
            continue  # it has no others without a licensed solver
        for ratio in map(float, options.c_over_n) if method == CERTIFIED else [None]:
            watch = Stopwatch()
            if method == PYEPO:
                weights = _generator(options, key, seed).weights
                given = task, SIZES[task], weights, CAPACITY, train.x, train.c
                W = pyepo_spo_plus(*given, options.steps, options.batch, RATE, seed)
                numbers = UNPROVEN
            else:
                W, numbers = _trained(options, found, train, method, ratio, seed)
            spent = watch.numbers(W)
            yield setting | numbers | spent | {
                "method": method, "c_over_n": ratio,
                "regret": 100 * decisions.regret(found, test.x @ np.asarray(W), test.c),
                "train_spo_plus": float(_spo_plus(found, W, train)),
            }  # fmt: skip


def _trained(
    options: Options, found: Decisions, train: Data, method: str, ratio: float | None, seed: int
) -> tuple[Any, dict[str, Any]]:
    """(W [p + 1, d], what the training says of itself)."""
    if method == "squares":
        return np.linalg.lstsq(train.x, train.c, rcond=None)[0], UNPROVEN
    if ratio is None:
        key = jax.random.key(seed)
        return _by_adam(found, method, options.steps, options.batch, train, key), UNPROVEN
    problem = decisions.problem(found, train.x.shape[1], dtype=str(train.x.dtype))
    solution = fit(
        problem, DecisionInput(train.x), Truth(train.y, train.c), "svm1_margin",
        ratio * len(train.x), tolerance=options.tolerance,
    )  # fmt: skip
    numbers = {"status": solution.status, "primal": solution.primal, "dual": solution.dual}
    return solution.weights["weights"], numbers


def _loss(
    found: Decisions, method: str, unit: Array, c_hat: Array, c: Array, y: Array, key: Array
) -> Array:
    """Of ONE example."""
    if method == "spo_plus":
        return decisions.spo_plus(found, c_hat, c, y=y)
    if method == "perturbed":
        return decisions.fenchel_young(found, c_hat, y, key, samples=DRAWS, scale=NOISE * unit)
    return -found.sign * jnp.vdot(c, decisions.blackbox(found, c_hat, step=STEP))


@partial(jax.jit, static_argnames=("method", "steps", "batch"))
def _by_adam(
    found: Decisions, method: str, steps: int, batch: int, train: Data, key: Array
) -> Array:
    """[p + 1, d] W after so many steps."""
    optimiser, n = optax.adam(RATE), len(train.x)
    start = jnp.zeros((train.x.shape[1], train.c.shape[1]), train.x.dtype)

    def mean_loss(W: Array, index: Array, key: Array) -> Array:
        x, c, y = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], train)
        one = partial(_loss, found, method, x[0, -1])  # the constant
        losses = jax.vmap(one)(x @ W, c, y, jax.random.split(key, batch))
        return jnp.mean(losses)

    def step(state: tuple, key: Array) -> tuple[tuple, None]:
        W, moments = state
        drawing, noise = jax.random.split(key)
        index = jax.random.randint(drawing, (batch,), 0, n)
        change, moments = optimiser.update(jax.grad(mean_loss)(W, index, noise), moments)
        return (optax.apply_updates(W, change), moments), None

    (W, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), jax.random.split(key, steps))
    return W


@jax.jit
def _spo_plus(found: Decisions, W: Array, train: Data) -> Array:
    """The mean SPO+ loss."""
    one = lambda c_hat, c, y: decisions.spo_plus(found, c_hat, c, y=y)  # noqa: E731
    return jnp.mean(jax.vmap(one)(train.x @ W, *train[1:]))


def _spoken(row: dict[str, Any]) -> str:
    ratio = row["c_over_n"]
    return row["method"] if ratio is None else f"{row['method']} {ratio:g}"


def _by_setting(rows: Sequence[dict[str, Any]]) -> dict[Key, dict[str, list[float]]]:
    """Setting -> method -> the regret of each seed."""
    found: dict[Key, dict[str, list[float]]] = {}
    for row in rows:
        key = row["task"], row["noise"], row["examples"], row["degree"]
        found.setdefault(key, {}).setdefault(_spoken(row), []).append(row["regret"])
    return found


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {name: name for name in ("task", "noise", "n", "degree")}
    methods = list(dict.fromkeys(map(_spoken, rows)))
    columns |= {("regret in %", name): itemgetter(name) for name in methods}
    lines = []
    for key, of_methods in _by_setting(rows).items():
        line: dict[str, Any] = dict(zip(("task", "noise", "n", "degree"), key, strict=True))
        for name, each in of_methods.items():
            mean, deviation = spread(each)
            line[name] = f"{mean:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")
        lines.append(line)
    notes = [
        f"Normalised regret on {TEST} further examples, mean and standard deviation of "
        f"{options.seeds} data sets; certified 1 has C' = C / n = 1.",
        *(_spent(rows, name) for name in methods),
        *_differences(rows, methods),
    ]
    return rows_table("Decisions by predicted costs", columns, lines, notes)


def _spent(rows: Sequence[dict[str, Any]], name: str) -> str:
    own = [row for row in rows if _spoken(row) == name]
    warm = np.median([row["seconds"] - row["compile_seconds"] for row in own])
    line = f"{name}: {warm:.2f} s (median, compiling apart), mean SPO+ loss of the training data "
    line += f"{np.mean([row['train_spo_plus'] for row in own]):.4f}"
    ended = [row["status"].name for row in own if row["status"] is not None]
    if ended:
        counts = ", ".join(f"{ended.count(each)} {each}" for each in dict.fromkeys(ended))
        line += f"; {counts} of {len(ended)}"
    return line + "."


def _differences(rows: Sequence[dict[str, Any]], methods: Sequence[str]) -> Iterator[str]:
    """Each method beside SPO+ by Adam, by Wilcoxon's test of signed ranks."""
    from scipy.stats import wilcoxon

    regrets = {
        name: np.array([r["regret"] for r in rows if _spoken(r) == name]) for name in methods
    }
    for name in methods:
        difference = regrets[name] - regrets.get("spo_plus", regrets[name])
        if len(difference) > 1 and difference.any():
            test: Any = wilcoxon(difference)
            yield (
                f"{name} less spo_plus: {difference.mean():+.2f} on average of {len(difference)} "
                f"data sets, less in {np.sum(difference < 0)}, p = {test.pvalue:.1e}."
            )


def _plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Regret against the degree: the first task, the most examples, the most noise."""
    last = max((row["noise"], row["examples"]) for row in rows)
    own = {
        key: found for key, found in _by_setting(rows).items()
        if key[0] == rows[0]["task"] and key[1:3] == last
    }  # fmt: skip
    degrees = [key[3] for key in own]
    names = next(iter(own.values()))
    curves = {n: (degrees, [float(np.mean(found[n])) for found in own.values()]) for n in names}
    title = f"{rows[0]['task']}, {last[1]} examples, noise {last[0]:g}"
    return curve_lines(curves, title, "degree", "regret, %", log_y=False, ticks=degrees)
