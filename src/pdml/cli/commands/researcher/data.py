"""`pdml data`: the real data sets of the experiments, brought here, listed and found."""

import os
from typing import Annotated, Any

from pdml import _validate
from pdml.cli.options import Json, argument, flag, group
from pdml.cli.render import console
from pdml.errors import DataError

data = group(
    "Bring, list and find the real data sets of the experiments.",
    "They live in the folder PDML_DATA_DIR names or, without it, in your cache folder "
    "(`pdml data path`).",
)


@data.command()
def fetch(
    name: Annotated[str, argument("Which set.", "adult|raetsch|all")],
    force: Annotated[bool, flag("--force", "Download again what is here and right.")] = False,
    as_json: Json = False,
) -> None:
    """Download a data set from its public home, and check its sha256.

    What is here already and right is not downloaded again.

    \b
    Example:
      pdml data fetch adult
    """
    from pdml.research.datasets import fetch as fetching
    from pdml.research.datasets import local
    from pdml.research.datasets.catalogue import SOURCES

    chosen = _validate.choice("the data set", name, (*SOURCES, "all"))
    results: list[dict[str, Any]] = []
    refusals: list[str] = []
    with console.bars("byte") as tell:
        for dataset in SOURCES if chosen == "all" else (chosen,):
            try:
                source = fetching.fetch(
                    dataset, force=force, tell=lambda file, *far: tell({file: far})
                )
            except DataError as refusal:  # another set may be here
                refusals.append(str(refusal))
            else:
                brought = {"downloaded": source is not None, "source": source}
                results.append({"name": dataset, **brought, "files": _files(dataset)})
    if not as_json:
        for result in results:
            how = f"fetched from {result['source']}" if result["downloaded"] else "here already"
            checked = f"{len(result['files'])} files checked in {local.folder()}"
            console.print_text(f"{result['name']}: {how}, {checked}", whole=True)
    elif not refusals:
        console.print_json({"folder": str(local.folder()), "sets": results})
    if refusals:
        raise DataError("; also, ".join(refusals))


@data.command("list")
def listing(as_json: Json = False) -> None:
    """List the data sets: what is here, where, and whether it is right.

    Every sha256 is computed anew.

    \b
    Example:
      pdml data list
    """
    from pdml.research.datasets import local
    from pdml.research.datasets.catalogue import SOURCES

    sets = {name: _files(name) for name in SOURCES}

    def show() -> None:
        for name, files in sets.items():
            for entry in files:
                where = entry["path"] or entry["file"]
                console.print_text(f"{name:<8}  {entry['state']:<8}  {where}", whole=True)
        for name, files in sets.items():
            if any(entry["state"] != "checked" for entry in files):
                console.print_text(f"To get {name}: pdml data fetch {name}")

    listed = [{"name": name, "files": files} for name, files in sets.items()]
    console.print_result(as_json, {"folder": str(local.folder()), "sets": listed}, show)


@data.command()
def path(as_json: Json = False) -> None:
    """Print the folder where data sets are read from and fetched to.

    \b
    Example:
      pdml data path
    """
    from pdml.research.datasets import local

    folder, chosen = local.folder(), bool(os.environ.get(local.VARIABLE))
    summary = {"folder": str(folder), "exists": folder.is_dir(), "chosen_by_variable": chosen}
    console.print_answer(as_json, summary, str(folder))


def _files(name: str) -> list[dict[str, Any]]:
    from pdml.research.datasets.fetch import status

    return [
        {"file": entry.file, "path": str(entry.path) if entry.path else None, "state": entry.state}
        for entry in status(name)
    ]
