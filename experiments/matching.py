"""Points matched to points: a learned matching beside decisions a pair, assigned or not.

    python -m experiments.matching
    python -m experiments.matching --settings=complete --methods=pairs,svm --draws=2
    python -m experiments.matching --turn=0.2 --noise=0.05 --train=50

Point sets are drawn, see `experiments.tasks.point_sets`. In "complete" every point of the first set
has a partner among more points of the second; in "partial" some have none. Four methods read the
same features of pairs: all weighted alike; a logistic regression of pairs (scikit-learn's), each
row taking its best column; its log-odds in an assignment; and a structural SVM. C is chosen on
pairs of sets apart, and so is what a pair must score at least in "partial", which the SVM learns
and the others do not. Each method of each setting runs in a process of its own, so that its peak
memory is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common, fields
from experiments.lib.apart import run_parts, write_part
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS, Stopwatch, peak_memory_bytes, spent, spread
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.point_sets import Drawing, Pair, drawn_pairs, pair_features
from jaxstruct import assignments, fit, trained

SETTINGS = ("complete", "partial")
METHODS = ("equal", "pairs", "assigned", "svm")
SPOKEN = {
    "equal": "equal weights, assigned", "pairs": "logistic regression, best column",
    "assigned": "logistic regression, assigned", "svm": "structural SVM",
}  # fmt: skip
C_OF_PAIRS = (0.1, 1.0, 10.0)
LEVELS = np.linspace(0.02, 0.98, 33)
"""Quantiles of the scores of true pairs that are tried as what a pair must score at least."""
WRONG, RIGHT, MISSED = "#c43c00", "#9a9a9a", "#0072b2"


class Options(fields.Apart, fields.Tolerance, fields.Common):
    """The flags of this command."""

    settings: Sequence[str] = flag(
        SETTINGS, "Whether all points of the first set have a partner.", SETTINGS, some=True
    )
    methods: Sequence[str] = flag(METHODS, "Some of these.", METHODS, some=True)
    draws: int = flag(5, "Draws of all point sets.", least=1)
    train: int = flag(100, "Pairs of sets to learn from.", least=1)
    validation: int = flag(50, "Pairs of sets that choose C and thresholds.", least=1)
    test: int = flag(200, "Pairs of sets to test.", least=1)
    points: Sequence[str] = flag(("10", "16"), "Fewest and most points of a first set.", each=int)
    turn: float = flag(0.5, "Second sets are turned by so many radians at most.", least=0)
    noise: float = flag(0.02, "Standard deviation of the shaking.", least=0)
    missing: float = flag(0.2, "Share of points without a partner, of the partial setting.")
    added: float = flag(0.3, "Points that second sets have beside, in shares of the first.")
    c_over_n: Sequence[str] = flag(
        ("0.1", "0.3", "1"),
        "Values of C' = C / n of the SVM to choose from.",
        each=float,
        above=0,
        some=True,
    )
    compilation_cache: bool = False


class Sets(NamedTuple):
    """pairs: of point sets. features: of each [r, c, d]. columns: of each [r], -1 for none."""

    pairs: list[Pair]
    features: list[np.ndarray]
    columns: list[np.ndarray]


def run(options: Options) -> common.Outcome | None:
    """Draw, train, test, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      subprocess.CalledProcessError: a method failed; its messages are on standard error.
    """
    if options.part:
        return write_part(options, _part_name(options), _rows)
    common.prepare(options)
    _drawing(options, SETTINGS[1])
    rows = common.finished_rows(options, run_parts(options, _parts(options), _part_name, _rows))
    plots = {}
    for setting in options.settings:
        own = [row for row in rows if row["setting"] == setting]
        shown = {row["method"]: row["shown"] for row in own if row["shown"]}
        plots[f"matching_{setting}"] = _picture(options, setting, shown)
    return common.save(options, _table(options, rows), {"rows": rows}, plots)


def _parts(options: Options) -> Iterator[Options]:
    for setting in options.settings:
        for method in options.methods:
            yield options.replace(settings=(setting,), methods=(method,))


def _part_name(options: Options) -> str:
    return f"matching_{options.settings[0]}_{options.methods[0]}"


def _drawing(options: Options, setting: str) -> Drawing:
    """How this setting draws its sets; ValueError where a flag does not fit."""
    points = tuple(map(int, options.points))
    if len(points) != 2 or not 2 <= points[0] <= points[1]:
        raise ValueError(f"points must be the fewest, at least 2, and the most, got {points}")
    for name in ("missing", "added"):
        if not 0 <= getattr(options, name) < 1:
            raise ValueError(f"{name} must be a share in 0..1, got {getattr(options, name)}")
    missing = options.missing if setting == "partial" else 0.0
    return Drawing((points[0], points[1]), options.turn, options.noise, missing, options.added)


def _sets(options: Options, setting: str, draw: int) -> tuple[Sets, Sets, Sets]:
    """Those to learn from, to choose on and to test."""
    rng = np.random.default_rng([options.seed, draw, SETTINGS.index(setting)])
    found = []
    for n in (options.train, options.validation, options.test):
        pairs = drawn_pairs(rng, n, _drawing(options, setting))
        features = [pair_features(pair) for pair in pairs]
        columns = [_columns(len(pair.first), pair.matching) for pair in pairs]
        found.append(Sets(pairs, features, columns))
    return found[0], found[1], found[2]


def _columns(r: int, matching: Sequence[tuple[int, int]]) -> np.ndarray:
    """[r] the column of each row, -1 for none."""
    found = np.full(r, -1)
    for i, j in matching:
        found[i] = j
    return found


def _wrong(sets: Sets, found: Sequence[np.ndarray]) -> float:
    """The share of rows in % whose column, or none, is wrong."""
    counts = [np.sum(a != b) for a, b in zip(sets.columns, found, strict=True)]
    return 100 * float(np.sum(counts) / sum(map(len, found)))


def _f1(sets: Sets, found: Sequence[np.ndarray]) -> float:
    """F1 of pairs in %."""
    right = sum(np.sum((a == b) & (a >= 0)) for a, b in zip(sets.columns, found, strict=True))
    every = sum(np.sum(a >= 0) + np.sum(b >= 0) for a, b in zip(sets.columns, found, strict=True))
    return 200 * float(right / every)


def _rows(options: Options) -> list[dict[str, Any]]:
    """A row a draw of one method in one setting."""
    (setting,), (method,) = options.settings, options.methods
    rows = []
    for draw in range(options.draws):
        train, validation, test = _sets(options, setting, draw)
        if method == "svm":
            chosen, numbers, found = _svm(options, setting, train, validation, test)
        else:
            chosen, numbers, found = _by_pairs(method, setting, train, validation, test)
        rows.append({
            "setting": setting, "method": method, "draw": draw, "wrong": _wrong(test, found),
            "f1": _f1(test, found), "C": chosen, **numbers,
            "shown": [] if draw else [own.tolist() for own in found],
        })  # fmt: skip
    return [row | {"peak_memory": peak_memory_bytes()} for row in rows]


def _svm(
    options: Options, setting: str, train: Sets, validation: Sets, test: Sets
) -> tuple[float, dict[str, Any], list[np.ndarray]]:
    """(C', seconds and status, columns of test rows) of the C' with the fewest wrong rows."""
    data = assignments.prepare(
        train.features, [pair.matching for pair in train.pairs], unmatched=setting == "partial",
        dtype="float64" if options.x64 else "float32",
    )  # fmt: skip

    def read(model: Any, sets: Sets) -> list[np.ndarray]:
        found = zip(sets.features, model.predict(sets.features), strict=True)
        return [_columns(len(features), matching) for features, matching in found]

    best: tuple[float, float, Any, dict[str, Any]] | None = None
    compiling = 0.0  # the first C' compiles for all
    for ratio in map(float, options.c_over_n):
        watch = Stopwatch()
        solution = fit(*data, "svm1_margin", ratio * len(train.pairs), tolerance=options.tolerance)
        numbers = watch.numbers(solution.weights) | {"status": solution.status}
        compiling += numbers["compile_seconds"]
        model = trained(data, solution)
        wrong = _wrong(validation, read(model, validation))
        if best is None or wrong < best[0]:
            best = wrong, ratio, model, numbers
    assert best is not None, "some C'"
    return best[1], best[3] | {"compile_seconds": compiling}, read(best[2], test)


def _by_pairs(
    method: str, setting: str, train: Sets, validation: Sets, test: Sets
) -> tuple[float | None, dict[str, Any], list[np.ndarray]]:
    """The same of a method that scores pairs, and of the least score with the fewest wrong rows."""
    from sklearn.linear_model import LogisticRegression

    x = np.concatenate([each.reshape(-1, each.shape[2]) for each in train.features])
    of_pairs = zip(train.features, train.columns, strict=True)
    y = [columns[:, None] == np.arange(features.shape[1])[None] for features, columns in of_pairs]
    labels = np.concatenate([each.reshape(-1) for each in y])
    best: tuple[float, float | None, np.ndarray, float, dict[str, Any]] | None = None
    for C in (None,) if method == "equal" else C_OF_PAIRS:
        watch, weights = Stopwatch(), np.ones(x.shape[1])
        if C is not None:
            weights = LogisticRegression(C=C, max_iter=5000).fit(x, labels).coef_[0]
        numbers = watch.numbers() | {"status": None}
        levels = np.quantile((x @ weights)[labels], LEVELS) if setting == "partial" else [-np.inf]
        for least in map(float, levels):
            wrong = _wrong(validation, _matched(method, weights, least, validation))
            if best is None or wrong < best[0]:
                best = wrong, C, weights, least, numbers
    assert best is not None, "some level"
    _, C, weights, least, numbers = best
    return C, numbers, _matched(method, weights, least, test)


def _matched(method: str, weights: np.ndarray, least: float, sets: Sets) -> list[np.ndarray]:
    """[r] the columns of the rows of each pair of sets; pairs that score less are not made."""
    from scipy.optimize import linear_sum_assignment

    found = []
    for features in sets.features:
        scores = features @ weights
        r, c = scores.shape
        if method == "pairs":
            found.append(np.where(scores.max(axis=1) > least, scores.argmax(axis=1), -1))
            continue
        if least > -np.inf:  # rows may leave at this score
            scores = np.concatenate([scores, np.full((r, r), least)], axis=1)
        i, j = linear_sum_assignment(scores, maximize=True)
        found.append(_columns(r, [pair for pair in zip(i, j, strict=True) if pair[1] < c]))
    return found


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "setting": "setting", "method": "method", ("rows wrong %", "mean"): "wrong",
        ("rows wrong %", "sd"): "wrong_sd", ("F1 of pairs %", "mean"): "f1",
        ("F1 of pairs %", "sd"): "f1_sd", "C chosen": "C", **SECONDS, "peak MB": "memory",
        "status": "status",
    }  # fmt: skip
    notes = [
        f"Means and standard deviations of {options.draws} draws: {options.train} pairs of sets of "
        f"{' to '.join(options.points)} points to learn from, {options.validation} that choose, "
        f"{options.test} to test; turned by {options.turn:g} at most, noise {options.noise:g}, "
        f"{options.added:g} added, of the partial setting {options.missing:g} missing.",
        "Seconds of one training with the C that was chosen, the median of the draws, and what the "
        "first compiled; peak memory of the process of all draws, jax imported.",
    ]
    lines = []
    for setting in options.settings:
        for method in options.methods:
            own = [row for row in rows if (row["setting"], row["method"]) == (setting, method)]
            lines.append(_line(own) | {"setting": setting, "method": SPOKEN[method]})
    return rows_table("Matched points", columns, lines, notes)


def _line(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the draws of one method."""
    found: dict[str, Any] = {}
    for name in ("wrong", "f1"):
        found[name], found[f"{name}_sd"] = spread([row[name] for row in rows])
    chosen = sorted({row["C"] for row in rows if row["C"] is not None})
    return found | spent(rows) | {"C": ", ".join(f"{C:g}" for C in chosen) or None}


def _picture(options: Options, setting: str, shown: dict[str, list[list[int]]]) -> Plot:
    """One pair of test sets as each method matches it: the first set to the left."""
    from matplotlib.figure import Figure

    test = _sets(options, setting, 0)[2]
    names = [name for name in ("pairs", "assigned", "svm", "equal") if name in shown][:3]
    counts = {name: [_wrong_rows(test, i, own) for i, own in enumerate(shown[name])]
              for name in names}  # fmt: skip
    means = {name: np.mean(own) for name, own in counts.items()}
    typical = np.sum([np.abs(np.array(counts[name]) - means[name]) for name in names], axis=0)
    i = int(np.argmin(typical))
    pair, true = test.pairs[i], test.columns[i]
    figure = Figure(figsize=(4.2 * len(names), 2.7), layout="constrained")
    second = pair.second - pair.second.mean(axis=0) + pair.first.mean(axis=0) + [1.5, 0]
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for row, (column, right) in enumerate(zip(shown[name][i], true, strict=True)):
            for end, colour, style in _lines_of(column, int(right)):
                ends = np.array([pair.first[row], second[end]])
                axis.plot(*ends.T, style, color=colour, linewidth=1.2)
        axis.plot(*pair.first.T, "o", color="black", markersize=5)
        axis.plot(*second.T, "s", color="black", markersize=5)
        axis.set_title(f"{SPOKEN[name]}: {counts[name][i]} of {len(true)} wrong", fontsize=9)
        axis.set_axis_off()
        axis.set_aspect("equal")
    figure.suptitle("Grey: right, red: wrong, dashed blue: the right partner", fontsize=10)
    data = {"first": pair.first.tolist(), "second": pair.second.tolist(), "true": true.tolist()}
    matched = {name: shown[name][i] for name in names}
    return Plot(figure, data | {"test pair": i, "matched": matched})


def _wrong_rows(test: Sets, i: int, columns: Sequence[int]) -> int:
    return int(np.sum(test.columns[i] != np.asarray(columns)))


def _lines_of(column: int, right: int) -> Iterator[tuple[int, str, str]]:
    """(end, colour, style) of the lines of one row."""
    if column >= 0:
        yield column, RIGHT if column == right else WRONG, "-"
    if column != right and right >= 0:
        yield right, MISSED, "--"
