"""Constraints that algorithm 3 adds, as printed, beside those of `fit` and of the papers.

    python -m experiments.constraint_counts
    python -m experiments.constraint_counts --parts=homologues --sizes=1,10 --repeats=2
    python -m experiments.constraint_counts --parts=trees --trees=300

Table 5 (trees) of JMLR 6:1453-1484 has a column "Const", figure 2 (homologues) is of nothing else.
`fit` calls many examples at one w and lets multipliers lag, so its count is another one;
`experiments.machines.reference.reference_algorithm` has the papers' loop. The trees are GUM's and
the homologues are drawn anew: other data than the papers'. Table 3 (named entities) is counted by
`experiments.named_entities --growth`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.homologues import LETTERS, generate_homologues
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from experiments.lib.report import Table, spread_text
from experiments.machines.homologues import homologue_search
from experiments.machines.reference.reference_algorithm import fit_reference, most_constraints
from experiments.tasks import treebanks as parsing
from experiments.tasks.homologues import as_examples
from experiments.tasks.treebanks import load_treebank, prepare
from jaxstruct import Settings, fit
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.trees.structure import weighted_grammar

# The options of `experiments.constraint_counts`.

PARTS = ("trees", "homologues")
WAYS = ("full", "subspace", "fit")
SQUARED = ("svm2", "svm2_slack", "svm2_margin")
"""The formulations of table 5."""


EXACTNESS = 1e-3
"""Share of epsilon to which the printed algorithm solves a QP."""
MAX_EPOCHS = 200


class Options(fields.Common):
    """The flags of this command."""

    parts: Sequence[str] = flag(PARTS, "Tables to count constraints for.", PARTS, some=True)
    ways: Sequence[str] = flag(
        WAYS,
        "Step 10a (full) or 10b (subspace) of algorithm 3 as printed, or fit.",
        WAYS,
        some=True,
    )
    formulations: Sequence[str] = flag(SQUARED, "Formulations of trees.", SQUARED, some=True)
    repeats: int = flag(2, "Samples of homologues of each size.", least=1)
    corpus: str = flag("gum", "Trees: the corpus, as in experiments.parsing.", ["gum", "wsj"])
    trees: int = flag(0, "The first so many training trees; 0: all.", least=0)
    c_over_n: str = flag(
        "0.1", "Trees: C' = C / n; 1/n is the C = 1 of table 5, which learns too little."
    )
    epsilon: float = flag(0.01, "Trees: the precision at which the algorithm stops.", above=0)
    sizes: Sequence[str] = flag(
        ("1", "2", "4", "10", "20", "40", "80"),
        "Homologues: numbers n of training examples.",
        each=int,
        least=1,
    )
    epsilons: Sequence[str] = flag(
        ("1", "0.3", "0.03", "0.01", "0.003", "0.001"),
        "Homologues: precisions besides 0.1.",
        each=float,
        above=0,
    )
    epsilon_size: int = flag(20, "Number n of training examples in the part on epsilon.", least=1)
    look_ahead: int = flag(
        32, "Examples called ahead where nothing was added; changes the time alone.", least=1
    )


# What is trained: short trees, samples of homologues.

PAPER = dict(zip(SQUARED, ("7494", "8043", "7117"), strict=True))
"""Formulation -> the column "Const" of table 5."""
PAPER_EPOCHS = {"svm2": 17, "svm2_slack": 12, "svm2_margin": 16}
"""The column "Iter" of table 5."""
PAPER_SIZE = 4098


class Case(NamedTuple):
    """One training.

    Fields:
      part: trees or homologues. number: of the sample.
      settings: of `fit`, as the command of that table has them.
    """

    part: str
    number: int
    problem: Problem
    inputs: PyTree
    outputs: PyTree
    formulation: str
    n: int
    C: float
    epsilon: float
    settings: Settings


def cases_of(options: Options, dtype: str) -> Iterator[Case]:
    """The trainings of the parts that the options name, data made as they are asked for."""
    makers = {"trees": _trees, "homologues": _homologues}
    for part, maker in makers.items():
        if part in options.parts:
            yield from maker(options, dtype)


def _trees(options: Options, dtype: str) -> Iterator[Case]:
    """Table 5: svm2 for the zero-one loss, the others for the loss of the inner nodes."""
    own = parsing.Options(corpus=options.corpus, sentences=options.trees, seed=options.seed)
    treebank = load_treebank(own)
    data, n = prepare(treebank), len(treebank.train)
    settings = Settings(seed=options.seed, chunks=parsing.CHUNKS)
    for name in options.formulations:
        loss = "zero_one" if name == "svm2" else "node_f1"
        problem = weighted_grammar(data.grammar, loss=loss, longest=data.longest, dtype=dtype)
        yield Case(
            "trees", 0, problem, data.train.inputs, data.outputs, name, n,
            fields.ratio(options.c_over_n, n) * n, options.epsilon, settings,
        )  # fmt: skip


def _homologues(options: Options, dtype: str) -> Iterator[Case]:
    """Figure 2: both sides, svm2 at C' = 0.1."""
    problem = homologue_search(LETTERS, dtype=dtype)
    settings = Settings(variant="subspace", oracle_batch=1, group=1, seed=options.seed)
    pairs = [(int(n), 0.1) for n in options.sizes]
    pairs += [(options.epsilon_size, float(epsilon)) for epsilon in options.epsilons]
    for n, epsilon in pairs:
        for number in range(options.repeats):
            drawn = generate_homologues(np.random.default_rng((options.seed, n, number)), n)
            x, y = as_examples(drawn)
            yield Case(
                "homologues", number, problem, x, y, "svm2", n, 0.1 * n, epsilon,
                settings._replace(chunks=n),
            )  # fmt: skip


# The table of the counts, and figure 2 by each way.

NAMES = {"full": "letter, QP over S", "subspace": "letter, QP over S_i", "fit": "fit"}


def _groups(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows of one part, formulation, n and epsilon together, in the order in which they came."""
    found: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        key = row["part"], row["formulation"], row["n"], row["epsilon"]
        found.setdefault(key, []).append(row)
    return list(found.values())


def _of(group: Sequence[dict[str, Any]], way: str, name: str) -> list[float]:
    return [row[name] for row in group if row["way"] == way]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def make_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    """A line a part, formulation, size and precision."""
    columns: list[Any] = [
        "task", "formulation", "n", "epsilon", ("constraints", "paper"),
        *(("constraints", NAMES[way]) for way in options.ways),
        *(("per example", name) for name in ("paper", *(NAMES[way] for way in options.ways))),
        ("epochs", "paper"), *(("epochs", NAMES[way]) for way in options.ways),
        *(("theorem 3", NAMES[way]) for way in options.ways if way != "fit"),
    ]  # fmt: skip
    lines = [_line(options, group) for group in _groups(rows)]
    unsolved = sum(not row["status"].solved for row in rows)
    notes = [
        f"Mean ± deviation over {options.repeats} samples of homologues; trees: one training.",
        "letter: algorithm 3 with the QP over all of S (step 10a) or over S_i (10b) after every "
        "constraint; fit: jaxstruct.fit with the settings of that table's own command.",
        f"paper: JMLR 6:1453-1484, table 5 (n = {PAPER_SIZE}, Wall Street Journal). Figure 2 "
        "(homologues) is printed without numbers.",
        f"Trees of --corpus={options.corpus}, C' = {options.c_over_n}; homologues at C' = 0.1.",
        "theorem 3: its bound with the largest |delta Psi| and loss of the constraints met; of "
        "SVM2 and the QP over S_i four times that, which is what is proven of it.",
        f"{len(rows)} trainings, {unsolved} of which did not come to their regular end.",
    ]
    return Table("Constraints added by algorithm 3", columns, lines, notes)


def _line(options: Options, group: Sequence[dict[str, Any]]) -> list[Any]:
    first = group[0]
    part, formulation, n = first["part"], first["formulation"], first["n"]
    paper = PAPER[formulation] if part == "trees" else None
    each = None if paper is None else float(paper) / PAPER_SIZE
    counts = {way: _of(group, way, "constraints") for way in options.ways}
    return [
        part, formulation, n, first["epsilon"], paper,
        *(spread_text(counts[way], 0) for way in options.ways), each,
        *((_mean(counts[way]) or 0) / n if counts[way] else None for way in options.ways),
        PAPER_EPOCHS[formulation] if part == "trees" else None,
        *(_mean(_of(group, way, "epochs")) for way in options.ways),
        *(_mean(_of(group, way, "bound")) for way in options.ways if way != "fit"),
    ]  # fmt: skip


def counts_plots(options: Options, rows: Sequence[dict[str, Any]]) -> dict[str, Plot]:
    """Figure 2, left and right, where homologues were trained at more than one n or epsilon."""
    own = [row for row in rows if row["part"] == "homologues"]
    plots: dict[str, Plot] = {}
    for name, chosen, words in (
        ("n", [row for row in own if row["epsilon"] == 0.1], "training examples n"),
        ("epsilon", [row for row in own if row["n"] == options.epsilon_size], "epsilon"),
    ):
        values = sorted({row[name] for row in chosen})
        if len(values) < 2:
            continue
        curves: dict[str, Any] = {
            NAMES[way]: (
                values,
                [
                    _mean([r["constraints"] for r in chosen if (r[name], r["way"]) == (v, way)])
                    for v in values
                ],
            )
            for way in options.ways
        }
        side = "left" if name == "n" else "right"
        plots[f"constraint_counts_{name}"] = curve_lines(
            curves, f"Figure 2, {side}: constraints added", words, "constraints", log_x=True
        )
    return plots


def run(options: Options) -> common.Outcome:
    """Train everything in every way, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    groups = (_rows(options, case) for case in cases_of(options, dtype))
    every = set(options.parts) == set(PARTS)
    name = "constraint_counts" if every else "_".join(("constraint_counts", *options.parts))
    rows = common.finished_rows(options, groups, name=name)
    table = make_table(options, rows)
    plots = counts_plots(options, rows)
    return common.save(options, table, {"rows": rows}, plots, name=name)


def _rows(options: Options, case: Case) -> list[dict[str, Any]]:
    """What each way made of one training."""
    found = []
    for way in WAYS:
        if way in options.ways:
            words = f"{case.part}, {case.formulation}, n = {case.n}, {way}"
            with training_progress(MAX_EPOCHS, words, options.progress, None) as update:
                watch = Stopwatch()
                numbers = _measure(options, case, way, update)
            about = {
                "part": case.part, "number": case.number, "formulation": case.formulation,
                "n": case.n, "C": case.C, "epsilon": case.epsilon, "way": way,
            }  # fmt: skip
            found.append(about | numbers | watch.numbers())
    return found


def _measure(options: Options, case: Case, way: str, update: Any) -> dict[str, Any]:
    data = case.problem, case.inputs, case.outputs, case.formulation, case.C
    if way == "fit":
        solution = fit(
            *data, tolerance=None, epsilon=case.epsilon, max_passes=MAX_EPOCHS,
            settings=case.settings, callback=update,
        )  # fmt: skip
        return _proven(solution.certificate) | {
            "constraints": solution.statistics.planes_added, "status": solution.status,
            "support": solution.statistics.support_planes, "epochs": solution.statistics.passes,
            "oracle_calls": solution.statistics.oracle_calls, "bound": None,
        }  # fmt: skip
    found = fit_reference(
        *data, epsilon=case.epsilon, variant=way, exactness=EXACTNESS,
        look_ahead=options.look_ahead, max_epochs=MAX_EPOCHS, callback=update,
    )  # fmt: skip
    met = found.details.length, found.details.loss
    radius, loss = (float(np.max(values, initial=0.0)) for values in met)
    return _proven(found.certificate) | {
        "constraints": found.statistics.planes_kept, "status": found.status,
        "support": found.statistics.support_planes, "epochs": found.statistics.passes,
        "oracle_calls": found.statistics.oracle_calls,
        "bound": most_constraints(
            case.formulation, case.C, case.n, case.epsilon, radius, loss, variant=way
        ),
    }  # fmt: skip


def _proven(certificate: Certificate) -> dict[str, float]:
    return {"primal": certificate.primal, "dual": certificate.dual}
