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
from jaxstruct.core.compile_clock import compile_clock


def measured(model: str, source: str, folder: str, devices: int) -> dict[str, Any]:
    """Seconds, those of compiling apart, and bytes of memory.

    seconds and compiling are wall time, working is processor time without compiling.
    """
    options = command.Options(
        model=model,
        input=(source,),
        output=folder,
        devices=devices,
        progress=False,
        compilation_cache=False,
    )
    begun = time.process_time() - compile_clock().read().process
    with contextlib.redirect_stdout(sys.stderr):
        run = command.run(options)
    working = time.process_time() - compile_clock().read().process - begun
    return {
        "records": run.counts.records, "bad": run.counts.bad, "seconds": run.seconds,
        "compiling": run.compiling, "working": working, "memory": peak_memory_bytes(),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))))
