"""How a command starts and ends: its flags, its exit code, signals and wrong options in a line."""

from __future__ import annotations

import fnmatch
import importlib.util
import signal
import subprocess
import sys
import tomllib
from types import SimpleNamespace
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from absl import flags

from experiments.clinc150_whole.command import objective
from experiments.lib import record, start
from experiments.lib.common import take_rows
from experiments.lib.options import flag
from experiments.named_entities.methods import value_of
from experiments.named_entities.options import checked_c
from jaxstruct.data.locate import available
from tests.experiments.scripts import kept_settings


class Options(NamedTuple):
    count: Annotated[int, flag("How many.", least=1)] = 3


@pytest.fixture(autouse=True)
def handlers():
    """Commands heed signals in a way of their own; the tests of other files do not."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def started(monkeypatch):
    """Starts a command made of what is given; returns its exit code."""

    def call(*arguments, **parts):
        command = SimpleNamespace(__doc__="A command.", Options=Options, **parts)
        monkeypatch.setattr(importlib, "import_module", lambda name: command)
        monkeypatch.setattr(sys, "argv", ["script", *arguments])
        monkeypatch.setattr(sys.modules["__main__"], "__doc__", None)
        try:
            with pytest.raises(SystemExit) as stop:
                start.start("made_up")
            return stop.value.code or 0
        finally:
            for name in Options._fields:
                delattr(flags.FLAGS, name)
            flags.FLAGS.unparse_flags()

    return call


@pytest.mark.smoke
def test_run_gets_the_options(started):
    seen = []
    assert started("--count=5", run=seen.append) == 0
    assert seen == [Options(5)]


def test_main_decides_the_exit_code(started):
    assert started(run=None, main=lambda options: 7) == 7


def test_help_tells_of_the_command_and_its_flags(started, capsys):
    assert started("--help", run=None) == 1  # as absl has it
    printed = capsys.readouterr().out
    assert printed.startswith("\nA command.") or printed.startswith("A command.")
    assert "--count: How many." in printed


def test_arguments_that_are_no_flags_are_refused(started, capsys):
    assert started("here", run=None) == 2
    assert capsys.readouterr().err == "made_up: unexpected arguments ['here']\n"


WRONG = {
    "align_sequences": ["--align=absent.fasta", "--alphabet=aa --aligned=x", "--gap_open=1", "",
                        "--align=x --gap_costs=g", "--align=x --matrix=m --gap_costs=g"],
    "alignment": ["--sizes=0", "--sizes=x", "--sizes=", "--readings=left:1", "--epsilon=nan"],
    "alignment_speed": ["--sizes=50", "--sizes=0x3", "--batch=0"],
    "calibration": ["--data=odd", "--examples=-1", "--c_over_n=0", "--bins=0"],
    "citation_graph": ["--topics=1", "--most=9", "--vocabulary=3", "--training=crf", "--focus=2",
                       "--prediction=exact"],
    "class_descriptions": ["--path=absent", "--per_class=0", "--methods=names", "--unseen=-1",
                           "--identity=0", "--held_out=x"],
    "clinc150_whole": ["--contender=linear_svc --path=absent", "--svc_tolerances=x",
                       "--c_over_n=0"],
    "cluster": ["", "--start=-1", "--start=2 --join", "--start=1 --devices=0", "--compare=1y",
                "--start=2 --task=table", "--kills=-1", "--start=2 --tolerance=0"],
    "constraint_counts": ["--parts=letters", "--formulations=svm1", "--sizes=0", "--epsilons=x",
                          "--epsilon=0"],
    "decoding_speed": ["--sizes=9x", "--exact=x", "--repeats=0"],
    "denoising": ["--labels=1", "--labels=x", "--size=1", "--noise=0", "--training=exact",
                  "--prediction=milp", "--coupling=-1"],
    "digits": ["--formulations=svm3", "--c_over_n=x", "--tolerance=0", "--variant=slow",
               "--unknown", "--seed=-1", "--examples=20 --tolerance=1e-7", "--capacity=1024"],
    "digits_speed": ["--c_over_n=0.2", "--repeats=x"],
    "first_results": ["--tasks=odd", "--repeats=0"],
    "graph_speed": ["--grids=9x9", "--batches=x", "--kinds=min", "--passes=0", "--near=0"],
    "handwriting": ["--formulations=svm3", "--baselines=hmm", "--letter_data=absent.data",
                    "--predict_only", "--folds=2 --model=m"],
    "benchmarks": ["--tasks=table", "--growth=x", "--part=first", "--path=x", "--path=0",
                   "--shards=0", "--shards=x"],
    "bulk_speed": ["--devices=0", "--sentences=-1", "--texts=x"],
    "handwriting_speed": ["--repeats=0"],
    "killed_runs": ["--kills=0", "--tasks=table", "--cost=-1", "--tolerance=0", "--seconds=-1"],
    "label_files": ["", "--model=absent", "--model=m --input=absent.jsonl", "--format=xml",
                    "--devices=-1"],
    "label_graphs": ["", "--train=absent.npz", "--train=a.txt", "--train=a.csv", "--loss=zero_one",
                     "--train=a.npz --train_edges=b.csv", "--c_over_n=0", "--inference=exact"],
    "large_data": ["--passes=1", "--texts=x", "--part=blocks", "--blocks=-1", "--block_bytes=0"],
    "make_store": ["", "--input=absent.conll --output=x", "--format=csv", "--min_count=0",
                   "--memory=-1"],
    "multiclass": ["--data=letters", "--machines=dag", "--penalties=L3", "--c_over_n=0",
                   "--tolerance=1e-9 --data=digits --per_class=2", "--code_length=-1"],
    "multi_label": ["--data=yeasts", "--data_file=absent.npz", "--training=odd", "--c_path=0",
                    "--passes=0"],
    "named_entities": ["--methods=memm", "--C=x", "--whole --speed", "--path=absent.zip",
                       "--train=absent.conll --model=m", "--test=x", "--language=eng"],
    "parts_of_speech": ["--corpus=brown", "--path=absent", "--methods=memm", "--epochs=0"],
    "neural_handwriting": ["--machines=hmm", "--epochs=0", "--drop=1",
                           "--letter_data=absent.data"],
    "parse_sentences": ["", "--model=absent", "--k=0", "--model=m --picture=a.jpg"],
    "parsing": ["--methods=memm", "--c_over_n=x", "--corpus=ldc", "--corpus=wsj --path=absent",
                "--corpus=files", "--test_part=all", "--test_trees=x"],
    "parsing_speed": ["--sizes=2x9x3", "--sizes=2x9", "--oracles=best"],
    "random_field_certificates": ["--data=pairs", "--methods=adam", "--letter_data=absent.data",
                                  "--group=0", "--rate=0"],
    "reproduce": ["--only=table_9"],
    "reranking": ["--tasks=letters", "--machines=svm0x", "--k_words=1", "--train_trees=absent.txt",
                  "--c_path=0"],
    "snakes": ["--data_file=absent.npz", "--features=colours", "--c_over_n=0", "--inference=exact",
               "--examples=-1"],
    "string_kernel_speed": ["--strings=1", "--decay=0", "--decay=2", "--alphabet=27"],
    "string_mapping": ["--strings=3", "--methods=svm", "--C=x", "--readings=odd", "--decay=0"],
    "taxonomy": ["--data=wipo_xml", "--data=clus --path=absent.arff", "--per_class=x", "--grid=0",
                 "--node_weights=odd"],
}  # fmt: skip
WRONG_OF_A_CORPUS = {
    "multi_label": {"--held_out=1": "multilabel"},
    "neural_handwriting": {"--folds=11": "ocr_letters"},
}
"""What only the data can say; on a machine without them it is said that they are missing."""


def told_by(name, arguments, monkeypatch):
    """The exit code of a command, started here with these arguments."""
    options = importlib.import_module(f"experiments.{name}.command").Options
    monkeypatch.setattr(sys, "argv", [f"experiments/{name}/__main__.py", *arguments])
    monkeypatch.setattr(sys.modules["__main__"], "__doc__", None)
    try:
        with kept_settings(), pytest.raises(SystemExit) as stop:
            start.start(name)
        return stop.value.code
    finally:
        for field in options._fields:
            delattr(flags.FLAGS, field)
        flags.FLAGS.unparse_flags()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_ends_in_one_line(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ["--nocompilation_cache"] if name != "parse_sentences" else []
    of_a_corpus = WRONG_OF_A_CORPUS.get(name, {})
    for line in [*WRONG[name], *(each for each in of_a_corpus if available(of_a_corpus[each]))]:
        assert told_by(name, [*arguments, *line.split()], monkeypatch) == start.WRONG, line
        told = capsys.readouterr().err
        assert told.startswith(f"{name}: ") and told.count("\n") == 1 and len(told) < 400, line
        assert "Errno" not in told, line
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("name, line, told", [
    ("named_entities", "--model=none.npz --predict=x", "model: 'none.npz': no such file or direc"),
    ("label_graphs", "--train=none.npz", "train: 'none.npz': no such file or directory: correct"),
])  # fmt: skip
def test_a_file_that_is_not_there_is_told_with_its_option(
    name, line, told, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    arguments = ["--nocompilation_cache", *line.split()]
    assert told_by(name, arguments, monkeypatch) == start.WRONG
    assert capsys.readouterr().err.startswith(f"{name}: {told}")


@pytest.mark.smoke
def test_every_command_has_options_and_run_and_starts_by_its_name():
    folder = record.ROOT / "experiments"
    assert set(WRONG) == {path.parent.name for path in folder.glob("*/command.py")}
    for name in WRONG:
        command = importlib.import_module(f"experiments.{name}.command")
        assert command.__doc__ and command.Options and command.run, name
        main = importlib.util.find_spec(f"experiments.{name}.__main__")
        assert f"start({name!r})" in main.loader.get_source(main.name)
    assert importlib.util.find_spec("experiments.lib.__main__") is None


def test_a_missing_corpus_ends_in_one_line(monkeypatch, tmp_path, capsys):
    for variable in ("JAXSTRUCT_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert told_by("handwriting", ["--nocompilation_cache"], monkeypatch) == start.WRONG
    told = capsys.readouterr().err
    assert told.startswith("handwriting: ") and told.count("\n") == 1


PLACES = {
    "cluster": ["--compare=1x1 --output=absent/x"],
    "handwriting": ["--output=absent/x", "--model=absent/x/m.npz"],
    "make_store": ["--input=a.conll --output=absent/x/a.store"],
    "named_entities": ["--output=absent/x", "--train=a.conll --model=absent/x/m.npz"],
    "parse_sentences": ["--model=m --trees=absent/x/t.mrg", "--model=m --picture=absent/x/t.png"],
}  # fmt: skip
"""Where the results of these commands go; of all others to --output=FOLDER."""


@pytest.mark.parametrize("name", WRONG)
def test_where_nothing_can_be_written_is_told_at_once(name, monkeypatch, tmp_path, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jaxstruct.solvers.fit.fit", raising(AssertionError("it trains")))
    monkeypatch.setattr(subprocess, "Popen", raising(AssertionError("it starts a process")))
    for file in ("absent", "a.conll", "m"):
        (tmp_path / file).write_text("a N\n")
    for line in PLACES.get(name, ["--output=absent/x"]):
        assert told_by(name, line.split(), monkeypatch) == start.WRONG, line
        told, option = capfd.readouterr().err, line.split("=")[-2].split("--")[-1]
        place = f"{name}: {option}: 'absent/x' is no folder that files can be written to: "
        assert told.startswith(place) and told.count("\n") == 1, line


def test_a_bug_shows_its_traceback(started):
    """The same errors as of wrong options, but Python and NumPy raise them within our code."""
    for bug, error in (
        (lambda options: value_of("x", None), ValueError),
        (lambda options: take_rows(np.zeros(2), (2,)), IndexError),
        (lambda options: objective(np.zeros((2, 2)), np.zeros((1, 3)), np.zeros(1), 1), ValueError),
    ):
        with pytest.raises(error):
            started(run=bug)
    assert started(run=lambda options: checked_c("x")) == start.WRONG


def test_a_part_that_failed_has_told_why(started, capsys):
    assert started(run=raising(subprocess.CalledProcessError(start.WRONG, "x"))) == start.WRONG
    assert not capsys.readouterr().err
    assert started(run=raising(subprocess.CalledProcessError(-9, "x"))) == 1
    assert capsys.readouterr().err == "made_up: a process of it ended with -9\n"


def raising(error):
    def run(options):
        raise error

    return run


def test_an_interrupt_ends_in_one_line(started, capsys, monkeypatch):
    monkeypatch.delenv(start.PART, raising=False)
    assert started(run=raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "stopped: nothing was kept\n"
    assert started(run=raising(KeyboardInterrupt("stopped: kept in x.json"))) == 130
    assert capsys.readouterr().err == "stopped: kept in x.json\n"
    noted = KeyboardInterrupt()
    noted.add_note("run.npz holds this run after round 3")
    assert started(run=raising(noted)) == 130
    assert capsys.readouterr().err == "run.npz holds this run after round 3\n"
    monkeypatch.setenv(start.PART, "1")
    assert started(run=raising(KeyboardInterrupt())) == 130
    assert not capsys.readouterr().err


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_training(tmp_path, number, code):
    """A program of its own, stopped when it has told of its progress.

    A shell that starts the tests in the background has them ignore Ctrl-C, and their children, too.
    """

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [sys.executable, "-m", "experiments.digits", f"--output={tmp_path}", "--progress"]
    with subprocess.Popen(
        command, cwd=record.ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heed
    ) as program:
        begun = program.stderr.readline()
        program.send_signal(number)
        told = begun + program.communicate(timeout=120)[1]
    assert program.returncode == code
    assert told.splitlines()[-1].startswith("stopped: ")
    # Where it came in a callback of the interpreter, that is printed first: see lib.interrupts.
    assert told.count("Traceback") == told.count("Exception ignored")


def test_the_package_installs_no_commands():
    """They belong to the checkout: users of jaxstruct get no top-level package `experiments`."""
    project = tomllib.loads((record.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert fnmatch.filter(["jaxstruct", "jaxstruct.data"], patterns[0]) and len(patterns) == 1
    assert not any(fnmatch.fnmatch(name, patterns[0]) for name in ("experiments", "tests"))
