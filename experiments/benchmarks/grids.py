"""A held-out grid search over C from strings, as people run it, beside LinearSVC's.

Every fold reads its own texts (tf-idf), trains with each value of C / n and counts the errors on
the texts held out. The clock starts before the first text is read, and compiling counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from experiments.lib.peers import linear_svc
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks import generated
from jaxstruct import fit, from_scipy, predict
from jaxstruct.multiclass import multiclass

FOLDS = 5
PEER_TOLERANCE = 0.01


def grid_rows(n: int, values: Sequence[float], tolerance: float, seed: int) -> Iterator[dict]:
    """One row a method: seconds of the whole search, and the error held out of each value.

    Args:
      n: generated texts of 20 classes. values: C / n, rising. seed: of the folds.
    """
    import sklearn.feature_extraction.text  # noqa: F401  the first method should not pay for it
    import sklearn.svm  # noqa: F401

    texts, classes = generated.strings(n)
    folds = np.random.default_rng(seed).permutation(n) % FOLDS
    for method, search in (("jaxstruct", _search_ours), ("LinearSVC", _search_peer)):
        process, wall = time.process_time(), time.perf_counter()
        wrong = [search(texts, classes, folds == fold, values, tolerance) for fold in range(FOLDS)]
        errors = 100 * np.sum(wrong, axis=0) / n
        yield {
            "method": method, "n": n, "folds": FOLDS, "C_over_n": list(values),
            "error": errors.tolist(), "chosen": values[int(np.argmin(errors))],
            "seconds": time.process_time() - process, "wall": time.perf_counter() - wall,
        }  # fmt: skip


def _read(texts: np.ndarray, held_out: np.ndarray) -> tuple[Any, Any]:
    """Features of the texts that train, and of those held out, by the words of the former."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        max_features=generated.WORDS,
        dtype=np.float32,  # pyright: ignore[reportArgumentType]
    )
    return vectorizer.fit_transform(texts[~held_out]), vectorizer.transform(texts[held_out])


def _search_ours(
    texts: np.ndarray,
    classes: np.ndarray,
    held_out: np.ndarray,
    values: Sequence[float],
    tolerance: float,
) -> list[int]:
    """Errors of each value on the texts held out; each value starts from the one before."""
    train, test = map(from_scipy, _read(texts, held_out))
    problem = multiclass(generated.WORDS, generated.CLASSES)
    y, wrong, before = classes[~held_out], [], None
    for value in values:
        before = fit(
            problem, train, y, "svm1_margin", value * len(y), tolerance=tolerance, start=before
        )
        wrong.append(int(np.sum(predict(problem, before, test) != classes[held_out])))
    return wrong


def _search_peer(
    texts: np.ndarray,
    classes: np.ndarray,
    held_out: np.ndarray,
    values: Sequence[float],
    tolerance: float,
) -> list[int]:
    del tolerance  # its own, of another rule to stop
    train, test = _read(texts, held_out)
    machines: list[Callable] = [linear_svc(value, PEER_TOLERANCE) for value in values]
    fitted = [machine.fit(train, classes[~held_out]) for machine in machines]
    return [int(np.sum(machine.predict(test) != classes[held_out])) for machine in fitted]


def grid_table(rows: Sequence[dict[str, Any]], tolerance: float) -> Table:
    """A row a method, and how many times as long the first takes."""
    values = rows[0]["C_over_n"]
    columns: Columns = {
        "method": "method", "texts": "n", "folds": "folds",
        **{
            ("error held out, %", f"C/n = {value:g}"): lambda row, i=i: row["error"][i]
            for i, value in enumerate(values)
        },
        "chosen": "chosen", ("seconds", "processor"): "seconds", ("seconds", "wall"): "wall",
    }  # fmt: skip
    ratio = rows[0]["seconds"] / rows[1]["seconds"] if len(rows) > 1 else float("nan")
    notes = [
        f"strings in, {len(values)} values of C, {FOLDS} folds; default settings, gap {tolerance:g}"
        f" (LinearSVC: tol {PEER_TOLERANCE:g}, Crammer and Singer's margin); compiling counts.",
        f"processor seconds, ours to LinearSVC's: {ratio:.1f}.",
    ]
    return rows_table("A grid search from strings", columns, rows, notes)
