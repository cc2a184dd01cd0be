"""Re-ranking: the k best of a base model, chosen among by features of whole outputs (thesis 4.6.2).

    python -m experiments.reranking
    python -m experiments.reranking --tasks=words,new_words --k_words=50
    python -m experiments.reranking --tasks=trees --k_trees=10

Gen(x) is what Viterbi's k best give of a handwritten word, or the k best parses of a sentence. A
training candidate comes from a base model that was trained on the other folds, as a test candidate
comes from one that has not seen it. Where the true output is no candidate the cheapest one is the
target.

  words      a chain of letters; features: runs of 3 to 6 letters. There are only 55 texts, and all
             of them are in the training set, so the runs are a lexicon
  new_words  the same without that: words to test on are of texts that no training word has
  trees      a probabilistic grammar read off GUM's sentences of 2 to 10 tags; features: rules with
             the constituent above, heights, widths, the tags at the edges of constituents
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common
from experiments.lib.plots import Plot, bar_groups
from experiments.lib.progress import jobs_bar
from experiments.lib.record import SECONDS
from experiments.lib.report import Table
from experiments.reranking import trees, words
from experiments.reranking.lists import Features, Lists, Options, prepare_lists, rerank
from jaxstruct.evaluation.metrics import mcnemar

WHAT = {"words": "words", "new_words": "words of new texts", "trees": "parse trees"}


def one_best(lists: Lists) -> list[int]:
    """The base model's own choice."""
    return [0] * len(lists.outputs)


def oracle(lists: Lists) -> list[int]:
    """The cheapest candidate of each list, which no re-ranker can beat."""
    return [int(np.argmin(own)) if own else 0 for own in lists.costs]


def described(train: Lists, test: Lists) -> dict[str, Any]:
    """Sizes, and how often the true output is a candidate."""
    parts = {}
    for name, lists in (("train", train), ("test", test)):
        parts[name] = {
            "inputs": len(lists.outputs),
            "without candidates": sum(not own for own in lists.outputs),
            "mean length": float(np.mean([len(own) for own in lists.outputs])),
            "with the true output": float(
                np.mean([y in own for y, own in zip(lists.truths, lists.outputs, strict=True)])
            ),
        }
    return parts


def against_one_best(row: Mapping[str, Any]) -> list[Any]:
    """(inputs where the re-ranked is cheaper, dearer, p of McNemar's test); none of the base."""
    if "costs" not in row:
        return [None] * 3
    before, after = np.array(row["costs"], float).reshape(-1, 2).T
    better, worse = after < before, before < after
    if not (better | worse).any():
        return [0, 0, "1"]
    return [int(better.sum()), int(worse.sum()), _p_text(mcnemar(better, worse).p_value)]


def _p_text(value: float) -> str:
    """Two digits; what a float64 rounds to 0 is below its smallest number."""
    return f"{value:.2g}" if value else "< 1e-300"


def make_table(
    options: Options, sizes: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Table:
    """One best, the best of the list, and every re-ranker."""
    columns = [
        "task", "chosen by", "C'", ("right %", "whole"), ("right %", "letters, F1"),
        ("against one best", "better"), ("against one best", "worse"), ("against one best", "p"),
        "features", *SECONDS, "status",
    ]  # fmt: skip
    body = []
    for row in rows:
        spent = (row.get("seconds"), row.get("compile_seconds"))
        body.append([
            WHAT[row["task"]], row["who"], row.get("c_over_n"), row["whole"], row["second"],
            *against_one_best(row), row.get("features"),
            *(None if s is None else round(s, 1) for s in spent), row.get("status"),
        ])  # fmt: skip
    notes = [_note(name, own) for name, own in sizes.items()]
    notes += [
        "whole: words or trees right; then letters right, or F1 of labelled constituents. best of "
        "k: the cheapest candidate, which no re-ranker can beat.",
        "better, worse: inputs whose re-ranked output costs less or more than the one best (wrong "
        "letters, 1 - F1); p of McNemar's two-sided test on them.",
        f"Training candidates are of base models trained on the other of {options.base_folds} "
        "folds; C' = C / n by the mean cost on held-out training lists.",
    ]
    return Table("Re-ranking the k best of a base model", columns, body, notes)


def _note(name: str, own: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [
        f"{part} {of['inputs']} inputs ({of['without candidates']} without a candidate), "
        f"{of['mean length']:.1f} candidates each, the true output in "
        f"{100 * of['with the true output']:.1f} % of the lists"
        for part, of in own.items()
    ]
    return f"{WHAT[name]}: {'; '.join(parts)}."


def make_plots(rows: Sequence[Mapping[str, Any]]) -> dict[str, Plot]:
    """Whole outputs right, and letters right or F1, a picture a task."""
    plots = {}
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        second = {"letters": "letters right", "F1": "F1"}[own[0]["of"]]
        series = {
            f"{'trees' if name == 'trees' else 'words'} right": [row["whole"] for row in own],
            second: [row["second"] for row in own],
        }
        series = {label: [round(value, 1) for value in values] for label, values in series.items()}
        plots[f"reranking_{name}"] = bar_groups(
            [row["who"] for row in own], series, title=f"Re-ranking: {WHAT[name]}",
            ylabel="per cent",
        )  # fmt: skip
    return plots


class Task(NamedTuple):
    """How the lists of a task are made, described and measured.

    Fields:
      load: (options, dtype) -> training and test lists. describe: output -> its features.
      measures: (lists, places) -> two figures in %, the second named by `second`.
    """

    load: Callable[[Options, str], tuple[Lists, Lists]]
    describe: Callable[[Any], Features]
    measures: Callable[[Lists, Any], tuple[float, float]]
    second: str


TASK = {
    "words": Task(
        partial(words.load_lists, new=False), words.letter_runs, words.measures, "letters"
    ),
    "new_words": Task(
        partial(words.load_lists, new=True), words.letter_runs, words.measures, "letters"
    ),
    "trees": Task(trees.load_lists, trees.parents_and_shapes, trees.measures, "F1"),
}


def run(options: Options) -> common.Outcome:
    """Make the lists, re-rank them with every machine, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    if bool(options.train_trees) != bool(options.test_trees):
        raise ValueError("train_trees, test_trees: give both files, or neither")
    rows: list[dict[str, Any]] = []
    sizes: dict[str, dict[str, Any]] = {}
    with (
        common.kept_if_stopped(options, {"rows": rows, "lists": sizes}),
        jobs_bar(list(options.tasks), "re-ranking", options.progress) as bar,
    ):
        for name in bar:
            rows.extend(_measured(options, name, dtype, sizes))
    table = make_table(options, sizes, rows)
    return common.save(options, table, {"rows": rows, "lists": sizes}, make_plots(rows))


def _measured(options: Options, name: str, dtype: str, sizes: dict[str, Any]) -> Any:
    """The rows of one task: one best, best of k, and every machine."""
    task = TASK[name]
    train, test = task.load(options, dtype)
    sizes[name] = described(train, test)
    first = one_best(test)

    def row(who: str, places: list[int], numbers: dict[str, Any]) -> dict[str, Any]:
        whole, second = task.measures(test, places)
        return {
            "task": name, "who": who, "whole": whole, "second": second, "of": task.second,
            "places": places,
        } | numbers  # fmt: skip

    yield row("one best", first, {})
    yield row("best of k", oracle(test), {})
    data = prepare_lists(options, train, test, task.describe, dtype)
    for machine in options.machines:
        found = rerank(options, data, machine, dtype)
        places = list(first)
        for i, place in zip(data.kept, found.places, strict=True):
            places[i] = place
        yield row(machine, places, found.numbers | {"costs": _costs(test, first, places)})


def _costs(lists: Lists, first: list[int], places: list[int]) -> list[tuple[float, float]]:
    """(cost of the one best, cost of the re-ranked) of the inputs where the two differ."""
    return [
        (own[a], own[b]) for own, a, b in zip(lists.costs, first, places, strict=True) if a != b
    ]
