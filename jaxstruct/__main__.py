"""`python -m jaxstruct`: does it work here? A small machine, trained and certified.

`python -m jaxstruct --version` prints the versions that a report of a defect should name.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import platform
import sys
import time

from jaxstruct.core.compiler import record_of_passing

USED = ("jax", "jaxlib", "numpy", "optax")


def versions() -> str:
    """The versions of jaxstruct, of what it rests on and of Python, one a line."""
    import jaxstruct

    lines = [f"jaxstruct {jaxstruct.__version__}"]
    lines += [f"{name} {importlib.metadata.version(name)}" for name in USED]
    return "\n".join([*lines, f"python {platform.python_version()} on {platform.platform()}"])


def check_installation() -> bool:
    """Trains three classes of points, prints the certificate, and says whether it holds.

    Returns:
      Whether the run converged, its dual is at most its primal, and its weights predict.
    """
    import jax
    import numpy as np

    import jaxstruct as js

    random = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"] * 100)
    rows = random.normal(size=(300, 8)) + 2 * np.eye(3, 8)[np.arange(300) % 3]
    data = js.multiclass.prepare(rows.astype(np.float32), labels)
    begun = time.perf_counter()
    solution = js.fit(*data, "svm1_margin", C=100.0)
    seconds = time.perf_counter() - begun
    predicted = np.array(data.encoding.decode(js.predict(data.problem, solution, data.inputs)))
    print(
        f"device {jax.devices()[0]}, three classes, 300 points: {seconds:.1f} s, mostly compiling"
    )
    print(f"status {solution.status}: {solution.message}")
    print(f"dual {solution.dual:.5f} <= optimum <= primal {solution.primal:.5f}")
    print(f"wrong in training {np.mean(predicted != labels):.1%}")
    rounding = 1e-5 * abs(solution.primal)
    ordered = solution.dual <= solution.primal + rounding
    return bool(solution.status.solved and ordered and np.mean(predicted != labels) < 0.3)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m jaxstruct", description=__doc__)
    parser.add_argument("--version", action="store_true", help="print versions, and do no more")
    if parser.parse_args(arguments).version:
        print(versions())
        return 0
    holds = check_installation()
    if holds:  # ends the warning of a JAX newer than those that were tried
        record = record_of_passing()
        with contextlib.suppress(OSError):
            record.parent.mkdir(parents=True, exist_ok=True)
            record.touch()
    print(
        "jaxstruct works here" if holds else "jaxstruct does not work here: report the lines above"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
