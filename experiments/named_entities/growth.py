"""Table 3's constraints by the printed algorithm: as sentences are added, and what changes them.

Algorithm 3 one sentence at a time, the QP solved over all of S after every constraint (step 10a,
`experiments.machines.reference.reference_algorithm`), on the first sentences of a training part
of a split by lengths of its own, not of a fold of table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.conll2002 import load_conll2002
from experiments.corpora.splits import stratified_folds
from experiments.lib import common
from experiments.lib import kept as lib
from experiments.lib.plots import curve_lines
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from experiments.lib.report import Table, rows_table
from experiments.machines.reference.reference_algorithm import fit_reference
from experiments.named_entities.report import PAPER_SVM, TITLES, Options
from experiments.tasks.news import Corpus, kernel_corpus, label_names
from experiments.tasks.token_features import FeatureOptions, fit_token_index
from jaxstruct import Status
from jaxstruct.chains.structure import chain
from jaxstruct.data.conll import Sentence

NAME = "named_entities_growth"
PAPER_SIZE = 240
LOOK_AHEAD = 32
EXACTNESS = 0.1
"""Share of epsilon to which a QP is solved."""
DECIDING = ("sentences", "folds", "seed", "x64", "max_passes")
COLUMNS = {
    "machine": lambda row: TITLES[row["formulation"]],
    "changed": "changed", "n": "n", "C / n": "c_over_n:.4f", "epsilon": "epsilon:g",
    ("constraints", "paper"): "paper_constraints",
    ("constraints", "measured"): "constraints", ("constraints", "a sentence"): "each:.1f",
    ("average loss", "paper"): "paper_loss", ("average loss", "measured"): "average_loss:.2f",
    "support": "support", "epochs": "epochs", "minutes": lambda row: row["seconds"] / 60,
}  # fmt: skip


class Way(NamedTuple):
    """What is changed in the printed training, one thing at a time.

    Fields:
      changed: its name. normalise: of the kernel. affixes, window: of the features; None: as the
      options say. c_over_n: C' = C / n, None: 1/n as printed. epsilon: None: as the options say.
    """

    changed: str
    normalise: bool = False
    affixes: int | None = None
    window: int | None = None
    c_over_n: float | None = None
    epsilon: float | None = None


PRINTED = Way("")
FACTORS = (
    PRINTED,
    Way("normalised kernel", normalise=True),
    Way("no affixes", affixes=0),
    Way("no neighbours", window=0),
    Way("neither", affixes=0, window=0),
    Way("C / n", c_over_n=1.0),
    Way("epsilon", epsilon=0.1),
)


def run_growth(options: Options) -> common.Outcome:
    """Count the constraints at every size, then with one factor changed, and write both.

    Raises:
      ValueError: more sentences asked for than a training part has, or an option that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    news = load_conll2002("esp", Path(options.path) if options.path else None)
    sentences = training_part(news.train[: options.sentences], options)
    sizes = [int(size) for size in options.sizes]
    for size in (*sizes, options.factor_size):
        if size > len(sentences):
            raise ValueError(
                f"sizes, factor_size: got {size}, but the training part of a fold has "
                f"{len(sentences)} sentences"
            )
    store = lib.Store(
        Path(options.output) / NAME, lib.store_key(options, DECIDING, sentences), options.resume
    )
    cases = [(size, PRINTED) for size in sizes]
    cases += [(options.factor_size, way) for way in FACTORS if options.factors]
    groups = (
        [_kept(store, options, sentences[:size], way, formulation, dtype)]
        for size, way in dict.fromkeys(cases)
        for formulation in options.growth_formulations
    )
    rows = common.finished_rows(options, groups, name=NAME)
    plots = {NAME: growth_plot(rows)} if len(sizes) > 1 else {}
    return common.save(options, growth_table(options, rows), {"rows": rows}, plots, name=NAME)


def training_part(sentences: Sequence[Sentence], options: Options) -> list[Sentence]:
    """The sentences that the first of `folds` parts, dealt by length, leaves, in their order."""
    lengths = np.array([len(sentence.words) for sentence in sentences])
    first = stratified_folds(lengths // 16, options.folds, options.seed)[0]
    return [sentences[i] for i in first.train]


def _kept(
    store: lib.Store, options: Options, sentences: Sequence[Sentence], way: Way, formulation: str,
    dtype: str,
) -> dict[str, Any]:  # fmt: skip
    affixes = options.affixes if way.affixes is None else way.affixes
    window = options.window if way.window is None else way.window
    features = FeatureOptions(affixes, window)
    n, epsilon = len(sentences), options.epsilon if way.epsilon is None else way.epsilon
    ratio = 1 / n if way.c_over_n is None else way.c_over_n

    def train() -> dict[str, Any]:
        index, names = fit_token_index(sentences, features), label_names(sentences)
        corpus = kernel_corpus(sentences, names, index, way.normalise, features)
        words = f"{formulation}, n = {n}{', ' * bool(way.changed)}{way.changed}"
        with training_progress(options.max_passes, words, options.progress, None) as update:
            return count(options, corpus, formulation, ratio * n, epsilon, dtype, update)

    settings = f"{formulation}_n{n}_a{affixes}_w{window}_C{ratio:.3g}_e{epsilon:g}"
    name = settings + "_normalised" * way.normalise
    numbers = lib.kept(store, name, train)
    paper = PAPER_SVM[formulation] if (n, way) == (PAPER_SIZE, PRINTED) else None
    return numbers | {
        "changed": way.changed, "formulation": formulation, "n": n, "c_over_n": ratio,
        "epsilon": epsilon, "each": numbers["constraints"] / n,
        "status": Status[numbers["status"]],
        "paper_constraints": paper and paper[2], "paper_loss": paper and paper[3],
    }  # fmt: skip


def count(
    options: Options, corpus: Corpus, formulation: str, C: float, epsilon: float, dtype: str,
    update: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """What algorithm 3 adds on a corpus of kernel tokens.

    Returns:
      constraints: |S|. support: those with a multiplier; average_loss: their mean Hamming loss,
      each counting once. Beside them epochs, status and the seconds.
    """
    watch = Stopwatch()
    problem = chain(corpus.number_of_features, len(corpus.names), dtype=dtype)
    found = fit_reference(
        problem, corpus.inputs, corpus.outputs, formulation, C, epsilon=epsilon,
        exactness=EXACTNESS, max_epochs=options.max_passes, look_ahead=LOOK_AHEAD,
        callback=update,
    )  # fmt: skip
    course = found.details
    return watch.numbers() | {
        "constraints": found.statistics.planes_kept, "support": found.statistics.support_planes,
        "average_loss": float(np.mean(course.loss[course.multiplier > 0])),
        "epochs": found.statistics.passes, "status": found.status.name,
    }  # fmt: skip


def growth_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    """A line a size and formulation, then a line a factor and formulation."""
    unsolved = sum(not row["status"].solved for row in rows)
    return rows_table(
        "Table 3 by the printed algorithm: constraints",
        COLUMNS, rows,
        [
            "Algorithm 3 with the QP over all of S after every constraint, to "
            f"{EXACTNESS:g} epsilon. Kernel (1 + <x, x'>)^2 of the features of "
            "table 2; the first n of the training sentences of one split; C = 1 divided by n.",
            "changed: one thing at a time beside the line without a word: C / n, and epsilon, are "
            "then those of the line.",
            "average loss: mean Hamming loss of the constraints with a multiplier.",
            f"{len(rows)} trainings, {unsolved} of which did not come to their regular end.",
        ],
    )  # fmt: skip


def growth_plot(rows: Sequence[dict[str, Any]]) -> Any:
    """Constraints by the number of sentences, a curve a formulation, beside the paper's points."""
    printed = [row for row in rows if not row["changed"]]
    curves: dict[str, Any] = {}
    for formulation in dict.fromkeys(row["formulation"] for row in printed):
        own = sorted(
            {(row["n"], row["constraints"]) for row in printed if row["formulation"] == formulation}
        )
        curves[TITLES[formulation]] = tuple(zip(*own, strict=True))
    return curve_lines(curves, "Algorithm 3 as printed", "training sentences", "constraints")
