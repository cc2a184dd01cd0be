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

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import jobs_bar
from experiments.reranking import trees, words
from experiments.reranking.lists import Features, Lists
from experiments.reranking.machines import PERCEPTRON, prepare_lists, rerank
from experiments.reranking.report import described, make_plots, make_table, one_best, oracle
from jaxstruct.solvers.formulations import FORMULATIONS

TASKS = ("words", "new_words", "trees")
MACHINES = (*FORMULATIONS, PERCEPTRON)


class Options(NamedTuple):
    """The flags of this command."""

    tasks: Annotated[Sequence[str], flag("What is re-ranked.", TASKS, some=True)] = TASKS
    machines: Annotated[
        Sequence[str], flag("Re-rankers: formulations, or perceptron (averaged).", MACHINES,
                            some=True)
    ] = ("svm1", "svm1_margin", "svm2_slack", PERCEPTRON)  # fmt: skip
    k_words: Annotated[int, flag("Candidates of a word.", least=2)] = 20
    k_trees: Annotated[
        int, flag("Candidates of a sentence; time grows faster than k.", least=2)
    ] = 5
    base_folds: Annotated[
        int, flag("Parts of the training set, each read by a base model of the others.", least=2)
    ] = 5
    examples: Annotated[int, flag("The first so many training examples; 0: all.", least=0)] = 0
    test_examples: Annotated[int, flag("The first so many test examples; 0: all.", least=0)] = 0
    letter_data: Annotated[
        str | None, flag("Words of your own: a file as letter.data, see experiments.handwriting.")
    ] = None
    train_folds: Annotated[Sequence[str], flag("Folds of words that train.", each=int)] = ("1",)
    new_texts: Annotated[
        float, flag("Part of the distinct words that only test, of new_words.", above=0)
    ] = 0.2
    word_c_over_n: Annotated[float, flag("C' of the base chains.", above=0)] = 0.1
    treebank: Annotated[str, flag("Where trees come from.", ("gum", "wsj"))] = "gum"
    train_trees: Annotated[str | None, flag("Your file of bracketed trees to train on.")] = None
    test_trees: Annotated[str | None, flag("Your file of bracketed trees to test on.")] = None
    tree_base: Annotated[
        str,
        flag("The base parser: maximum likelihood, or a structural SVM with C' = 0.1.",
             trees.BASES),
    ] = "pcfg"  # fmt: skip
    least_seen: Annotated[
        int, flag("A feature is one that tells candidates apart in so many lists.", least=1)
    ] = 2
    base_scale: Annotated[
        float,
        flag("Of the base model's score, in deviations: the larger, the less it is penalised.",
             above=0),
    ] = 1.0  # fmt: skip
    c_path: Annotated[
        Sequence[str],
        flag("Values of C' = C / n to choose from on held-out lists.", each=float, above=0,
             some=True),
    ] = ("0.001", "0.01", "0.1", "1")  # fmt: skip
    held_out: Annotated[float, flag("Part of the training lists that c_path compares on.")] = 0.25
    epochs: Annotated[int, flag("Of the perceptron.", least=1)] = 20
    tolerance: fields.Tolerance = 1e-2
    variant: fields.Variant = "auto"
    working_sets: fields.WorkingSets = "auto"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


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
