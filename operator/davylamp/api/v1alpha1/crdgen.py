"""Write the CRDs from the models: ``python -m davylamp.api.v1alpha1.crdgen [--check] [folder]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from davylamp.api.v1alpha1.kinds import CATEGORY, GROUP, KINDS, VERSION, Column, Kind
from davylamp.api.v1alpha1.rules import validations
from davylamp.api.v1alpha1.schema import structural

_HEADER: Final = "# Generated from operator/davylamp/api by `python -m davylamp.api.v1alpha1.crdgen`. Do not edit.\n"


def crd(kind: Kind) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _resource(kind)},
        "subresources": {"status": {}} if kind.status else {},
    }
    names = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "shortNames": list(kind.short_names),
        "categories": [CATEGORY],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {"app.kubernetes.io/part-of": "davylamp"}},
        "spec": {
            "group": GROUP,
            "names": {key: value for key, value in names.items() if value},
            "scope": kind.scope.value,
            "versions": [{key: value for key, value in version.items() if value}],
        },
    }


def rendered() -> dict[str, str]:
    """Return the text of each file, by its name."""
    return {f"{kind.crd_name}.yaml": _HEADER + _dump(crd(kind)) for kind in KINDS}


def _resource(kind: Kind) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "apiVersion": {"type": "string", "description": "Version of this representation of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": structural(kind.spec),
    }
    if kind.status:
        properties["status"] = structural(kind.status, defaults=False)
    resource = {"description": kind.description, "type": "object", "required": ["spec"], "properties": properties}
    return resource | (validations(*kind.rules) if kind.rules else {})


def _column(column: Column) -> dict[str, Any]:
    entry = {
        "name": column.name,
        "type": column.type,
        "description": column.description,
        "jsonPath": column.json_path,
    }
    return entry | ({"priority": column.priority} if column.priority else {})


def _dump(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)


def write(folder: Path) -> list[Path]:
    """Write the files into a folder and return those that changed."""
    changed = []
    for name, text in rendered().items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def stale(folder: Path) -> list[str]:
    """Return the names of files in a folder that are missing, differ, or should not be there."""
    texts = rendered()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    return sorted(name for name in texts.keys() | present.keys() if texts.get(name) != present.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="crdgen", description="Write the CustomResourceDefinitions from the models.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("crds"), help="where they are (default: crds)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not as it would be")
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.folder)
        return 0
    names = stale(options.folder)
    for name in names:
        sys.stderr.write(
            f"{options.folder / name} differs from the models: run python -m davylamp.api.v1alpha1.crdgen\n"
        )
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
