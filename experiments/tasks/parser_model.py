"""A parser on disk: NAME.grammar.json, readable text, and NAME.weights.npz. Nothing is pickled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, in_order
from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import bucketed_inputs
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.run_state import load_weights, save_weights
from jaxstruct.trees.oracles.cky import cky
from jaxstruct.trees.oracles.k_best_trees import k_best_trees
from jaxstruct.trees.parts import GrammarTables, SentenceInput, tree_potentials
from jaxstruct.trees.phrases.grammar import Grammar
from jaxstruct.trees.phrases.grammar_files import load_grammar, save_grammar
from jaxstruct.trees.phrases.integer_trees import decode
from jaxstruct.trees.phrases.tree import Tree
from jaxstruct.trees.structure import grammar_tables, sentence_inputs, weighted_grammar

GRAMMAR, WEIGHTS = ".grammar.json", ".weights.npz"


class Model(NamedTuple):
    """A grammar and the weights of its rules, of one dtype."""

    grammar: Grammar
    weights: PyTree


class Ranked(NamedTuple):
    """A tree and its score F(x, y; w)."""

    tree: Tree
    score: float


def model_files(path: str | Path) -> tuple[Path, Path]:
    """(grammar, weights) of a model's name; the name of either file is taken, too."""
    name = str(path)
    for ending in (GRAMMAR, WEIGHTS):
        name = name.removesuffix(ending)
    return Path(name + GRAMMAR), Path(name + WEIGHTS)


def save_model(path: str | Path, model: Model) -> tuple[Path, Path]:
    """Write both files, each whole or not at all; returns their paths."""
    grammar, weights = model_files(path)
    save_grammar(grammar, model.grammar)
    save_weights(weights, model.weights)
    return grammar, weights


def load_model(path: str | Path) -> Model:
    """What `save_model` wrote.

    Raises:
      FileNotFoundError: one of the files is missing.
      ValueError: one is damaged, they do not belong together, or float64 is switched off.
    """
    files = model_files(path)
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(
                f"model: {file} is missing; a model is {files[0].name} and {files[1].name}, as "
                "experiments.parsing writes them"
            )
    grammar = load_grammar(files[0])
    with np.load(files[1]) as arrays:
        dtypes = {str(arrays[key].dtype) for key in arrays.files if key.startswith(".weights")}
    dtype = "float64" if "float64" in dtypes else "float32"
    if dtype == "float64" and jnp.result_type(float) != dtype:
        raise ValueError(f"model: the weights of {files[1]} are float64; start with --x64")
    try:
        return Model(grammar, load_weights(files[1], problem_for(grammar, dtype)))
    except ValueError as error:
        raise ValueError(f"model: {files[1]} does not fit {files[0]}: {error}") from error


def problem_for(grammar: Grammar, dtype: str) -> Problem:
    """Enough of the structure to decode with."""
    return weighted_grammar(grammar, loss="zero_one", dtype=dtype)


def parse(
    model: Model, sentences: Sequence[Sequence[str]], words: Sequence[Sequence[str]],
    k: int = 1,
) -> list[list[Ranked]]:  # fmt: skip
    """The k best trees of each sentence, the best first; fewer, or none, where there are fewer.

    Args:
      model: whose terminals are tags or words.
      sentences: the terminals of each sentence, at least one a sentence.
      words: what its trees have for words.
      k: how many.
    """
    if not sentences:
        return []
    problem = problem_for(model.grammar, str(jnp.result_type(model.weights["rules"])))
    inputs = bucketed_inputs(problem.padding, sentence_inputs(model.grammar, sentences))
    tables = grammar_tables(model.grammar)
    parts = tuple(_k_best(k, problem, tables, model.weights, part) for part in inputs.parts)
    rows = in_order(Buckets(parts, inputs.index))
    return [_rank(model.grammar, row, of) for row, of in zip(rows, words, strict=True)]


@partial(jax.jit, static_argnums=0)
def _k_best(
    k: int, problem: Problem, tables: GrammarTables, weights: PyTree, inputs: SentenceInput
) -> PyTree:
    def of_one(x: SentenceInput) -> PyTree:
        potentials = tree_potentials(tables, problem.model.potentials(weights, x))
        if k > 1:
            return k_best_trees(tables.rules, potentials, x.length, k)
        return jax.tree.map(lambda leaf: leaf[None], cky(tables.rules, potentials, x.length))

    return jax.vmap(of_one)(inputs)


def _rank(grammar: Grammar, row: PyTree, words: Sequence[str]) -> list[Ranked]:
    count = int(np.isfinite(row.score).sum())
    rows = (jax.tree.map(lambda leaf, at=at: leaf[at], row.tree) for at in range(count))
    return [
        Ranked(decode(grammar, tree, words), float(score))
        for tree, score in zip(rows, row.score, strict=False)
    ]
