"""How a run of the cutting plane algorithm works: its settings, checked and filled in."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax

from jaxstruct.core.checks import check_choice, checked_size, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import runs_on_cpu
from jaxstruct.core.problem import is_tested, reads_differences
from jaxstruct.core.types import PyTree

SMALL_WEIGHTS = 2**15
"""Up to so many weights a dense direction costs less than a second scatter. Where there are more,
1,500 Spanish sentences took 10 s one at a time, 11 s in groups of 4, 19 s in groups of 16."""


def has_small_weights(w: PyTree) -> bool:
    """Whether dense directions of the size of w are worth their cost."""
    return sum(leaf.size for leaf in jax.tree.leaves(w)) <= SMALL_WEIGHTS


class VisitOptions(NamedTuple):
    """Static options of visits.

    Fields:
      group: blocks solved side by side.
      max_steps: pairwise steps a block.
      fading: sweeps end with one of less than this part of the first one's predicted gain.
    """

    group: int
    max_steps: int
    fading: float = 0.0


GROUP, FEWEST_IN_GROUP = 16, 4
"""Blocks solved side by side on one device, and on each of many shards at least: digits on 8 shards
took 11 rounds with groups of 16, 7 with groups of 4."""


class Settings(NamedTuple):
    """How a run works; shape-like, so a change compiles anew.

    Fields:
      variant: "subspace" (algorithm 3, step 10b), "full" (10a, after `warm_passes` of 10b), or
        "auto": subspace, and full from the round on in which block ascent has stalled, where the
        working sets hold at most 2^18 enumerated slots, or 2^16 integers of grown outputs a
        slot, in all; with more than 2^13 only while the relative gap is above 1e-2.
      working_sets: "grown" by the oracle (algorithm 3), "enumerated" (every output of a small
        output space at hand from the start), or "auto": enumerated where the problem can.
      capacity: slots an example at the start; doubled when full, up to max_capacity. None for as
        many as memory allows, at most 64: a growth compiles everything again.
      oracle_batch: examples in one batched oracle call.
      chunks: parts of an exact pass; the examples of a part are called at one w, then visited. 300
        OCR words take 36 rounds with 1, 30 with 4, 8 or 16.
      group: blocks solved side by side, a divisor of oracle_batch; 1 is plain sequential ascent,
        which needs no line search. None for 1 on grown working sets on one CPU (warm, 5 x 5 paths
        take 5.8 s for 11.1 with 16, homologues 7.4 for 14.7, 201 queries .77 for 1.1) and with many
        weights, where a group's line search costs as much as its step, else 16; on a mesh 16 of all
        shards together, at least 4 of each.
      cached_sweeps: sweeps over the planes at hand in each round at most, None for 40 on enumerated
        working sets and 50 on grown ones; a warm round of enumerated working sets that are cut down
        later makes one. With 0 every round of grown working sets is an exact pass alone. They end
        before with one of less than a tenth of the first one's predicted gain, a fifth on grown
        ones.
      active: slots an example that sweeps are restricted to, chosen anew by every oracle call; 0
        for all of them, None for 24 of grown working sets and 8 of enumerated ones of more than 32
        slots.
      certify_every: grown working sets of the subspace variant are certified by a pass at one fixed
        w in every so many rounds, and where the calls of the exact pass say that it is done. 300
        OCR words take 29, 30 and 31 rounds with 5, 30 and 100.
      warm_passes: subspace rounds before the first full one.
      checked_examples: on how many examples the rules of a problem are tried before a run and at
        its end; 0 for none. None for 4, and none where the problem is made
        with tested=True, as this package's are: trying them compiles for seconds.
      synchronisations: how often the shards of a mesh meet in w in each sweep, None for as often as
        there are shards, at least 4 times.
      seed: of the order of the examples.
    """

    variant: str = "auto"
    working_sets: str = "auto"
    capacity: int | None = None
    max_capacity: int = 512
    oracle_batch: int = 64
    chunks: int = 8
    group: int | None = None
    cached_sweeps: int | None = None
    active: int | None = None
    certify_every: int = 30
    warm_passes: int = 1
    checked_examples: int | None = None
    synchronisations: int | None = None
    seed: int = 0


_CHOICES = {
    "variant": ("auto", "subspace", "full"),
    "working_sets": ("auto", "grown", "enumerated"),
}
_LEAST = {
    "capacity": 2, "max_capacity": 2, "oracle_batch": 1, "chunks": 1, "group": 1,
    "cached_sweeps": 0, "active": 0, "certify_every": 1, "warm_passes": 0,
    "checked_examples": 0, "synchronisations": 1, "seed": -(2**31),
}  # fmt: skip
"""The least of each integer; a working set has the slack slot and another one."""


class ResolvedSettings(NamedTuple):
    """The settings of one run with every choice made, by `resolved_settings`.

    Fields:
      enumerated: whether the working sets hold every output from the start. visits: of sweeps.
      active: 0 where sweeps see all slots.
      others: as in `Settings`.
    """

    variant: str
    enumerated: bool
    capacity: int
    max_capacity: int
    oracle_batch: int
    chunks: int
    visits: VisitOptions
    cached_sweeps: int
    active: int
    coverage: float
    certify_every: int
    warm_passes: int
    checked_examples: int
    synchronisations: int
    seed: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Those of `batch_and_group`."""
        return self.oracle_batch, self.visits.group


def check_settings(settings: Settings) -> None:
    """Raise ValueError where a setting does not fit, or it is no Settings."""
    if not isinstance(settings, Settings):
        raise ValueError(f"settings must be Settings(...), got {text_of(settings)}")
    for name, allowed in _CHOICES.items():
        check_choice(name, getattr(settings, name), allowed)
    for name, least in _LEAST.items():
        value = getattr(settings, name)
        if value is not None or Settings._field_defaults[name] is not None:
            checked_size(name, value, least)
    if settings.capacity is not None and settings.capacity > settings.max_capacity:
        raise ValueError(
            f"capacity {settings.capacity} exceeds max_capacity {settings.max_capacity}"
        )
    if settings.active in (1, 2):
        raise ValueError(f"active must be 0 (all slots) or at least 3, got {settings.active}")
    if settings.group is not None and settings.oracle_batch % settings.group:
        raise ValueError(
            f"group must divide oracle_batch, got {settings.group} and {settings.oracle_batch}"
        )


def enumerates(problem: Problem, settings: Settings) -> bool:
    """Whether the working sets hold every output from the start.

    Raises:
      ValueError: enumerated working sets are asked of a problem that cannot list its outputs, or
        of a run without sweeps.
    """
    if settings.working_sets == "enumerated" and problem.oracles.all_outputs is None:
        raise ValueError('working_sets is "enumerated", but the problem has no all_outputs')
    chosen = settings.working_sets != "grown" and problem.oracles.all_outputs is not None
    if chosen and settings.cached_sweeps == 0 and settings.variant != "full":
        raise ValueError(
            "cached_sweeps is 0, but enumerated working sets move by sweeps alone: give at least 1"
        )
    return chosen


def batch_within(batch: int, n: int) -> int:
    """Rows in a batch: no more than n examples may fill, in powers of two."""
    return min(batch, 1 << max(n - 1, 0).bit_length())


def batch_and_group(
    problem: Problem, settings: Settings, n: int, shards: int = 1
) -> tuple[int, int]:
    """(rows in a batch, blocks solved side by side), which decide how examples are padded.

    Args:
      n: examples of a bucket at most. shards: of a mesh, which step side by side, too.
    """
    one_core = runs_on_cpu() and shards == 1
    small = has_small_weights(problem.initial_weights) and not one_core
    together = (small or enumerates(problem, settings)) and not reads_differences(problem)
    batch = batch_within(settings.oracle_batch, n)
    usual = max(FEWEST_IN_GROUP, GROUP // shards) if together else 1
    return batch, math.gcd(settings.group or usual, batch)


def examples_to_check(problem: Problem, settings: Settings) -> int:
    """On how many examples the rules of a problem are tried."""
    if settings.checked_examples is None:
        return 0 if is_tested(problem) else 4
    return settings.checked_examples
