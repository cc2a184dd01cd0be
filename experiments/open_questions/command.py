"""Three questions that the thesis leaves open (5.2), each answered on small data.

    python -m experiments.open_questions
    python -m experiments.open_questions --questions=bounds --data=digits,strings --splits=2
    python -m experiments.open_questions --resume

bounds: which upper bound of the task loss leaves the smallest loss on test data. sparseness: how
the number of constraints of algorithm 3 grows. choice: which violated constraint to take.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.lib import common, fields
from experiments.lib.kept import Store, kept, store_key
from experiments.lib.options import flag
from experiments.lib.progress import jobs_bar
from experiments.open_questions import bounds, choice, sparseness
from experiments.open_questions.data_sets import DATA_SETS

QUESTIONS = {"bounds": bounds, "sparseness": sparseness, "choice": choice}
DECIDING = ("seed", "share", "most_passes", "tolerance", "points", "gap", "x64")
"""Options that decide the numbers of a job."""


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    questions: Sequence[str] = flag(
        tuple(QUESTIONS), "Questions to answer.", tuple(QUESTIONS), some=True
    )
    data: Sequence[str] = flag(
        tuple(DATA_SETS),
        "Data sets; sparseness and choice have some of them.",
        tuple(DATA_SETS),
        some=True,
    )
    splits: int = flag(5, "bounds: splits of each data set.", least=1)
    share: float = flag(
        1.0, "bounds and choice: share of the examples that are taken.", above=0, most=1
    )
    most_passes: int = flag(30, "bounds: passes of a training at most.", least=1)
    tolerance: float = 2e-2
    samples: int = flag(2, "sparseness and choice: samples of each data set.", least=1)
    points: int = flag(4, "sparseness: values of each factor at most.", least=2)
    gap: float = flag(1e-3, "choice: relative duality gap to stop at.", above=0)
    resume: bool = flag(False, "Leave out what an earlier run with these flags has measured.")


def run(options: Options) -> common.Outcome:
    """Measure what the questions need, print their tables and write them.

    Returns:
      The table and the numbers of the last question, the files of all.

    Raises:
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    folder = Path(options.output) / "open_questions"
    store = Store(folder, store_key(options, DECIDING, []), options.resume)
    outcomes = []
    for question in options.questions:
        part, name = QUESTIONS[question], f"open_questions_{question}"
        jobs = part.jobs(options, dtype)
        rows = [
            row
            for job in jobs_bar(jobs, question, options.progress)
            for row in kept(store, job, jobs[job])
        ]
        several = len({row["data"] for row in rows}) > 1
        plots = {name: part.picture_of(rows)} if several and part is not choice else {}
        table = part.table_of(options, rows)
        outcomes.append(common.save(options, table, {"rows": rows}, plots, name=name))
    files = [path for outcome in outcomes for path in outcome.files]
    return outcomes[-1]._replace(files=tuple(files))
