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
    from pdml.research.datasets.homes import HOMES

    chosen = _validate.choice("the data set", name, (*HOMES, "all"))
    found: list[dict[str, Any]] = []
    refusals: list[str] = []
    with console.bars("byte") as tell:
        for one in HOMES if chosen == "all" else (chosen,):
            try:
                source = fetching.fetch(one, force=force, tell=lambda file, *far: tell({file: far}))
            except DataError as refusal:  # another set may be at home
                refusals.append(str(refusal))
            else:
                brought = {"downloaded": source is not None, "source": source}
                found.append({"name": one, **brought, "files": _files(one)})
    if not as_json:
        for told in found:
            how = f"fetched from {told['source']}" if told["downloaded"] else "here already"
            checked = f"{len(told['files'])} files checked in {local.folder()}"
            console.say(f"{told['name']}: {how}, {checked}", whole=True)
    elif not refusals:
        console.print_json({"folder": str(local.folder()), "sets": found})
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
    from pdml.research.datasets.homes import HOMES

    sets = {name: _files(name) for name in HOMES}

    def show() -> None:
        for name, files in sets.items():
            for one in files:
                where = one["path"] or one["file"]
                console.say(f"{name:<8}  {one['state']:<8}  {where}", whole=True)
        for name, files in sets.items():
            if any(one["state"] != "checked" for one in files):
                console.say(f"To get {name}: pdml data fetch {name}")

    listed = [{"name": name, "files": files} for name, files in sets.items()]
    console.tell(as_json, {"folder": str(local.folder()), "sets": listed}, show)


@data.command()
def path(as_json: Json = False) -> None:
    """Print the folder where data sets are read from and fetched to.

    \b
    Example:
      pdml data path
    """
    from pdml.research.datasets import local

    folder, chosen = local.folder(), bool(os.environ.get(local.VARIABLE))
    told = {"folder": str(folder), "exists": folder.is_dir(), "chosen_by_variable": chosen}
    console.answer(as_json, told, str(folder))


def _files(name: str) -> list[dict[str, Any]]:
    from pdml.research.datasets.fetch import status

    return [
        {"file": one.file, "path": str(one.path) if one.path else None, "state": one.state}
        for one in status(name)
    ]
