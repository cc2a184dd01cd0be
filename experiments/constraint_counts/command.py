"""Constraints that algorithm 3 adds, to the letter, beside those of `fit` and of the papers.

    python -m experiments.constraint_counts
    python -m experiments.constraint_counts --parts=homologues --sizes=1,10 --repeats=2
    python -m experiments.constraint_counts --parts=trees --trees=300

Tables 3 (named entities) and 5 (trees) of JMLR 6:1453-1484 have a column "Const", figure 2
(homologues) is of nothing else. `fit` calls many examples at one w and lets multipliers lag, so its
count is another one; `jaxstruct.solvers.by_the_letter` has the papers' loop. The trees are GUM's
and the homologues are drawn anew: other data than the papers'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from experiments.constraint_counts.cases import SQUARED, Case, cases_of
from experiments.constraint_counts.report import counts_plots, make_table
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from jaxstruct import fit
from jaxstruct.solvers.by_the_letter import fit_by_the_letter, most_constraints
from jaxstruct.solvers.certificate import Certificate

PARTS = ("named_entities", "trees", "homologues")
WAYS = ("full", "subspace", "fit")


class Options(NamedTuple):
    """The flags of this command."""

    parts: Annotated[Sequence[str], flag("Which tables.", PARTS, some=True)] = PARTS
    ways: Annotated[
        Sequence[str],
        flag(
            "Step 10a (full) or 10b (subspace) of algorithm 3 to the letter, or fit.", WAYS,
            some=True,
        ),
    ] = WAYS  # fmt: skip
    formulations: Annotated[
        Sequence[str], flag("Of named entities and trees.", SQUARED, some=True)
    ] = SQUARED
    sentences: Annotated[
        int, flag("Named entities: the first so many Spanish sentences.", least=4)
    ] = 300
    folds: Annotated[int, flag("Named entities: of the cross-validation.", least=2)] = 5
    repeats: Annotated[
        int, flag("Folds that are run, and samples of homologues of each size.", least=1)
    ] = 2
    corpus: Annotated[str, flag("Trees: as in experiments.parsing.", ["gum", "wsj"])] = "gum"
    trees: Annotated[int, flag("The first so many training trees; 0: all.", least=0)] = 0
    c_over_n: Annotated[
        str, flag("Trees: C' = C / n; 1/n is the C = 1 of table 5, which learns too little.")
    ] = "0.1"
    epsilon: Annotated[float, flag("Named entities and trees.", above=0)] = 0.01
    exactness: Annotated[
        float, flag("Part of epsilon to which the letter solves a QP, below 1.", above=0)
    ] = 1e-3  # fmt: skip
    sizes: Annotated[
        Sequence[str], flag("Homologues: numbers n of training examples.", each=int, least=1)
    ] = ("1", "2", "4", "10", "20", "40", "80")
    epsilons: Annotated[
        Sequence[str], flag("Homologues: precisions besides 0.1.", each=float, above=0)
    ] = ("1", "0.3", "0.03", "0.01", "0.003", "0.001")
    epsilon_size: Annotated[int, flag("Its number n of examples.", least=1)] = 20
    look_ahead: Annotated[
        int, flag("Examples called ahead where nothing was added; changes the time alone.", least=1)
    ] = 32
    max_epochs: Annotated[int, flag("Passes of a training at most.", least=1)] = 200
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


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
    rows = common.finished_rows("constraint_counts", options, name, groups)
    table = make_table(options, rows)
    plots = counts_plots(options, rows)
    return common.save("constraint_counts", options, name, table, {"rows": rows}, plots)


def _rows(options: Options, case: Case) -> list[dict[str, Any]]:
    """What each way made of one training."""
    found = []
    for way in WAYS:
        if way in options.ways:
            words = f"{case.part}, {case.formulation}, n = {case.n}, {way}"
            with training_progress(options.max_epochs, words, options.progress, None) as update:
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
            *data, tolerance=None, epsilon=case.epsilon, max_passes=options.max_epochs,
            settings=case.settings, callback=update,
        )  # fmt: skip
        return _proven(solution.certificate) | {
            "constraints": solution.statistics.planes_added, "status": solution.status,
            "support": solution.statistics.support_planes, "epochs": solution.statistics.passes,
            "oracle_calls": solution.statistics.oracle_calls, "bound": None,
        }  # fmt: skip
    found = fit_by_the_letter(
        *data, epsilon=case.epsilon, variant=way, exactness=options.exactness,
        look_ahead=options.look_ahead, max_epochs=options.max_epochs, callback=update,
    )  # fmt: skip
    met = found.course.length, found.course.loss
    radius, loss = (float(np.max(values, initial=0.0)) for values in met)
    return _proven(found.certificate) | {
        "constraints": found.constraints, "status": found.status,
        "support": found.statistics.support_planes, "epochs": found.epochs,
        "oracle_calls": found.statistics.oracle_calls,
        "bound": most_constraints(case.formulation, case.C, case.n, case.epsilon, radius, loss),
    }  # fmt: skip


def _proven(certificate: Certificate) -> dict[str, float]:
    return {"primal": certificate.primal, "dual": certificate.dual}
