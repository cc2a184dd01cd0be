"""The picture of a run beside that of the last commit: `python .ci/picture.py RUN STEP=SECONDS ..`.

RUN is the file that `pytest --picture` wrote. Pictures are kept by commit in `.ci/pictures.json`,
which no commit holds: seconds belong to the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KEPT = Path(__file__).parent / "pictures.json"
COMMITS = 20
"""So many are kept."""


def flat(run: dict) -> dict[str, float]:
    """Rows of a table: folders by falling seconds, then what there is one of."""
    rooms = sorted(run["seconds"].items(), key=lambda row: -row[1])
    rows = {f"{room} (s)": value for room, value in rooms}
    rows["all tests, by one worker (s)"] = round(sum(run["seconds"].values()), 1)
    rows |= {f"step {step} (s)": value for step, value in run["steps"].items()}
    rows |= {"tests": run.get("passed", 0), "programs compiled": run["programs"]}
    return rows | {"peak of a worker (MiB)": run["peak"]}


def table(now: dict, last: dict | None, name: str) -> str:
    """The rows of now, beside those of the last commit where there are any."""
    rows, before = flat(now), flat(last) if last else {}
    lines = [f"{'':32}{'now':>10}{name:>14}{'':>8}"]
    for row, value in rows.items():
        old = before.get(row)
        change = f"{value / old - 1:+8.0%}" if old else ""
        lines.append(f"{row:32}{value:10g}{'' if old is None else format(old, 'g'):>14}{change}")
    return "\n".join(lines)


def main(run: str, *steps: str) -> None:
    """Print the table and keep the picture."""
    line = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    commit = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    now = json.loads(Path(run).read_text(encoding="utf-8"))
    now["steps"] = {name: int(value) for name, value in (step.split("=") for step in steps)}
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept.pop(commit, None)
    name = next(reversed(kept), None)
    print(table(now, kept.get(name), name or "no other run"))
    for test, seconds in now["slowest"].items():
        print(f"{seconds:8.1f} s  {test}")
    if name is None:
        print(
            f"{KEPT} has no run of another commit to compare with; the next run compares with this"
        )
    kept[commit] = now
    KEPT.write_text(json.dumps(dict(list(kept.items())[-COMMITS:])), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
