"""What every command promises: flags that repeat a run, help, and refusals in a line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from absl import flags

from experiments import command_file, command_module, commands
from experiments.corpora.locate import available
from experiments.lib import start
from experiments.lib.options import define_flags, flag_fields, names
from experiments.lib.record import flag_arguments
from tests.experiments.scripts import parsed_options, raising

COMMANDS = commands()
SHARED = {"output", "seed", "x64", "progress", "compilation_cache"}
WITH_LESS = {"label_files", "make_store"}


def options_of(command: str) -> type:
    return command_module(command).Options


@pytest.mark.smoke
def test_flags_default_to_the_options():
    for command in COMMANDS:
        options = options_of(command)
        assert parsed_options(options) == options(), command
        recorded = flag_arguments(options().values())
        assert parsed_options(options, *recorded) == options(), command
        assert command in WITH_LESS or set(names(options)) >= SHARED, command


def test_help_lists_every_field(monkeypatch):
    """absl's --help prints `main_module_help`, the key flags of the program that runs."""
    for command in COMMANDS:
        monkeypatch.setattr(sys, "argv", [f"experiments/{command}/__main__.py"])
        options, holder = options_of(command), flags.FlagValues()
        define_flags(options, holder)
        printed = holder.main_module_help()
        starts = (line.split(":")[0].strip() for line in printed.splitlines())
        assert set(names(options)) <= {n.removeprefix("--").removeprefix("[no]") for n in starts}
        for name, (_, about) in flag_fields(options).items():
            assert "".join(about.help.split()) in "".join(printed.split()), (command, name)


WRONG = {
    "alignment": ["--sizes=0", "--sizes=x", "--sizes=", "--readings=left:1", "--epsilon=nan",
                  "--epsilons=0", "--readings=end"],
    "calibration": ["--data=odd", "--examples=-1", "--c_over_n=0", "--bins=0"],
    "citation_graph": ["--topics=1", "--most=9", "--vocabulary=3", "--training=crf", "--focus=2",
                       "--prediction=exact", "--vocabulary=2"],
    "class_descriptions": ["--path=absent", "--per_class=0", "--methods=names", "--unseen=-1",
                           "--identity=0", "--held_out=x"],
    "cluster": ["", "--start=-1", "--start=2 --join", "--start=1 --devices=0",
                "--start=2 --task=table", "--start=2 --tolerance=0"],
    "constraint_counts": ["--parts=letters", "--formulations=svm1", "--sizes=0", "--epsilons=x",
                          "--epsilon=0", "--ways=", "--parts=words"],
    "decisions": ["--tasks=routes", "--methods=crf", "--degrees=0", "--examples=x", "--seeds=0",
                  "--noises=x", "--c_over_n=0", "--steps=0"],
    "denoising": ["--labels=1", "--labels=x", "--size=1", "--noise=0", "--training=exact",
                  "--prediction=milp", "--coupling=-1"],
    "digits": ["--formulations=svm3", "--c_over_n=x", "--tolerance=0", "--variant=slow",
               "--unknown", "--seed=-1", "--examples=20 --tolerance=1e-7", "--capacity=1024"],
    "first_results": ["--tasks=odd", "--repeats=0"],
    "handwriting": ["--formulations=svm3", "--baselines=hmm", "--letter_data=absent.data",
                    "--predict_only", "--folds=2 --model=m"],
    "benchmarks": ["--tasks=table", "--growth=x", "--part=first", "--path=x", "--path=0",
                   "--tolerance=0", "--tasks=tagger --growth=9"],
    "label_files": ["", "--model=absent", "--model=m --input=absent.jsonl", "--format=xml",
                    "--devices=-1"],
    "dependencies": ["--methods=memm", "--trees=crossing", "--path=absent", "--epochs=0",
                     "--parts=train"],
    "segments": ["--methods=crf", "--path=absent.zip", "--sentences=-1", "--c_over_n=0"],
    "make_store": ["", "--input=absent.conll --output=x", "--format=csv", "--min_count=0",
                   "--memory=-1"],
    "matching": ["--methods=odd", "--settings=all", "--draws=0", "--points=9", "--points=9,3",
                 "--missing=1", "--c_over_n=0", "--points=4,3", "--missing=1.0"],
    "ranking": ["--methods=odd", "--splits=0", "--folds=1", "--c_over_n=0", "--path=absent"],
    "measures": ["--data=odd", "--methods=memm", "--measures=recall", "--c=0", "--splits=0"],
    "multiclass": ["--data=letters", "--machines=dag", "--penalties=L3", "--c_over_n=0",
                   "--tolerance=1e-9 --data=digits --per_class=2", "--code_length=-1"],
    "multi_label": ["--data=yeasts", "--data_file=absent.npz", "--training=odd", "--c_path=0",
                    "--passes=0"],
    "named_entities": ["--methods=memm", "--C=x", "--C=n", "--epochs=0.5", "--growth --sizes=0",
                       "--path=absent.zip", "--language=eng"],
    "open_questions": ["--questions=regression", "--data=odd", "--splits=0", "--share=2",
                       "--points=1", "--gap=0"],
    "parts_of_speech": ["--corpus=brown", "--path=absent", "--methods=memm", "--epochs=0"],
    "neural_handwriting": ["--machines=hmm", "--epochs=0", "--drop=1", "--letter_data=absent.data"],
    "gpu": ["--families=odd", "--fits=snakes", "--part=table", "--batch=0"],
    "oracle_speed": ["--families=odd", "--sizes=0", "--repeats=0"],
    "parsing": ["--methods=memm", "--c_over_n=x", "--corpus=ldc", "--corpus=wsj --path=absent",
                "--corpus=files", "--test_part=all", "--test_trees=x", "--methods=", "--c_over_n=",
                "--c_over_n=0", "--sweep=x/n", "--longest=1", "--test_part=train",
                "--corpus=gum --train_trees=a --test_trees=b",
                "--corpus=files --train_trees=a --test_trees=b --test_part=dev"],
    "incomplete_labels": ["--tasks=grids", "--methods=crf", "--shares=0", "--shares=x", "--seeds=0",
                          "--shares=100", "--sentences=1", "--examples=-1", "--tolerance=0"],
    "reproduce": ["--only=table_9"],
    "reranking": ["--tasks=letters", "--machines=svm0x", "--k_words=1", "--train_trees=absent.txt",
                  "--c_path=0"],
    "snakes": ["--data_file=absent.npz", "--features=colours", "--c_over_n=0", "--inference=exact",
               "--examples=-1"],
    "string_mapping": ["--strings=3", "--methods=svm", "--C=x", "--readings=odd", "--decay=0",
                       "--C=many", "--C=0", "--C=inf"],
    "structured_regression": ["--methods=crf", "--series=walk", "--c=0", "--steps=x", "--stay=2",
                              "--levels=1", "--epsilon=-1"],
    "taxonomy": ["--data=wipo_xml", "--per_class=x", "--grid=0",
                 "--node_weights=odd"],
}  # fmt: skip


WRONG_OF_A_CORPUS = {
    "multi_label": {"--held_out=1": "multilabel"},
    "neural_handwriting": {"--folds=11": "ocr_letters"},
    "parsing": {"--shortest=8 --longest=7": "gum"},
}
"""What only the data can say; on a machine without them it is said that they are missing."""


def told_by(name, arguments, monkeypatch):
    """The exit code of a command, started here with these arguments."""
    options = command_module(name).Options
    monkeypatch.setattr(sys, "argv", [f"experiments/{name}.py", *arguments])
    monkeypatch.setattr(sys.modules["__main__"], "__doc__", None)
    try:
        with pytest.raises(SystemExit) as stop:
            start.start(name)
        return stop.value.code
    finally:
        for field in names(options):
            delattr(flags.FLAGS, field)
        flags.FLAGS.unparse_flags()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_ends_in_one_line(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    kept = "compilation_cache" in names(command_module(name).Options)
    arguments = ["--nocompilation_cache"] if kept else []
    of_a_corpus = WRONG_OF_A_CORPUS.get(name, {})
    for line in [*WRONG[name], *(each for each in of_a_corpus if available(of_a_corpus[each]))]:
        assert told_by(name, [*arguments, *line.split()], monkeypatch) == start.WRONG, line
        printed = capsys.readouterr().err
        assert (
            printed.startswith(f"{name}: ") and printed.count("\n") == 1 and len(printed) < 400
        ), line
        assert "Errno" not in printed, line
        given = line.replace("--", "").replace("=", " ").split()
        assert not given or any(word in printed for word in given), line
    assert not list(tmp_path.rglob("*.json"))


def test_a_file_that_is_not_there_is_told_with_its_option(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ["--nocompilation_cache", "--language=esp", "--path=none.zip"]
    assert told_by("named_entities", arguments, monkeypatch) == start.WRONG
    printed = "named_entities: path: 'none.zip': no such file or directory: correct"
    assert capsys.readouterr().err.startswith(printed)


@pytest.mark.smoke
def test_every_command_has_options_and_run_and_starts_by_its_name():
    assert sorted(WRONG) == commands()
    for name in WRONG:
        command = command_module(name)
        assert command.__doc__ and command.Options and command.run, name
        place = f"experiments.{name}"
        if command_file(name).name == "command.py":
            place = f"{place}.__main__"
        program = importlib.util.find_spec(place).loader.get_code(place)
        assert name in program.co_consts and "start" in program.co_names
    assert importlib.util.find_spec("experiments.lib.__main__") is None


def test_a_missing_corpus_ends_in_one_line(monkeypatch, tmp_path, capsys):
    for variable in ("JAXSTRUCT_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert told_by("handwriting", ["--nocompilation_cache"], monkeypatch) == start.WRONG
    printed = capsys.readouterr().err
    assert printed.startswith("handwriting: ") and printed.count("\n") == 1


PLACES = {
    "cluster": ["--start=1 --output=absent/x"],
    "handwriting": ["--output=absent/x", "--model=absent/x/m.npz"],
    "make_store": ["--input=a.conll --output=absent/x/a.store"],
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
        printed, option = capfd.readouterr().err, line.split("=")[-2].split("--")[-1]
        place = f"{name}: {option}: 'absent/x' is no folder that files can be written to: "
        assert printed.startswith(place) and printed.count("\n") == 1, line
