"""The methods of the parsing table: probabilistic and log-linear grammars, structural SVMs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.record import Elapsed, Stopwatch
from experiments.machines.probabilistic_grammar import fit_probabilistic_grammar
from experiments.tasks.treebanks import CHUNKS, Options, Part, Prepared, decoded
from jaxstruct import Settings, fit, predict
from jaxstruct.baselines.conditional_random_field import FieldProgress, fit_random_field
from jaxstruct.core.compiling import compile_clock
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.data.bracketing import read_tree, write_line
from jaxstruct.data.trees import Tree, words
from jaxstruct.solvers.loop.host_loop import Progress
from jaxstruct.solvers.solution import Solution
from jaxstruct.trees.phrases.evaluation import ALL_TOKENS, VALID, Scores, score, summarise
from jaxstruct.trees.structure import weighted_grammar

LIKELIHOOD_ITERATIONS = 300
LIKELIHOOD_POSITIONS = 1 << 13
"""Entries of padded trees whose charts are worked on side by side."""


class Method(NamedTuple):
    """A row of the table.

    Fields:
      name: of `METHODS`. c_over_n: C' = C / n, None of the probabilistic grammar.
      loss: of `LOSSES`, what is trained for. features: of `FEATURES`.
    """

    name: str
    c_over_n: float | None
    loss: str = "zero_one"
    features: str = "rules"

    @property
    def choices(self) -> str:
        """Loss and features where they are not the usual ones, such as ", f1, tags"."""
        found = (self.loss, self.features)
        return "".join(f", {each}" for each in found if each not in ("zero_one", "rules"))

    @property
    def label(self) -> str:
        """Its name for files and messages."""
        ratio = "" if self.c_over_n is None else f", C' = {self.c_over_n:g}"
        return self.name + self.choices + ratio

    def C(self, n: int) -> float:
        """C of n training sentences."""
        assert self.c_over_n is not None, "the probabilistic grammar has no C"
        return self.c_over_n * n


class Trained(NamedTuple):
    """Weights and what training them took.

    Fields:
      next_start: what a training at a larger C' may start from.
    """

    weights: PyTree
    numbers: dict[str, Any]
    next_start: Solution | PyTree | None = None


class _Bounded(NamedTuple):
    """What a progress bar reads of a `FieldProgress`.

    The objective is 1-strongly convex, so its optimum is at most |gradient|^2 / 2 below it.
    """

    passes: int
    primal: float
    dual: float
    gap: float
    info: None = None


def _bounded(passes: int, objective: float, gradient_norm: float) -> _Bounded:
    gap = gradient_norm**2 / 2
    return _Bounded(passes, objective, objective - gap, gap)


def problem_of(data: Prepared, loss: str, dtype: str) -> Problem:
    """The weighted grammar with this loss."""
    return weighted_grammar(
        data.grammar, loss=loss, longest=data.longest, token_features=data.token_features,
        dtype=dtype,
    )  # fmt: skip


def is_rescaled(name: str) -> bool:
    """Whether a method is trained for a loss of `--loss`; the others are for the zero-one loss."""
    return name.endswith(("_slack", "_margin"))


def settings_of(options: Options) -> Settings:
    """How `fit` goes about it."""
    return Settings(
        variant=options.variant, working_sets=options.working_sets, 
        capacity=options.capacity or None,
        oracle_batch=64, chunks=CHUNKS, seed=options.solver_seed,
    )  # fmt: skip


class _Course:
    """What each pass took, and whether anything was compiled in it."""

    def __init__(self, update: Callable[[Progress], Any]) -> None:
        self._update, self._compiled = update, compile_clock().read().wall
        self.passes: list[tuple[bool, dict[str, float]]] = []

    def __call__(self, progress: Progress) -> Any:
        compiled = compile_clock().read().wall
        self.passes.append((compiled > self._compiled, dict(progress.info.seconds)))
        self._compiled = compiled
        return self._update(progress)

    def share_of_qp(self) -> float | None:
        """The part of the time in sweeps and Newton steps; passes that compile are left out."""
        clean = [seconds for compiled, seconds in self.passes if not compiled]
        total = sum(sum(seconds.values()) for seconds in clean)
        qp = sum(seconds.get(part, 0.0) for seconds in clean for part in ("sweeps", "newton"))
        return qp / total if total else None


def train_pcfg(data: Prepared, dtype: str) -> Trained:
    """Maximum likelihood, without smoothing."""
    watch = Stopwatch()
    weights = fit_probabilistic_grammar(data.grammar, dtype=dtype)
    seconds = watch.elapsed()
    return Trained(weights, {"seconds": seconds, "compiling": Elapsed(0.0, 0.0)})


def train_log_linear(
    data: Prepared, problem: Problem, method: Method, update: Callable[[Any], Any],
    start: PyTree | None = None,
) -> Trained:  # fmt: skip
    """The largest conditional likelihood, regularised as the SVMs are."""

    def seen(progress: FieldProgress) -> Any:
        return update(_bounded(progress.iterations, progress.objective, progress.gradient_norm))

    clock, watch = compile_clock(), Stopwatch()
    before = clock.read()
    field = fit_random_field(
        problem, data.train.inputs, data.outputs, method.C(len(data.train.trees)),
        max_iterations=LIKELIHOOD_ITERATIONS, start=start,
        positions=LIKELIHOOD_POSITIONS, callback=seen,
    )  # fmt: skip
    compiling, seconds = _apart(watch.elapsed(field.weights), before, clock.read())
    proved = _bounded(field.iterations, field.objective, field.gradient_norm)
    numbers = {
        "seconds": seconds, "compiling": compiling, "status": field.status,
        "passes": proved.passes, "oracle_calls": field.evaluations * len(data.train.trees),
        "primal": proved.primal, "dual": proved.dual,
    }  # fmt: skip
    return Trained(field.weights, numbers, field.weights)


def _apart(spent: Elapsed, before: Elapsed, after: Elapsed) -> tuple[Elapsed, Elapsed]:
    """(compiling, the rest) of what was spent between two readings of the compile clock."""
    compiling = Elapsed(after.wall - before.wall, after.process - before.process)
    return compiling, Elapsed(spent.wall - compiling.wall, spent.process - compiling.process)


def train_svm(
    data: Prepared, problem: Problem, method: Method, options: Options,
    update: Callable[[Progress], Any], start: Solution | None = None,
) -> Trained:  # fmt: skip
    """A structural SVM by the paper's rule: no constraint is violated by more than epsilon."""
    clock, watch, course = compile_clock(), Stopwatch(), _Course(update)
    before = clock.read()
    solution = fit(
        problem, data.train.inputs, data.outputs, method.name,
        method.C(len(data.train.trees)), tolerance=None, epsilon=options.epsilon,
        settings=settings_of(options), max_passes=options.max_passes, start=start,
        callback=course,
    )  # fmt: skip
    compiling, seconds = _apart(watch.elapsed(solution.weights), before, clock.read())
    statistics = solution.statistics
    numbers = {
        "seconds": seconds, "compiling": compiling, "qp_share": course.share_of_qp(),
        "status": solution.status, "passes": statistics.passes,
        "constraints": statistics.planes_added, "support": statistics.support_planes,
        "oracle_calls": statistics.oracle_calls, "primal": solution.primal,
        "dual": solution.dual, "violation": solution.certificate.violation,
        "capacity": statistics.capacity, "compilations": statistics.compilations,
        "parts": statistics.seconds,
    }  # fmt: skip
    return Trained(solution.weights, numbers, solution)


def evaluate(data: Prepared, problem: Problem, weights: PyTree, part: str) -> dict[str, Any]:
    """Scores of one part ("train", "test" or "dev"), per sentence and together.

    `answers` are the predicted trees, bracketed, None where there is no parse; of the test part.
    """
    own: Part = getattr(data, part)
    watch = Stopwatch()
    found = predict(problem, weights, own.inputs)
    seconds = watch.elapsed()
    trees = decoded(data.grammar, found, [words(tree) for tree in own.trees])
    numbers = {
        "scores": score(own.trees, trees, ALL_TOKENS)._asdict(),
        "right": [a == b for a, b in zip(own.trees, trees, strict=True)],
        "outside": int(own.outside.sum()),
        "no_parse": sum(tree is None for tree in trees), "decoding": seconds,
    }  # fmt: skip
    if part == "test":
        numbers["answers"] = [None if tree is None else write_line(tree) for tree in trees]
    return _summarised(numbers)


def _summarised(numbers: dict[str, Any]) -> dict[str, Any]:
    """The numbers of sentences, and of all of them together."""
    scores = scores_of(numbers)
    return numbers | {
        "summary": summarise(scores)._asdict(),
        "failures_counted": summarise(scores, failed_are_wrong=True)._asdict(),
        "same_tree": float(np.mean(numbers["right"])),
    }


def pooled(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `evaluate` would say of the sentences of all folds; `folds` are accuracy and F1 of each.

    Args:
      parts: the numbers of each fold.
    """
    scores = zip(*map(scores_of, parts), strict=True)
    joined = {
        "scores": Scores(*map(np.concatenate, scores))._asdict(),
        **{name: [one for part in parts for one in part[name]]
           for name in ("right", "answers") if name in parts[0]},
        **{name: sum(part[name] for part in parts) for name in ("outside", "no_parse")},
    }  # fmt: skip
    folds = [(part["same_tree"], part["summary"]["f1"]) for part in parts]
    return _summarised(joined) | {"folds": folds}


def scores_of(numbers: Mapping[str, Any]) -> Scores:
    """The scores per sentence that `evaluate` wrote, also as read back from JSON."""
    return Scores(*(np.asarray(numbers["scores"][name]) for name in Scores._fields))


def sentence_f1(scores: Scores) -> np.ndarray:
    """[n] F1 of each sentence: 2 m / (g + p); 0 where there is no parse, 1 where g = p = 0."""
    total = scores.gold + scores.predicted
    found = 2 * scores.matched / np.maximum(total, 1)
    return np.where(scores.status == VALID, np.where(total > 0, found, 1.0), 0.0)


def sentence_errors(scores: Scores) -> np.ndarray:
    """[n] constituents of each sentence that are missed, or predicted and wrong: g + p - 2 m."""
    return scores.gold + scores.predicted - 2 * scores.matched


def trees_of(answers: Sequence[str | None]) -> list[Tree | None]:
    """The answers that `evaluate` wrote, read again."""
    return [None if answer is None else read_tree(answer) for answer in answers]
