"""The command line: parses, calls the packages below, prints. Whatever goes wrong ends as one
sentence and an exit code.

0 done · 1 refused or failed, with one sentence on stderr · 2 not understood (usage) · 128 + n
stopped by signal n (Ctrl-C: 130)

Nothing heavy is imported before it is needed: `pdml --help` answers in the blink of an eye.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

from pdml.errors import InvalidInput, PDMLError, because, plain
from pdml.extras import missing_extra

# Most of what a command makes stays until its end, and then dies with the process: to look through
# it for garbage every 700 objects, and once more at the end, takes a tenth of a second each.
gc.set_threshold(50_000)
atexit.register(gc.freeze)
# Several extras bring scipy and jinja2: who runs a command of these needs this one.
_EXTRAS = {"node": "node", "relay": "node", "collect": "collect"}


class StopSignal(BaseException):
    """A signal asked to stop. Unlike KeyboardInterrupt, no library on the way thinks it knows
    better what to do."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of `pdml`; ``--traceback`` is understood anywhere, because people add it to the
    command that failed."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    command = [argument for argument in command_line if argument != "--traceback"]
    traceback = len(command) < len(command_line) or bool(os.environ.get("PDML_TRACEBACK"))
    sys.exit(_run(command, traceback=traceback))


def _run(arguments: list[str], *, traceback: bool) -> int:
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # they are for developers, and python -W shows them
    try:
        with _stoppable():
            from pdml.cli.commands import app

            _speak_any_encoding()
            try:
                app(arguments, prog_name="pdml")
            finally:
                sys.stdout.flush()
    except SystemExit as end:  # how typer returns
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except StopSignal as stop:
        return _stopped(stop.number)
    except KeyboardInterrupt:  # before the handlers stand
        return _stopped(signal.SIGINT)
    except BrokenPipeError:  # whoever read us has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if (behind := _stop_behind(error)) is not None:
            return _stopped(behind.number)
        if traceback:
            import traceback as printer

            printer.print_exc()
        return _refused(_sentence(error, arguments))
    return 0


def _stop_behind(error: BaseException | None) -> StopSignal | None:
    """The signal during which ``error`` came up: a library that was interrupted may stumble on its
    way out."""
    while error is not None and not isinstance(error, StopSignal):
        error = error.__context__
    return error


def _sentence(error: Exception, arguments: Sequence[str]) -> str:
    error = missing_extra(error, "".join(_EXTRAS.get(name, "") for name in arguments[:1])) or error
    if isinstance(error, InvalidInput) and error.setting:
        return _as_typed(error, arguments)
    if isinstance(error, PDMLError):
        return str(error)
    if isinstance(error, OSError):
        who = f"cannot use {error.filename}" if error.filename else "the system refused"
        return f"{who}: {because(error)}"
    if isinstance(error, MemoryError):
        return "this needs more memory than there is"
    # Not the error's own text: it may quote somebody's record.
    return (
        f"this is a mistake in pdml ({type(error).__name__}): please report it with what "
        "the same command says with --traceback"
    )


def _as_typed(error: InvalidInput, arguments: Sequence[str]) -> str:
    """A setting by the name of the option that gave it, where one did."""
    for name in (error.setting, error.setting.removeprefix("n_")):
        option = "--" + name.replace("_", "-")
        if any(argument.split("=")[0] == option for argument in arguments):
            return option + str(error).removeprefix(error.setting)
    return str(error)


def _refused(sentence: str) -> int:
    print("pdml: " + plain(sentence, longest=100_000), file=sys.stderr)
    return 1


def _stopped(number: int) -> int:
    from pdml.cli.outputs import written

    how = "interrupted" if number == signal.SIGINT else "stopped"
    what = "already written: " + ", ".join(map(str, written)) if written else "nothing was written"
    print(f"pdml: {how}; {what}", file=sys.stderr)
    return 128 + number


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Turn Ctrl-C and termination into `StopSignal`, so that temporary files are removed on the way
    out."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        # an impatient second Ctrl-C must not cut the cleaning short
        signal.signal(number, signal.SIG_IGN)
        raise StopSignal(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and background jobs do
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _speak_any_encoding() -> None:
    """A level or a server's name that the terminal cannot show is escaped; it must not end the
    command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
