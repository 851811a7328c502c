"""Studies of which the truth is known: false alarms, promised power, changes that are found from what a camera saw, speed,
and what 200 recordings of half an hour cost as files.

`python -m benchmarks.study [nulls] [power] [found] [speed] [files] [--studies 1000] [--cohorts 20] [--json FILE]`, all by
default. Times are of the processor.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.report import table, write
from datasets import cohort
from gdm_core import GDM, Study
from tests.support.known_studies import ANIMALS, CHANGES, DESIGNS, found_from_channels, null, promised

PARTS = ["nulls", "power", "found", "speed", "files"]


def nulls(n_studies: int) -> dict[str, dict[str, float]]:
    """Share of null studies with an alarm, by design."""
    found = {}
    for design in DESIGNS:
        alarms = [null(design, seed) for seed in range(n_studies)]
        found[design] = {name: float(np.mean([one[name] for one in alarms])) for name in alarms[0]}
    return found


def found(n_cohorts: int) -> dict[str, dict[str, Any]]:
    """How many cohorts were told right."""
    results = {}
    for change in CHANGES:
        each = [found_from_channels(change, seed) for seed in range(n_cohorts)]
        results[change] = {
            "found": sum(one["named"] for one in each),
            "that and only that": sum(one["right"] for one in each),
            "of": n_cohorts,
            "said otherwise": [one["said"] for one in each if not one["right"]],
        }
    return results


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and what came of it."""
    started = time.process_time()
    made = work()
    return time.process_time() - started, made


def speed(n_recordings: int = 306, n_samples: int = 14_600, n_states: int = 25) -> dict[str, float]:
    """Processor seconds of what a page waits for."""
    rng = np.random.default_rng(0)
    stays = rng.geometric(1 / 12, (n_recordings, n_samples // 8))
    states = {
        f"r{i:03d}": np.repeat(rng.integers(0, n_states, len(stay)), stay)[:n_samples] for i, stay in enumerate(stays)
    }
    sheet = pd.DataFrame({"recording": list(states), "animal": list(states), "group": np.arange(n_recordings) % 2})
    opened, study = timed(lambda: Study.of_states(states, sheet, rate_hz=25))
    seconds = {"open": opened}
    seconds["measures"], _ = timed(study.measures)
    seconds["compare, 10,000 permutations"], _ = timed(lambda: study.compare("bouts", "group"))
    seconds["flow, 10,000 permutations"], _ = timed(lambda: study.flow("group"))
    seconds["power"], _ = timed(lambda: study.power("bouts", "group", state=3))
    recordings = cohort.simulate(32, minutes=6, seed=1).recordings()
    sheet = pd.DataFrame({"recording": list(recordings), "animal": list(recordings)})
    seconds["fit of 64 recordings of 9,000 x 6, K = 12"], _ = timed(
        lambda: Study.fit(recordings, sheet, GDM(n_states=12, n_latent=6))
    )
    seconds["largest memory (GB)"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return seconds


def files(n_animals: int = 200, minutes: float = 30.0) -> dict[str, float]:
    """Processor minutes and memory of `gdm study`: import, fit and answer, of tables on disk (400 MB)."""
    half = n_animals // 2
    with tempfile.TemporaryDirectory() as folder:
        sheets = []
        for seed in range(0, half, 10):  # ten animals a group at a time
            made = cohort.simulate(
                min(10, half - seed), change=CHANGES["groom 30 % longer"], minutes=minutes, seed=seed
            )
            for name, one in made.recordings().items():
                frame = pd.DataFrame(one.y.round(3), columns=list(one.channels))
                frame.insert(0, "time", np.round(np.arange(len(frame)) / one.rate_hz, 3))
                frame.to_csv(Path(folder) / f"{seed}_{name}.csv", index=False)
            sheet = pd.DataFrame(made.sheet)
            sheets.append(sheet.assign(**{c: f"{seed}_" + sheet[c] for c in ("recording", "animal")}))
        pd.concat(sheets).to_csv(Path(folder) / "sheet.csv", index=False)
        asked = [
            "study",
            f"{folder}/sheet.csv",
            folder,
            "--between",
            "group",
            "--states",
            "6",
            "--latent",
            "6",
            "--json",
        ]
        subprocess.run([sys.executable, "-m", "gdm_studio", *asked], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        f"{n_animals} recordings of {minutes:g} minutes, processor minutes": (used.ru_utime + used.ru_stime) / 60,
        "largest memory (GB)": used.ru_maxrss / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure")
    parser.add_argument("--studies", type=int, default=1_000, help="null studies of each design")
    parser.add_argument("--cohorts", type=int, default=20, help="cohorts fitted for each change")
    parser.add_argument("--json", help="write every number here")
    options = parser.parse_args()
    parts, results = options.parts or PARTS, {}
    if "speed" in parts:
        results["speed"] = speed()
        print(table("Processor seconds", ["what", "s"], list(results["speed"].items())), flush=True)
    if "files" in parts:
        results["files"] = files()
        print(table("gdm study, from files", ["what", "value"], list(results["files"].items())), flush=True)
    if "nulls" in parts:
        results["nulls"] = nulls(options.studies)
        kinds = list(dict.fromkeys(name for one in results["nulls"].values() for name in one))
        rows = [[design, *(one.get(kind, "-") for kind in kinds)] for design, one in results["nulls"].items()]
        print(table(f"Share of {options.studies:,} null studies with an alarm", ["design", *kinds], rows), flush=True)
    if "power" in parts:
        asked = [(design, effect) for design in ("two groups", "paired sessions") for effect in (0.5, 1.0)]
        results["power"] = {f"{d}, {effect:g} sd": promised(d, effect, options.studies) for d, effect in asked}
        rows = [[name, *one.values()] for name, one in results["power"].items()]
        print(table(f"Power of {ANIMALS} animals", ["design", "promised", "found"], rows), flush=True)
    if "found" in parts:
        results["found"] = found(options.cohorts)
        rows = [[name, *one.values()] for name, one in results["found"].items()]
        print(
            table(
                "Changes found from channels", ["change", "found", "that and only that", "of", "said otherwise"], rows
            )
        )
    write(options.json, results)


if __name__ == "__main__":
    main()
