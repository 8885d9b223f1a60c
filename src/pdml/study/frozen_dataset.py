"""A frozen data set: what a collection service hands to training, and nothing can change unnoticed.

A folder of features.npy (m, d) float32, labels.npy (m,) int32, epsilons.npy (m,) int64 (millionths)
and manifest.json: canonical JSON with the study's hash, sizes, each file's sha256 and a digest of
all that. Rows are in the order of the reports' random ids, which tells nothing about time. Both
sides work in chunks: memory does not grow with m.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from io import BufferedRandom
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml.accounting.kinds import DEVICES, ELSEWHERE, OPERATOR, UNSAID
from pdml.errors import DataError, InvalidInput, because
from pdml.files import open_file, read_file, sync_folder, write_private
from pdml.formats import Format, canonical_json, decode
from pdml.study.messages import acceptable

FORMAT = Format(name="frozen data set", version=1)
MANIFEST = "manifest.json"
MOST_MICRO = 1_000_000_000  # an epsilon of 1,000
_DTYPES = {"features": "<f4", "labels": "<i4", "epsilons": "<i8"}
_HEADER = 128  # bytes before the data of a column
_CHUNK = 1 << 22  # bytes read at a time
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
RANDOMISERS = (DEVICES, ELSEWHERE, OPERATOR, UNSAID)  # of labels; simulations freeze nothing
_HOUR = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}Z", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a frozen data set says about itself."""

    study: str  # the study's hash
    study_id: str
    server: str
    records: int  # m
    width: int  # d
    classes: int
    files: Mapping[str, str]  # sha256 of each file, by name
    frozen_at: str  # the hour, in UTC: 2026-03-01T14Z
    randomised_by: str = UNSAID  # whether the server has had the true labels
    version: int = FORMAT.version

    @property
    def digest(self) -> str:
        """sha256 of the manifest's canonical JSON without the digest: one name for all."""
        return hashlib.sha256(canonical_json(asdict(self))).hexdigest()

    def to_bytes(self) -> bytes:
        return canonical_json({**asdict(self), "digest": self.digest}) + b"\n"


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenData:
    """The columns, mapped from disk and read-only."""

    manifest: Manifest
    features: NDArray[np.float32]  # (m, d)
    labels: NDArray[np.int32]  # (m,) reported class indices
    epsilons: NDArray[np.int64]  # (m,) millionths

    def __len__(self) -> int:
        return self.manifest.records


class FrozenWriter:
    """Write a frozen data set by chunks; the folder appears whole at `finish`, or not at all. Files
    are readable by their owner only: features are people's answers."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        width: int,
        classes: int,
        study_hash: str,
        study_id: str,
        server: str,
        randomised_by: str = UNSAID,
    ) -> None:
        why = "the last feature is the constant"
        self._manifest = Manifest(
            study=study_hash,
            study_id=study_id,
            server=server,
            records=0,
            width=_validate.integer("width", width, low=2, why=why),
            classes=_validate.integer("classes", classes, low=2, high=1 << 31),
            files={},
            frozen_at="",
            randomised_by=_validate.choice("randomised_by", randomised_by, RANDOMISERS),
        )
        self.records = 0
        self.folder = Path(folder)
        if os.path.lexists(self.folder):
            raise InvalidInput(f"cannot freeze a data set into {self.folder}: it exists already")
        hidden = f".pdml-{secrets.token_hex(8)}-{self.folder.name}"
        self._stage = self.folder.absolute().parent / hidden
        self._columns: dict[str, BufferedRandom] = {}
        try:
            self._stage.mkdir(mode=0o700)
            for name in _DTYPES:
                new = os.O_RDWR | os.O_CREAT | os.O_EXCL
                opened = os.open(self._stage / f"{name}.npy", new, 0o600)
                self._columns[name] = os.fdopen(opened, "w+b")
                self._columns[name].write(bytes(_HEADER))  # its number of rows is known at the end
        except OSError as error:
            self.abort()
            raise InvalidInput(
                f"cannot write into {self.folder.absolute().parent}: {because(error)}"
            ) from error

    def append(self, features: NDArray[Any], labels: NDArray[Any], epsilons: NDArray[Any]) -> None:
        """Add rows in their order: (k, d) float32, k class indices, k epsilons in millionths."""
        if not self._columns:
            raise InvalidInput("this data set is frozen or abandoned: nothing can be added")
        columns = {"features": features, "labels": labels, "epsilons": epsilons}
        parts = {name: np.asarray(part) for name, part in columns.items()}
        if parts["features"].dtype.newbyteorder("=") != np.float32:
            raise InvalidInput(
                f"features must be float32 as they were sent, got {parts['features'].dtype}"
            )
        for name in ("labels", "epsilons"):
            if parts[name].dtype.kind not in "iu":
                raise InvalidInput(f"{name} must be whole numbers, got {parts[name].dtype}")
        count = len(parts["features"])
        width = self._manifest.width
        if parts["features"].shape != (count, width) or any(
            parts[name].shape != (count,) for name in ("labels", "epsilons")
        ):
            shapes = ", ".join(f"{name} {part.shape}" for name, part in parts.items())
            raise DataError(
                f"the new rows must be (k, {width}) features, k labels and k epsilons, got {shapes}"
            )
        for name, part in parts.items():
            if not (good := _good(name, part, self._manifest.classes)).all():
                raise _refused(name, self.records + int(np.argmin(good)), "the new rows")
        for name, dtype in _DTYPES.items():
            self._columns[name].write(np.ascontiguousarray(parts[name], dtype=dtype).data)
        self.records += len(parts["labels"])

    def finish(self, *, frozen_at: str) -> Manifest:
        """Seal the folder: hashes, manifest, everything on disk, then its name."""
        if not self.records:
            raise DataError("a data set must hold at least one report to be frozen, got none")
        if not _HOUR.fullmatch(frozen_at):
            raise InvalidInput(
                f"frozen_at must be an hour in UTC such as 2026-03-01T14Z, got {frozen_at!r}"
            )
        files: dict[str, str] = {}
        manifest = replace(self._manifest, records=self.records, files=files, frozen_at=frozen_at)
        for name, column in self._columns.items():
            column.seek(0)
            column.write(_header(name, manifest))
            column.flush()
            column.seek(0)
            files[f"{name}.npy"] = hashlib.file_digest(column, "sha256").hexdigest()
            os.fsync(column.fileno())
            column.close()
        self._columns = {}
        write_private(self._stage / MANIFEST, manifest.to_bytes())
        if os.path.lexists(self.folder):
            raise InvalidInput(f"cannot freeze a data set into {self.folder}: it exists already")
        os.rename(self._stage, self.folder)
        sync_folder(self.folder.absolute().parent)
        return manifest

    def abort(self) -> None:
        """Leave nothing behind; after `finish` there is nothing to leave."""
        for column in self._columns.values():
            with contextlib.suppress(OSError):
                column.close()
        self._columns = {}
        shutil.rmtree(self._stage, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self.abort()


def open_frozen(
    folder: str | os.PathLike[str], *, study_hash: str | None = None, verify: bool = True
) -> FrozenData:
    """Map a frozen data set into memory, after every byte and every row was checked.

    ``study_hash`` refuses the data of another study. ``verify=False`` looks at sizes only, for data
    that the same process has verified before.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder)
    if study_hash is not None and manifest.study != study_hash:
        raise DataError(
            f"{folder} belongs to the study {manifest.study[:12]}..., not to {study_hash[:12]}...: "
            "the studies differ; train by the study.toml that it was collected by"
        )
    columns = {name: _map(folder, name, manifest, verify) for name in _DTYPES}
    return FrozenData(manifest=manifest, **columns)


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        data = read_file(path, 1 << 20)
    except OSError as error:
        raise DataError(f"cannot read {path}: {because(error)}: it is no frozen data set") from None
    other = f"{path} is not a manifest: it was damaged or written by something else"
    try:
        content = decode(data)
        digest = content.pop("digest")
        manifest = Manifest(**content)
        kinds = {"records": int, "width": int, "classes": int, "version": int, "files": dict}
        good = all(type(value) is kinds.get(name, str) for name, value in content.items())
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError(FORMAT.refusal_of(data, str(path)) or other) from None
    if why := FORMAT.refusal(manifest.version, str(path)) if good else "":
        raise DataError(why)
    if (
        not good
        or manifest.randomised_by not in RANDOMISERS
        or not _HASH.fullmatch(manifest.study)
        or set(manifest.files) != {f"{n}.npy" for n in _DTYPES}
    ):
        raise DataError(other)
    # One spelling only: else a changed byte between the values would pass.
    if manifest.digest != digest or manifest.to_bytes() != data:
        raise DataError(
            f"{path} does not match its own digest: the data set was changed after it was frozen"
        )
    if not (
        0 < manifest.records < 1 << 40
        and 2 <= manifest.width < 1 << 31
        and 2 <= manifest.classes <= 1 << 31
    ):
        raise DataError(f"{path} names sizes that no data set has")
    return manifest


def _map(folder: Path, name: str, manifest: Manifest, verify: bool) -> NDArray[Any]:
    """One column, mapped; its header is the only one that the manifest allows."""
    path = folder / f"{name}.npy"
    shape = _shape(name, manifest)
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != _HEADER + int(np.prod(shape)) * np.dtype(_DTYPES[name]).itemsize:
                raise DataError(
                    f"{path} must hold {manifest.records:,} rows, got a file of {size:,} "
                    "bytes: it was cut or changed"
                )
            if file.read(_HEADER) != _header(name, manifest):
                raise DataError(
                    f"{path} must begin with the header of {manifest.records:,} rows, got "
                    "something else: it was changed"
                )
            if verify:
                _verify(file, path, name, shape, manifest)
            return np.memmap(file, dtype=_DTYPES[name], mode="r", offset=_HEADER, shape=shape)
    except OSError as error:
        raise DataError(f"cannot read {path}: {because(error)}") from None


def _verify(
    file: BinaryIO, path: Path, name: str, shape: tuple[int, ...], manifest: Manifest
) -> None:
    """Hash and rows in one pass, read rather than mapped: memory does not fill with pages."""
    digest = hashlib.sha256(_header(name, manifest))
    row_bytes = np.dtype(_DTYPES[name]).itemsize * (manifest.width if name == "features" else 1)
    bad = None
    done = 0
    while chunk := file.read(max(1, _CHUNK // row_bytes) * row_bytes):
        digest.update(chunk)
        rows = np.frombuffer(chunk, dtype=_DTYPES[name]).reshape(-1, *shape[1:])
        good = _good(name, rows, manifest.classes)
        if bad is None and not good.all():
            bad = done + int(np.argmin(good))
        done += len(good)
    if digest.hexdigest() != manifest.files[path.name]:
        raise DataError(
            f"{path} does not match its sha256 in the manifest: it was changed after it was frozen"
        )
    if bad is not None:
        raise _refused(name, bad, str(path))


def _good(name: str, rows: NDArray[Any], classes: int) -> NDArray[np.bool_]:
    """Which rows a report may have."""
    if name == "features":
        return acceptable(rows)
    low, high = (0, classes - 1) if name == "labels" else (1, MOST_MICRO)
    return np.asarray((rows >= low) & (rows <= high))


def _refused(name: str, row: int, what: str) -> DataError:
    """The row's number, never its content."""
    return DataError(f"row {row + 1} of {what} has {name} that no report may have")


def _shape(name: str, manifest: Manifest) -> tuple[int, ...]:
    return (manifest.records, manifest.width) if name == "features" else (manifest.records,)


def _header(name: str, manifest: Manifest) -> bytes:
    """NumPy's own format, version 1.0, padded to a fixed length."""
    shape = _shape(name, manifest)
    text = f"{{'descr': '{_DTYPES[name]}', 'fortran_order': False, 'shape': {shape}, }}"
    body = text.ljust(_HEADER - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body.encode("ascii")
