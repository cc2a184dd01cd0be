"""A trained labeller of tokens: train, predict, save and load, without pickle.

A model is one file, a zip archive as numpy writes it: the weights as `checkpoints.save_weights`
stores them, and beside them the member model.json with everything else that prediction needs.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.tasks.news import (
    Corpus,
    Labels,
    label_names,
    label_strings,
    sparse_corpus,
    sparse_inputs,
)
from jaxstruct import Settings, Solution, fit, predict
from jaxstruct.chains.iob2 import forbidden_starts, forbidden_transitions, is_iob2
from jaxstruct.chains.structure import Constraints, chain
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_index import FeatureIndex
from jaxstruct.core.files import replacing
from jaxstruct.core.types import PyTree
from jaxstruct.data import feature_index
from jaxstruct.data.conll import Sentence
from jaxstruct.data.token_features import FeatureOptions, fit_token_index
from jaxstruct.solvers.checkpoints.run_state import load_weights, save_weights

HEADER = "model.json"
FORMAT, VERSION = "jaxstruct-token-labeller", 1
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
            raise ValueError(f"constraints: the labels {', '.join(names)} are not IOB2")
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
        "format": FORMAT, "version": VERSION, "labels": model.names, "dtype": model.dtype,
        "constrained": model.constrained, "features": model.features._asdict(),
        "index": json.loads(feature_index.to_json(model.index)),
    }  # fmt: skip
    with replacing(path) as temporary:
        save_weights(temporary, model.weights)
        with zipfile.ZipFile(temporary, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(HEADER, json.dumps(header, ensure_ascii=False))
    return path


def load_model(path: str | os.PathLike) -> Model:
    """The model that `save_model` wrote.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is no model, of another version, damaged, or of a dtype that is switched off.
    """
    header = _header(Path(path))
    try:
        index = feature_index.from_json(json.dumps(header["index"]))
        names, constrained = tuple(header["labels"]), bool(header["constrained"])
        features, dtype = FeatureOptions(**header["features"]), str(header["dtype"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"model: the {HEADER} in {path} is damaged ({error})") from error
    _check_dtype(path, dtype)
    try:
        weights = load_weights(path, problem_of(index, names, constrained, dtype))
    except ValueError as error:
        raise ValueError(f"model: {error}") from error
    return Model(weights, index, names, features, constrained, dtype)


def _check_dtype(path: str | os.PathLike, dtype: str) -> None:
    if dtype not in DTYPES:
        raise ValueError(f"model: the {HEADER} in {path} is damaged (dtype {dtype!r})")
    if dtype == "float64" and jnp.result_type(float) != dtype:
        raise ValueError(f"model: the weights of {path} are float64; start with --x64")


def _header(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(HEADER))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"model: {path} is no file that --model wrote ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"model: {path} is no file that --model wrote: its format is not {FORMAT}")
    if header.get("version") != VERSION:
        raise ValueError(
            f"model: {path} has version {header.get('version')}, expected {VERSION}: use the "
            "program that wrote it, or train again"
        )
    return header
