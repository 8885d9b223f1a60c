"""docs/reference/result-format.md as a verifier: its blocks of Python, put together in their order,
with the few functions that the page does not write out. Nothing of the package is imported.
"""

import re
import tomllib
from datetime import datetime
from functools import lru_cache
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from scipy import special

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "result-format.md"
TEXT = PAGE.read_text(encoding="utf-8")
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S))


def toml(text):
    """TOML with its times as texts."""
    return _plain(tomllib.loads(text))


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def ed25519(key, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def unpack(data):
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def load():
    """The names that the page defines."""
    names = {
        "toml": toml,
        "unpack": unpack,
        "pack": msgspec.msgpack.encode,
        "ed25519": ed25519,
        "Phi": special.ndtr,
        "log_Phi": special.log_ndtr,
        "Phi_inv": special.ndtri,
        "expit": special.expit,
        "betainc": special.betainc,
    }
    exec(compile(CODE, str(PAGE), "exec"), names)
    names["table"] = lru_cache(maxsize=None)(names["table"])
    return names


NAMES = load()


def verify(folder, agreed=""):
    """Problems, and what is near, of a folder."""
    root = Path(folder)
    names = [str(path.relative_to(root)) for path in [*root.glob("*"), *root.glob("*/*")]]

    def read(path, most):
        file = root / path
        if not file.is_file() or file.is_symlink() or file.stat().st_size > most:
            return None
        return file.read_bytes()

    return NAMES["verify"](names, read, agreed)


def cells(head, column=0):
    """One column of the first table below a line that begins with ``head``, without quotes."""
    _, _, rest = TEXT.partition(f"\n{head}")
    table = re.search(
        r"^(?:\|.*\n)+", rest if not head.startswith("|") else head + rest, flags=re.M
    )
    rows = table[0].splitlines()[2:]
    return [re.split(r" ?(?<!\\)\| ?", row)[column + 1].strip().strip("`") for row in rows]
