"""The table and the pictures of `speed`, and the run of both contenders."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.conll2002 import Conll2002, load_conll2002
from experiments.lib import common
from experiments.lib.apart import run_apart
from experiments.lib.peers import crf_tagger, crf_trainer
from experiments.lib.plots import TRAINING_SECONDS, Plot, bar_groups, curve_lines
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch, peak_memory_bytes
from experiments.lib.report import Table, write_results
from experiments.named_entities.files import training_numbers, training_of
from experiments.named_entities.options import CONTENDERS, Options
from experiments.tasks.news import Labels, as_numbers, score
from experiments.tasks.token_features import FeatureOptions, token_features
from experiments.tasks.token_model import Prepared, label, model_of, prepare, train
from jaxstruct.data.conll import Sentence

# SVM1 with margin re-scaling beside CRFsuite, on the same features of the same sentences.
#
# Each contender runs in a process of its own, so that its peak memory is its own. They minimise
# different objectives: what they share are the features, so compare time, memory and F1.

LEVELS = (1e-2, 1e-3)
TESTS = ("testa", "testb")


class Point(NamedTuple):
    """The state of a training run after one round.

    Fields:
      wall, process: seconds. primal, dual: the best certified. oracle_calls: so far.
      compiling: what of `wall` was spent on it.
      estimated: (P - D) / P of the round, certified or estimated from its oracle calls.
    """

    wall: float
    process: float
    primal: float
    dual: float
    oracle_calls: int
    estimated: float = math.nan
    compiling: float = 0.0


def contenders() -> list[str]:
    """Those that are installed; python-crfsuite is optional."""
    found = importlib.util.find_spec("pycrfsuite") is not None
    return [name for name in CONTENDERS if name != "crfsuite" or found]


def run_contender(options: Options) -> list[dict[str, Any]]:
    """Train and test one contender here; its numbers go to a JSON file of its own."""
    dtype = common.prepare(options)
    corpus = load_conll2002(options.language, Path(options.path) if options.path else None)
    sentences = corpus.train if options.whole else corpus.train[: options.sentences]
    run = {"jaxstruct": _jaxstruct, "crfsuite": _crfsuite}[options.contender]
    shared = {"sentences": len(sentences), "tokens": sum(len(s.words) for s in sentences)}
    groups = ([row | shared] for row in run(options, corpus, sentences, dtype))
    rows = common.finished_rows(options, groups, name=part_name(options))
    write_results(options.output, part_name(options), {"rows": rows})
    return rows


def part_name(options: Options) -> str:
    """The file of one contender's numbers, without its suffix."""
    return f"{result_name(options)}_{options.contender}"


def result_name(options: Options) -> str:
    """The files of the results, without suffix."""
    return f"named_entities_{'whole' if options.whole else 'speed'}"


def _features(options: Options) -> FeatureOptions:
    return FeatureOptions(options.affixes, options.window, options.tags)


def _jaxstruct(
    options: Options, corpus: Conll2002, sentences: Sequence[Sentence], dtype: str
) -> Iterator[dict[str, Any]]:
    """One row a run, of which the first compiles; the tests are in the last one.

    A run certifies where it believes to be done, so the first level has a run of its own.
    """
    watch, row = Stopwatch(), {}
    data = prepare(sentences, _features(options), options.constraints, dtype)
    preparing = watch.elapsed().wall
    for run in range(options.runs):
        if row:
            yield row
        before, points = peak_memory_bytes(), []
        name = "first run, with compiling" if run == 0 else f"run {run + 1}"
        with training_progress(
            options.max_passes, name, options.progress, options.tolerance
        ) as update:
            watch = Stopwatch()
            solution = train(data, training_of(options), _recorder(points, watch, update))
            seconds, compiling = watch.elapsed(solution.weights), watch.compiling()
        row = {
            "name": f"{options.formulation}, {name}", "wall_seconds": seconds.wall,
            "process_seconds": seconds.process, "compile_seconds": compiling.wall,
            "preparing_seconds": preparing, "features": data.index.number_of_features,
            "memory_before": before, "peak_memory": peak_memory_bytes(), "points": points,
            "reached": {f"{level:g}": reached(points, level) for level in LEVELS},
            **training_numbers(solution),
        }  # fmt: skip
    model = model_of(data, solution)
    if options.tolerance < LEVELS[0]:
        row["reached"][f"{LEVELS[0]:g}"] = _reached_apart(data, options, LEVELS[0])
    yield row | _test(corpus, lambda sentences: label(model, sentences))


def _reached_apart(data: Prepared, options: Options, level: float) -> dict[str, Any]:
    """When a training that wants no more than this level reaches it."""
    points: list[Point] = []
    update = _recorder(points, Stopwatch(), lambda progress: None)
    train(data, training_of(options)._replace(tolerance=level), update)
    return reached(points, level)


def _recorder(points: list[Point], watch: Stopwatch, update: Callable) -> Callable:
    """A callback of `fit` that keeps a Point a round and passes the progress on."""

    def seen(progress: Any) -> None:
        calls = progress.info.oracle_calls + (points[-1].oracle_calls if points else 0)
        estimate = progress.info.estimate
        gap = (estimate.primal - estimate.dual) / abs(estimate.primal)
        compiling = watch.compiling().wall
        bounds = progress.primal, progress.dual
        points.append(Point(*watch.elapsed(), *bounds, calls, gap, compiling))
        update(progress)

    return seen


def _test(corpus: Conll2002, labels: Callable[[Sequence[Sentence]], Labels]) -> dict[str, Any]:
    """The scores on testa and testb of a function that labels sentences."""
    scores = {}
    for part in TESTS:
        sentences = getattr(corpus, part)
        scores[part] = as_numbers(score([s.labels for s in sentences], labels(sentences)))
    return scores


def reached(points: Sequence[Point], level: float) -> dict[str, dict[str, float] | None]:
    """When a level was reached, and the oracle calls until then; None where it was not.

    "gap": the certified relative gap (P - D) / P is at most `level`. "primal": P is within `level`
    of the last dual bound, which only shows in hindsight.
    """
    bound = points[-1].dual if points else math.nan

    def first(found: Sequence[bool]) -> dict[str, float] | None:
        place = int(np.argmax(found)) if any(found) else None
        if place is None:
            return None
        point = points[place]
        return {
            "wall": point.wall, "process": point.process, "oracle_calls": point.oracle_calls,
            "rounds": place + 1,
        }  # fmt: skip

    return {
        "gap": first([p.primal - p.dual <= level * abs(p.primal) < math.inf for p in points]),
        "primal": first([p.primal - bound <= level * abs(p.primal) < math.inf for p in points]),
    }


def _crfsuite(
    options: Options, corpus: Conll2002, sentences: Sequence[Sentence], dtype: str
) -> Iterator[dict[str, Any]]:
    """One row; CRFsuite computes in float64 whatever `dtype` says."""
    before, watch = peak_memory_bytes(), Stopwatch()
    features = token_features(sentences, _features(options))
    trainer = crf_trainer(features, (each.labels for each in sentences), options.crf_c2)
    preparing = watch.lap().wall
    tagger = crf_tagger(trainer)
    seconds, memory = watch.elapsed(), peak_memory_bytes()
    scores = _test(
        corpus, lambda part: [tagger.tag(x) for x in token_features(part, _features(options))]
    )
    yield {
        "name": f"CRFsuite, c2 = {options.crf_c2:g}", "wall_seconds": seconds.wall,
        "process_seconds": seconds.process, "preparing_seconds": preparing,
        "memory_before": before, "peak_memory": memory, **scores,
    }  # fmt: skip


Row = Mapping[str, Any]


def run_speed(options: Options) -> common.Outcome:
    """Run the contenders in processes of their own, print the table and write it.

    Compiled programs are not kept on disk, since compiling is one of the things measured.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      subprocess.CalledProcessError: a contender failed; its messages are on standard error.
    """
    options = options.replace(compilation_cache=False)
    found = contenders()
    rows: list[dict[str, Any]] = []
    name = result_name(options)
    with common.kept_if_stopped(options, {"rows": rows}, name=name):
        for contender in found:
            own = options.replace(contender=contender)
            rows += run_apart(own, part_name(own))
    plots = {name: _convergence_plot(options, rows), f"{name}_f1": _entity_plot(rows)}
    numbers = {"rows": rows, "left_out": [each for each in CONTENDERS if each not in found]}
    table = _table(options, rows, found)
    return common.save(options, table, numbers, plots, name=name)


def _table(options: Options, rows: Sequence[Row], found: Sequence[str]) -> Table:
    columns = [
        "machine", "compiling, s", ("training, s", "wall"), ("training, s", "processor"),
        *((f"to gap {level:g}", what) for level in LEVELS for what in ("s", "calls")),
        "peak MB", *((part, what) for part in TESTS for what in ("F1 %", "token error %")),
    ]  # fmt: skip
    title = f"Spanish news, {rows[0]['sentences']} sentences: training beside CRFsuite"
    body = [_cells(row, rows[0]) for row in rows if TESTS[0] in row]
    return Table(title, columns, body, _notes(options, rows, found))


def _cells(row: Row, first: Row) -> list[Any]:
    """One contender: the last of its trainings, and how long the first one compiled."""
    ours = "reached" in row
    gaps = [row.get("reached", {}).get(f"{level:g}", {}).get("gap") or {} for level in LEVELS]
    return [
        row["name"].split(", run")[0].split(", first")[0],
        f"{first['compile_seconds']:.1f}" if ours else None,
        f"{row['wall_seconds']:.2f}", f"{row['process_seconds']:.2f}",
        *(cell for gap in gaps for cell in (_round(gap.get("wall")), gap.get("oracle_calls"))),
        f"{row['peak_memory'] / 1e6:.0f}",
        *(_round(row[part][what]) for part in TESTS for what in ("f1", "token_error")),
    ]  # fmt: skip


def _round(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _notes(options: Options, rows: Sequence[Row], found: Sequence[str]) -> list[str]:
    ours = [row for row in rows if "reached" in row]
    last = ours[-1]
    notes = [
        f"{last['sentences']} sentences, {last['tokens']} tokens, {last['features']} binary "
        f"features (experiments.tasks.token_features, the same for both); {options.formulation}, "
        f"Hamming loss, C' = C / n = {options.c_over_n:g}, relative gap {options.tolerance:g}, "
        f"{'float64' if options.x64 else 'float32'}: {last['status']}, P = {last['primal']:.4f}, "
        f"D = {last['dual']:.4f}.",
        f"training: {_training_told(ours)}. to gap: when (P - D) / P was certified to be so small, "
        "0.01 in a training of its own; "
        "calls: decodings of single sentences by the oracle until then. compiling: tracing, "
        "lowering and compiling of the first training; nothing is kept on disk.",
        f"Preparing the features took {last['preparing_seconds']:.1f} s. Peak memory is that of "
        "the process, with the features and what compiling took; each contender has its own. The "
        "JSON file has every training, its rounds, and when P was close to the optimum.",
    ]
    if "crfsuite" in found:
        notes.append(
            f"CRFsuite minimises -log P + c2 |w|^2 by L-BFGS with its own stopping rule; its "
            f"preparation took {rows[-1]['preparing_seconds']:.1f} s. Another objective: compare "
            "time, memory and F1."
        )
    else:
        notes.append(
            "CRFsuite is left out, since python-crfsuite is not installed: pip install "
            "'jaxstruct[compare]'."
        )
    return notes


def _training_told(ours: Sequence[Row]) -> str:
    if len(ours) == 1:
        return "one, with its compiling in it"
    return f"training {len(ours)} of {len(ours)} in one process, which compiles nothing"


def _convergence_plot(options: Options, rows: Sequence[Row]) -> Plot:
    curves = {}
    for row in rows:
        if "points" in row:
            seconds = [point["wall"] - point["compiling"] for point in row["points"]]
            gaps = [point["estimated"] for point in row["points"]]
            curves[row["name"]] = (seconds, gaps)
    title = f"Spanish news, {rows[0]['sentences']} sentences: gap, estimated between certificates"
    return curve_lines(curves, title, TRAINING_SECONDS, tolerance=options.tolerance)


def _entity_plot(rows: Sequence[Row]) -> Plot:
    tested = [row for row in rows if TESTS[0] in row]
    series = {row["name"]: [round(row[part]["f1"], 2) for part in TESTS] for row in tested}
    title = f"Spanish news: entities after training on {rows[0]['sentences']} sentences"
    return bar_groups(TESTS, series, title=title, ylabel="F1, %")
