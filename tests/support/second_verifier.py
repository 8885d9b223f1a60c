"""The script of the verifier's page, run by Node.js on folders: `SecondVerifier.check`."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pdml.pages.verifier_page import verifier_script

NODE = shutil.which("node")
# The folder as a browser gives it: paths two levels deep, null for folders, bytes of files.
_RUN = """
const fs = require("fs");
const path = require("path");
function listing(root) {
  const paths = [];
  const add = (name) => {
    const place = path.join(root, name);
    if (!fs.lstatSync(place).isDirectory()) return paths.push([name, fileOf(place)]);
    paths.push([name, null]);
    if (!name.includes("/")) fs.readdirSync(place).forEach((inner) => add(`${name}/${inner}`));
  };
  fs.readdirSync(root).forEach(add);
  return paths;
}
const fileOf = (place) => ({
  size: fs.statSync(place).size,
  arrayBuffer: async () => new Uint8Array(fs.readFileSync(place)).buffer,
});
const lines = require("readline").createInterface({ input: process.stdin });
(async () => {
  for await (const line of lines) {
    const { folder, agreed } = JSON.parse(line);
    let answer;
    try {
      const check = modules["page.js"].check;
      answer = await check({ paths: listing(folder), agreed }, async () => {});
    } catch (error) {
      answer = { crash: error.stack };
    }
    console.log(JSON.stringify(answer));
  }
})();
"""


class SecondVerifier:
    """One process of Node.js; what it has computed for one folder helps with the next."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def check(self, folder: Path, agreed: str = "") -> dict[str, Any]:
        """What the page would say of a folder."""
        assert self._process.stdin is not None and self._process.stdout is not None
        question = json.dumps({"folder": str(folder), "agreed": agreed})
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the script has ended"
        answer: dict[str, Any] = json.loads(line)
        assert "crash" not in answer, answer["crash"]
        return answer


def run_script(more: str, question: Any) -> Any:
    """What further lines behind the page's script print of a question."""
    with (
        tempfile.NamedTemporaryFile("w", suffix=".cjs", encoding="utf-8") as file,
        _started(file, verifier_script() + more) as process,
    ):
        output, _ = process.communicate(json.dumps(question))
    assert process.returncode == 0
    return json.loads(output)


def _started(file: IO[str], script: str) -> "subprocess.Popen[str]":
    file.write(script)
    file.flush()
    pipe = subprocess.PIPE
    return subprocess.Popen([str(NODE), file.name], stdin=pipe, stdout=pipe, encoding="utf-8")


@contextmanager
def second_verifier(script: str = "") -> Iterator[SecondVerifier]:
    """``script``: the page's, or one with a planted mistake."""
    with (
        tempfile.NamedTemporaryFile("w", suffix=".cjs", encoding="utf-8") as file,
        _started(file, (script or verifier_script()) + _RUN) as process,
    ):
        try:
            yield SecondVerifier(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
