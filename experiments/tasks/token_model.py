"""A trained labeller of tokens: train, predict, save and load, without pickle.

A model is one archive (`jaxstruct.core.archive`): the weights, and in its header everything else
that prediction needs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.tasks import feature_index
from experiments.tasks.news import (
    Corpus,
    Labels,
    label_names,
    label_strings,
    sparse_corpus,
    sparse_inputs,
)
from experiments.tasks.token_features import FeatureOptions, fit_token_index
from jaxstruct import Settings, Solution, fit, predict
from jaxstruct.chains.iob2 import forbidden_starts, forbidden_transitions, is_iob2
from jaxstruct.chains.structure import Constraints, chain
from jaxstruct.core import archive
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_index import FeatureIndex
from jaxstruct.core.types import PyTree
from jaxstruct.data.conll import Sentence

SCHEMA = archive.Schema("model", "jaxstruct-token-labeller", 2, "--model")
DTYPES = ("float32", "float64")


class Model(NamedTuple):
    """Everything that prediction needs.

    Fields:
      weights: of the chain that `problem_of` makes. index: which feature is which column.
      names: of the classes. features: which features tokens have.
      constrained: whether only label sequences of IOB2 are outputs.
      dtype: of the weights.
    """

    weights: PyTree
    index: FeatureIndex
    names: tuple[str, ...]
    features: FeatureOptions
    constrained: bool
    dtype: str


class Training(NamedTuple):
    """How a model is trained; see the flags of `experiments.named_entities`."""

    formulation: str
    c_over_n: float
    tolerance: float
    max_passes: int
    settings: Settings


class Prepared(NamedTuple):
    """Sentences ready to be trained on, and what a Model keeps of them."""

    problem: Problem
    corpus: Corpus
    index: FeatureIndex
    features: FeatureOptions
    constrained: bool
    dtype: str


def problem_of(index: FeatureIndex, names: Sequence[str], constrained: bool, dtype: str) -> Problem:
    """The chain over sparse features; with IOB2 constraints where `constrained`.

    Raises:
      ValueError: constraints are asked for and the labels are not IOB2.
    """
    constraints = None
    if constrained:
        if not is_iob2(names):
            raise ValueError(
                f"constraints: the labels {', '.join(names)} are not IOB2, whose rules these are: "
                "jaxstruct.chains.as_iob2 converts IOB1, IOBES and BILOU"
            )
        stop = np.zeros(len(names), bool)
        constraints = Constraints(forbidden_transitions(names), forbidden_starts(names), stop)
    return chain(index.number_of_features, len(names), constraints=constraints, dtype=dtype)


def prepare(
    sentences: Sequence[Sentence], features: FeatureOptions, constrained: bool, dtype: str
) -> Prepared:
    """Index the features of labelled sentences, and store the sentences.

    Raises:
      ValueError: constraints are asked for and the labels are not IOB2.
    """
    names, index = label_names(sentences), fit_token_index(sentences, features)
    problem = problem_of(index, names, constrained, dtype)
    corpus = sparse_corpus(sentences, names, index, features)
    return Prepared(problem, corpus, index, features, constrained, dtype)


def train(
    data: Prepared,
    training: Training,
    callback: Callable[[Any], Any] | None = None,
    checkpoint: str | None = None,
) -> Solution:
    """Train; the solution says how well the problem is solved. `model_of` keeps its weights.

    Args:
      checkpoint: a file that keeps the training, gone on with where it is there.
    """
    return fit(
        data.problem, data.corpus.inputs, data.corpus.outputs, training.formulation,
        training.c_over_n * len(data.corpus.sentences), tolerance=training.tolerance,
        settings=training.settings, max_passes=training.max_passes, callback=callback,
        checkpoint=checkpoint, resume=checkpoint is not None,
    )  # fmt: skip


def model_of(data: Prepared, solution: Solution) -> Model:
    """What of a training run prediction needs."""
    return Model(
        solution.weights, data.index, data.corpus.names, data.features, data.constrained, data.dtype
    )


def label(model: Model, sentences: Sequence[Sentence]) -> Labels:
    """The predicted labels of each sentence."""
    problem = problem_of(model.index, model.names, model.constrained, model.dtype)
    inputs = sparse_inputs(sentences, model.index, model.features)
    return label_strings(predict(problem, model.weights, inputs), model.names)


def save_model(path: str | os.PathLike, model: Model) -> Path:
    """Write the model as one file; it appears whole or not at all.

    Raises:
      ValueError: `path` is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"model: {path} is a folder, expected the name of a file")
    header = {
        "labels": model.names, "dtype": model.dtype, "constrained": model.constrained,
        "features": model.features._asdict(),
        "index": json.loads(feature_index.to_json(model.index)),
    }  # fmt: skip
    weights = {name: np.asarray(leaf) for name, leaf in model.weights.items()}
    return archive.write(path, SCHEMA, header, weights, compressed=True)


def load_model(path: str | os.PathLike) -> Model:
    """The model that `save_model` wrote.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is no model, of another version, damaged, or of a dtype that is switched off.
    """
    file = archive.Archive(SCHEMA, path)
    file.read()
    with file.refusing():
        index = feature_index.from_json(json.dumps(file.entry("index", dict)))
        names, constrained = tuple(file.entry("labels", list)), file.entry("constrained", bool)
        features, dtype = FeatureOptions(**file.entry("features", dict)), file.entry("dtype", str)
        _check_dtype(path, dtype)
        wanted = problem_of(index, names, constrained, dtype).initial_weights
        if {name: leaf.shape for name, leaf in wanted.items()} != {
            name: leaf.shape for name, leaf in file.arrays.items()
        }:
            raise file.error("has weights of other shapes than its labels and features")
    weights = {name: jnp.asarray(file.arrays[name], dtype) for name in wanted}
    return Model(weights, index, names, features, constrained, dtype)


def _check_dtype(path: str | os.PathLike, dtype: str) -> None:
    if dtype not in DTYPES:
        raise ValueError(f"model: {path} has weights of the dtype {dtype!r}")
    if dtype == "float64" and jnp.result_type(float) != dtype:
        raise ValueError(f"model: the weights of {path} are float64; start with --x64")
