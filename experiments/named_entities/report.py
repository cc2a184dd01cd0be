"""Tables 2 and 3 beside the paper's, and their picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.lib.plots import Plot, bar_groups
from experiments.lib.report import Table
from experiments.named_entities.options import Options
from experiments.tasks.news import Corpus
from jaxstruct.evaluation.metrics import mean_and_deviation

PAPER_ERRORS = {"HMM": 9.36, "CRF": 5.17, "perceptron": 5.94, "SVM": 5.08}
"""Thesis, table 4.2: token error in %."""

PAPER_SVM = {
    "svm2": ("0.2 ± 0.1", "5.1 ± 0.6", "2824 ± 106", "1.02 ± 0.01"),
    "svm2_slack": ("0.4 ± 0.4", "5.1 ± 0.8", "2626 ± 225", "1.10 ± 0.08"),
    "svm2_margin": ("0.3 ± 0.2", "5.1 ± 0.7", "2628 ± 119", "1.17 ± 0.12"),
}
"""Thesis, table 4.3: training and test error in %, constraints, average loss."""

TITLES = {"svm2": "SVM2", "svm2_slack": "SVM2 Δs", "svm2_margin": "SVM2 Δm"}


class Row(NamedTuple):
    """One machine, trained on every fold.

    Fields:
      method: a key of PAPER_ERRORS. variant: what distinguishes it from others of its method.
      tokens: "words", "linear" or "degree 2", what a token is to it.
      C: as --C has it, None where there is none. formulation: of an SVM, else None.
      compared: whether the paper's figure is of this machine.
      folds: what `methods` measured, fold by fold.
    """

    method: str
    variant: str
    tokens: str
    C: str | None
    formulation: str | None
    compared: bool
    folds: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Method and variant."""
        return f"{self.method}{f', {self.variant}' if self.variant else ''}"


def is_of_paper(options: Options) -> bool:
    """Whether the sentences are those of the paper: the first 300 of the Spanish training part."""
    return (options.language, options.sentences) == ("esp", 300)


def _values(row: Row, part: str, measure: str) -> list[float]:
    return [fold[part][measure] for fold in row.folds]


def _spread(values: Sequence[float | None], decimals: int = 2) -> str | None:
    known = [float(value) for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    mean, deviation = mean_and_deviation(known)
    alone = len(values) == 1
    return f"{mean:.{decimals}f}" + ("" if alone else f" ± {deviation:.{decimals}f}")


def table_two(options: Options, corpus: Corpus, rows: Sequence[Row]) -> Table:
    """Thesis, table 4.2: token error by method; entities beside it, which the paper leaves out."""
    known = ["paper"] if is_of_paper(options) else []
    columns = [
        "method", "tokens", "C", *(("token error %", s) for s in (*known, "measured")),
        ("token error %", "on training"), ("entities %", "precision"), ("entities %", "recall"),
        ("entities %", "F1"), ("seconds a fold", "in all"), ("seconds a fold", "compiling"),
    ]  # fmt: skip
    body = []
    for row in _of_table_two(rows):
        paper = [f"{PAPER_ERRORS[row.method]:.2f}" if row.compared else None for _ in known]
        entities = (_spread(_values(row, "test", m), 1) for m in ("precision", "recall", "f1"))
        errors = (_spread(_values(row, part, "token_error")) for part in ("test", "train"))
        spent = [
            mean_and_deviation([fold[name] for fold in row.folds]).mean
            for name in ("seconds", "compile_seconds")
        ]
        body.append(
            [row.name, row.tokens, row.C, *paper, *errors, *entities, *(f"{s:.1f}" for s in spent)]
        )  # fmt: skip
    title = f"Table 2: named entities, {_protocol(options, corpus)}"
    return Table(title, columns, body, _notes(options, corpus, rows))


def table_three(options: Options, corpus: Corpus, rows: Sequence[Row]) -> Table:
    """Thesis, table 4.3: the SVM2 formulations with the kernel of degree 2."""
    groups = ("train error %", "test error %", "constraints", "average loss")
    sources = ("paper", "measured") if is_of_paper(options) else ("measured",)
    columns = ["machine", "C", *((g, s) for g in groups for s in sources), "support sequences"]
    body = []
    kernel = [row for row in rows if row.method == "SVM" and row.tokens == "degree 2"]
    for row in sorted(kernel, key=lambda row: list(options.kernel_C).index(str(row.C))):
        measured = (
            _spread(_values(row, "train", "token_error")),
            _spread(_values(row, "test", "token_error")),
            *(
                _spread([fold[name] for fold in row.folds], digits)
                for name, digits in (("constraints", 0), ("average_loss", 2))
            ),
        )
        assert row.formulation is not None, "an SVM"
        found = {"paper": PAPER_SVM[row.formulation], "measured": measured}
        cells = (found[s][i] for i in range(len(groups)) for s in sources)
        support = _spread([fold["support"] for fold in row.folds], 0)
        body.append([TITLES[row.formulation], row.C, *cells, support])
    title = f"Table 3: named entities, {_protocol(options, corpus)}, kernel of degree 2"
    return Table(title, columns, body, _svm_notes(options, rows))


def _of_table_two(rows: Sequence[Row]) -> list[Row]:
    """The paper's machines in its order, then ours in the same."""
    shown, methods = [row for row in rows if row.formulation in (None, "svm2")], [*PAPER_ERRORS]
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
    shown = _of_table_two(rows)
    shown = [row for row in shown if row.compared] or shown
    stats = [mean_and_deviation(_values(row, "test", "token_error")) for row in shown]
    names = [row.name + f", C={row.C}" * bool(row.C) for row in shown]
    series = {}
    if is_of_paper(options):
        series["paper"] = [PAPER_ERRORS[r.method] if r.compared else math.nan for r in shown]
    series["measured"] = [round(stat.mean, 2) for stat in stats]
    errors = {"measured": [s.deviation if s.deviation == s.deviation else 0.0 for s in stats]}
    title = f"{options.language}.train: token error by method"
    return bar_groups(names, series, errors, title, "token error, %")


def _protocol(options: Options, corpus: Corpus) -> str:
    return (
        f"first {len(corpus.sentences)} sentences of {options.language}.train, {options.folds}-fold"
    )


def _notes(options: Options, corpus: Corpus, rows: Sequence[Row]) -> list[str]:
    return [
        f"{len(corpus.sentences)} sentences, {int(corpus.lengths.sum())} tokens, "
        f"{len(corpus.names)} labels; the folds are dealt at random within groups of about equal "
        "length. Mean ± deviation over the folds; seconds: training and predicting, with what the "
        "first fold compiles.",
        f"Tokens: linear, {options.affixes}-letter affixes, spelling and neighbours within "
        f"{options.window} (jaxstruct.data.token_features); degree 2, the kernel (1 + <x, x'>)^2 "
        f"of these{', normalised' if options.normalise else ''}, and linear transitions. The "
        "paper's own features are not listed in it.",
        "Commonest label: the yardstick, a machine that gives every token the commonest label of "
        "its training sentences, which is O.",
        *_svm_notes(options, rows),
        "HMM: of words, Laplace correction 1; 'spelling': words that occur once in the training "
        "sentences count as one of five spellings. CRF: L-BFGS until the gradient is at most 1e-3 "
        f"max(1, |w|). Perceptron: until a pass has no error, at most {options.epochs} passes; "
        "'averaged': the mean of its weights over all steps.",
    ]


def _svm_notes(options: Options, rows: Sequence[Row]) -> list[str]:
    runs = [fold for row in rows for fold in row.folds if row.method in ("SVM", "CRF")]
    unsolved = sum(not fold["status"].solved for fold in runs)
    compilations = sum(fold.get("compilations", 0) for row in rows for fold in row.folds)
    return [
        "C is divided by the number n of training sentences, C' = C / n; 'n' is C' = 1. The paper "
        "says C = 1 and not whether its C is divided.",
        f"SVM: Hamming loss, epsilon {options.epsilon:g}; constraints: cutting planes added in "
        "all; average loss: mean Hamming loss of the label sequences with a positive dual "
        "variable, each counting once.",
        f"{len(runs)} trainings of SVM and CRF, {unsolved} without a proof of convergence; "
        f"{compilations} solver programs compiled or loaded.",
    ]
