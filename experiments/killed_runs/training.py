"""One training in a process of its own, which may be killed, and what it ends as.

    python -m experiments.killed_runs.training TASK FOLDER SECONDS [cache]

It goes on from FOLDER/run.npz where that is there, keeps a checkpoint there every so many seconds,
and writes FOLDER/end.json at its end. The word `training` on standard output says that its imports
and data are done. With `cache`, compiled programs are kept on disk.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from experiments.tasks.benchmarks import TASKS as BENCHMARKS
from experiments.tasks.benchmarks import Training, digest
from jaxstruct import fit, fit_in_blocks, keep_programs
from jaxstruct.core.files import write_file

BEGINS = "training"


class Task(NamedTuple):
    """A training that takes a second or two, of `experiments.benchmarks`.

    blocks: of `fit_in_blocks`, all planes at rest in files; 0 for `fit`.
    """

    benchmark: str
    size: int
    tolerance: float
    title: str
    blocks: int = 0

    def prepare(self) -> Training:
        """Its data."""
        return BENCHMARKS[self.benchmark].prepare(self.size, "float32")


TASKS = {
    "digits": Task("digits", 10, 1e-4, "digits, enumerated, then Newton steps"),
    "words": Task("words", 150, 1e-4, "150 OCR words, grown"),
    "blocks": Task("words", 150, 1e-2, "150 OCR words in 3 blocks", 3),
    "sentences": Task("sentences", 60, 3e-3, "60 generated sentences, grown"),
}


def train(task: Task, folder: Path, seconds: float) -> dict[str, Any]:
    """Train, or go on; how it ended."""
    data = task.prepare()
    print(BEGINS, flush=True)
    given = data.problem, data.inputs, data.outputs, "svm1_margin", data.C
    kept = {"checkpoint": folder / "run.npz", "checkpoint_seconds": seconds, "resume": True}
    if task.blocks:
        in_files = {"blocks": task.blocks, "block_bytes": 1}
        solution = fit_in_blocks(*given, tolerance=task.tolerance, **in_files, **kept)
    else:
        solution = fit(*given, tolerance=task.tolerance, **kept)
    return {
        "digest": digest(solution),
        "rounds": solution.statistics.passes,
        "capacity": solution.statistics.capacity,
        "seconds": solution.statistics.seconds["total"],
    }


if __name__ == "__main__":
    # a shell that starts a program in the background has it, and its children, ignore Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.argv[4:] == ["cache"]:
        keep_programs()
    folder = Path(sys.argv[2])
    end = train(TASKS[sys.argv[1]], folder, float(sys.argv[3]))
    write_file(folder / "end.json", json.dumps(end))
