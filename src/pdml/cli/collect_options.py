"""What the commands of `pdml collect` share: whose collection, and where it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.collect.store import Store
    from pdml.study import Study

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's file, study.toml.")]
Server = Annotated[
    str,
    typer.Option(metavar="NAME", help="Which of the study's servers this is.", show_default=False),
]
Database = Annotated[
    str,
    typer.Option(
        metavar="FILE|URL",
        envvar="PDML_COLLECT_DB",
        help="SQLite file, or postgresql://...  [default: STUDY_ID-NAME.db]",
        show_default=False,
        show_envvar=False,
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        envvar="PDML_COLLECT_KEYS",
        help="The reports' keys.  [default: beside the file, or STUDY_ID-NAME.keys]",
        show_default=False,
        show_envvar=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


@contextmanager
def opened(
    study: Path, server: str, db: str, keys: Path | None, *, create: bool, asking: bool = False
) -> "Iterator[tuple[Study, str, str, Store]]":
    """The study, the server's name, the database's and the open store; ``asking`` people, or
    freezing their answers for good, needs a study that somebody could train under."""
    from pdml.collect.rules import identity
    from pdml.collect.stores import open_store
    from pdml.study import Study

    contract = Study.load(study)
    if asking:
        from pdml.train import trainable

        trainable.check(contract)
    if not server and len(contract.servers) > 1:
        raise InvalidInput(
            f"the study has several servers: say which with --server {contract.servers[0].name}"
        )
    name = server or contract.servers[0].name
    who = identity(contract, name)
    database = db or f"{contract.id}-{name}.db"
    store = open_store(database, who, create=create, keys=keys)
    try:
        yield contract, name, database, store
    finally:
        store.close()
