"""Modules: compiled functions that are called with arrays."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from threading import get_ident
from typing import Any, ClassVar
from weakref import WeakSet

from ..codegen.abi import ArrayArgument, CompiledProgram, EntryPoint, Resources
from ..codegen.llvm.module_text import show
from ..core.dtype import DType
from ..core.errors import UserError
from ..core.forking import new_lock, new_reentrant_lock
from ..core.own_code import calling
from ..core.paths import file_path
from ..core.refusals import not_made
from ..core.target import Target
from ..core.text import one_line
from .access_reports import AccessReports
from .argument_checks import flag
from .argument_errors import ArgumentErrors, keyword_error, raise_error
from .array import NDArray
from .device import Device, device
from .divisions import DIVISIONS
from .driver import DeviceError, Launcher
from .exports import write_module
from .foreign import adopted
from .layout import kind_of, layout_of
from .packed import array_maker, call_packed, element_reader, returned
from .saved import read_programs
from .timing import BenchmarkResult as BenchmarkResult
from .timing import Evaluator, TimingOptions, evaluator

LEGACY_ENTRY = "__tvm_main__"
Launchers = dict[str, Launcher]


class _Debug:
    """Whether calls wait for each kernel: as set by `set_debug`, else by the environment."""

    wanted: ClassVar[bool | None] = None
    entries: ClassVar[WeakSet[Entry]] = WeakSet()

    @classmethod
    def on(cls) -> bool:
        """Whether functions prepared from now on wait."""
        return os.environ.get("TILEWRIGHT_DEBUG", "0") not in ("", "0") if cls.wanted is None else cls.wanted


def set_debug(on: bool) -> None:
    """Let calls wait for each kernel, so that an error of the device surfaces at the call and names the kernel."""
    _Debug.wanted = bool(on)
    for entry in list(_Debug.entries):
        entry.forget()


class _Loaded:
    """The kernels of a program on each device, loaded once for all of its functions."""

    def __init__(self, program: CompiledProgram) -> None:
        self.program = program
        self._lock = new_lock()
        self._on: dict[Device, Launchers] = {}

    def on(self, device: Device) -> Launchers:
        """The kernels, ready to launch on a device."""
        with self._lock:
            found = self._on.get(device)
            if found is None:
                found = self._on[device] = _load(self.program, device)
        return found


class Entry:
    """A function of a module. `entry(*arrays)` starts it; on a GPU, the call does not wait for its kernels."""

    def __init__(self, program: CompiledProgram, entry: EntryPoint, loaded: _Loaded | None = None) -> None:
        self.name = entry.name
        self._program = program
        self._entry = entry
        self._loaded = loaded or _Loaded(program)
        self._kind = device(Target(program.target)).kind
        self._runs: dict[Device, Callable[..., None]] = {}
        self._calls_python = "packed(" in entry.source
        self._lock = new_reentrant_lock() if self._calls_python else new_lock()
        self._running_in = 0
        """The `get_ident` of the thread that runs the function, for functions that call Python."""
        self._first_array = next((at for at, a in enumerate(entry.arguments) if isinstance(a, ArrayArgument)), None)
        _Debug.entries.add(self)

    def forget(self) -> None:
        """Make the host functions anew at the next call."""
        with self._lock:
            self._runs.clear()

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named:
            raise keyword_error(self._entry, named)
        try:
            run = self._runs[args[self._first_array].device]  # type: ignore[index]  # None takes the slow path
        except (KeyError, TypeError, IndexError, AttributeError):
            run = None
        if run is None:  # outside of the handler, so that the error comes without that KeyError
            if (given := adopted(self._entry.arguments, args)) is not None:
                return given.call(self)
            run = self._prepare(args)
        try:
            with self._lock:
                return self._run_python(run, args) if self._calls_python else run(*args)
        except (AttributeError, TypeError) as error:
            failed = error
        if (given := adopted(self._entry.arguments, args)) is not None:
            return given.call(self)
        raise_error(self._entry, self._kind, args)
        raise failed

    def _run_python(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call host code that calls Python. The Python code may call this function again."""
        if self._running_in == get_ident():
            return self._bind(self._on(args))(*args)  # with separate memory between kernels
        self._running_in = get_ident()
        try:
            return run(*args)
        finally:
            self._running_in = 0

    def _prepare(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """The host function for the device of the arguments; raises UserError if they are wrong."""
        raise_error(self._entry, self._kind, args)
        on = self._on(args)
        with self._lock:
            run = self._runs.get(on)
            if run is None:
                run = self._runs[on] = self._bind(on.require())
        return run

    def _on(self, args: tuple[Any, ...]) -> Device:
        """The device of valid arguments."""
        return device(self._kind) if self._first_array is None else args[self._first_array].device

    def _bind(self, on: Device) -> Callable[..., Any]:
        """The host code for one device, with the objects that it names."""
        launchers = self._loaded.on(on)
        if _Debug.on():
            launchers = {name: _watched(name, launch, on) for name, launch in launchers.items()}
        entry = self._entry
        names: dict[str, Any] = {
            "allocate": _Scratch(on).allocate,
            "packed": call_packed,
            "returned": returned,
            "as_array": array_maker(on),
            "element": element_reader(on),
            **DIVISIONS,
            **ArgumentErrors(entry, self._kind, on).names(),
            **launchers,
            **{limit.name: limit.allowed for limit in entry.limits},
        }
        if entry.indices:
            reports = AccessReports(entry, on)
            names |= {"cleared": reports.cleared, "noted": reports.noted, "reported": reports.reported}
        for argument in entry.arguments:
            if isinstance(argument, ArrayArgument):
                dtype = DType(argument.dtype)
                names[f"{argument.name}_kind"] = kind_of(on, dtype, len(argument.shape))
                shape = tuple(extent for extent in argument.shape if isinstance(extent, int))
                if len(shape) == len(argument.shape):
                    names[f"{argument.name}_layout"] = layout_of(on, dtype, shape)
        exec(compile(entry.source, f"<host code of {entry.symbol}>", "exec"), names)
        run: Callable[..., None] = names[entry.symbol]
        return run

    def time_evaluator(self, func_name: Any = None, dev: Device | None = None, *args: Any, **options: Any) -> Evaluator:
        """The same as `Module.time_evaluator`, for this function."""
        if isinstance(func_name, Device):  # called as entry.time_evaluator(dev, ...)
            args = (dev, *args) if dev is not None else args
            dev = func_name
        before = options.pop("f_preproc", "")
        known = [field.name for field in fields(TimingOptions)]
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None or len(args) > len(known):
            raise UserError(
                f"there is no option {unknown!r}" if unknown else f"{len(args)} options are given",
                primitive="time_evaluator",
                fix=f"its options are {', '.join(known)}",
            )
        return self.timed(
            dev or device(self._kind), TimingOptions(**dict(zip(known, args, strict=False)) | options), before
        )

    def timed(self, on: Any, options: TimingOptions, before: str = "") -> Evaluator:
        """Return the timer of this function on a device; raises UserError for a device of another kind."""
        if isinstance(on, Device) and on.kind != self._kind:
            raise UserError(
                f"dev={on} is of another kind than the module, which is for {self._program.target}",
                primitive="time_evaluator",
                fix=f"give tw.{self._kind}(): another device's clock does not tell how long this one takes",
            )
        return evaluator(self, on, options, before)

    def __repr__(self) -> str:
        return one_line(f"<function {self.name} for {self._program.target}>")


def _watched(name: str, launch: Launcher, on: Device) -> Launcher:
    """Return a launcher that waits after each launch, so that an error surfaces at the kernel that caused it."""

    def launch_and_wait(*args: Any) -> None:
        launch(*args)
        if on.driver.recording(on.index):
            return
        try:
            on.sync()
        except DeviceError as error:
            raise DeviceError(f"kernel {name} on {on}: {error}", error.code) from error

    return launch_and_wait


class _Scratch:
    """Global memory between the kernels of one function: kept from call to call, doubled if more is needed.

    Outgrown memory stays allocated: a CUDA graph that was recorded earlier may still use it.
    """

    def __init__(self, on: Device) -> None:
        self.on = on
        self.held: dict[str, NDArray] = {}
        self.outgrown: list[NDArray] = []

    def allocate(self, name: str, size: int) -> Any:
        """The memory of that name, at least `size` bytes."""
        found = self.held.get(name)
        if found is None or found.shape[0] < size:
            if found is not None:
                self.outgrown.append(found)
                size = max(size, 2 * found.shape[0])
            memory = self.on.driver.allocate(self.on.index, size)
            found = self.held[name] = NDArray(self.on, DType("uint8"), (max(0, size),), memory)
        return found.handle


def _load(program: CompiledProgram, on: Device) -> Launchers:
    return on.driver.load(program, on.index) if program.kernels else {}


class DeviceModule:
    """The kernels of a module: the value of `module.imported_modules[0]`."""

    def __init__(self, program: CompiledProgram) -> None:
        self._program = program
        self.type_key = str(Target(program.target).kind)

    def get_source(self, fmt: str = "") -> str:
        """The kernels' source; `fmt` is "" or its language, "cu" or "cl"."""
        known = {"cuda": ("", "cu", "cuda"), "opencl": ("", "cl", "opencl")}[self.type_key]
        if not isinstance(fmt, str) or fmt not in known:
            raise UserError(f"there is no {fmt!r} form of a {self.type_key} module", fix=f"ask for one of {known}")
        return self._program.source

    def __repr__(self) -> str:
        return one_line(
            f"<DeviceModule {', '.join(kernel.name for kernel in self._program.kernels)} for {self._program.target}>"
        )

    @property
    def binary(self) -> bytes | None:
        """The cubin, for CUDA."""
        return self._program.binary


class Module:
    """A compiled program: call it, look at its source, time it."""

    def __init__(self, program: CompiledProgram, exporter: Any = None) -> None:
        if not isinstance(program, CompiledProgram):
            raise not_made("Module", "build one: tw.build(s, [A, B], target)")
        self.program = program
        self._exporter = exporter
        self.target = Target(program.target)
        loaded = _Loaded(program)
        self._entries = {entry.name: Entry(program, entry, loaded) for entry in program.entries}
        self.entry_name = program.entries[0].name
        self.entry_func = self._entries[self.entry_name]
        for_cpu = self.target.kind in ("llvm", "c")
        self.imported_modules: list[Any] = [DeviceModule(program)] if program.kernels and not for_cpu else []
        self.type_key = str(self.target.kind) if for_cpu else "host"

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.entry_func(*args, **named)

    def __getitem__(self, name: str) -> Entry:
        return self.get_function(name, query_imports=True)

    def get_function(self, name: str, query_imports: bool = False) -> Entry:
        """The function of that name; with `query_imports`, of an imported module, too."""
        further = flag(query_imports, "query_imports", "get_function")
        found = self._entries.get(self.entry_name if name == LEGACY_ENTRY else name) if isinstance(name, str) else None
        imported = (
            [m for m in self.imported_modules if isinstance(m, Module)]
            if found is None and further and isinstance(name, str)
            else []
        )
        holder = next((m for m in imported if name in m._entries), None)
        if holder is not None:
            return holder.get_function(name)
        if found is None:
            raise UserError(f"the module has no function {name!r}", fix=f"it has {', '.join(self._entries)}")
        return found

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether the module has a function of that name or, with `query_imports`, an imported module has one."""
        mine = isinstance(name, str) and (name == LEGACY_ENTRY or name in self._entries)
        further = flag(query_imports, "query_imports", "implements_function")
        imported = [m for m in self.imported_modules if isinstance(m, Module)] if further else []
        return mine or any(m.implements_function(name) for m in imported)

    def import_module(self, module: Module) -> None:
        """Let `module[name]` find the functions of another module, too."""
        if not isinstance(module, Module):
            raise UserError(
                f"{module!r} is not a module",
                primitive="import_module",
                fix="give the result of tw.build or load_module",
            )
        self.imported_modules.append(module)

    def get_source(self, fmt: str = "") -> str:
        """Return the host code as text; the kernels' source is `imported_modules[0].get_source()`.

        On a CPU, kernels are part of the module. "ll" (or "") is its LLVM IR, and "opt" the IR after LLVM's passes.
        "asm" is the machine code, and "host" the host code. "h" is the C header of the functions that `save("x.o")` and
        `export_library("x.so")` define, and for a GPU "c" is their launcher.
        """
        if isinstance(fmt, str) and fmt in ("h", "c") and self._exporter is not None:
            return str(self._exporter.header() if fmt == "h" else self._exporter.c_source())
        if self.target.kind == "c" and not (isinstance(fmt, str) and fmt == "host"):
            if not isinstance(fmt, str) or fmt not in ("", "c"):
                raise UserError(f"a module for c has no form {fmt!r}", fix="ask for one of c, h, host")
            return self.program.source
        if self.target.kind == "llvm":
            return show(self.program, fmt)
        return "\n\n".join(entry.source for entry in self.program.entries)

    @property
    def resources(self) -> Mapping[str, Resources]:
        """Registers, spills and shared memory of each kernel, if the compiler reports them (CUDA)."""
        return self.program.resources

    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Evaluator:
        """A function that runs `func_name` with its arguments and returns a `BenchmarkResult` in seconds.

        Each of `repeat` measurements times `number` runs on the device, after one that does not count. The number grows
        until a measurement takes `min_repeat_ms`. `cache_flush_bytes` of other memory are written before every single
        run, if given.
        """
        options = TimingOptions(
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval,
            repeats_to_cooldown,
            cache_flush_bytes,
        )
        return self.get_function(func_name).timed(dev, options, f_preproc)

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write the module into one file, of the kind that `fmt` or the ending of the name says.

        Parameters
        ----------
        file_name
            The file. Without a known ending, and with ".tw", it is an archive that `load_module` reads.
        fmt
            "tw", "o" (an ELF object), "so" (a shared library, linked by the system's C compiler), "tar" (the object and
            its header), or "h" (the C header). For the CPU also "ll", "bc" and "s". For CUDA also "c" (the launcher),
            "cu" and "cubin". For OpenCL also "c" and "cl".

        Notes
        -----
        "o" and "so" define a C function for each function of the module; docs/programs.md shows how they are called.
        `load_module` reads "tw", "o", "so" and "tar".
        """
        write_module(self.program, self._exporter, file_name, fmt, "save")

    def export_library(self, file_name: str | os.PathLike[str], fcompile: Any = None, **legacy: Any) -> None:
        """Write the module as a library: a shared one (".so"), or another format that the ending of the name selects.

        Parameters
        ----------
        file_name
            The file, such as "conv.so".
        fcompile
            A function (file, object files) that links them instead of the system's compiler, such as
            `contrib.cc.create_shared`.
        **legacy
            `addons`, `workspace_dir`: accepted, and not needed.
        """
        unknown = sorted(set(legacy) - {"addons", "workspace_dir"})
        if unknown:
            raise UserError(
                f"there is no argument {unknown[0]!r}", primitive="export_library", fix="give the file's name alone"
            )
        if fcompile is None:
            write_module(self.program, self._exporter, file_name, "", "export_library")
            return
        if not callable(fcompile):
            raise UserError(
                f"fcompile={fcompile!r} is not a function",
                primitive="export_library",
                fix="give one that links object files: contrib.cc.create_shared",
            )
        path = os.fspath(file_path(file_name, "export_library", "lib.so"))
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            made = os.path.join(folder, "lib.o")
            write_module(self.program, self._exporter, made, "o", "export_library")
            with calling("fcompile"):
                fcompile(path, [made])

    def __repr__(self) -> str:
        return one_line(f"<Module {', '.join(self._entries)} for {self.target}>")


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """The module in a file that `save` or `export_library` wrote; its devices are looked for when it is first called.

    A library of several modules loads as the first, which imports the others. A module is code, which runs when it is
    called: load only files that you trust. Raises UserError for a file that holds no module, or has damaged or edited
    content.
    """
    first, *others = [Module(program) for program in read_programs(path)]
    for module in others:
        first.import_module(module)
    return first
