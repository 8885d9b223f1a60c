"""Altered results from a seed: one change of any kind, of a file or of what a member signs.

The keys of the stored results are no secrets, so that a member's lies are properly signed.
"""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

RESULTS = Path(__file__).parents[1] / "vectors" / "results"
NAMES = ("alice", "bob", "carol")
MARK = b"pdml statement 1\0"
HEAD = len(MARK) + 64
Fields = dict[str, Any]


def altered(folder: Path, seed: int, base: str = "") -> tuple[Path, str]:
    """A stored result with one change, and what was changed. The page is never touched: only the
    product can draw it again.
    """
    rng = random.Random(seed)
    base = base or rng.choice(sorted(path.name for path in RESULTS.iterdir()))
    target = folder / f"{seed}-{base}"
    honest = {p.relative_to(RESULTS / base): p.read_bytes() for p in _files(RESULTS / base)}
    for _ in range(100):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(RESULTS / base, target)
        kind = rng.choice(KINDS)
        kind(target, rng)
        if {p.relative_to(target): p.read_bytes() for p in _files(target)} != honest:
            return target, f"{base}: {kind.__name__}"
    raise AssertionError("no change changed anything")


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _statement(folder: Path, name: str) -> Path:
    return folder / "statements" / f"{name}.statement"


def _changeable(folder: Path, rng: random.Random) -> Path:
    return rng.choice([path for path in _files(folder) if path.suffix != ".html"])


# Of bytes and files


def flip_a_bit(folder: Path, rng: random.Random) -> None:
    path = _changeable(folder, rng)
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def insert_or_delete_bytes(folder: Path, rng: random.Random) -> None:
    path = _changeable(folder, rng)
    data = path.read_bytes()
    at, many = rng.randrange(len(data)), rng.choice((1, 1, 1, 8, 64))
    put = rng.choice((b"", rng.randbytes(many), b" ", b"\n", data[at : at + many] * 2))
    path.write_bytes(data[:at] + put + data[at + many :])


def truncate(folder: Path, rng: random.Random) -> None:
    path = _changeable(folder, rng)
    data = path.read_bytes()
    path.write_bytes(data[: rng.choice((0, len(data) - 1, rng.randrange(len(data))))])


def append(folder: Path, rng: random.Random) -> None:
    path = _changeable(folder, rng)
    path.write_bytes(path.read_bytes() + rng.choice((b"\n", b"\0", b"}", rng.randbytes(9))))


def drop_a_file(folder: Path, rng: random.Random) -> None:
    rng.choice(_files(folder)).unlink()


def add_a_file(folder: Path, rng: random.Random) -> None:
    name = rng.choice(
        ("note", ".hidden", "statements/eve.statement", "statements/x", "evidence/bob.evidence")
    )
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(rng.choice((b"", b"proof", _statement(folder, "bob").read_bytes())))


def change_a_digit(folder: Path, rng: random.Random) -> None:
    path = folder / rng.choice(("study.toml", "model.json"))
    text = path.read_text(encoding="utf-8")
    at = rng.choice([i for i, letter in enumerate(text) if letter.isdigit()])
    changed = rng.choice([digit for digit in "0123456789" if digit != text[at]])
    path.write_text(text[:at] + changed + text[at + 1 :], encoding="utf-8")


# Of whole statements


def swap_statements(folder: Path, rng: random.Random) -> None:
    one, other = (_statement(folder, name) for name in rng.sample(NAMES, 2))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def copy_a_statement(folder: Path, rng: random.Random) -> None:
    one, other = rng.sample(NAMES, 2)
    name = rng.choice((other, f"{one}-2", one.upper()))
    _statement(folder, name).write_bytes(_statement(folder, one).read_bytes())


def take_a_statement_of_another_job(folder: Path, rng: random.Random) -> None:
    base = rng.choice(sorted(path.name for path in RESULTS.iterdir()))
    name = rng.choice(NAMES)
    _statement(folder, name).write_bytes(_statement(RESULTS / base, name).read_bytes())


def take_another_file_of_another_job(folder: Path, rng: random.Random) -> None:
    base = rng.choice(sorted(path.name for path in RESULTS.iterdir()))
    name = rng.choice(("study.toml", "model.json"))
    (folder / name).write_bytes((RESULTS / base / name).read_bytes())


def rename_a_member(folder: Path, rng: random.Random) -> None:
    name, path = rng.choice(NAMES), folder / "study.toml"
    if rng.random() < 0.5:
        text = path.read_text(encoding="utf-8").replace(f'"{name}"', '"erin"')
        path.write_text(text, encoding="utf-8")
    if rng.random() < 0.7:
        _statement(folder, name).rename(_statement(folder, "erin"))


# Of the model


def change_the_model(folder: Path, rng: random.Random) -> None:
    """A number, a text, a row of the ledger: spelt as the product does."""
    path = folder / "model.json"
    fields = json.loads(path.read_bytes())
    part = rng.choice(("", "coefficients", "intercepts", "privacy", "provenance", "expected"))
    _change_a_leaf(fields[part] if part and fields[part] else fields, rng)
    path.write_text(json.dumps(fields, indent=1, ensure_ascii=False), encoding="utf-8")


def change_rows_of_the_ledger(folder: Path, rng: random.Random) -> None:
    path = folder / "model.json"
    fields = json.loads(path.read_bytes())
    privacy = fields["privacy"]
    rows = privacy[rng.choice([key for key in ("rows", "coalitions") if key in privacy])]
    _change_a_list(rows, rng)
    path.write_text(json.dumps(fields, indent=1, ensure_ascii=False), encoding="utf-8")


# Of what a member signs


def sign_another_field(folder: Path, rng: random.Random) -> None:
    _sign_anew(folder, rng, lambda fields: _change_a_leaf(fields, rng))


def sign_a_false_claim(folder: Path, rng: random.Random) -> None:
    """About itself, so that nothing but the events must agree."""

    def change(fields: Fields) -> None:
        claims: dict[str, list[Any]] = {
            "records": [0, 1, fields["records"] + 1, 39, 40, 10**8, 10**9],
            "epsilon": [0.1, 0.5, 1.0, 1.5, 2.0, float("nan"), float("inf"), 0.0, -1.0],
            "label_epsilon": [0.1, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")],
            "randomised_by": ["devices", "elsewhere", "operator", "", "nobody"],
            "source": ["secure", "simulated", "dice"],
            "dataset": ["0" * 64, "A" * 64, "", "0" * 63],
            "version": [0, 2],
            "job": ["job", "", "j" * 65, "-", "a b"],
        }
        key = rng.choice(sorted(claims))
        fields[key] = rng.choice(claims[key])

    _sign_anew(folder, rng, change)


def sign_another_release(folder: Path, rng: random.Random) -> None:
    """With its digest, so that only the neighbours and the limits contradict it."""

    def change(fields: Fields) -> None:
        release = bytearray(fields["release"])
        at = rng.randrange(len(release))
        release[at] ^= 1 << rng.randrange(8)
        fields["release"] = bytes(release)
        if rng.random() < 0.8:
            fields["sent"] = fields["sent"][:-32] + hashlib.sha256(release).digest()

    _sign_anew(folder, rng, change)


def sign_other_lists(folder: Path, rng: random.Random) -> None:
    keys = ("received", "events", "earlier_jobs")
    _sign_anew(folder, rng, lambda fields: _change_a_list(fields[rng.choice(keys)], rng))


def sign_in_another_spelling(folder: Path, rng: random.Random) -> None:
    """A double for an integer, keys in another order, one field more."""

    def change(fields: Fields) -> None:
        if rng.random() < 0.3:
            fields["records"] = float(fields["records"])
        elif rng.random() < 0.5:
            fields["dataset"] = fields.pop("dataset")
        else:
            fields["more"] = rng.choice((None, 1, "x", {}))

    _sign_anew(folder, rng, change)


def sign_with_another_key(folder: Path, rng: random.Random) -> None:
    _sign_anew(folder, rng, lambda fields: None, by=rng.choice(("eve", *NAMES)))


def _sign_anew(
    folder: Path, rng: random.Random, change: Callable[[Fields], None], by: str = ""
) -> None:
    name = rng.choice(NAMES)
    path = _statement(folder, name)
    fields = msgspec.msgpack.decode(path.read_bytes()[HEAD:])
    change(fields)
    content = MARK + msgspec.msgpack.encode(fields)
    secret = hashlib.sha256((by or name).encode()).digest()
    signature = Ed25519PrivateKey.from_private_bytes(secret).sign(content)
    path.write_bytes(MARK + signature + content[len(MARK) :])


def _change_a_list(items: list[Any], rng: random.Random) -> None:
    if not items:
        return
    at = rng.randrange(len(items))
    what = rng.choice(("drop", "twice", "swap", "leaf"))
    if what == "drop":
        items.pop(at)
    elif what == "twice":
        items.insert(at, items[at])
    elif what == "swap":
        other = rng.randrange(len(items))
        items[at], items[other] = items[other], items[at]
    else:
        box = {"all": items[at]}
        _change_a_leaf(box, rng)
        items[at] = box["all"]


def _change_a_leaf(tree: Any, rng: random.Random) -> None:
    """Walk down at random, and change what is there."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    if not keys:
        return
    key = rng.choice(keys)
    value = tree[key]
    if isinstance(value, (dict, list)) and value and rng.random() < 0.97:
        _change_a_leaf(value, rng)
    else:
        tree[key] = _another(value, rng)


def _another(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return rng.choice((not value, None, 0, 1.0, "x"))
    if isinstance(value, int):
        near = (value + 1, value - 1, -value, value * 2, 0, float(value), 2**53, str(value))
        return rng.choice(near)
    if isinstance(value, float):
        nudged = (value * (1 + 1e-12), value * (1 + 1e-8), value * 1.001, value + 1.0)
        return rng.choice((*nudged, -value, 0.0, value / 2, round(value, 3), 1, "x"))
    if isinstance(value, str):
        swapped = value.swapcase()
        return rng.choice((value + "x", value[:-1], swapped, "", value + " ", "inf", 1))
    if isinstance(value, bytes):
        at = rng.randrange(len(value)) if value else 0
        bent = value[:at] + bytes([rng.randrange(256)]) + value[at + 1 :]
        return rng.choice((bent, value[:-1], value + b"\0", value[32:], b"", "x"))
    return rng.choice((None, [], {}, 1))


KINDS: tuple[Callable[[Path, random.Random], None], ...] = (
    flip_a_bit,
    insert_or_delete_bytes,
    truncate,
    append,
    drop_a_file,
    add_a_file,
    change_a_digit,
    swap_statements,
    copy_a_statement,
    take_a_statement_of_another_job,
    take_another_file_of_another_job,
    rename_a_member,
    change_the_model,
    change_rows_of_the_ledger,
    sign_another_field,
    sign_a_false_claim,
    sign_another_release,
    sign_other_lists,
    sign_in_another_spelling,
    sign_with_another_key,
)
