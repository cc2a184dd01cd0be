"""Named entities in Spanish news: tables 2 and 3, and the constraints of table 3 as printed.

    python -m experiments.named_entities                       # tables 2 and 3, 300 sentences
    python -m experiments.named_entities --growth              # table 3's constraints, as printed

Source: thesis, tables 4.2 and 4.3 (section 4.4.4), the same as JMLR 6:1453-1484, tables 2 and 3.
"""

from __future__ import annotations

from experiments.lib import common
from experiments.named_entities.growth import run_growth
from experiments.named_entities.report import Options
from experiments.named_entities.tables import run_tables


def run(options: Options) -> common.Outcome:
    """Run --growth, or the tables.

    Raises:
      ValueError: an option or a file that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    return run_growth(options) if options.growth else run_tables(options)
