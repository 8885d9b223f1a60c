"""A node's folder on its organisation's own machine: keys, study, data, journal. Nothing in it
travels but the card.

    node.json                          its name, its rule for offers, which data set it trains on
    signing.key, sealing.key, NAME.card   made by `create`, here and nowhere else
    naming.key                         makes aliases of data sets; stays when keys are renewed
    study.toml, studies/               the study, and its earlier revisions
    data/, journal.db                  records; what was released
    control.db, evidence/              what operators command; proofs against members
    local-models/                      models for this organisation's own use, by job

Every file is 0600, the folder 0700.
"""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import DataError, InvalidInput, JournalError, because
from pdml.files import check_ours, read_file, write_private
from pdml.formats import Format, decode
from pdml.node.crypto.hpke import SealingKey
from pdml.node.crypto.signing import Card, Identity, create_secret
from pdml.node.storage.journal import Journal
from pdml.study import Study, frozen_dataset
from pdml.study.schema import trainable
from pdml.study.schema.toml_lines import read_text
from pdml.study.schema.validation import ValidationErrors

if TYPE_CHECKING:
    from pdml.node.job.training_data import TrainingData

CONFIG, STUDY, JOURNAL = "node.json", "study.toml", "journal.db"
SIGNING, SEALING, NAMING = "signing.key", "sealing.key", "naming.key"
LOCAL_MODEL = "local_model.json"
FORMAT = Format(name="node folder", version=1)


class OfferRule(StrEnum):
    """Whether an operator decides about each offer, or the study's own plan is enough."""

    ASK = "ask"
    STUDY = "study"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """node.json."""

    version: int = FORMAT.version
    name: str
    accept: str = OfferRule.ASK
    begun: bool = False  # whether there has been a journal: one that is missing then was lost
    data: str = ""  # the frozen data set, below the folder; "" until there is one
    # By data set, those with releases of which the operator has said that nobody is in both.
    new_participants: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True, kw_only=True)
class NodeDirectory:
    """One organisation's node on its disk: keys, study, records, journal and settings."""

    folder: Path
    config: Config

    @classmethod
    def create(cls, folder: Path, name: str, *, accept: str = OfferRule.ASK) -> "NodeDirectory":
        """A new folder with new keys and a card.

        Parameters
        ----------
        folder : Path
            Made, for its owner alone; it must not exist yet.
        name : str
            The server's name in the study.
        accept : str
            "ask" an operator about each offer, or accept the "study"'s own plan.

        Returns
        -------
        NodeDirectory
        """
        errors = ValidationErrors()
        errors.name(("name",), name)
        if errors.mistakes:
            raise InvalidInput(errors.mistakes[0][1])
        _check_rule(accept)
        folder = folder.absolute()
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            raise InvalidInput(
                f"{folder} exists already: a node's keys are made once (--renew replaces them)"
            ) from None
        except OSError as error:
            raise InvalidInput(f"cannot make {folder}: {because(error)}") from None
        home = cls(folder=folder, config=Config(name=name, accept=accept))
        create_secret(home.path(NAMING), 32)
        home._make_keys()
        _write(folder, home.config)
        return home

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "NodeDirectory":
        path = Path(folder).absolute() / CONFIG
        try:
            check_ours(path.parent, "the node's folder", folder=True)
            check_ours(path, "the node's settings")
            content = read_file(path)
            config: Config = decode(content, Config)
        except OSError as error:
            what = f"no node's folder (`pdml node init` makes one): {path.name}: {because(error)}"
            raise InvalidInput(f"{folder} is {what}") from None
        except msgspec.DecodeError as error:
            why = FORMAT.refusal_of(content, str(path))
            raise InvalidInput(why or f"{path} is damaged: {error}") from None
        if why := FORMAT.refusal(config.version, str(path)):
            raise InvalidInput(why)
        _check_rule(config.accept)
        return cls(folder=Path(folder).absolute(), config=config)

    @classmethod
    def renew(cls, folder: str | os.PathLike[str], name: str = "") -> "NodeDirectory":
        """New keys for a folder that exists, because the old ones are lost or known.

        Parameters
        ----------
        folder : path
            Its old keys are put aside; data, journal and budget stay.
        name : str
            Guards against another's folder.

        Returns
        -------
        NodeDirectory
        """
        home = cls.open(folder)
        if name not in ("", home.name):
            raise InvalidInput(f"{folder} is the folder of {home.name}, not of {name}")
        home.renew_keys()
        return home

    @property
    def name(self) -> str:
        return self.config.name

    def path(self, *parts: str) -> Path:
        return self.folder.joinpath(*parts)

    def save(self, **changes: str | bool | dict[str, tuple[str, ...]]) -> "NodeDirectory":
        """The same folder with other settings, on disk."""
        config = msgspec.structs.replace(self.config, **changes)
        _check_rule(config.accept)
        _write(self.folder, config)
        return NodeDirectory(folder=self.folder, config=config)

    # Keys

    def _make_keys(self) -> None:
        Identity.create(self.path(SIGNING))
        SealingKey.create(self.path(SEALING))
        self.card().save(self.path(f"{self.name}.card"))

    def renew_keys(self) -> Path:
        """New keys and a new card; returns the folder with the old ones. The node takes part again
        under a revision of the study that pins the new card; an unfinished job cannot be
        continued."""
        aside = self.path(f"retired-{secrets.token_hex(4)}")
        aside.mkdir(mode=0o700)
        for name in (SIGNING, SEALING, f"{self.name}.card"):
            if self.path(name).exists():
                self.path(name).rename(aside / name)
        self._make_keys()
        return aside

    def identity(self) -> Identity:
        return Identity.load(self.path(SIGNING), naming=self.path(NAMING))

    def sealing(self) -> SealingKey:
        return SealingKey.load(self.path(SEALING))

    def shared(self, study: Study) -> dict[str, bytes]:
        """The secret that this node has with each other one of ``study``, and nobody else has."""
        self._must_be_pinned(study)
        key, shared_secrets = self.sealing(), {}
        for server in study.servers:
            if server.name == self.name:
                continue
            try:
                shared_secrets[server.name] = key.shared(server.sealing_key)
            except ValueError:
                raise InvalidInput(
                    f"the sealing key of {server.name} in the study gives no secret with "
                    f"{self.name}: sums cannot be masked"
                ).mark_public() from None
        return shared_secrets

    def card(self) -> Card:
        return Card.of(self.name, self.identity(), self.sealing().public)

    # The study

    def join(self, study: Study, text: str, *, before: tuple[Study, ...] = ()) -> None:
        """Adopt ``study`` (``text``: its file), afterwards only its revisions; ``before``: those
        that this folder has not seen, oldest first."""
        self._must_be_pinned(study)
        trainable.check_budget(study)
        if study.relay is None:
            raise InvalidInput(
                f"the study {study.id} names no relay: nodes would not know where to meet"
            )
        revisions = {old.hash: old for old in (*self._revisions(), *before)}
        lineage = _lineage(study, revisions)
        now = self.study() if self.path(STUDY).exists() else None
        if (
            now is not None
            and now.hash not in (study.hash, *lineage)
            and (self.config.data or self.config.begun)
        ):
            raise InvalidInput(
                f"{self.name} is in the study {now.hash[:12]}...; this one is no revision of it in "
                "which keys and relay alone differ: make another folder for another study"
            )
        self.path("studies").mkdir(mode=0o700, exist_ok=True)
        for revision in (*before, study):
            write_private(self.path("studies", f"{revision.hash}.json"), revision.canonical())
        write_private(self.path(STUDY), text.encode())

    def join_file(
        self, file: Path, *, before: Sequence[Path] = (), accept: str = ""
    ) -> "NodeDirectory":
        """Adopt a study, or its next revision, in which nothing but keys and relay may differ.

        Parameters
        ----------
        file : Path
            A study.toml that pins everybody's keys and names a relay.
        before : sequence of Path
            Earlier revisions that this folder has not seen, oldest first.
        accept : str
            "ask" an operator about each offer, or accept the "study"'s plan; "" changes nothing.

        Returns
        -------
        NodeDirectory

        Raises
        ------
        InvalidInput
            If the study pins other keys, or is no revision of the one that this folder is in.
        """
        text = read_text(file)
        study = Study.from_text(text, str(file))
        self.join(study, text, before=tuple(Study.load(path) for path in before))
        return self.save(accept=accept) if accept else self

    def _must_be_pinned(self, study: Study) -> None:
        entry, card = study.server(self.name), self.card()
        if (entry.signing_key, entry.sealing_key) != (card.signing_key, card.sealing_key):
            others = f"other keys for {self.name} than this folder has"
            mismatch = others if entry.signing_key else f"no keys for {self.name}"
            raise InvalidInput(
                f"the study {study.id} pins {mismatch}: `pdml study add-server` pins those of the "
                f"card with the fingerprint {card.fingerprint}"
            )
        if missing := [server.name for server in study.servers if not server.signing_key]:
            names = ", ".join(missing)
            raise InvalidInput(
                f"the study {study.id} pins no keys for {names}: nobody could know them"
            )

    def study(self) -> Study:
        if not self.path(STUDY).exists():
            raise InvalidInput(
                f"{self.name} is in no study yet: `pdml node join {self.folder} study.toml`"
            )
        return Study.load(self.path(STUDY))

    def checked_study(self) -> Study:
        """The study, if it pins this folder's keys."""
        study = self.study()
        self._must_be_pinned(study)
        return study

    def lineage(self) -> tuple[str, ...]:
        """Hashes of the study's earlier revisions, whose keys and relay alone differed."""
        return _lineage(self.study(), {old.hash: old for old in self._revisions()})

    def revision(self, hash: str) -> Study:
        """The study, or one of its earlier revisions."""
        for study in (self.study(), *self._revisions()):
            if study.hash == hash:
                return study
        raise InvalidInput(f"{self.name} has no revision {hash[:12]}... of its study")

    def _revisions(self) -> list[Study]:
        return [
            Study.from_canonical(read_file(path), str(path))
            for path in self.path("studies").glob("*.json")
        ]

    # Records and journal

    def journal(self, clock: Clock = SYSTEM_CLOCK) -> Journal:
        """For the one process that does jobs."""
        self._must_have_journal()
        journal = Journal(self.path(JOURNAL), clock)
        if not self.config.begun:
            self.save(begun=True)
        return journal

    @property
    def is_running(self) -> bool:
        return Journal.holder(self.path(JOURNAL)) is not None

    def committed(self) -> Journal | None:
        """The journal for reading, whoever holds it; None if there has been none."""
        self._must_have_journal()
        return Journal.peek(self.path(JOURNAL)) if self.path(JOURNAL).exists() else None

    def _must_have_journal(self) -> None:
        if self.config.begun and not self.path(JOURNAL).exists():
            raise JournalError(
                f"the journal {JOURNAL} is gone: without it nobody can say what {self.name} "
                "has released; restore it"
            )

    def frozen(self) -> frozen_dataset.FrozenData:
        if not self.config.data:
            raise DataError(f"{self.name} has no data set: `pdml node data` gives it one")
        return frozen_dataset.open_frozen(self.path(self.config.data))

    def load_training_data(self) -> "TrainingData":
        from pdml.node.job import training_data  # which knows folders

        data = training_data.load_training_data(
            self.study(), self.name, self.frozen(), before=self.lineage()
        )
        apart_from = self.config.new_participants.get(data.dataset)
        return replace(data, apart_from=None if apart_from is None else frozenset(apart_from))

    def evidence(self, job: str) -> Path:
        """The folder of proofs that a member signed two things in this job."""
        return self.path("evidence", job)

    def local_model_path(self, job: str) -> Path:
        return self.path("local-models", job, LOCAL_MODEL)


def _lineage(study: Study, revisions: dict[str, Study]) -> tuple[str, ...]:
    lineage: list[str] = []
    while study.replaces in revisions and study.revises(revisions[study.replaces]):
        study = revisions[study.replaces]
        lineage.append(study.hash)
    return tuple(lineage)


def _check_rule(accept: str) -> None:
    if accept not in (*OfferRule,):
        raise InvalidInput(
            f"accept must be '{OfferRule.ASK}' or '{OfferRule.STUDY}', got {accept!r}"
        )


def _write(folder: Path, config: Config) -> None:
    content = msgspec.json.format(msgspec.json.encode(config), indent=1)
    write_private(folder / CONFIG, content + b"\n")
