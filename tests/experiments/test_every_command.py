"""What every command promises: flags that repeat a run, help, and refusals in a line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

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
    "alignment": ["--readings=left:1", "--readings=end"],
    "benchmarks": ["--part=first", "--tasks=tagger --growth=9"],
    "citation_graph": ["--most=9", "--vocabulary=3", "--vocabulary=2"],
    "class_descriptions": ["--path=absent"],
    "cluster": ["", "--start=2 --join", "--start=1 --devices=0"],
    "dependencies": ["--path=absent"],
    "digits": ["--unknown", "--examples=20 --tolerance=1e-7", "--capacity=1024"],
    "handwriting": ["--letter_data=absent.data"],
    "label_files": ["", "--model=absent", "--model=m --input=absent.jsonl"],
    "make_store": ["", "--input=absent.conll --output=x"],
    "matching": ["--points=9", "--points=9,3", "--points=4,3", "--missing=1"],
    "multi_label": ["--data_file=absent.npz"],
    "multiclass": ["--tolerance=1e-9 --data=digits --per_class=2"],
    "named_entities": ["--path=absent.zip", "--C=n"],
    "neural_handwriting": ["--letter_data=absent.data"],
    "parsing": ["--c_over_n=x", "--sweep=x/n", "--corpus=ldc", "--corpus=wsj --path=absent",
                "--corpus=files", "--corpus=gum --train_trees=a --test_trees=b",
                "--corpus=files --train_trees=a --test_trees=b --test_part=dev"],
    "parts_of_speech": ["--path=absent"],
    "ranking": ["--path=absent"],
    "reproduce": ["--only=table_9"],
    "reranking": ["--train_trees=absent.txt"],
    "segments": ["--path=absent.zip"],
    "snakes": ["--data_file=absent.npz"],
    "string_mapping": ["--C=x", "--C=many", "--C=inf"],
    "taxonomy": ["--data=wipo_xml"],
}  # fmt: skip
"""What a field alone does not say."""


def wrong_values(options: type) -> Iterator[str]:
    """Beside each bound of a field, and what is none of its choices or cannot be read."""
    for name, (kind, about) in flag_fields(options).items():
        if about.choices:
            yield f"--{name}=odd"
        if kind is float or about.each in (int, float):
            yield f"--{name}=x"
        if kind is float:
            yield f"--{name}=nan"
        if about.some:
            yield f"--{name}="
        if about.least is not None:
            yield f"--{name}={about.least - 1}"
        if about.above is not None:
            yield f"--{name}={about.above}"
        if about.most is not None:
            yield f"--{name}={about.most + 1}"


WRONG_OF_A_CORPUS = {
    "multi_label": {"--held_out=1": "multilabel"},
    "neural_handwriting": {"--folds=11": "ocr_letters"},
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


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_option_ends_in_one_line(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    kept = "compilation_cache" in names(command_module(name).Options)
    arguments = ["--nocompilation_cache"] if kept else []
    of_a_corpus = WRONG_OF_A_CORPUS.get(name, {})
    lines = [*WRONG.get(name, ()), *wrong_values(command_module(name).Options)]
    for line in [*lines, *(each for each in of_a_corpus if available(of_a_corpus[each]))]:
        assert told_by(name, [*arguments, *line.split()], monkeypatch) == start.WRONG, line
        printed = capsys.readouterr().err
        assert (
            printed.startswith(f"{name}: ") and printed.count("\n") == 1 and len(printed) < 400
        ), line
        assert "Errno" not in printed, line
        given = line.replace("--", "").replace("=", " ").split()
        assert not given or any(word in printed for word in given), line
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.smoke
def test_every_command_has_options_and_run_and_starts_by_its_name():
    assert set(WRONG) <= set(COMMANDS)
    for name in COMMANDS:
        command = command_module(name)
        assert command.__doc__ and command.Options and command.run, name
        place = f"experiments.{name}"
        if command_file(name).name == "command.py":
            place = f"{place}.__main__"
        program = importlib.util.find_spec(place).loader.get_code(place)
        assert name in program.co_consts and "start" in program.co_names
    assert importlib.util.find_spec("experiments.lib.__main__") is None


def test_a_missing_corpus_or_file_ends_in_one_line(monkeypatch, tmp_path, capsys):
    for variable in ("JAXSTRUCT_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    said = "path: 'none.zip': no such file or directory: correct"
    for name, more, begins in (
        ("handwriting", [], ""),
        ("named_entities", ["--path=none.zip"], said),
    ):
        assert told_by(name, ["--nocompilation_cache", *more], monkeypatch) == start.WRONG
        printed = capsys.readouterr().err
        assert printed.startswith(f"{name}: {begins}") and printed.count("\n") == 1


PLACES = {
    "cluster": ["--start=1 --output=absent/x"],
    "make_store": ["--input=a.conll --output=absent/x/a.store"],
}  # fmt: skip
"""Where the results of these commands go; of all others to --output=FOLDER."""


@pytest.mark.parametrize("name", COMMANDS)
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
