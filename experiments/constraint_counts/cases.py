"""What is trained: folds of named entities, short trees, samples of homologues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from experiments.alignment.trials import as_examples
from experiments.constraint_counts.options import SQUARED, Options
from experiments.named_entities.data import kernel_corpus, label_names, length_classes
from experiments.named_entities.methods import fold_of
from experiments.parsing import options as parsing
from experiments.parsing.data import load_treebank, prepare
from jaxstruct import Settings
from jaxstruct.alignments.homologues import homologue_search
from jaxstruct.chains.structure import chain
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.data.conll import load_conll2002
from jaxstruct.data.homologues import LETTERS, generate_homologues
from jaxstruct.data.splits import stratified_folds
from jaxstruct.data.token_features import DEFAULT, fit_token_index
from jaxstruct.trees.structure import weighted_grammar

PAPER = {
    "named entities": dict(zip(SQUARED, ("2824 ± 106", "2626 ± 225", "2628 ± 119"), strict=True)),
    "trees": dict(zip(SQUARED, ("7494", "8043", "7117"), strict=True)),
}
"""Part -> formulation -> the column "Const" of tables 3 (n = 240) and 5 (n = 4098)."""
PAPER_EPOCHS = {"svm2": 17, "svm2_slack": 12, "svm2_margin": 16}
"""The column "Iter" of table 5."""
PAPER_SIZES = {"named entities": 240, "trees": 4098}


class Case(NamedTuple):
    """One training.

    Fields:
      part: named entities, trees or homologues. number: of the fold or sample.
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
    makers = {"named_entities": _entities, "trees": _trees, "homologues": _homologues}
    for part, maker in makers.items():
        if part in options.parts:
            yield from maker(options, dtype)


def _entities(options: Options, dtype: str) -> Iterator[Case]:
    """Table 3: kernel of degree 2, C = 1, epsilon = 0.01."""
    sentences = load_conll2002("esp").train[: options.sentences]
    corpus = kernel_corpus(
        sentences, label_names(sentences), fit_token_index(sentences, DEFAULT), False
    )
    problem = chain(corpus.number_of_features, len(corpus.names), dtype=dtype)
    folds = stratified_folds(length_classes(corpus), options.folds, options.seed)
    settings = Settings(seed=options.seed, group=8, oracle_batch=8, cached_sweeps=1)
    for number, fold in enumerate(folds[: options.repeats]):
        train = fold_of(corpus, fold.train, fold.test).train
        for name in options.formulations:
            yield Case(
                "named entities", number, problem, train.inputs, train.outputs, name,
                len(fold.train), 1.0, options.epsilon, settings,
            )  # fmt: skip


def _trees(options: Options, dtype: str) -> Iterator[Case]:
    """Table 5: svm2 for the zero-one loss, the others for the loss of the inner nodes."""
    own = parsing.Options(corpus=options.corpus, sentences=options.trees, seed=options.seed)
    treebank = load_treebank(own)
    data, n = prepare(treebank, own), len(treebank.train)
    settings = Settings(seed=options.seed, chunks=own.chunks)
    for name in options.formulations:
        loss = "zero_one" if name == "svm2" else own.loss
        problem = weighted_grammar(data.grammar, loss=loss, longest=data.longest, dtype=dtype)
        yield Case(
            "trees", 0, problem, data.train.inputs, data.outputs, name, n,
            parsing.ratio(options.c_over_n, n) * n, options.epsilon, settings,
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
