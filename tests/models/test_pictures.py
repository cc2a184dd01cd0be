"""Pictures of explanations: every table is drawn, and what is left out is named."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.core.tables import Support
from jaxstruct.models import Explanation, explanation_picture
from jaxstruct.models.explanation import MOST_DRAWN, explain
from tests.lib.refusals import refused
from tests.models.model_cases import model_of


@pytest.mark.parametrize("name", ["chain", "weighted_grammar", "pairwise_alignment"])
def test_every_table_is_drawn(name: str, tmp_path) -> None:
    explanation = explain(model_of(name), largest=3)
    figure = explanation_picture(explanation)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title] == [table.title for table in explanation.tables]
    figure.savefig(tmp_path / "model.png", dpi=40)
    assert (tmp_path / "model.png").stat().st_size > 2000


def test_support_outputs_are_bars_and_further_tables_are_told() -> None:
    table = Support("of example 0", ("A", "B"), np.array([2.0, 1.0]), np.array([1.0, 1.0]))
    figure = explanation_picture(Explanation("model", (table,) * (MOST_DRAWN + 2)))
    assert figure.axes[0].get_xlabel() == "alpha"
    assert [bar.get_width() for bar in figure.axes[0].patches] == [2, 1]
    assert "(2 more tables are not drawn)" in figure.get_suptitle()
    refused("explanation must be an Explanation", explanation_picture, table)
