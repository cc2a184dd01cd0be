"""The tests mirror the package: a folder a wing, and a module X is tested by test_X."""

from __future__ import annotations

import pathlib

import pytest

TESTS = pathlib.Path(__file__).parent
ROOT = TESTS.parent
OTHER = {"truth": "independent solvers of the same quadratic programs, and tests of these"}
"""Folders of tests that stand for no folder of the source, and why."""
ACROSS = {
    "test_compiler_effort.py": "every oracle and a fit as the compiler makes them by itself",
    "test_docs.py": "the code, links and names of the pages",
    "test_documents.py": "the rows of docs/documents.md",
    "test_floors.py": "imports, docstrings and annotations of every module",
    "test_main.py": "the command `python -m jaxstruct`",
    "test_mirror.py": "the tests themselves",
    "test_readme.py": "what the README shows",
    "test_several_devices.py": "solvers on more devices than one",
    "test_site.py": "the pages of docs/ and how they are reached",
    "alignments/oracles/test_against_biopython.py": "pairwise and text against another program",
    "chains/test_structure_oracles.py": "structure and every oracle against enumeration",
    "data/test_damaged_files.py": "every reader on damaged files",
    "data/test_fetch_script.py": "third_party_data/fetch.py, which is no module of the package",
    "data/test_side_wing.py": "what the whole wing imports",
    "experiments/test_layout.py": "how the folders of all commands are made",
    "graphs/oracles/test_against_scipy.py": "every oracle against another program",
    "graphs/test_as_factor_graphs.py": "chains and classes written as factor graphs",
    "graphs/test_certificates.py": "what certificates of graph training say, by enumeration",
    "solvers/test_agreement.py": "the optimum of every formulation and structure",
    "solvers/test_alignment_training.py": "solvers with alignments",
    "solvers/test_ascent.py": "the dual under every safeguard of sweeps",
    "solvers/test_bounds.py": "propositions on block_dual, formulations and cutting_plane",
    "solvers/test_buckets.py": "examples in buckets through every solver",
    "solvers/test_candidate_training.py": "solvers with candidate sets",
    "solvers/test_certifying.py": "when rounds, pooled and one_slack certify",
    "solvers/test_chain_most_violated.py": "most_violated with chains",
    "solvers/test_chain_training.py": "solvers with chains",
    "solvers/test_compiling.py": "programs that all solvers share",
    "solvers/test_exactness.py": "inexact and wrong oracles in every solver",
    "solvers/test_grammar_training.py": "solvers with weighted grammars",
    "solvers/test_homologue_training.py": "solvers with searches of homologues",
    "solvers/test_oracle.py": "most_violated with classes, by enumeration",
    "solvers/test_path.py": "fit and warm_start along a path of C",
    "solvers/test_ragged_training.py": "fit and predict on ragged stores, for every wing",
    "solvers/test_rounding.py": "certificates of every solver in float32",
    "solvers/test_size_classes.py": "shapes of every wing, from core.sizes to compiled programs",
    "trees/oracles/test_cky_against_nltk.py": "cky against another program",
    "trees/phrases/test_real_treebanks.py": "all of phrases on whole treebanks",
}
"""Test modules that stand for no single module, and what they are of."""
FOLDERS = sorted({path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")})
MODULES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))


def _source(folder: pathlib.Path) -> pathlib.Path:
    """The folder of the source that a folder of tests stands for."""
    return (ROOT if folder.parts[:1] == ("experiments",) else ROOT / "jaxstruct") / folder


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_folder_of_tests_is_one_of_the_source(folder: pathlib.Path) -> None:
    assert folder.as_posix() in OTHER or _source(folder).is_dir()


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_test_module_names_its_module(path: pathlib.Path) -> None:
    name = path.name.removeprefix("test_")
    home = TESTS / path.parent if path.parent.as_posix() in OTHER else _source(path.parent)
    named, across = (home / name).is_file(), path.as_posix() in ACROSS
    assert named != across, "name the module that it tests, or say in ACROSS what it is of"


def test_the_table_names_what_there_is() -> None:
    assert sorted(ACROSS) == [path.as_posix() for path in MODULES if path.as_posix() in ACROSS]
