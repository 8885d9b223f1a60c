"""Where reports are kept: a file is SQLite, a postgresql:// address is PostgreSQL."""

from pathlib import Path
from urllib.parse import urlsplit

from pdml import extras
from pdml.collector.storage.records import CollectionId, no_collection
from pdml.collector.storage.store import Machine, Store
from pdml.errors import InvalidInput


def open_store(
    database: str,
    collection_id: CollectionId,
    *,
    create: bool,
    keys: Path | None = None,
    machine: Machine | None = None,
) -> Store:
    """Open a collection; with ``create`` it is made if there is none. ``keys``: the folder of its
    keys, by default beside a file, and for PostgreSQL in the working folder."""
    if urlsplit(database).scheme in ("postgresql", "postgres"):
        with extras.needed("collect"):
            from pdml.collector.storage.postgres import PostgresStore

        keys = keys or Path(f"{collection_id.study_id}-{collection_id.server}.keys").absolute()
        return PostgresStore(database, collection_id, keys=keys, create=create, machine=machine)
    if "://" in database:
        scheme = database.partition("://")[0]
        raise InvalidInput(f"db must be a file or postgresql://..., got {scheme}://...")
    with extras.needed("collect"):
        from pdml.collector.storage.sqlite import SqliteStore

    path = Path(database)
    if not create and not path.exists():
        raise no_collection(str(path))
    return SqliteStore(path, collection_id, keys=keys, machine=machine)


def redact_password(database: str) -> str:
    """The database's name for people, without a password."""
    parts = urlsplit(database)
    if parts.scheme in ("postgresql", "postgres"):
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
    return database
