"""The API reference: every public name, parameter and option says what it is; what the library offers is what is recorded."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from docs.site.docstrings import as_rst
from docs.site.modules import MODULES
from docs.surface import CHANGES, RECORD, changed, surface, unnamed
from gdm_core.deprecation import deprecated
from gdm_core.errors import DataError
from gdm_core.models.base import StateModel
from gdm_studio.cli import build_parser

# The engine's parts are described by their class; what follows is what people write programs with.
PROMISED = [name for name in MODULES if not name.startswith("gdm_core.engine")]
ROOT = Path(__file__).resolve().parents[2]
FORECAST = ("Forecast", "coverage", "width")  # the rest of that module serves the models
OURS = ("gdm_core", "datasets")


def public(module_name: str) -> Iterator[tuple[str, Any]]:
    """The classes and functions that a module offers."""
    module = import_module(module_name)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module_name]
    names = getattr(module, "__all__", None) or own
    if module_name == "gdm_core.forecast":
        names = FORECAST
    for name in names:
        value = getattr(module, name)
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            yield f"{module_name}.{name}", value


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls", "args", "kwargs")]


def undescribed(where: str, made: Any, docstring: str) -> list[str]:
    words = set(re.findall(r"\w+", docstring))
    return [f"{where}({name})" for name in parameters(made) if name not in words and not name.startswith("_")]


def of_class(where: str, kind: type) -> list[str]:
    """What a class and its public methods leave unsaid."""
    docstring = inspect.getdoc(kind) or ""
    found = []
    if not issubclass(kind, Exception | enum.Enum):
        described = (
            docstring + " " + (getattr(kind, "config_class", kind).__doc__ or "") + (kind.__init__.__doc__ or "")
        )
        found = undescribed(where, kind.__init__, described)
    for name, member in inspect.getmembers(kind):
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not (inspect.isfunction(function) or inspect.ismethod(function)):
            continue
        if not function.__module__.startswith(OURS):
            continue
        said = inspect.getdoc(getattr(kind, name)) or ""
        found += undescribed(f"{where}.{name}", function, said) if said else [f"{where}.{name}"]
    return found


@pytest.mark.parametrize("module", PROMISED)
def test_every_public_name_and_parameter_is_described(module):
    left: list[str] = []
    for where, value in public(module):
        if not inspect.getdoc(value):
            left.append(where)
        elif inspect.isclass(value):
            left += of_class(where, value)
        else:
            left += undescribed(where, value, inspect.getdoc(value) or "")
    assert not left


def test_what_is_not_described_is_found():
    def silent(number: int) -> None:
        """Says nothing of what it takes."""

    @dataclasses.dataclass
    class Half:
        """first   is described."""

        first: int
        second: int

        @property
        def third(self) -> int:
            return 3

    Half.third.fget.__module__ = "gdm_core"
    assert undescribed("f", silent, silent.__doc__ or "") == ["f(number)"]
    assert of_class("Half", Half) == ["Half(second)", "Half.third"]


@pytest.mark.parametrize("folder", ["gdm_core", "datasets", "pages", "gdm_studio"])
def test_no_docstring_describes_the_same_names_twice(folder):
    twice = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                entries = re.findall(r"^[\w, ]+? {2,}\S.*$", ast.get_docstring(node) or "", re.M)
                twice += [f"{path.relative_to(ROOT)}: {one}" for one in set(entries) if entries.count(one) > 1]
    assert not twice


def test_every_option_of_the_command_has_a_sentence():
    commands = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    silent = [
        f"{name} {action.option_strings or action.dest}"
        for name, parser in commands.choices.items()
        for action in parser._actions
        if not action.help
    ]
    assert not silent


def test_the_page_on_the_api_names_what_there_is():
    """Every module of the reference and what is named beside it, and every command."""
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    rows = [re.findall(r"`(.+?)`", line) for line in page.splitlines() if line.startswith("| `")]
    modules = [name for row in rows for name in row if name.startswith("gdm_core")]
    assert {name for name in MODULES if name.startswith("gdm_core")} - set(modules) <= {"gdm_core.errors"}
    for module, *named in (row for row in rows if row[0].startswith("gdm_core")):
        offers = (import_module(module), StateModel)
        missing = [name for name in named if name.isidentifier() and not any(hasattr(one, name) for one in offers)]
        assert not missing, module
    commands = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert {row[0].split()[1] for row in rows if row[0].startswith("gdm ")} == set(commands.choices)


def test_columns_of_names_and_words_become_a_list():
    text = "A verb.\n\nn_states (K), lags   how many\nreadout              how, in\n                     two lines\n\nThe end."
    assert (
        as_rst(text)
        == "A verb.\n\n* ``n_states`` (K), ``lags``: how many\n\n* ``readout``: how, in two lines\n\nThe end.\n"
    )
    assert as_rst("Takes `x` of *all*, a_ and | b.\n\n    y = f(x)") == (
        "Takes ``x`` of \\*all\\*, a\\_ and \\| b.\n\n::\n\n    y = f(x)\n"
    )


# ---- what the library offers ----------------------------------------------------------------------------------------
def test_the_record_is_what_the_library_offers():
    recorded = RECORD.read_text(encoding="utf-8").splitlines()
    names = changed(recorded, surface())
    silent = unnamed(names, CHANGES.read_text(encoding="utf-8"))
    assert not names, (
        f"The public surface changed in {sorted(names)}. Say so in CHANGELOG.md"
        f"{' (missing: ' + ', '.join(silent) + ')' if silent else ''}, then run: python -m docs.surface"
    )


def test_a_change_is_found_and_has_to_be_named():
    before = ["GDM.fit(self, trials)", "evaluate(model)", "Trial.seconds: float", "Status.CONVERGED = 'converged'"]
    after = ["GDM.fit(self, trials, labels)", "evaluate(model)", "Status.CONVERGED = 'converged'"]
    assert changed(before, after) == {"GDM.fit", "Trial.seconds"}
    log = "# Changes\n\n## 1.1\n- `GDM.fit(labels=...)` takes words.\n\n## 1.0\n- `seconds` of a trial.\n"
    assert unnamed({"GDM.fit", "Trial.seconds"}, log) == ["Trial.seconds"]


def test_what_is_deprecated_works_and_says_what_to_use():
    @deprecated("old.double", since="1.0", use="new.double")
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    with pytest.warns(DeprecationWarning, match=r"old.double goes \(since 1.0\); use new.double") as told:
        assert double(4) == 8
    assert told[0].filename == __file__
    assert double.__doc__ == "Twice."
    from gdm_core.metrics import evaluate

    with pytest.warns(DeprecationWarning, match=r"use gdm_core\.evaluate"), pytest.raises(DataError):
        evaluate(None, None, None)
