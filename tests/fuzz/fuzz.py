"""Coverage-guided fuzzing of every reader of foreign bytes, by atheris: `make fuzz`.

    python tests/fuzz/fuzz.py [--seconds 600] [READER ...]   fuzz readers, one after the other
    python tests/fuzz/fuzz.py --shrink READER FILE           the smallest input that fails alike
    python tests/fuzz/fuzz.py --keep [READER ...]            choose what corpus/ keeps

A find is any exception that is no `PDMLError`, an input that takes more than 25 seconds or 2 GB, or
one that a reader accepts in two spellings where its format has one. What was met stays in
build/fuzz/READER; a find is mended, shrunk and stored in corpus/READER, which every run of the tests
reads again.
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = Path(__file__).parent
WORK = HERE.parents[1] / "build" / "fuzz"
SECONDS, MEGABYTES = 25, 2_048
KEPT = 4_096  # bytes of a reader's corpus


def folder_of(name: str) -> Path:
    return WORK / name.replace(" ", "-")


def fuzz(name: str, seconds: int) -> None:
    """One reader in this process, until libFuzzer ends it."""
    import atheris
    from mutation import mutate
    from readers import READERS, corpus

    from pdml.errors import PDMLError

    reader, place = READERS[name], folder_of(name)
    (place / "corpus").mkdir(parents=True, exist_ok=True)
    seeds = [*reader.seeds(), *(path.read_bytes() for path in corpus(name))]
    for seed in seeds:
        (place / "corpus" / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    words = [f'"{word}"' for word in sorted(reader.dictionary())]
    (place / "words").write_text("\n".join(words) + "\n", encoding="ascii")
    scratch = Path(tempfile.mkdtemp())

    def try_one(data: bytes) -> None:
        for path in scratch.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        try:
            reader(scratch, data)
        except PDMLError:
            return

    def change(data: bytes, most: int, seed: int) -> bytes:
        changed = mutate(data, reader.syntax, reader.heads, seed) if seed % 4 else None
        if changed is None or len(changed) > most:
            return bytes(atheris.Mutate(data, most))
        return changed

    options = [
        f"-max_len={max(4_096, 2 * max(map(len, seeds), default=0))}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-dict={place / 'words'}",
        f"-artifact_prefix={place}/",
        f"-max_total_time={seconds}",
        str(place / "corpus"),
    ]
    atheris.Setup(
        [sys.argv[0], *options],
        try_one,
        custom_mutator=change if reader.syntax else None,
    )
    atheris.Fuzz()


def failure(reader: Callable[[Path, bytes], Any], data: bytes) -> str:
    """Where and how a reader fails, or ""."""
    from pdml.errors import PDMLError

    with tempfile.TemporaryDirectory() as folder:
        try:
            reader(Path(folder), data)
        except PDMLError:
            return ""
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} in {last.name}"
    return ""


def shrink(name: str, data: bytes) -> bytes:
    """Cut out whatever the failure does not need."""
    from readers import READERS

    reader = READERS[name]
    wanted = failure(reader, data)
    if not wanted:
        raise SystemExit("this input does not fail")
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            cut = data[:at] + data[at + size :]
            data, at = (cut, at) if failure(reader, cut) == wanted else (data, at + size)
        size //= 2
    return data


def keep(name: str) -> None:
    """Of all inputs met, those that run a further line, smallest first, until there are enough."""
    from readers import CORPUS, READERS, corpus

    reader = READERS[name]
    lines: set[tuple[str, int]] = set()
    for seed in reader.seeds():
        lines |= _lines_of(reader, seed)
    finds = corpus(name)
    for path in finds:
        lines |= _lines_of(reader, path.read_bytes())
    room = KEPT - sum(path.stat().st_size for path in finds)
    met = sorted((folder_of(name) / "corpus").glob("*"), key=lambda path: path.stat().st_size)
    for path in met:
        data = path.read_bytes()
        if len(data) <= room and (new := _lines_of(reader, data) - lines):
            lines |= new
            room -= len(data)
            (CORPUS / name).mkdir(parents=True, exist_ok=True)
            (CORPUS / name / hashlib.sha1(data).hexdigest()[:12]).write_bytes(data)


def _lines_of(reader: Callable[[Path, bytes], Any], data: bytes) -> set[tuple[str, int]]:
    """The lines of pdml that it runs."""
    seen: set[tuple[str, int]] = set()
    ours: dict[CodeType, bool] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not ours.setdefault(code, "/pdml/" in code.co_filename):
            return None
        if event == "line":
            seen.add((code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        failure(reader, data)
    finally:
        sys.settrace(None)
    return seen


def fuzz_in_turn(names: list[str], seconds: int) -> list[str]:
    """Each reader in a fork of this process, where the package is instrumented; those with a find."""
    failed = []
    for name in names:
        log = folder_of(name) / "log"
        log.parent.mkdir(parents=True, exist_ok=True)
        child = os.fork()
        if not child:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            fuzz(name, seconds)
            os._exit(0)
        code = os.waitpid(child, 0)[1]
        last = log.read_text(errors="replace").splitlines()
        print(f"{name}: {'a find' if code else last[-1]}: {log}", flush=True)
        failed += [name] * bool(code)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=600, help="for each reader")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("readers", nargs="*", metavar="READER", help="all, if none is named")
    options = parser.parse_args()
    if options.shrink:
        name, file = options.readers
        sys.stdout.buffer.write(shrink(name, Path(file).read_bytes()))
        return 0
    if not options.keep:
        import atheris

        with redirect_stderr(StringIO()), atheris.instrument_imports(include=["pdml"]):
            import readers  # noqa: F401  (before anything else imports what it reads)
    from readers import READERS

    names = options.readers or list(READERS)
    if unknown := set(names) - set(READERS):
        parser.error(f"no reader is called {', '.join(sorted(unknown))}: {', '.join(READERS)}")
    if not options.keep:
        return bool(fuzz_in_turn(names, options.seconds))
    for name in names:
        keep(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
