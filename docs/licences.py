"""Every package that an installation pulls in, with its licence: the second half of `make audit`.

Exits with 1 where a licence is unknown or asks for more than naming it (the GPL and its kin), so that somebody looks.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
# What a torch built for CUDA brings along, under NVIDIA's own terms: free to use, and nothing of it is passed on here.
_OF_CUDA = re.compile(r"(nvidia|cuda)-")
_STRICT = re.compile(r"(?<![LM])GPL|AGPL|SSPL|proprietary|commercial", re.I)


def licence_of(package: Distribution) -> str:
    """As the package says it: an expression, a classifier, the first line of its licence field or file."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return str(expression)
    classified = [c.split(" :: ")[-1] for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    field = (about.get("License") or "").strip().splitlines()
    return ", ".join(classified) or (field[0][:60] if field else "") or _heading_of_file(package)


def _heading_of_file(package: Distribution) -> str:
    """The first line of a licence file, for packages that say it nowhere else."""
    for file in package.files or []:
        if re.match(r"licen[cs]e|copying", file.name, re.I) and ".dist-info" in str(file):
            lines = file.read_text().strip().splitlines()
            return lines[0].strip()[:60] if lines else ""
    return ""


def closure(names: list[str]) -> dict[str, Distribution]:
    """The packages named and all that they need here, by name."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:  # for another platform, or an extra that nobody asked for
            continue
        found[name] = package
        for line in package.requires or []:
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                waiting.append(need.name)
    return found


def objection(licence: str, name: str = "") -> str:
    """Why somebody should look at the licence of a package; empty where nobody need."""
    if _OF_CUDA.match(name):
        return ""
    if not licence:
        return "says no licence"
    if _STRICT.search(licence) and " OR " not in licence:
        return "asks for more than naming it"
    return ""


def main() -> int:
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(), re.M)
    objections = 0
    for name, package in sorted(closure(names).items()):
        licence = licence_of(package)
        why = objection(licence, name)
        objections += bool(why)
        print(f"{name:28} {package.version:14} {licence}{'   <- ' + why if why else ''}")
    return int(objections > 0)


if __name__ == "__main__":
    sys.exit(main())
