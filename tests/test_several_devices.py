"""Tests that need several devices, which a process must ask for before it begins."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.conftest import ON_SEVERAL_DEVICES

TESTS = pathlib.Path(__file__).parent


@pytest.mark.thorough
def test_on_four_devices_of_the_processor(pytestconfig: pytest.Config) -> None:
    """All files in one process, which is begun once and shares programs; the smoke tests alone
    where none are thorough."""
    thorough = pytestconfig.option.thorough
    files = [TESTS / name for name in ON_SEVERAL_DEVICES]
    line = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *files]
    line += ["--thorough"] if thorough else ["-m", "smoke"]
    here = os.environ | {"JAX_NUM_CPU_DEVICES": "4"}
    done = subprocess.run(line, env=here, cwd=TESTS.parent, capture_output=True, text=True)
    passed = re.search(r"^(\d+) passed", done.stdout.splitlines()[-1])
    enough = passed and int(passed[1]) >= (10 * len(files) if thorough else 3)
    assert done.returncode == 0 and enough, done.stdout + done.stderr
