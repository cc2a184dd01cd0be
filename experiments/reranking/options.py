"""The options of `experiments.reranking`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.solvers.objective.formulations import FORMULATIONS

TASKS = ("words", "new_words", "trees")
PERCEPTRON = "perceptron"
MACHINES = (*FORMULATIONS, PERCEPTRON)
BASES = ("pcfg", "svm1_margin")


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
             BASES),
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
