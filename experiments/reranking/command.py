"""Re-ranking: the k best of a base model, chosen among by features of whole outputs (thesis 4.6.2).

    python -m experiments.reranking
    python -m experiments.reranking --tasks=words,new_words --k_words=50
    python -m experiments.reranking --tasks=trees --k_trees=10 --tree_base=svm1_margin

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

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from experiments.lib import common
from experiments.lib.progress import jobs_bar
from experiments.reranking import trees, words
from experiments.reranking.lists import Features, Lists
from experiments.reranking.machines import prepare_lists, rerank
from experiments.reranking.options import Options
from experiments.reranking.report import described, make_plots, make_table, one_best, oracle


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
        common.kept_if_stopped("reranking", options, "reranking", {"rows": rows, "lists": sizes}),
        jobs_bar(list(options.tasks), "re-ranking", options.progress) as bar,
    ):
        for name in bar:
            rows.extend(_measured(options, name, dtype, sizes))
    table = make_table(options, sizes, rows)
    return common.save(
        "reranking", options, "reranking", table, {"rows": rows, "lists": sizes},
        make_plots(rows),
    )  # fmt: skip


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
