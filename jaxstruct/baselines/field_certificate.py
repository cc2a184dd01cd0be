"""What is proven of the weights of a regularised machine, by a gradient alone.

P is 1/2 |w|^2 and a convex function, so that a (sub)gradient g of P at w says

    P(v) >= P(w) + <g, v - w> + 1/2 |v - w|^2 >= P(w) - 1/2 |g|^2    for all v.

Of a random field this is the value of the dual at the marginals of w (`conditional_random_field`),
and tight at the optimum; of a hinge loss it is a dual value, too, but seldom a tight one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxstruct.core.contract import Problem


class FieldCertificate(NamedTuple):
    """What is proven of some weights of a random field.

    Fields:
      primal: P(w). dual: P(w) - 1/2 |gradient|^2 <= the optimum, up to rounding; -inf where the
        log loss is not convex. gradient_norm: |gradient of P at w|.
    """

    primal: float
    dual: float
    gradient_norm: float

    @property
    def gap(self) -> float:
        """P - D."""
        return self.primal - self.dual


def lower_bound(objective: float, gradient_norm: float, problem: Problem) -> float:
    """P - 1/2 |gradient|^2 where the log loss of the problem is convex in theta; else -inf."""
    bound = objective - gradient_norm**2 / 2
    return bound if problem.inference.facts.convex and math.isfinite(bound) else -math.inf
