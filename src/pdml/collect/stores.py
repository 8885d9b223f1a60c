"""Which store a name means: a file is SQLite, a postgresql:// address is PostgreSQL."""

from pathlib import Path
from urllib.parse import urlsplit

from pdml.collect.store import Identity, Store, no_collection
from pdml.errors import InvalidInput


def open_store(
    database: str, identity: Identity, *, create: bool, keys: Path | None = None
) -> Store:
    """Open the collection of ``identity`` in ``database``; with ``create`` it is made if there is
    none.

    ``keys`` is the folder of its keys: beside a file unless given, and for PostgreSQL in the folder
    the program runs in.
    """
    if urlsplit(database).scheme in ("postgresql", "postgres"):
        try:
            from pdml.collect.postgres import PostgresStore
        except ModuleNotFoundError as missing:
            raise InvalidInput(
                f"PostgreSQL needs the package {missing.name}: pip install 'pdml[collect]'"
            ) from None

        keys = keys or Path(f"{identity.study_id}-{identity.server}.keys").absolute()
        return PostgresStore(database, identity, keys=keys, create=create)
    if "://" in database:
        raise InvalidInput(
            f"db must be a file or postgresql://..., got {database.partition('://')[0]}://..."
        )
    from pdml.collect.sqlite import SqliteStore

    path = Path(database)
    if not create and not path.exists():
        raise no_collection(str(path))
    return SqliteStore(path, identity, keys=keys)


def shown(database: str) -> str:
    """The database's name for people, without a password."""
    parts = urlsplit(database)
    if parts.scheme in ("postgresql", "postgres"):
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
    return database
