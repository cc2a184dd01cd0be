"""The dual over a whole working set S, solved to its optimum on the host, in float64.

With phi_r = s delta Psi_i(y) of the constraint r = (i, y) in S (see `formulations`) it is

    max  sum_r beta_r b_r - 1/2 sum_rq beta_r beta_q J_rq,   J_rq = <phi_r, phi_q> + [i = j] r_i,
         beta >= 0,  sum_{r of i} beta_r + beta_i0 = cap_i,

where beta_i0 is the slack slot of example i: its plane and bound are 0, and its multiplier is
infinite where there is no cap. A step moves as much as is best from the constraint (or the slack
slot) of least gradient that has some to the one of largest gradient of the same example, where
these differ most. At the optimum they differ nowhere: H(y) = xi_i wherever beta_iy > 0, and
H(y) <= xi_i in all of S. So the difference is the violation that is left, in the units of epsilon.

Now and then one step goes to the best point of the face on which the multipliers are now, by
conjugate gradients, or to where it leaves the face: single steps alone crawl where planes are many
and depend on one another.

This is plain and exact, for `reference_algorithm`; a step costs O(|S|) and memory is |S|^2 numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_PATIENCE = 20
"""Single steps between two walks over faces, and one for every four constraints of a face. Without
walks single steps crawl: 10 examples with 29 planes took 4,684 of them, with walks 529."""
_REFRESH = 10_000
"""Steps after which the gradient is computed anew."""
_MOST_ITERATIONS = 200
"""Conjugate gradients on one face, at most."""
_FLAT = 1e-13
"""Curvature of a direction, relative to its terms, below which it is rounding."""
_FIRST = 64
"""Constraints that arrays are made for at the start; doubled when full."""


class WorkingSetDual:
    """S, its multipliers and what they are worth.

    Attributes:
      size: |S|. examples: [m] i of each constraint. bounds: [m] b. gram: [m, m] <phi_r, phi_q>.
      multipliers: [m] beta. rest: [n] beta_i0, the multipliers of the slack slots.
      steps: made so far.
    """

    def __init__(self, cap: np.ndarray, ridge: np.ndarray) -> None:
        """S without a constraint; cap, ridge: [n] as in `formulations`."""
        self.size, self.steps, self._fresh = 0, 0, 0
        self.rest, self.ridge = np.array(cap, np.float64), np.array(ridge, np.float64)
        self._gram = np.zeros((_FIRST, _FIRST))
        self._numbers = np.zeros((3, _FIRST))  # b, beta, gradient
        self._examples = np.zeros(_FIRST, np.int64)
        self._order, self._starts = np.zeros(0, np.int64), np.zeros(0, np.int64)

    @property
    def examples(self) -> np.ndarray:
        """[m] the example of each constraint."""
        return self._examples[: self.size]

    @property
    def bounds(self) -> np.ndarray:
        """[m] b."""
        return self._numbers[0, : self.size]

    @property
    def multipliers(self) -> np.ndarray:
        """[m] beta."""
        return self._numbers[1, : self.size]

    @property
    def _gradient(self) -> np.ndarray:
        """[m] b - J beta."""
        return self._numbers[2, : self.size]

    @property
    def gram(self) -> np.ndarray:
        """[m, m] <phi_r, phi_q>."""
        return self._gram[: self.size, : self.size]

    def sums(self) -> np.ndarray:
        """[n] sum of the multipliers of each example."""
        return np.bincount(self.examples, self.multipliers, self.rest.size)

    def required(self) -> np.ndarray:
        """[m] H(y) = b - <w, phi> of each constraint of S."""
        return self._gradient + (self.ridge * self.sums())[self.examples]

    def largest(self) -> np.ndarray:
        """[n] xi_i as S has it: max(0, max over S_i of H(y)) (algorithm 3, line 8)."""
        found = np.zeros(self.rest.size)
        np.maximum.at(found, self.examples, self.required())
        return found

    def products(self) -> np.ndarray:
        """[n] <w, sum_y beta phi_i(y)>."""
        weighed = self.multipliers * (self.bounds - self.required())
        return np.bincount(self.examples, weighed, self.rest.size)

    def value(self) -> float:
        """D(beta) = beta' (b + gradient) / 2, since J beta = b - gradient."""
        return float(self.multipliers @ (self.bounds + self._gradient)) / 2

    def margin_bound(self) -> float:
        """|w| / sum beta: no weights have a larger geometric margin on S; infinite at beta = 0."""
        total, norm = float(np.sum(self.multipliers)), float(np.sum(self.products()))
        return math.sqrt(max(norm, 0.0)) / total if total > 0 else math.inf

    def add(self, example: int, bound: float, row: np.ndarray) -> None:
        """One constraint more, of multiplier 0.

        Args:
          example: i. bound: b. row: [m + 1] <phi, phi_r> with S and, last, with itself.
        """
        m = self.size
        if m == self._examples.size:
            self._grow()
        self._gram[m, : m + 1] = self._gram[: m + 1, m] = row
        self._examples[m], self.size = example, m + 1
        same = self.examples[:m] == example
        ridged = row[:m] + np.where(same, self.ridge[example], 0.0)
        self._numbers[:, m] = bound, 0.0, bound - ridged @ self._numbers[1, :m]
        self._order = np.argsort(self.examples, kind="stable")
        blocks = self.examples[self._order]
        self._starts = np.flatnonzero(np.concatenate([[True], blocks[1:] != blocks[:-1]]))

    def _grow(self) -> None:
        more = self._examples.size
        self._gram = np.pad(self._gram, (0, more))
        self._numbers = np.pad(self._numbers, ((0, 0), (0, more)))
        self._examples = np.pad(self._examples, (0, more))

    def _widest(self, only: int | None) -> tuple[float, int, int, int]:
        """(difference of the gradients, example, constraint that gains, constraint that gives).

        -1 is the slack slot. only: look at this example alone.
        """
        gradient, beta, order = self._gradient, self.multipliers, self._order
        if only is not None:
            order = np.flatnonzero(self.examples == only)
        own, carried = gradient[order], beta[order] > 0
        starts = self._starts if only is None else np.zeros(min(1, order.size), np.int64)
        if not starts.size:
            return 0.0, 0, -1, -1
        blocks = self.examples[order[starts]]
        most = np.maximum(np.maximum.reduceat(own, starts), 0)
        least = np.minimum.reduceat(np.where(carried, own, np.inf), starts)
        least = np.where(self.rest[blocks] > 0, np.minimum(least, 0), least)
        at = int(np.argmax(most - least))
        end = starts[at + 1] if at + 1 < starts.size else order.size
        inside = order[starts[at] : end]
        up = int(inside[np.argmax(gradient[inside])]) if most[at] > 0 else -1
        givers = inside[beta[inside] > 0]
        slack_gives = self.rest[blocks[at]] > 0 and least[at] == 0
        down = -1 if slack_gives or not givers.size else int(givers[np.argmin(gradient[givers])])
        return float(most[at] - least[at]), int(blocks[at]), up, down

    def _step(self, difference: float, example: int, up: int, down: int) -> None:
        """Moves as much from `down` to `up` as is best, or all there is (lemma 1, corollary 2)."""
        direction = np.zeros(self.size)
        within = self.examples == example
        for constraint, sign in ((up, 1.0), (down, -1.0)):
            if constraint >= 0:
                direction += sign * self.gram[constraint]
                direction[within] += sign * self.ridge[example]
        curvature = sum(sign * direction[c] for c, sign in ((up, 1), (down, -1)) if c >= 0)
        available = self.multipliers[down] if down >= 0 else self.rest[example]
        best = difference / curvature if curvature > 0 else np.inf
        move = min(best, available)
        self._gradient[:] -= move * direction
        for constraint, change in ((up, move), (down, -move)):
            if constraint >= 0:
                left = self.multipliers[constraint] + change
                self.multipliers[constraint] = 0.0 if change == -available else left
            elif np.isfinite(self.rest[example]):
                left = self.rest[example] + change
                self.rest[example] = 0.0 if change == -available else left

    def solve(
        self,
        exactness: float,
        *,
        only: int | None = None,
        least_margin: float = 0.0,
        most_steps: int = 10**6,
    ) -> bool:
        """The multipliers of the optimum over S, from where they are; D never falls.

        Args:
          exactness: H(y) - xi_i is at most this in S, and at least minus this where beta_iy > 0.
          only: optimise over S_i of this example alone (step 10b).
          least_margin: of a hard margin, give up once it is proven to be below.
          most_steps: bound on the steps of this call.

        Returns:
          Whether it was solved.
        """
        if self.steps - self._fresh > _REFRESH:
            self._refresh()
        patience = _PATIENCE
        for _ in range(most_steps):
            difference, *pair = self._widest(only)
            solved = difference <= exactness
            if least_margin > 0 and self.margin_bound() <= least_margin:
                return False
            if solved:
                return True
            self._step(difference, *pair)
            self.steps, patience = self.steps + 1, patience - 1
            if patience <= 0:
                patience = _PATIENCE + self._walk_faces(only, exactness) // 4
        return False

    def _walk_faces(self, only: int | None, exactness: float) -> int:
        """From face to smaller face up to one that holds its best point; its constraints."""
        size, within = self._face_step(only, exactness)
        while not within:
            size, within = self._face_step(only, exactness)
        return size

    def _face_step(self, only: int | None, exactness: float) -> tuple[int, bool]:
        """To the best point of the face, or to its border: (its constraints, no border met)."""
        free = np.flatnonzero(self.multipliers > 0)
        if only is not None:
            free = free[self.examples[free] == only]
        blocks, index = np.unique(self.examples[free], return_inverse=True)
        tight, sizes = self.rest[blocks] <= 0, np.bincount(index, minlength=blocks.size)

        def inside(d: np.ndarray) -> np.ndarray:
            """d without what would change the sum of an example whose slack slot is empty."""
            means = np.bincount(index, d, blocks.size) / np.maximum(sizes, 1)
            return d - np.where(tight, means, 0.0)[index]

        gram, ridge = self.gram[np.ix_(free, free)], self.ridge[blocks]

        def curved(d: np.ndarray) -> np.ndarray:
            return inside(gram @ d + (ridge * np.bincount(index, d, blocks.size))[index])

        steepest = float(np.max(np.diag(gram), initial=0.0))
        d = _conjugate_gradients(curved, inside(self._gradient[free]), exactness / 10, steepest)
        sums = np.bincount(index, d, blocks.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(d < 0, self.multipliers[free] / -d, np.inf)
            filled = np.where((sums > 0) & ~tight, self.rest[blocks] / sums, np.inf)
        most = min(float(ends.min(initial=np.inf)), float(filled.min(initial=np.inf)))
        part = min(1.0, most)
        changed = np.maximum(self.multipliers[free] + part * d, 0.0)
        self.multipliers[free] = np.where(ends <= part, 0.0, changed)
        left = np.maximum(self.rest[blocks] - part * sums, 0.0)
        finite = np.isfinite(left) & ~tight
        self.rest[blocks[finite]] = np.where(filled <= part, 0.0, left)[finite]
        self._refresh()
        return free.size, most > 1 or not free.size

    def _refresh(self) -> None:
        """The gradient from the multipliers anew, so that rounding does not add up."""
        ridges = (self.ridge * self.sums())[self.examples]
        self._gradient[:] = self.bounds - self.gram @ self.multipliers - ridges
        self._fresh = self.steps


def _conjugate_gradients(
    curved: Callable[[np.ndarray], np.ndarray],
    residual: np.ndarray,
    allowed: float,
    steepest: float,
) -> np.ndarray:
    """d with curved(d) = residual to `allowed` in each entry, from d = 0, or as near as it comes.

    Every iterate raises residual' d - d' curved(d) / 2, which falls nowhere between it and 0.
    Directions that are flat beside the steepest, of curvature `steepest`, are left out: a step
    along them would be rounding alone.
    """
    d, direction, size = np.zeros_like(residual), residual.copy(), float(residual @ residual)
    for _ in range(min(residual.size, _MOST_ITERATIONS)):
        if np.max(np.abs(residual), initial=0.0) <= allowed:
            break
        image = curved(direction)
        curvature = float(direction @ image)
        if curvature <= _FLAT * float(direction @ direction) * steepest:
            break
        length = size / curvature
        d, residual = d + length * direction, residual - length * image
        size, before = float(residual @ residual), size
        direction = residual + size / before * direction
    return d
