"""How tests compile: with the least effort, and what is compiled is kept.

Most of the time of the tests is compiling, and every test program runs for milliseconds.
`eval "$(python -m tests.lib.quickly)"` gives the processes of a shell the same settings.
"""

from __future__ import annotations

import os
import pathlib
import shlex

QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_disable_hlo_passes": ",".join(
        ("while-loop-invariant-code-motion", "tree_reduction_rewriter", "dot-library-rewriter")
    ),
}
"""XLA compiles in a tenth to a third of the time so, and programs run 5 to 11 times as long. The
passes left out make kernels, of which each compiles 6 ms: 135 for 163 in a chain's oracle, and 3 to
16 % of the processor time of seven files."""


def settings() -> dict[str, str]:
    """Variables of the environment that count from the import of jax on, where they are not set."""
    found = {
        # Matrices of the tests are small: threads of BLAS only wait for one another.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        # Where in the source an operation was written is not recorded: a twelfth of the time.
        "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
        "JAXSTRUCT_PLAIN": "1",
    }
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        kept = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        found["JAX_COMPILATION_CACHE_DIR"] = str(kept / "jaxstruct" / "tests")
        # Half of the processor time of a file whose programs are all there (15.4 s and 7.6 s).
        found["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return {name: value for name, value in found.items() if name not in os.environ}


def flags() -> str:
    """XLA_FLAGS: those that the compiler knows, since it would end the process over any other.

    It reads them once, so that they are without effect in the process that asks.
    """
    from jaxstruct.core.compiler import knows

    known = [(name, value) for name, value in QUICK.items() if knows(name, value)]
    return " ".join(f"--{name}={str(value).lower()}" for name, value in known)


if __name__ == "__main__":
    chosen = settings()
    os.environ.update(chosen)
    if "XLA_FLAGS" not in os.environ:
        chosen["XLA_FLAGS"] = flags()
    for name, value in chosen.items():
        print(f"export {name}={shlex.quote(value)}")
