"""Random trainings on meshes: what never falls, and the optimum of one device.

    JAX_NUM_CPU_DEVICES=8 python -m tests.solvers.shard_runs --runs=200

Every run draws a training set, a formulation, a way of working sets, C, a number of shards and of
synchronisations, trains in float64 with a certificate each round, and compares: the dual of a round
with the one before it, and primal and dual at the end with those of one device.
`tests.solvers.test_shards` makes a few of them.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import jax
import numpy as np

import jaxstruct as js
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.solvers.cases import random_case

TOLERANCE, MOST_ROUNDS = 1e-7, 300
SHARDS, MEETINGS = (2, 3, 4, 8), (1, 4)
WAYS = (
    ("grown", {"working_sets": "grown", "capacity": 8, "active": 0}),
    ("grown, active", {"working_sets": "grown", "capacity": 8, "active": 4}),
    ("enumerated", {"working_sets": "enumerated", "active": 0}),
    ("enumerated, active", {"working_sets": "enumerated", "active": 3}),
    ("full", {"working_sets": "grown", "capacity": 8, "variant": "full"}),
    ("auto", {"working_sets": "enumerated", "variant": "auto"}),
)
SOFT = tuple(name for name in FORMULATIONS if name != "svm0")
"""Random training sets are not separable."""


class Run(NamedTuple):
    """What a run was and what it found.

    fall: the largest fall of the dual from a round to the next, relative to its last value.
    apart: how far primal and dual are outside those of one device, relative; 0 where the two
    intervals overlap. rounds: on the mesh and on one device.
    """

    seed: int
    way: str
    formulation: str
    C: float
    shards: int
    synchronisations: int
    status: js.Status
    fall: float
    apart: float
    rounds: tuple[int, int]


def one_run(seed: int) -> Run:
    """The run of this seed."""
    random = np.random.default_rng(seed)
    way, options = WAYS[seed % len(WAYS)]
    formulation = SOFT[seed // len(WAYS) % len(SOFT)]
    C = float(10 ** random.uniform(-1, 3))
    shards, synchronisations = int(random.choice(SHARDS)), int(random.choice(MEETINGS))
    case = random_case(seed, n=24, d=3)
    given = {"variant": "subspace", "group": 2, "oracle_batch": 4, "certify_every": 1,
             "synchronisations": synchronisations}  # fmt: skip
    settings = js.Settings(**given | options)
    duals: list[float] = []
    meshes = [None, jax.make_mesh((shards,), ("shards",), devices=jax.devices()[:shards])]
    alone, found = (
        js.fit(
            case.problem(), case.x, case.y, formulation, C, mesh=mesh, settings=settings,
            tolerance=TOLERANCE, max_passes=MOST_ROUNDS,
            callback=None if mesh is None else lambda p: duals.append(p.info.estimate.dual),
        )
        for mesh in meshes
    )  # fmt: skip
    scale = abs(found.dual)
    apart = max(found.dual - alone.primal, alone.dual - found.primal, 0.0) / scale
    fall = max(-float(np.min(np.diff(duals), initial=0.0)), 0.0) / scale
    rounds = found.statistics.passes, alone.statistics.passes
    return Run(
        seed, way, formulation, C, shards, synchronisations, found.status, fall, apart, rounds
    )  # fmt: skip


def main() -> int:
    """Make the runs, print those that are wrong and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    if jax.device_count() < max(SHARDS):
        parser.error(f"give JAX_NUM_CPU_DEVICES={max(SHARDS)}: there are {jax.device_count()}")
    found = []
    with jax.enable_x64(True):
        for seed in range(options.first, options.first + options.runs):
            run = one_run(seed)
            found.append(run)
            if run.fall > 1e-10 or run.apart > 1e-6:
                print("not as on one device:", run, flush=True)
    ended = [run for run in found if run.status == js.Status.CONVERGED]
    more = {k: [run.rounds[0] / run.rounds[1] for run in ended if run.shards == k] for k in SHARDS}
    print(
        f"{len(found)} runs, {len(ended)} of them to {TOLERANCE:g}: largest fall of the dual "
        f"{max(run.fall for run in found):.1e}, primal and dual outside those of one device by "
        f"{max(run.apart for run in found):.1e} at most; rounds for one of one device, median by "
        "shards: " + ", ".join(f"{k}: {np.median(each):.2f}" for k, each in more.items() if each)
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
