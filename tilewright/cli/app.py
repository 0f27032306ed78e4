"""The commands and their options. Each command imports its own dependencies when it runs, so that `--help` is fast."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import UserError
from ..core.version import __version__
from . import app_cache, app_tune, app_worker
from .commands import Command, CommandGroup
from .console import complain


class _Commands(CommandGroup):
    """All commands, in the order in which a newcomer meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        first = ("ladder", "tune", "auto", "log", "run", "cache", "export", "doctor", "worker")
        return sorted(super().list_commands(ctx), key=first.index)


app = typer.Typer(
    name="tilewright",
    cls=_Commands,
    help="A tensor-expression compiler: declare a computation, schedule it, run it as a GPU kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ladder = typer.Typer(
    name="ladder",
    cls=CommandGroup,
    help="Run a series of schedules of one convolution, from naive to fast. Each is built, checked and timed.",
    no_args_is_help=True,
)
log = typer.Typer(name="log", cls=CommandGroup, help="Inspect tuning logs.", no_args_is_help=True)
app.add_typer(ladder)
app.add_typer(app_tune.app)
app.add_typer(log)
app.add_typer(app_cache.app)
app_worker.add_to(app)


_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """The entry point. Errors of the user end with status 2 and no traceback, output that cannot be written with 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process: output is
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # output is discarded from now on
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # × and µ must not break a narrow terminal
    try:
        try:
            app(prog_name="tilewright")
        finally:
            with suppress(AttributeError, ValueError):  # a script may replace or close the stream
                sys.stdout.flush()
    except UserError as error:
        complain(error)
        sys.exit(2)
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the stream once more at exit
        if error.errno != errno.EPIPE:  # nobody reads: not a fault
            fix = "free space there, or write the output elsewhere"
            complain(UserError(f"cannot write the output: {error.strerror}", fix=fix, where=""))
        sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of `tilewright` itself."""


ExplainOption = Annotated[
    bool, typer.Option("--explain", metavar="", help="Print the changes and the time of each compiler pass to stderr.")
]


class _Run(Command):
    """Shows its usage as `python` does."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[--explain]", "SCRIPT", "[ARGS]..."]


@app.command(
    "run",
    cls=_Run,
    # All that follows the script belongs to the script, options included.
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
def run_command(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The Python file to run.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Arguments of the script.", show_default=False)
    ] = None,
    explain: ExplainOption = False,
) -> None:
    """Run a script for which `import tvm` means Tilewright."""
    from ..passes.context import PassContext
    from .run import run_script

    with PassContext(config={"tilewright.explain": explain}):
        raise typer.Exit(run_script(script, arguments or []))


@app.command("auto", cls=Command)
def auto_command(
    program: Annotated[
        str,
        typer.Argument(
            metavar="FILE:FUNCTION", show_default=False,
            help="A function in a Python file that returns the tensors of a program, inputs and outputs.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="cuda|opencl|llvm", help="The target to schedule for.",
            show_default="cuda without trials; else the device that is here",
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", "-n", metavar="N", min=0, help="Candidates to measure; 0 ranks them by models.")
    ] = 0,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="TIME", help="Start no candidate after this time (15s, 2m, 1h).", show_default="none"
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="A log to add results to, and to resume from.", show_default="none"),
    ] = None,
    precision: Annotated[
        str,
        typer.Option("--precision", metavar="ieee|fp32|tf32|tf32_cut", help="Least precision of float32 products."),
    ] = "fp32",
) -> None:  # fmt: skip
    """Make the schedule of a program automatically, and print it as Python."""
    from .automatic import AutoOptions, automatic
    from .tune_options import seconds_of_option

    raise typer.Exit(automatic(AutoOptions(program, target, trials, seconds_of_option(budget), log, precision)))


@app.command("export", cls=Command)
def export_command(
    layer: Annotated[
        str,
        typer.Argument(
            metavar="FILE:NAME", show_default=False,
            help="A layer in a Python file, such as model.py:model.features.0. The file is run.",
        ),
    ],
    shape: Annotated[
        str, typer.Option("--shape", metavar="NxCxHxW", help="Sizes of its input.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE",
            help="The file; its ending selects the format: .so, .o, .c, .tar, .ll, .cu. The header lies beside it.",
        ),
    ] = Path("layer.so"),
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="TYPE", help="Type of the tensors.", show_default="that of the weights"),
    ] = None,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", metavar="", help="Channels lie behind the spatial dimensions in memory.")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="TARGET", help='The target, such as llvm, c, or "cuda -arch=sm_90".',
            show_default="cuda if there is an NVIDIA GPU, else llvm, with this machine's tuned record of the layer",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Write the kernel of a PyTorch layer as a library for C, with a header."""
    from .export import ExportOptions, export

    raise typer.Exit(export(ExportOptions(layer, shape, output, dtype, channels_last, target)))


@app.command("doctor", cls=Command)
def doctor_command(
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", metavar="",
            help="Measure the rates of the GPU and the CPU for the models, and store them: takes minutes.",
        ),
    ] = False,
) -> None:  # fmt: skip
    """Show the targets, devices, compilers and libraries that work on this machine, and why others do not."""
    from .doctor import calibrated, doctor

    if calibrate:
        raise typer.Exit(calibrated())
    doctor()


TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target", "-t", metavar="cuda|opencl", help="The target to run on.",
        show_default="cuda if there is a GPU, else OpenCL",
    ),
]  # fmt: skip
VariantOption = Annotated[
    list[str] | None,
    typer.Option("--variant", "-v", metavar="NAME", help="Run only this variant; may be repeated.", show_default="all"),
]
ShowIrOption = Annotated[bool, typer.Option("--show-ir", metavar="", help="Print each lowered program.")]
ShowSourceOption = Annotated[bool, typer.Option("--show-source", metavar="", help="Print each kernel's source.")]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save", metavar="DIR", show_default=False,
        help="Write programs, sources, table.json and a chart of the speedups into this folder.",
    ),
]  # fmt: skip
RepeatOption = Annotated[
    int, typer.Option("--repeat", min=1, metavar="INT", help="Measurements of each variant; slow ones get fewer.")
]
DtypeOption = Annotated[str, typer.Option("--dtype", metavar="float32|float64", help="Element type.")]


def _size(name: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, min=1, metavar="INT", help=what)
    return option


@ladder.command("conv1d", cls=Command)
def conv1d_command(
    m: Annotated[int, _size("--M", "Length of the input.")] = 16384,
    n: Annotated[int, _size("--N", "Length of the kernel.")] = 32,
    dtype: DtypeOption = "float32",
    target: TargetOption = None,
    variant: VariantOption = None,
    show_ir: ShowIrOption = False,
    show_source: ShowSourceOption = False,
    save: SaveOption = None,
    repeat: RepeatOption = 21,
    explain: ExplainOption = False,
) -> None:
    """The full 1-D convolution of M numbers with a kernel of N: naive and v1 to v5."""
    from ..ladder.conv1d import Conv1dLadder
    from ..passes.context import PassContext
    from .ladder import LadderOptions, climb_ladder

    options = LadderOptions(target, tuple(variant or ()), show_ir, show_source, save, repeat)
    with PassContext(config={"tilewright.explain": explain}):
        raise typer.Exit(climb_ladder(Conv1dLadder(M=m, N=n, dtype=dtype), options))


@ladder.command("depthwise", cls=Command)
def depthwise_command(
    batch: Annotated[int, _size("--batch", "Images.")] = 3,
    channels: Annotated[int, _size("--channels", "Channels of an image, each with a kernel of its own.")] = 4,
    height: Annotated[int, _size("--height", "Height of an image.")] = 16,
    width: Annotated[int, _size("--width", "Width of an image.")] = 32,
    kernel: Annotated[int, _size("--kernel", "Height and width of a kernel; odd.")] = 7,
    dtype: DtypeOption = "float32",
    target: TargetOption = None,
    variant: VariantOption = None,
    show_ir: ShowIrOption = False,
    show_source: ShowSourceOption = False,
    save: SaveOption = None,
    repeat: RepeatOption = 21,
    explain: ExplainOption = False,
) -> None:
    """The depthwise 2-D convolution of a batch of images: naive and v1 to v4."""
    from ..ladder.depthwise import DepthwiseLadder
    from ..passes.context import PassContext
    from .ladder import LadderOptions, climb_ladder

    images = DepthwiseLadder(batch=batch, channels=channels, height=height, width=width, kernel=kernel, dtype=dtype)
    options = LadderOptions(target, tuple(variant or ()), show_ir, show_source, save, repeat)
    with PassContext(config={"tilewright.explain": explain}):
        raise typer.Exit(climb_ladder(images, options))


LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="The log file.", show_default=False)]
LogsArgument = Annotated[list[Path], typer.Argument(metavar="LOG...", help="The log files.", show_default=False)]


@log.command("show", cls=Command)
def log_show_command(
    path: LogArgument,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, metavar="INT", help="Lines per workload.")] = 30,
) -> None:
    """Show the fastest configurations of each workload in a log, and count the failures."""
    from .log import show

    raise typer.Exit(show(path, rows))


@log.command("best", cls=Command)
def log_best_command(path: LogArgument) -> None:
    """Show the best configuration of each workload of a log."""
    from .log import best

    raise typer.Exit(best(path))


@log.command("merge", cls=Command)
def log_merge_command(
    paths: LogsArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="LOG", help="The file to write.", show_default=False)],
) -> None:
    """Merge several logs into one: each line once, ordered by time."""
    from .log import merge_logs

    raise typer.Exit(merge_logs(out, paths))


@log.command("plot", cls=Command)
def log_plot_command(
    paths: LogsArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="An .svg, .png or .pdf file.")] = Path(
        "tuning.svg"
    ),
) -> None:
    """Draw the best rate against the number of trials, one line per log."""
    from .log import plot

    raise typer.Exit(plot(out, paths))


@log.command("report", cls=Command)
def log_report_command(
    paths: LogsArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path("report.html"),
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the figures as JSON instead.")] = False,
    programs: Annotated[
        int, typer.Option("--programs", min=0, metavar="N", help="Winners to compile and show with their source.")
    ] = 3,
    compile_seconds: Annotated[
        float, typer.Option("--compile-seconds", min=0, metavar="S", help="Time limit for compiling all winners.")
    ] = 2.0,
) -> None:
    """Write a report on logs as one page for a browser: progress, failures, knobs, time, and the winners."""
    from .log_report import report

    raise typer.Exit(report(paths, out, as_json, programs, compile_seconds))
