"""What a node's operator keeps in its kit: who it is, its study, its peers' keys, its data. None of it travels with a job."""

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pdml import frozen
from pdml.errors import DataError, InvalidInput, JournalError
from pdml.files import atomic_write
from pdml.mechanisms.randomness import Secure, Simulated, Source
from pdml.node import holdings
from pdml.node.identity import Identity
from pdml.node.journal import Journal
from pdml.node.party import Holdings
from pdml.study import Study

FOLDER = "pdml"
CONFIG = "node.json"
NODE, RELAY, ADMIN = "node", "relay", "admin"
SIMULATED_NOISE = "PDML_SIMULATED_NOISE"  # the seed of a test; set only by `pdml node start --simulated-noise`


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """node.json; paths are relative to its folder."""

    version: int = 1
    role: str  # node, relay or admin
    name: str  # the server's name in the study, or the participant's
    study: str = "study.toml"
    key: str = "node.key"
    journal: str = "journal.db"
    begun: bool = False  # whether there has been a journal: one that is missing then was lost
    data: str = ""  # the frozen data set; "" until there is one
    keys: dict[str, str] = {}  # public keys of every node, by name


@dataclass(frozen=True, kw_only=True)
class Site:
    """One kit on this machine."""

    kit: Path
    config: Config

    @classmethod
    def open(cls, kit: str | os.PathLike[str]) -> "Site":
        path = Path(kit).absolute() / FOLDER / CONFIG
        try:
            config = msgspec.json.decode(path.read_bytes(), type=Config)
        except OSError as error:
            raise InvalidInput(f"{kit} is no kit of `pdml node provision`: {path} cannot be read ({error.strerror})") from None
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{path} is damaged: {error}") from None
        if config.version != 1 or config.role not in (NODE, RELAY, ADMIN):
            raise InvalidInput(f"{path} has version {config.version} and role {config.role!r}, which this version cannot read")
        return cls(kit=Path(kit).absolute(), config=config)

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def folder(self) -> Path:
        return self.kit / FOLDER

    def path(self, name: str) -> Path:
        return self.folder / name

    def save(self, **changes: str | bool) -> "Site":
        """The same kit with other settings, on disk."""
        config = msgspec.structs.replace(self.config, **changes)
        write_config(self.folder, config)
        return Site(kit=self.kit, config=config)

    def must_be(self, *roles: str) -> None:
        if self.config.role not in roles:
            raise InvalidInput(f"{self.kit} is the kit of the {self.config.role}, not of a {' or '.join(roles)}")

    def study(self) -> Study:
        return Study.load(self.path(self.config.study))

    def identity(self) -> Identity:
        return Identity.load(self.path(self.config.key))

    def journal(self) -> Journal:
        path = self.path(self.config.journal)
        if self.config.begun and not path.exists():
            raise JournalError(f"the journal {path.name} is gone: without it nobody can say what {self.name} has released; restore it")
        journal = Journal(path)
        if not self.config.begun:
            self.save(begun=True)
        return journal

    def frozen(self) -> frozen.FrozenData:
        if not self.config.data:
            raise DataError(f"{self.name} has no data set: `pdml node data` gives it one")
        return frozen.open_frozen(self.path(self.config.data), study_hash=self.study().hash)

    def holdings(self) -> Holdings:
        return holdings.hold(self.study(), self.name, self.frozen())


def write_config(folder: Path, config: Config) -> None:
    atomic_write(folder / CONFIG, msgspec.json.format(msgspec.json.encode(config), indent=1) + b"\n")
    os.chmod(folder / CONFIG, 0o600)


def noise() -> Source:
    """The operating system's entropy, unless the operator started this node for a test."""
    seed = os.environ.get(SIMULATED_NOISE)
    return Secure() if seed is None else Simulated(int(seed))
