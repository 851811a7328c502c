"""A wheel of the running library: exported scripts install it where no package index has this project."""

from __future__ import annotations

import csv
import hashlib
import io
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from functools import cache
from importlib import metadata

from gdm_core import __version__
from gdm_studio.paths import APP

NAME, VERSION = "gdm_studio", f"{__version__}+library"  # without the dashboard
FILE = f"{NAME}-{VERSION}-py3-none-any.whl"
_PROJECT = APP / "pyproject.toml"  # of a checkout
_ROOT = APP.parent.parent if APP.name == "_app" else APP
_FOLDERS = {_ROOT / "gdm_core": "gdm_core", _ROOT / NAME: NAME, APP / "datasets": f"{NAME}/_app/datasets"}
_LEFT_OUT = {"__pycache__", "_app"}


def requirements() -> list[str]:
    """Return what the library needs, from the checkout or from the installed package."""
    if _PROJECT.is_file():
        return list(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"])
    return metadata.requires("gdm-studio") or []


@cache
def build() -> bytes:
    """Return the wheel's content: gdm_core, gdm_studio and the loaders of data."""
    files = {
        f"{place}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for folder, place in _FOLDERS.items()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _LEFT_OUT & set(path.relative_to(folder).parts)
    }
    about = f"{NAME}-{VERSION}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requirements())
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: gdm-studio\nVersion: {VERSION}\n{needs}".encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: gdm-studio\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = io.StringIO()
    for path, content in files.items():
        digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        csv.writer(record).writerow([path, f"sha256={digest}", len(content)])
    csv.writer(record).writerow([f"{about}/RECORD", "", ""])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in (files | {f"{about}/RECORD": record.getvalue().encode()}).items():
            archive.writestr(path, content)
    return buffer.getvalue()
