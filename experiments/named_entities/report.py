"""The options of the command; tables 2 and 3 beside the paper's, and their picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot, bar_groups
from experiments.lib.report import Table, spread_text
from experiments.tasks.news import Corpus
from experiments.tasks.taggers import INNER_EPSILON
from jaxstruct.evaluation.metrics import mean_and_deviation

SVMS = {"svm": "svm2", "svm_slack": "svm2_slack", "svm_margin": "svm2_margin"}
"""Words of --methods -> formulations, all with the kernel."""
METHODS = (
    "commonest", "hmm", "crf", "perceptron", *SVMS, "perceptron_linear", "svm_linear",
)  # fmt: skip


class Options(fields.Solver):
    """The flags of this command."""

    path: str | None = flag(None, "conll2002.zip; default: see third_party_data.")
    sentences: int = flag(300, "The first so many sentences of the training part.", least=2)
    folds: int = flag(5, "Tables: folds of the cross-validation.", least=2)
    methods: Sequence[str] = flag(
        METHODS,
        f"Tables: some of {', '.join(METHODS)}; perceptron and the SVMs (SVM2 without "
        "and with re-scaling) have the kernel of degree 2, crf and what ends in linear linear "
        "features.",
        METHODS,
        some=True,
    )
    inner_folds: int = flag(
        2,
        "Table 2: each machine takes the setting of least token error on so many folds of the "
        "training sentences, held out in turn; 0: every setting is a row of its own.",
        least=0,
    )
    C: Sequence[str] = flag(
        ("1/n", "0.1", "1"),
        "Table 2: settings of all CRFs and SVMs, C' = C / n: numbers, or such as 1/n with the n "
        "training sentences.",
        each=fields.ratio,
    )
    smoothing: Sequence[str] = flag(
        ("1", "0.1", "0.01"), "Table 2: settings of HMMs, Laplace corrections.", each=float, above=0
    )
    epochs: Sequence[str] = flag(
        ("20", "5"), "Table 2: settings of perceptrons, passes at most.", each=int, least=1
    )
    table_3_C: Sequence[str] = flag(
        ("1/n",), "Table 3: values of C' = C / n; printed is C = 1.", each=fields.ratio
    )
    resume: bool = flag(
        False,
        "Tables: go on where a run with the same flags and output stopped, training by training.",
    )
    epsilon: float = flag(
        0.01, "Tables: training of SVMs stops when no constraint is violated by more.", above=0
    )
    growth: bool = flag(
        False,
        "Count the constraints of table 3 by the printed algorithm: a QP after every one, by "
        "numbers of sentences, then with one thing changed.",
    )
    sizes: Sequence[str] = flag(
        ("32", "64", "120", "240"),
        "--growth: numbers of training sentences, of the first fold's.",
        each=int,
        least=1,
    )
    growth_formulations: Sequence[str] = flag(
        tuple(SVMS.values()), "--growth: formulations.", tuple(SVMS.values()), some=True
    )
    factors: bool = flag(True, "--growth: change one thing at a time as well.")
    factor_size: int = flag(32, "--growth: training sentences of that part.", least=1)
    affixes: int = flag(4, "Letters of prefixes and suffixes.", least=0)
    window: int = flag(1, "Neighbours on each side with features.", least=0)
    max_passes: int = flag(500, "Rounds of a training at most.", least=1)


PAPER_ERRORS = {"HMM": 9.36, "CRF": 5.17, "perceptron": 5.94, "SVM": 5.08}
"""Thesis, table 4.2: token error in %."""

PAPER_SVM = {
    "svm2": ("0.2 ± 0.1", "5.1 ± 0.6", "2824 ± 106", "1.02 ± 0.01"),
    "svm2_slack": ("0.4 ± 0.4", "5.1 ± 0.8", "2626 ± 225", "1.10 ± 0.08"),
    "svm2_margin": ("0.3 ± 0.2", "5.1 ± 0.7", "2628 ± 119", "1.17 ± 0.12"),
}
"""Thesis, table 4.3: training and test error in %, constraints, average loss."""

CHOSEN = "chosen"
REFERENCE = ("SVM", "degree 2")
"""The machine that the others are compared with: method and tokens."""
RESAMPLES = 9999

TITLES = {"svm2": "SVM2", "svm2_slack": "SVM2 Δs", "svm2_margin": "SVM2 Δm"}


class Row(NamedTuple):
    """One machine, trained on every fold.

    Fields:
      method: a key of PAPER_ERRORS. variant: what distinguishes it from others of its method.
      tokens: "words", "linear" or "degree 2", what a token is to it.
      setting: a word of --C, --smoothing or --epochs; CHOSEN: by inner folds; None: has none.
      formulation: of an SVM, else None.
      compared: whether the paper's figure is of this machine.
      folds: what `methods` measured, fold by fold.
    """

    method: str
    variant: str
    tokens: str
    setting: str | None
    formulation: str | None
    compared: bool
    folds: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Method and variant."""
        return f"{self.method}{f', {self.variant}' if self.variant else ''}"


def is_of_paper(options: Options) -> bool:
    """Whether the sentences are those of the paper: the first 300 of the Spanish training part."""
    return options.sentences == 300


def _values(row: Row, part: str, measure: str) -> list[float]:
    return [fold[part][measure] for fold in row.folds]


def table_two(options: Options, corpus: Corpus, rows: Sequence[Row]) -> Table:
    """Thesis, table 4.2: token error by method; entities beside it, which the paper leaves out."""
    known = ["paper"] if is_of_paper(options) else []
    columns = [
        "method", "tokens", "setting", *(("token error %", s) for s in (*known, "measured")),
        ("token error %", "on training"), ("entities %", "precision"), ("entities %", "recall"),
        ("entities %", "F1"), ("seconds a fold", "in all"), ("seconds a fold", "compiling"),
    ]  # fmt: skip
    body = []
    for row in _of_table_two(options, rows):
        paper = [f"{PAPER_ERRORS[row.method]:.2f}" if row.compared else None for _ in known]
        entities = (spread_text(_values(row, "test", m), 1) for m in ("precision", "recall", "f1"))
        errors = (spread_text(_values(row, part, "token_error")) for part in ("test", "train"))
        spent = [
            mean_and_deviation([fold[name] for fold in row.folds]).mean
            for name in ("seconds", "compile_seconds")
        ]
        body.append(
            [
                row.name, row.tokens, _settings(row), *paper, *errors, *entities,
                *(f"{s:.1f}" for s in spent),
            ]
        )  # fmt: skip
    title = f"Table 2: named entities, {_protocol(options, corpus)}"
    return Table(title, columns, body, _notes(options, corpus, rows))


def _settings(row: Row) -> str | None:
    """The setting, or those that were chosen with the number of folds: "0.1 x4, 1"."""
    if row.setting != CHOSEN:
        return row.setting
    counts = Counter(fold["setting"] for fold in row.folds)
    return ", ".join(f"{s} x{count}" if count > 1 else s for s, count in counts.most_common())


def differences(options: Options, rows: Sequence[Row]) -> Table:
    """Token errors of the SVM of degree 2 beside every other machine, on the same sentences.

    Two tests over folds, whose trainings share sentences, so that they take too much for sure; one
    over sentences: how often flipping the sign of the differences of sentences at random gives a
    sum as large (two-sided).
    """
    from scipy.stats import binomtest, permutation_test, ttest_rel

    shown = _of_table_two(options, rows)
    own = [row for row in shown if (row.method, row.tokens) == REFERENCE]
    lines = []
    for first in own:
        for row in shown:
            if row is first or row.method == "commonest label" or len(row.folds) < 2:
                continue
            errors = [np.array(_values(each, "test", "token_error")) for each in (first, row)]
            wrong = [
                np.concatenate([fold["wrong"] for fold in each.folds]) for each in (first, row)
            ]
            gap = errors[0] - errors[1]
            better, unequal = int(np.sum(gap < 0)), int(np.sum(gap != 0))
            flips = permutation_test(
                wrong, lambda a, b, axis: np.sum(a - b, axis=axis), permutation_type="samples",
                n_resamples=RESAMPLES, vectorized=True, rng=np.random.default_rng(0),
            )  # fmt: skip
            sentences = [int(np.sum(wrong[0] < wrong[1])), int(np.sum(wrong[0] > wrong[1]))]
            lines.append([
                row.name, row.tokens, spread_text(list(gap)),
                float(ttest_rel(errors[0], errors[1]).pvalue),
                f"{better} of {len(gap)}",
                float(binomtest(better, unequal).pvalue) if unequal else 1.0,
                f"{sentences[0]}, {sentences[1]}", float(flips.pvalue),
            ])  # fmt: skip
    columns = [
        "SVM2, degree 2, beside", "tokens", "error less theirs, %", ("folds", "p, t test"),
        ("folds", "SVM2 ahead"), ("folds", "p, sign test"), ("sentences", "better, worse"),
        ("sentences", "p, flipped signs"),
    ]  # fmt: skip
    notes = [
        "Token error on the test sentences of every fold; all tests are two-sided and paired. "
        "Trainings of folds share sentences, which the tests over folds do not know; of 5 folds "
        "the sign test has p >= .06.",
        f"Sentences: {RESAMPLES} draws of the signs of the differences in wrong tokens.",
    ]
    return Table("Table 2: differences in token error", columns, lines, notes)


def table_three(options: Options, corpus: Corpus, rows: Sequence[Row]) -> Table:
    """Thesis, table 4.3: the SVM2 formulations with the kernel of degree 2."""
    groups = ("train error %", "test error %", "constraints", "average loss")
    sources = ("paper", "measured") if is_of_paper(options) else ("measured",)
    columns = ["machine", "C / n", *((g, s) for g in groups for s in sources), "support sequences"]
    body = []
    kernel = [
        row for row in rows
        if (row.method, row.tokens) == REFERENCE and row.setting in options.table_3_C
    ]  # fmt: skip
    for row in sorted(kernel, key=lambda row: list(options.table_3_C).index(str(row.setting))):
        measured = (
            spread_text(_values(row, "train", "token_error")),
            spread_text(_values(row, "test", "token_error")),
            *(
                spread_text([fold[name] for fold in row.folds], digits)
                for name, digits in (("constraints", 0), ("average_loss", 2))
            ),
        )
        assert row.formulation is not None, "an SVM"
        found = {"paper": PAPER_SVM[row.formulation], "measured": measured}
        cells = (found[s][i] for i in range(len(groups)) for s in sources)
        support = spread_text([fold["support"] for fold in row.folds], 0)
        body.append([TITLES[row.formulation], row.setting, *cells, support])
    title = f"Table 3: named entities, {_protocol(options, corpus)}, kernel of degree 2"
    return Table(title, columns, body, _svm_notes(options, rows))


def _of_table_two(options: Options, rows: Sequence[Row]) -> list[Row]:
    """The paper's machines in its order, then ours in the same; not those of table 3 alone."""
    chosen = any(row.setting == CHOSEN for row in rows)
    shown = [
        row for row in rows
        if row.formulation in (None, "svm2") and (not chosen or row.setting in (None, CHOSEN))
    ]  # fmt: skip
    methods = [*PAPER_ERRORS]
    last = len(methods)
    return sorted(
        shown,
        key=lambda row: (
            not row.compared, methods.index(row.method) if row.method in methods else last
        ),
    )  # fmt: skip


def error_plot(options: Options, rows: Sequence[Row]) -> Plot:
    """Token errors of the machines that the paper has (all if it has none).

    They stand beside the paper's own where the sentences are the paper's.
    """
    shown = _of_table_two(options, rows) or list(rows)
    shown = [row for row in shown if row.compared] or shown
    stats = [mean_and_deviation(_values(row, "test", "token_error")) for row in shown]
    names = [row.name + f", {row.setting}" * (row.setting not in (None, CHOSEN)) for row in shown]
    series = {}
    if is_of_paper(options):
        series["paper"] = [PAPER_ERRORS[r.method] if r.compared else math.nan for r in shown]
    series["measured"] = [round(stat.mean, 2) for stat in stats]
    errors = {"measured": [s.deviation if s.deviation == s.deviation else 0.0 for s in stats]}
    title = "esp.train: token error by method"
    return bar_groups(names, series, errors, title, "token error, %")


def _protocol(options: Options, corpus: Corpus) -> str:
    return f"first {len(corpus.sentences)} sentences of esp.train, {options.folds}-fold"


def _notes(options: Options, corpus: Corpus, rows: Sequence[Row]) -> list[str]:
    return [
        f"{len(corpus.sentences)} sentences, {int(corpus.lengths.sum())} tokens, "
        f"{len(corpus.names)} labels; the folds are dealt at random within groups of about equal "
        "length. Mean ± deviation over the folds; seconds: training and predicting, with what the "
        "first fold compiles.",
        f"Tokens: linear, {options.affixes}-letter affixes, spelling and neighbours within "
        f"{options.window} (experiments.tasks.token_features); degree 2, the kernel (1 + <x, "
        "x'>)^2 of these, and linear transitions. "
        "The paper's own features are not listed in it.",
        "Commonest label: the yardstick, a machine that gives every token the commonest label of "
        "its training sentences, which is O.",
        *_svm_notes(options, rows),
        "setting: C' = C / n of CRF and SVM, the Laplace correction of an HMM, the passes of a "
        "perceptron at most. " + (
            f"Chosen in every fold by the token error on {options.inner_folds} parts of its "
            "training sentences, held out in turn (with the number of folds that chose it); of "
            f"equal ones the first of {', '.join(options.C)}; {', '.join(options.smoothing)}; "
            f"{', '.join(options.epochs)}; SVMs then stop at epsilon {INNER_EPSILON:g}."
            if options.inner_folds else "Every one is a row."
        ),
        "HMM: of words; 'spelling': words that occur once in the training sentences count as one "
        "of five spellings. CRF: L-BFGS until the gradient is at most 1e-3 max(1, |w|). "
        "Perceptron: until a pass has no error; 'averaged': the mean of its weights over all "
        "steps.",
    ]  # fmt: skip


def _svm_notes(options: Options, rows: Sequence[Row]) -> list[str]:
    runs = [fold for row in rows for fold in row.folds if row.method in ("SVM", "CRF")]
    unsolved = sum(not fold["status"].solved for fold in runs)
    compilations = sum(fold.get("compilations", 0) for row in rows for fold in row.folds)
    return [
        "C is divided by the number n of training sentences, C' = C / n. The paper says C = 1 and "
        "not whether its C is divided; table 3 has 1/n.",
        f"SVM: Hamming loss, epsilon {options.epsilon:g}; constraints: cutting planes added in "
        "all; average loss: mean Hamming loss of the label sequences with a positive dual "
        "variable, each counting once.",
        f"{len(runs)} trainings of SVM and CRF, {unsolved} without a proof of convergence; "
        f"{compilations} solver programs compiled or loaded.",
    ]
