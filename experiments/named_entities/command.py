"""Named entities in Spanish news: tables 2 and 3, the whole corpus, and files of your own.

    python -m experiments.named_entities                       # tables 2 and 3, 300 sentences
    python -m experiments.named_entities --growth              # table 3's constraints, as printed
    python -m experiments.named_entities --speed               # 300 sentences beside CRFsuite
    python -m experiments.named_entities --whole               # all 8,323 sentences
    python -m experiments.named_entities --train=a.conll --test=b.conll --model=names.npz
    python -m experiments.named_entities --model=names.npz --predict=c.conll

Source: thesis, tables 4.2 and 4.3 (section 4.4.4), the same as JMLR 6:1453-1484, tables 2 and 3.
"""

from __future__ import annotations

from experiments.lib import common
from experiments.named_entities.files import run_files
from experiments.named_entities.growth import run_growth
from experiments.named_entities.options import Options
from experiments.named_entities.speed import run_contender, run_speed
from experiments.named_entities.tables import run_tables


def run(options: Options) -> common.Outcome:
    """Run what the options name: files of your own, --whole or --speed, or the tables.

    Raises:
      ValueError: an option or a file that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    if any((options.train, options.test, options.predict, options.model)):
        return run_files(options)
    if options.whole + options.speed + options.growth > 1:
        raise ValueError("whole, speed, growth: choose one")
    if options.growth:
        return run_growth(options)
    return run_speed(options) if options.whole or options.speed else run_tables(options)


def main(options: Options) -> None:
    """Run all, or the one contender that the options name."""
    if options.contender == "both":
        run(options)
    else:
        run_contender(options)
