"""python -m experiments.bulk_speed.part MODEL FILE FOLDER DEVICES: one file in its own process.

Prints one line of JSON: what `label_files` measured, and the peak memory of the process.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

from experiments.label_files import command
from experiments.lib.record import peak_memory_bytes


def measured(model: str, source: str, folder: str, devices: int) -> dict[str, Any]:
    """Seconds of wall and processor time, those of compiling apart, and bytes of memory."""
    options = command.Options(
        model, (source,), folder, devices=devices, progress=False, compilation_cache=False
    )
    with contextlib.redirect_stdout(sys.stderr):
        run = command.run(options)
    return {
        "records": run.counts.records, "bad": run.counts.bad, "seconds": run.seconds,
        "compiling": run.compiling, "processor": time.process_time(), "memory": peak_memory_bytes(),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))))
