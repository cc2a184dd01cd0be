"""Constraints that algorithm 3 adds, as printed, beside those of `fit` and of the papers.

    python -m experiments.constraint_counts
    python -m experiments.constraint_counts --parts=homologues --sizes=1,10 --repeats=2
    python -m experiments.constraint_counts --parts=trees --trees=300

Tables 3 (named entities) and 5 (trees) of JMLR 6:1453-1484 have a column "Const", figure 2
(homologues) is of nothing else. `fit` calls many examples at one w and lets multipliers lag, so its
count is another one; `jaxstruct.solvers.reference.reference_algorithm` has the papers' loop. The
trees are GUM's and the homologues are drawn anew: other data than the papers'.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.constraint_counts.cases import Case, cases_of
from experiments.constraint_counts.options import PARTS, WAYS, Options
from experiments.constraint_counts.report import counts_plots, make_table
from experiments.lib import common
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from jaxstruct import fit
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.solvers.reference.reference_algorithm import fit_reference, most_constraints


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
    found = fit_reference(
        *data, epsilon=case.epsilon, variant=way, exactness=options.exactness,
        look_ahead=options.look_ahead, max_epochs=options.max_epochs, callback=update,
    )  # fmt: skip
    met = found.details.length, found.details.loss
    radius, loss = (float(np.max(values, initial=0.0)) for values in met)
    return _proven(found.certificate) | {
        "constraints": found.statistics.planes_kept, "status": found.status,
        "support": found.statistics.support_planes, "epochs": found.statistics.passes,
        "oracle_calls": found.statistics.oracle_calls,
        "bound": most_constraints(case.formulation, case.C, case.n, case.epsilon, radius, loss),
    }  # fmt: skip


def _proven(certificate: Certificate) -> dict[str, float]:
    return {"primal": certificate.primal, "dual": certificate.dual}
