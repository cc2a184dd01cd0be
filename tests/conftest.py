"""Settings and fixtures that all tests share.

Programs are compiled with the least effort (`tests/lib/quickly.py`), which halves the processor
time of the suite, and without the options that `core.compiler` gives them.
`tests/test_compiler_effort.py` compares the answers.
`JAXSTRUCT_PLAIN=0 XLA_FLAGS= python -m pytest` runs all tests as users' programs are compiled.

Tests marked `thorough` run with `--thorough`, or where -m names them.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]


def _missing(extra: str = "test") -> list[str]:
    """The packages of an extra, and of those it names, that are not installed."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    found = []
    for line in project["dependencies"] + project["optional-dependencies"][extra]:
        name, extras = re.fullmatch(r"([\w-]+)(?:\[(.*)\])?[^\[]*", line).groups()
        if extras:
            found += [each for other in extras.split(",") for each in _missing(other)]
        elif not any(importlib.metadata.distributions(name=name)):
            found.append(name)
    return sorted(set(found))


if absent := _missing():
    raise SystemExit(
        f"the tests need packages that are not installed ({', '.join(absent)}): "
        'python -m pip install -e ".[test]"'
    )

from tests.lib import quickly  # noqa: E402

os.environ.update(quickly.settings())

import jax  # noqa: E402
import pytest  # noqa: E402

from jaxstruct.core.compiling import maps_are_scarce  # noqa: E402
from tests.lib import thorough  # noqa: E402
from tests.lib.picture import Picture  # noqa: E402

COSTLIEST = (
    "test_several_devices.py", "test_docs.py", "graphs/test_incomplete.py",
    "solvers/test_candidate_training.py", "solvers/test_known.py", "solvers/test_certificate.py",
    "solvers/test_buckets.py", "solvers/test_fit_in_blocks.py", "solvers/test_oracle.py",
    "solvers/test_size_classes.py", "estimators/test_way_in.py", "segments/test_incomplete.py",
    "graphs/test_structure.py", "rankings/test_training.py", "segments/test_structure.py",
    "losses/test_hinges.py", "dependencies/test_structure.py", "solvers/test_agreement.py",
    "estimators/test_rankers.py", "confidence/test_ranking.py", "solvers/test_active_slots.py",
    "trees/test_incomplete.py", "losses/test_mean_loss.py", "decisions/test_structure.py",
    "solvers/test_latent.py", "dependencies/test_incomplete.py", "core/test_known.py",
    "confidence/test_probabilities.py", "assignments/test_structure.py",
    "baselines/test_conditional_random_field.py", "kernels/test_strings.py",
    "experiments/lib/test_graph_training.py",
    "solvers/test_block_dual.py", "graphs/test_multi_label.py", "graphs/test_inference.py",
    "alignments/test_structure.py", "experiments/machines/test_homologues.py",
    "models/test_stream.py", "solvers/test_checkpoints.py", "solvers/test_resuming.py",
    "solvers/test_status.py", "solvers/test_rounding.py", "multiclass/test_encoding.py",
    "estimators/test_structural_classifier.py", "estimators/test_incomplete_labels.py",
    "graphs/test_certificates.py", "chains/test_incomplete.py",
    "chains/test_structure.py", "kernels/test_gram.py",
    "experiments/machines/test_reference_algorithm.py", "baselines/test_perceptron.py",
    "solvers/test_rounds.py",
    "data/test_real_treebanks.py", "experiments/test_structured_regression.py",
    "experiments/test_incomplete_labels.py", "experiments/test_decisions.py",
)  # fmt: skip
"""Files that take longest, of oracles none: of each of their tests a plain run takes the first
combination, of all others so many that each value is there."""
EARLY = (
    "test_every_oracle.py", "solvers/test_planted_mistakes.py", *COSTLIEST,
    "rankings/test_oracles.py", "trees/oracles/test_oracles.py",
    "dependencies/oracles/test_oracles.py", "alignments/oracles/test_oracles.py",
    "graphs/oracles/test_inexact.py", "chains/oracles/test_oracles.py",
    "graphs/oracles/test_exact.py", "assignments/test_oracles.py", "test_shapes.py",
    "trees/test_structure.py", "decisions/test_losses.py", "test_own_structure.py",
    "decisions/test_oracles.py",
)  # fmt: skip
"""Files that are begun first: at the end no worker should be alone with one."""
ON_SEVERAL_DEVICES = (
    "solvers/test_shards.py", "solvers/test_exchange.py", "solvers/test_processes.py",
)  # fmt: skip
"""`test_several_devices.py` runs these in a process of their own, that has more than one: all
others take a quarter longer there."""
collect_ignore = [] if "JAX_NUM_CPU_DEVICES" in os.environ else list(ON_SEVERAL_DEVICES)
MOST_BYTES = 1.4e9
MORE_BYTES = 0.3e9
"""Memory of a process at which compiled programs are let go, on a machine that has five times as
much, and growth at which they are again: files that share nothing compile everything anew."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of these tests."""
    parser.addoption("--thorough", action="store_true", help="run tests marked thorough too")
    parser.addoption("--picture", metavar="FILE", help="write what the run cost, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """A warning raised in our own package is an error; programs compile quickly."""
    thorough.run["thorough"] = config.option.thorough
    if config.option.picture:
        config.pluginmanager.register(Picture(config))
    config.addinivalue_line("filterwarnings", r"error:::jaxstruct(\..*)?")
    # JAX says of a file of its own what we have asked for: float64 where there is none, and int64
    # put into int32, which later versions refuse.
    for words in ("Explicitly requested dtype", "scatter inputs have incompatible types"):
        config.addinivalue_line("filterwarnings", f"error:{words}")
    # Operands of unequal rank never broadcast in silence: a missing axis is an error. For all tests
    # and their fixtures at once, because a compiled program belongs to one such setting.
    jax.config.update("jax_numpy_rank_promotion", "raise")
    if not hasattr(config, "workerinput"):  # workers inherit the environment
        _compile_quickly(config)
    elif hasattr(os, "sched_setaffinity"):
        _keep_to_one_core(config)
    gc.set_threshold(100_000, 50, 100)  # tracing makes objects by the million, few of them garbage


def _keep_to_one_core(config: pytest.Config) -> None:
    """Each worker on a core of its own: the compiler starts as many threads as it sees cores.

    4 to 7 % of the processor time of trees and alignments, on two cores.
    """
    cores, number = sorted(os.sched_getaffinity(0)), int(config.workerinput["workerid"][2:])
    if config.workerinput["workercount"] == len(cores):
        os.sched_setaffinity(0, {cores[number]})


def _compile_quickly(config: pytest.Config) -> None:
    """Set XLA_FLAGS, unless it is set, to the options that the compiler knows.

    It would end the process over any other; and it reads them once: so this process asks only where
    others run the tests (seconds sooner), else another one does.
    """
    if "XLA_FLAGS" in os.environ:
        return
    if config.getoption("numprocesses", None):
        os.environ["XLA_FLAGS"] = quickly.flags()
        return
    call = [sys.executable, "-c", "from tests.lib.quickly import flags; print(flags())"]
    asked = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)
    os.environ["XLA_FLAGS"] = asked.stdout.strip()


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """With `-m smoke` alone files without such tests are not imported: two thirds of its time."""
    test = collection_path.match("test_*.py")
    if (
        config.option.markexpr == "smoke"
        and test
        and "mark.smoke" not in collection_path.read_text(encoding="utf-8")
    ):
        return True
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slow files first; xdist, set not to sort files itself, hands them out in order.

    Without --thorough the plain tests alone, and those that are named by file::test.
    """
    tests = pathlib.Path(__file__).parent
    place = {tests / name: number for number, name in enumerate(EARLY)}
    costliest = {tests / name for name in COSTLIEST}
    items.sort(key=lambda item: place.get(item.path, len(place)))
    named = any("::" in argument for argument in config.args)
    if named or config.option.thorough or "thorough" in config.option.markexpr:
        return
    plain: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        if not item.get_closest_marker("thorough"):
            plain[item.path in costliest].append(item)
    kept = thorough.first_combinations(plain[True]) | thorough.each_value_once(plain[False])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _resident_bytes() -> float:
    """What this process holds in memory; infinite where the system has no such table."""
    table = pathlib.Path("/proc/self/statm")
    if not table.exists():
        return math.inf
    return float(table.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _most_bytes() -> float:
    """A fifth of the machine's memory, `MOST_BYTES` at most."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return MOST_BYTES / 2
    return min(MOST_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 5)


def _forget_programs() -> None:
    """Let compiled programs go and give their memory back; glibc keeps it until it is asked to."""
    jax.clear_caches()
    gc.collect()
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


@pytest.fixture(autouse=True, scope="module")
def few_compiled_programs() -> Iterator[None]:
    """Files share programs of equal shapes, but all of them together take gigabytes."""
    yield
    if _resident_bytes() > _allowed[-1] or maps_are_scarce(0.4):
        _forget_programs()
        _allowed.append(max(_most_bytes(), _resident_bytes() + MORE_BYTES))


_allowed = [_most_bytes()]


def _handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.fixture(autouse=True, scope="module")
def handlers_of_signals() -> Iterator[None]:
    """One that a file leaves behind decides how tests of other files end, in the same process."""
    before = _handlers()
    yield
    assert _handlers() == before


@pytest.fixture
def x64() -> Iterator[None]:
    """float64 for one test; the library itself never flips the switch."""
    with jax.enable_x64(True):
        yield
