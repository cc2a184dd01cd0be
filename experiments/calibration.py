"""Calibration: stated probabilities beside the share that is right, with and without a temperature.

    python -m experiments.calibration
    python -m experiments.calibration --data=digits,digit_words --held_out=0.3

A structural SVM and a random field train on the same examples, with the same C. A temperature is
fitted to each on held-out examples. The table has, of the test examples, what is right, what was
stated, the expected calibration error and the log loss; the pictures are reliability diagrams. The
probability of a class is stated of each class, the marginal of the label read of each letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.ocr_letters import load_ocr_letters
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import COLOURS, STYLE, Plot
from experiments.lib.progress import fitted
from experiments.lib.record import Stopwatch
from experiments.lib.report import Table, rows_table
from experiments.tasks.documents import clinc150
from jaxstruct import Problem, Ragged, confidence, predict, take
from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.types import PyTree
from jaxstruct.data.digits import load_digit_words, load_digits_split
from jaxstruct.evaluation import expected_calibration_error, reliability
from jaxstruct.multiclass.structure import multiclass

# The data sets of `experiments.calibration`: to train on, to fit a temperature on, to test on.


class Examples(NamedTuple):
    """Inputs and outputs as the problem takes them."""

    inputs: PyTree
    outputs: PyTree

    def part(self, which: np.ndarray) -> Examples:
        """The examples `which`."""
        return Examples(take(self.inputs, which), take(self.outputs, which))


class Data(NamedTuple):
    """One data set.

    Fields:
      problem: its structure.
      train, held_out, test: of each their own examples.
      unit: what predictions are of.
    """

    problem: Problem
    train: Examples
    held_out: Examples
    test: Examples
    unit: str


def _digits(dtype: str) -> tuple:
    digits = load_digits_split()
    d = digits.train_x.shape[1]
    problem = multiclass(d, 10, dtype=dtype)
    known, test = (
        Examples(x.astype(dtype), np.asarray(y, np.int32))
        for x, y in ((digits.train_x, digits.train_y), (digits.test_x, digits.test_y))
    )
    return problem, known, test, "images"


def _clinc150(dtype: str) -> tuple:
    corpus = clinc150()
    assert corpus.test is not None, "CLINC150 has a test part"
    problem = multiclass(corpus.number_of_features, len(corpus.taxonomy.classes), dtype=dtype)
    every = Examples(corpus.inputs, np.asarray(corpus.labels, np.int32))
    return problem, every.part(corpus.train), every.part(corpus.test), "queries"


def _words(pixels: np.ndarray, labels: np.ndarray, offsets: np.ndarray, dtype: str) -> Examples:
    inputs = chain_inputs(Ragged(pixels.astype(dtype), offsets))
    return Examples(inputs, Ragged(labels, offsets, -1))


def _digit_words(dtype: str) -> tuple:
    known, test = (
        _words(words.pixels, words.labels, words.offsets, dtype) for words in load_digit_words()
    )
    d = known.inputs.features.rows.shape[1]
    return chain(d, 10, dtype=dtype), known, test, "letters"


def _ocr_letters(dtype: str) -> tuple:
    """Fold 1 is known, fold 2 tests."""
    words = load_ocr_letters()
    every = _words(words.pixels, words.letters, words.offsets, dtype)
    d = every.inputs.features.rows.shape[1]
    known, test = (every.part(np.flatnonzero(words.folds == fold)) for fold in (1, 2))
    return chain(d, 26, dtype=dtype), known, test, "letters"


SETS = {
    "digits": _digits, "digit_words": _digit_words, "ocr_letters": _ocr_letters,
    "clinc150": _clinc150,
}  # fmt: skip


def load(name: str, held_out: float, examples: int, seed: int, dtype: str) -> Data:
    """A data set, its known part divided at random.

    Args:
      name: of `SETS`. held_out: the share of the known part that trains nothing.
      examples: known ones to use, 0 for all. seed: of the division. dtype: of the features.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      ValueError: nothing is left to train on or to hold out.
    """
    problem, known, test, unit = SETS[name](dtype)
    n = len(known.outputs)
    order = np.random.default_rng(seed).permutation(n)[: examples or n]
    cut = round(held_out * len(order))
    if not 0 < cut < len(order):
        raise ValueError(
            f"held_out: {held_out:g} of {len(order)} examples leaves none to train on or none to "
            "hold out"
        )
    held, train = np.sort(order[:cut]), np.sort(order[cut:])
    return Data(problem, known.part(train), known.part(held), test, unit)


# Reliability diagrams: the share that is right against the probability that was stated.

SIZE = (8.0, 5.2)
MARKERS = ("o", "s", "^", "D")


BINS = 15
"""Of the calibration error."""
FEWEST = 20
"""Predictions that a bin needs to be drawn."""


def reliability_diagram(name: str, rows: Sequence[Mapping[str, Any]]) -> Plot:
    """The diagram of one data set: a colour a machine, T = 1 dashed, the fitted T drawn through.

    Args:
      name: of the data set.
      rows: of the table of `experiments.calibration`, those of one data set.

    Returns:
      A Plot; its numbers are the bins that are drawn.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    machines = list(dict.fromkeys(row["machine"] for row in rows))
    numbers = []
    with rc_context(STYLE):
        figure = Figure(SIZE)
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=COLOURS[0], linewidth=1.2, label="right as often as stated")
        for row in rows:
            which = machines.index(row["machine"])
            bins = {key: np.asarray(leaf) for key, leaf in row["reliability"].items()}
            drawn = bins["count"] >= FEWEST
            plain = row["temperature"] == 1
            label = f"{row['machine']}, T = {row['temperature']:.3g}"
            axes.plot(
                bins["confidence"][drawn], bins["accuracy"][drawn], color=COLOURS[1 + which],
                linestyle="--" if plain else "-", marker=MARKERS[which % len(MARKERS)],
                markersize=5, markerfacecolor="white" if plain else COLOURS[1 + which],
                label=f"{label} (ECE {row['error']:.1f} %)",
            )  # fmt: skip
            columns = (bins[key][drawn].tolist() for key in ("confidence", "accuracy", "count"))
            numbers += [[label, *cells] for cells in zip(*columns, strict=True)]
        axes.set(
            xlim=(0, 1), ylim=(0, 1.03), xlabel="stated probability", ylabel="share that is right",
            title=f"Reliability, {name}",
        )  # fmt: skip
        axes.legend(loc="lower right", fontsize=10, frameon=True, facecolor="white", framealpha=0.9)
    columns = ["machine", "stated", "right", "predictions"]
    return Plot(figure, Table(f"Reliability, {name}", columns, numbers))


MACHINES = ("svm", "random_field")
NAMES = {"svm": "SVM", "random_field": "random field"}


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    data: Sequence[str] = flag(
        ("digits", "ocr_letters", "clinc150"), "Data sets to measure on.", tuple(SETS)
    )
    machines: Sequence[str] = flag(MACHINES, "What to train.", MACHINES)
    c_over_n: float = flag(0.1, "C' = C / n.", above=0)
    held_out: float = flag(
        0.2, "Part of the known examples to fit the temperature on.", above=0, most=0.9
    )
    examples: int = flag(0, "Known examples to use; 0 for all.", least=0)
    most_iterations: int = flag(200, "Iterations of the random field, at most.", least=1)


def run(options: Options) -> common.Outcome:
    """Train, fit temperatures, print the table and write it with a picture for each data set.

    Raises:
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    groups = (
        rows
        for name in options.data
        for rows in _of_data(
            options, name, load(name, options.held_out, options.examples, options.seed, dtype)
        )
    )
    rows = common.finished_rows(options, groups)
    plots = {
        f"calibration_{name}": reliability_diagram(
            name, [row for row in rows if row["data"] == name]
        )
        for name in options.data
    }
    table = _table(options, rows)
    return common.save(options, table, {"rows": rows}, plots)


def _trained(options: Options, machine: str, data: Data) -> tuple[Any, float]:
    """(the solution, seconds)."""
    inputs, outputs = data.train
    C, watch = options.c_over_n * len(outputs), Stopwatch()
    if machine == "random_field":
        found = fit_random_field(
            data.problem, inputs, outputs, C,
            max_iterations=options.most_iterations,
        )  # fmt: skip
        return found, watch.elapsed(found.weights).wall
    given = data.problem, inputs, outputs
    found, spent = fitted(options, NAMES[machine], given, "svm1_margin", C)
    return found, spent["seconds"]


def _of_data(options: Options, name: str, data: Data) -> Iterator[list[dict[str, Any]]]:
    for machine in options.machines:
        solution, seconds = _trained(options, machine, data)
        fitted = confidence.fit_temperature(data.problem, solution, *data.held_out)
        shared = {
            "data": name, "machine": NAMES[machine], "unit": data.unit, "seconds": seconds,
            "train": len(data.train.outputs), "held_out": len(data.held_out.outputs),
            "test": len(data.test.outputs), "held_out_before": fitted.log_loss_before,
            "held_out_after": fitted.log_loss, "evaluations": fitted.evaluations,
        }  # fmt: skip
        read = predict(data.problem, solution, data.test.inputs)
        yield [
            shared | {"temperature": T} | _measured(options, data, solution, read, T)
            for T in (1.0, fitted.value)
        ]


def stated(probabilities: PyTree, read: PyTree) -> np.ndarray:
    """[N] the probability of each label read: of every example, or of every position."""
    rows, labels = (
        leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in (probabilities, read)
    )
    return np.asarray(rows)[np.arange(len(labels)), labels]


def _measured(
    options: Options, data: Data, solution: Any, read: PyTree, T: float
) -> dict[str, Any]:
    test: Examples = data.test
    found = confidence.marginals(data.problem, solution, test.inputs, temperature=T)
    losses = confidence.log_losses(data.problem, solution, *test, temperature=T)
    probability = stated(found.probabilities, read).astype(np.float64)
    true, own = (leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in (test.outputs, read))
    right = np.asarray(own) == np.asarray(true)
    table = reliability(probability, right, BINS)
    return {
        "accuracy": 100 * float(right.mean()), "stated": 100 * float(probability.mean()),
        "error": 100 * expected_calibration_error(probability, right, BINS),
        "log_loss": float(np.sum(losses, dtype=np.float64)) / len(right),
        "reliability": table._asdict(),
    }  # fmt: skip


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: dict[Any, Any] = {
        "data": "data", "machine": "machine", "T": "temperature:.3f",
        "right %": "accuracy:.2f",
        "stated %": "stated:.2f",
        "ECE %": "error:.2f",
        "log loss": "log_loss:.4f",
    }  # fmt: skip
    counts = {row["data"]: row for row in rows}
    notes = [
        f"{name}: {row['train']} examples train, {row['held_out']} fit T, {row['test']} test; "
        f"predictions: {row['unit']}."
        for name, row in counts.items()
    ]
    notes += [
        f"C' = {options.c_over_n:g}, svm1_margin and random field alike. T = 1 takes F as it is; "
        "the other row of a machine has the T that its held-out log loss is least at.",
        f"stated: mean probability of what was read. ECE: {BINS} bins of equal width. Log "
        "loss: -log p(y | x) of the whole output, in nats a prediction.",
    ]
    return rows_table("Calibration, before and after a temperature", columns, rows, notes)
