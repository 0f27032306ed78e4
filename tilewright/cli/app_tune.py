"""`tilewright tune` and its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .commands import Command, CommandGroup

app = typer.Typer(
    name="tune",
    cls=CommandGroup,
    help="Search for the fastest schedule of an operator. Every candidate is built, checked and timed.",
    no_args_is_help=True,
)

_WHAT, _SEARCH, _MEASURE, _FILES, _FLEET = "The computation", "Search", "Measuring", "Files", "Fleet"


def _option(panel: str, *names: str, metavar: str, what: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=what, rich_help_panel=panel, **more)


def _names(ctx: Any, incomplete: str) -> list[str]:
    """Complete the names of strategies, joined by commas."""
    from .tune import OPERATORS, strategy_names

    *before, last = incomplete.split(",")
    known = strategy_names(ctx.info_name) if ctx.info_name in OPERATORS else []
    return [",".join([*before, name]) for name in known if name.startswith(last) and name not in before]


class _OperatorCommand(Command):
    """A command that tunes an operator: its help lists the strategies of the table, which takes time to import."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from .tune import strategies_in_words

        for option in self.params:
            if option.name == "strategy":
                option.help = f"{_STRATEGIES}: {strategies_in_words(str(self.name))}."  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


_STRATEGIES = "Search these strategies only"
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="NAME[,NAME]", help=_STRATEGIES, rich_help_panel=_SEARCH,
        show_default="all that cover the layer, except strategies that round float32", autocompletion=_names,
    ),
]  # fmt: skip


def _shape(metavar: str, what: str) -> Any:
    return _option(_WHAT, "--shape", metavar=metavar, what=what, show_default="required")


_TWO = "one number for both sides, or two joined by x: 3 or 3x5"
Kernel = Annotated[str, _option(_WHAT, "--kernel", metavar="N|HxW", what=f"Size of the window: {_TWO}.")]
Stride = Annotated[str, _option(_WHAT, "--stride", metavar="N|HxW", what="Step of the window.")]
Dilation = Annotated[str, _option(_WHAT, "--dilation", metavar="N|HxW", what="Step within the window.")]
Padding = Annotated[
    str | None,
    _option(
        _WHAT, "--padding", metavar="WORD|N|HxW", show_default="the zeros of same, at any stride",
        what="Zeros around the input. Words: same (an output as large as the input; stride 1 only), valid (none). "
        "Numbers: 1, 1x2, or 1x2x1x2 for top, left, bottom, right.",
    ),
]  # fmt: skip


def _type(*further: str) -> Any:
    *names, last = ("float32", "float16", "bfloat16", "float64", *further)
    return _option(_WHAT, "--dtype", metavar="TYPE", what=f"Element type: {', '.join(names)} or {last}.")


Dtype = Annotated[str, _type()]
Target = Annotated[
    str | None,
    _option(
        _WHAT, "--target", "-t", metavar="cuda|opencl|llvm", what="The target to run on; llvm is the CPU.",
        show_default="cuda if there is an NVIDIA GPU, else opencl if its device is not a CPU, else llvm",
    ),
]  # fmt: skip
Trials = Annotated[
    int | None,
    _option(
        _SEARCH, "--trials", "-n", metavar="N", show_default="100, or as many as the budget allows",
        what="Configurations to measure, including this workload's in the log.",
    ),
]  # fmt: skip
Budget = Annotated[
    str | None,
    _option(
        _SEARCH, "--budget", metavar="TIME", show_default="none",
        what="Time of the search: 15s, 2m, 1h. Running measurements are still finished.",
    ),
]  # fmt: skip
Tuner = Annotated[
    str,
    _option(
        _SEARCH, "--tuner", metavar="NAME",
        what="The search: auto (a machine model that learns), xgb (a learned model alone), ga (a genetic algorithm), "
        "random, or gridsearch (all, in order).",
    ),
]  # fmt: skip
Seed = Annotated[
    int | None, _option(_SEARCH, "--seed", metavar="N", what="Seed of the search.", show_default="a new one each time")
]
Early = Annotated[
    int | None,
    _option(_SEARCH, "--early-stopping", metavar="N", what="End after N trials without a gain.", show_default="never"),
]
LeastGain = Annotated[
    float,
    _option(
        _SEARCH, "--least-gain", metavar="PART", show_default="0: never",
        what="End when no candidate is expected to be faster than the best by this fraction, such as 0.01. Needs the "
        "tuner auto, and a device that the machine model covers.",
    ),
]  # fmt: skip
Timeout = Annotated[
    float,
    _option(
        _MEASURE, "--timeout", metavar="SECONDS", what="Time limit for building a configuration, and for running it."
    ),
]
Number = Annotated[int, _option(_MEASURE, "--number", metavar="N", what="Least number of runs in one measurement.")]
Repeat = Annotated[int, _option(_MEASURE, "--repeat", metavar="N", what="Measurements of each configuration.")]
MinRepeat = Annotated[float, _option(_MEASURE, "--min-repeat-ms", metavar="MS", what="Least time of one measurement.")]
NoCheck = Annotated[bool, _option(_MEASURE, "--no-check", metavar="", what="Do not compare results with a reference.")]


def _log(operator: str) -> Any:
    return _option(
        _FILES, "--log", "-l", metavar="FILE", show_default=f"{operator}.log",
        what="File for all results; one log may hold many workloads. An existing log is resumed.",
    )  # fmt: skip


Resume = Annotated[
    bool,
    _option(
        _FILES, "--resume/--no-resume", metavar="",
        what="Count the log's records of this workload as trials, and do not measure them again.",
    ),
]  # fmt: skip
Plot = Annotated[
    Path | None,
    _option(
        _FILES, "--plot", metavar="FILE", show_default="none",
        what="Draw the best rate against the number of trials, as an .svg, .png or .pdf file.",
    ),
]  # fmt: skip
Workers = Annotated[
    str | None,
    _option(
        _FLEET, "--workers", metavar="ADDRESS", show_default="this host's device",
        what="Measure on the workers of this Dask scheduler (tls://scheduler:8786), which `tilewright worker` starts.",
    ),
]  # fmt: skip
Key = Annotated[
    str,
    _option(
        _FLEET, "--key", metavar="TEXT", show_default="the most common model of the workers",
        what="Use workers that announce this key, or have this text in the name of their device: h200.",
    ),
]  # fmt: skip
Insecure = Annotated[
    bool,
    _option(
        _FLEET, "--insecure", metavar="",
        what="Use a scheduler on another host without TLS: everybody who reaches it can then run code on all hosts.",
    ),
]  # fmt: skip


_Options = dict[str, tuple[Any, Any]]
_SEARCHING: _Options = {
    "target": (Target, None),
    "trials": (Trials, None),
    "budget": (Budget, None),
    "tuner": (Tuner, "auto"),
    "seed": (Seed, None),
    "early_stopping": (Early, None),
    "least_gain": (LeastGain, 0.0),
    "timeout": (Timeout, 10),
    "number": (Number, 4),
    "repeat": (Repeat, 3),
    "min_repeat_ms": (MinRepeat, 10),
    "no_check": (NoCheck, False),
}
_PLOTTING: _Options = {"plot": (Plot, None)}
_FLEETS: _Options = {"workers": (Workers, None), "key": (Key, ""), "insecure": (Insecure, False)}


def _searching(operator: str) -> _Options:
    """The options that every command has, with their defaults."""
    return {**_SEARCHING, "log": (Annotated[Path | None, _log(operator)], None), "resume": (Resume, True)}


_SIZES = ("shape", "filters", "kernel", "stride", "padding", "dilation", "groups", "multiplier", "dtype",
          "layout", "units", "columns")  # fmt: skip


def _tune(operator: str, given: dict[str, Any]) -> int:
    """Tune an operator, as the options `given` say."""
    from ..tune.session.options import UNLIMITED_TRIALS
    from .tune import tune

    sizes = {name: given.pop(name) for name in _SIZES if name in given}
    strategy = given.pop("strategy", None)
    options = _tune_options(operator, given, 100 if given["budget"] is None else UNLIMITED_TRIALS)
    return tune(operator, sizes, options, strategy)


def _tune_many(given: dict[str, Any]) -> int:
    """Tune the workloads of a file, as the options `given` say."""
    from ..tune.session.options import UNLIMITED_TRIALS
    from .many import tune_file

    file = given.pop("file")
    return tune_file(file, _tune_options("many", {**given, "plot": None}, UNLIMITED_TRIALS))


def _tune_options(operator: str, given: dict[str, Any], trials: int) -> Any:
    """Return the `TuneOptions` of the command line; `trials` is the default."""
    from .tune_options import TuneOptions, seconds_of_option

    check = not given.pop("no_check")
    chosen = {"log": given["log"] or Path(f"{operator}.log"), "budget": seconds_of_option(given["budget"])}
    if given["trials"] is None:
        chosen["trials"] = trials
    return TuneOptions(**{**given, **chosen, "check": check})


def _add(declared: Callable[..., None], epilog: str, shared: _Options, run: Callable[[dict[str, Any]], int]) -> None:
    """Make a command of a function's parameters and the `shared` options; it exits with the status of `run`."""

    def command(**given: Any) -> None:
        raise typer.Exit(run(given))

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=kind) for each in inspect.signature(declared, eval_str=True).parameters.values()]
    parameters += [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in shared.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = declared.__doc__
    kind_of_command = _OperatorCommand if "strategy" in command.__annotations__ else Command
    app.command(declared.__name__, cls=kind_of_command, epilog=epilog)(command)


def _command(epilog: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that turns a function of an operator's sizes into the command that tunes the operator.

    It adds the options of a search.
    """

    def made(declared: Callable[..., None]) -> Callable[..., None]:
        operator = declared.__name__
        shared = {**_searching(operator), **_PLOTTING, **_FLEETS}
        _add(declared, epilog, shared, lambda given: _tune(operator, given))
        return declared

    return made


@_command("Example: tilewright tune conv1d --shape 16384 --kernel 32 --trials 60")
def conv1d(
    shape: Annotated[str, _shape("M", "Length of the input: 16384.")] = "",
    kernel: Annotated[str, _option(_WHAT, "--kernel", metavar="N", what="Length of the kernel.")] = "3",
    stride: Annotated[str, _option(_WHAT, "--stride", metavar="N", what="Step of the window.")] = "1",
    padding: Annotated[
        str,
        _option(
            _WHAT,
            "--padding",
            metavar="WORD|N|NxN",
            what="Zeros around the input. Words: full (a result for each overlap of kernel and input), "
            "same (as many results as inputs; stride 1 only), valid (none). Numbers: 3, or 3x4 for before and after.",
        ),
    ] = "full",
    dtype: Dtype = "float32",
) -> None:
    """Tune the 1-D convolution of M numbers with a kernel of N (NumPy's convolve)."""


@_command("Example: tilewright tune conv2d --shape 1x512x7x7 --filters 512 --kernel 3 --padding 1 -n 500")
def conv2d(
    shape: Annotated[str, _shape("NxCxHxW", "Shape of the input, batch x channels x height x width: 1x512x7x7.")] = "",
    filters: Annotated[
        str | None,
        _option(_WHAT, "--filters", metavar="N", what="Channels of the output.", show_default="as the input"),
    ] = None,
    kernel: Kernel = "3",
    stride: Stride = "1",
    padding: Padding = None,
    dilation: Dilation = "1",
    groups: Annotated[
        str, _option(_WHAT, "--groups", metavar="N", what="Groups of channels; each group has its own filters.")
    ] = "1",
    dtype: Annotated[str, _type("int8", "uint8")] = "float32",
    layout: Annotated[str, _option(_WHAT, "--layout", metavar="NCHW|NHWC|HWCN", what="Order of dimensions.")] = "NCHW",
    strategy: Strategy = None,
) -> None:
    """Tune a 2-D convolution, with any number of groups."""


@_command("Example: tilewright tune depthwise --shape 3x4x16x32 --kernel 7 --trials 60")
def depthwise(
    shape: Annotated[str, _shape("NxCxHxW", "Shape of the input, batch x channels x height x width: 3x4x16x32.")] = "",
    kernel: Kernel = "3",
    stride: Stride = "1",
    padding: Padding = None,
    dilation: Dilation = "1",
    multiplier: Annotated[
        str, _option(_WHAT, "--multiplier", metavar="N", what="Kernels, and channels of the output, for each channel.")
    ] = "1",
    dtype: Dtype = "float32",
    strategy: Strategy = None,
) -> None:
    """Tune a depthwise 2-D convolution: each channel has its own kernels; NCHW."""


@_command("Example: tilewright tune dense --shape 64x1024 --units 4096 -n 60")
def dense(
    shape: Annotated[str, _shape("MxK", "Shape of the data, rows x depth: 64x1024.")] = "",
    units: Annotated[
        str | None, _option(_WHAT, "--units", metavar="N", what="Columns of the result.", show_default="the depth")
    ] = None,
    dtype: Dtype = "float32",
    strategy: Strategy = None,
) -> None:
    """Tune a fully connected layer: data (M x K) times transposed weights (N x K)."""


@_command("Example: tilewright tune batch_matmul --shape 12x197x64 --columns 197 -n 60")
def batch_matmul(
    shape: Annotated[str, _shape("BxMxK", "Shape of the first factor, batch x rows x depth: 12x197x64.")] = "",
    columns: Annotated[
        str | None, _option(_WHAT, "--columns", metavar="N", what="Columns of the result.", show_default="as rows")
    ] = None,
    dtype: Dtype = "float32",
    strategy: Strategy = None,
) -> None:
    """Tune a batch of matrix products: data (B x M x K) times transposed weights (B x N x K)."""


def many(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", show_default=False,
            help="One workload per line, as on this command line: conv2d --shape 1x64x56x56 --filters 64. "
            "The option --times N is the number of times that a network runs it. A comment begins with #.",
        ),
    ],
) -> None:  # fmt: skip
    """Tune many workloads in one session. Tasks with a larger expected gain get more time."""


_OF_ALL = _option(_SEARCH, "--trials", "-n", metavar="N", what="Configurations to measure, of all workloads together.")
_add(
    many,
    "Example: tilewright tune many layers.txt --budget 10m",
    {**_searching("many"), "trials": (Annotated[int | None, _OF_ALL], None), **_FLEETS},
    _tune_many,
)
