"""tests/vectors/bad, and how its edits are made."""

import base64
import json
import shutil
from pathlib import Path

VECTORS = Path(__file__).parents[1] / "vectors"


def listed(name):
    return json.loads((VECTORS / "bad" / f"{name}.json").read_text(encoding="utf-8"))


def replaced(data, row):
    old, new = row["old"].encode(), row["new"].encode()
    assert old in data, "the edit finds nothing to change"
    return data.replace(old, new, 1)


def edited(folder, edit):
    """One edit of a result's folder."""
    path = folder / edit["file"]
    if "folder" in edit:
        return path.mkdir()
    if "remove" in edit:
        return path.unlink()
    path.parent.mkdir(exist_ok=True)
    data = path.read_bytes() if path.exists() else b""
    if "content" in edit:
        data = base64.b64decode(edit["content"], validate=True)
    elif "from" in edit:
        data = (VECTORS / "results" / folder.name / edit["from"]).read_bytes()
    elif "old" in edit:
        data = replaced(data, edit)
    elif "at" in edit:
        put = bytes.fromhex(edit["bytes"])
        data = data[: edit["at"]] + put + data[edit["at"] + len(put) :]
    elif "splices" in edit:
        for splice in reversed(edit["splices"]):  # places are those before any change
            at, put = splice["at"], bytes.fromhex(splice["put"])
            data = data[:at] + put + data[at + splice["drop"] :]
    elif "append" in edit:
        data += bytes.fromhex(edit["append"])
    elif "keep" in edit:
        data = data[: edit["keep"]]
    elif "zeros" in edit:
        data = bytes(edit["zeros"])
    else:
        fields = json.loads(data)
        place = fields
        for key in edit["json"][:-1]:
            place = place[key]
        place[edit["json"][-1]] = edit["value"]
        data = json.dumps(fields, indent=1, ensure_ascii=False).encode()
    return path.write_bytes(data)


def spoilt(tmp_path, row):
    """A result after its edits, each of which changes something."""
    folder = shutil.copytree(VECTORS / "results" / row["base"], tmp_path / row["base"])
    for edit in row["edits"]:
        before = (folder / edit["file"]).read_bytes() if (folder / edit["file"]).exists() else None
        edited(folder, edit)
        path = folder / edit["file"]
        assert (path.read_bytes() if path.is_file() else path.exists()) != before
    return folder
