"""Files of your own: train on one, test on one, label one; the model stays in one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.lib import common
from experiments.lib.plots import TRAINING_SECONDS, Plot, curve_lines
from experiments.lib.progress import training_progress
from experiments.lib.record import SECONDS, Stopwatch
from experiments.lib.report import Table
from experiments.named_entities.options import Options
from experiments.tasks.news import as_numbers, encode_labels, label_names, score
from experiments.tasks.token_features import FeatureOptions
from experiments.tasks.token_model import (
    Model,
    Training,
    label,
    load_model,
    model_of,
    prepare,
    save_model,
    train,
)
from jaxstruct import Solution
from jaxstruct.data.conll import Sentence, read_conll, write_conll

COLUMNS = [
    "part", "sentences", "tokens", "token error %", ("entities %", "precision"),
    ("entities %", "recall"), ("entities %", "F1"), *SECONDS, "labels written to",
]  # fmt: skip


def run_files(options: Options) -> common.Outcome:
    """Train or load a model, then test and predict with it as the options ask.

    Raises:
      ValueError: options or files that do not fit together, an unknown label in the test file.
      FileNotFoundError: a file is missing. MalformedFile: one is empty or lacks columns.
    """
    check(options)
    dtype = common.prepare(options)
    if options.model and options.train:
        common.check_folder("model", Path(options.model).parent)
    numbers: dict[str, Any] = {}
    with common.kept_if_stopped(options, numbers, name="named_entities_files"):
        table, plots = _run_files(options, dtype, numbers)
    return common.save(options, table, numbers, plots, name="named_entities_files")


def _run_files(
    options: Options, dtype: str, numbers: dict[str, Any]
) -> tuple[Table, dict[str, Plot]]:
    """What `run_files` saves; its numbers go into `numbers` as soon as they are there."""
    rows, plots, notes = [], {}, []
    if options.train:
        sentences = read_conll(Path(options.train))
        label_names(sentences, options.train)
        model, solution, spent = _train(options, sentences, dtype)
        rows.append(["train", *_sizes(sentences), *[None] * 4, *spent.values(), None])
        numbers["training"] = training_numbers(solution) | spent
        notes.append(_training_note(options, solution, model))
        plots["named_entities_files"] = convergence({"training": solution}, options.tolerance)
        if options.model:
            numbers["model"] = save_model(options.model, model)
            notes.append(f"Model written to {numbers['model']}.")
    else:
        assert options.model, "check has looked"
        model = load_model(options.model)
        notes.append(f"Model read from {options.model}: {len(model.names)} labels, "
                     f"{model.index.number_of_features} features.")  # fmt: skip
    for part in ("test", "predict"):
        if getattr(options, part):
            row, numbers[part], note = _apply(options, model, part, Path(getattr(options, part)))
            rows.append(row)
            notes += [note] if note else []
    return Table("Labels of your own files", COLUMNS, rows, notes), plots


def check(options: Options) -> None:
    """Raise ValueError where the files named do not make a job."""
    if not options.train and not options.model:
        raise ValueError("train: --test and --predict need --train, or a saved --model")
    if options.checkpoint and not options.train:
        raise ValueError("checkpoint: it keeps a training: name a file to --train on")
    if not (options.train or options.test or options.predict):
        raise ValueError("model: name a file to --test or to --predict, or to --train on")
    if options.whole or options.speed:
        raise ValueError("whole, speed: these use the news corpus; leave out --train, --model, ..")


def _train(
    options: Options, sentences: Sequence[Sentence], dtype: str
) -> tuple[Model, Solution, dict[str, float]]:
    features = FeatureOptions(options.affixes, options.window, options.tags)
    watch = Stopwatch()
    data = prepare(sentences, features, options.constraints, dtype)
    with training_progress(
        options.max_passes, "training", options.progress, options.tolerance
    ) as update:
        solution = train(data, training_of(options), update, options.checkpoint)
    return model_of(data, solution), solution, watch.numbers(solution.weights)


def training_of(options: Options) -> Training:
    """How the options say to train."""
    return Training(
        options.formulation, options.c_over_n, options.tolerance, options.max_passes,
        options.settings(),
    )  # fmt: skip


def _apply(
    options: Options, model: Model, part: str, path: Path
) -> tuple[list[Any], dict[str, Any], str]:
    """Label one file, write it with the predictions as the last column, score it if labelled.

    Returns:
      (row of the table, numbers, why there are no scores of entities or "").
    """
    sentences = read_conll(path, labelled=part == "test")
    if part == "test":
        encode_labels(sentences, model.names, str(path))
    watch = Stopwatch()
    predicted = label(model, sentences)
    spent = watch.numbers()
    written = write_conll(Path(options.output) / f"{path.name}.predicted", sentences, predicted)
    scores, note = dict.fromkeys(("token_error", "precision", "recall", "f1")), ""
    if part == "test":
        found = score([sentence.labels for sentence in sentences], predicted)
        scores = as_numbers(found)
        note = found.reason and f"{path.name} has no scores of entities: {found.reason}."
    shown = [None if value is None else f"{value:.2f}" for value in scores.values()]
    row = [part, *_sizes(sentences), *shown, *spent.values(), str(written)]
    return row, scores | {**spent, "file": path, "written": written}, note


def _sizes(sentences: Sequence[Sentence]) -> tuple[int, int]:
    return len(sentences), sum(len(sentence.words) for sentence in sentences)


def _training_note(options: Options, solution: Solution, model: Model) -> str:
    gap = solution.gap / abs(solution.primal)
    return (
        f"{options.formulation}, C' = C / n = {options.c_over_n:g}, "
        f"{model.index.number_of_features} features, {len(model.names)} labels"
        f"{', only IOB2 sequences' if model.constrained else ''}; {solution.status.name}, relative "
        f"gap {gap:.1e} (asked for {options.tolerance:g}): {solution.message}."
    )


def training_numbers(solution: Solution) -> dict[str, Any]:
    """Status, objective and counts of a training run."""
    statistics = solution.statistics
    return {
        "status": solution.status, "primal": solution.primal, "dual": solution.dual,
        "relative_gap": solution.gap / abs(solution.primal), "passes": statistics.passes,
        "planes_added": statistics.planes_added, "support_planes": statistics.support_planes,
        "oracle_calls": statistics.oracle_calls, "compilations": statistics.compilations,
        "capacity": statistics.capacity, "parts": statistics.seconds,
        "history": statistics.history,
    }  # fmt: skip


def convergence(solutions: dict[str, Solution], tolerance: float) -> Any:
    """The relative duality gap of each run, estimated between certificates, against seconds.

    They begin when training does; what it compiled stands in the title.
    """
    curves, compiling = {}, 0.0
    for name, solution in solutions.items():
        course = solution.statistics.history
        gap = course.round_primal - course.round_dual
        curves[name] = (course.training_seconds, gap / abs(course.round_primal))
        compiling += solution.statistics.seconds["compile"]
    title = f"Training; compiling took {compiling:.1f} s more"
    return curve_lines(curves, title, TRAINING_SECONDS, tolerance=tolerance)
