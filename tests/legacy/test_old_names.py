"""Names and programs of 2017 to 2019: each name is an object of today, and programs of that time run.

`old_names.txt` lists the names that the Python packages of v0.2 to v0.6 had for users.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tests.legacy.test_documents import run
from tests.legacy.test_names import installed as installed
from tilewright import arith, autotvm, driver, intrin, nd, runtime, te, tir, topi, transform
from tilewright.core.errors import UserError

LISTED = Path(__file__).with_name("old_names.txt")
pytestmark = pytest.mark.usefixtures("installed")


def listed(mark: str) -> Iterator[tuple[str, str]]:
    """The (module, name) pairs of the file: "+" for those that are here, "-" for those that are not."""
    text = "\n".join(line for line in LISTED.read_text().splitlines() if not line.startswith("#"))
    for line in text.replace("\n    ", " ").splitlines():
        module, kind, *names = line.split()
        if kind == mark:
            yield from ((module, name) for name in names)


def asked(module: str, name: str) -> Any:
    """`from module import name`."""
    scope: dict[str, Any] = {}
    exec(f"from {module} import {name} as found", scope)
    return scope["found"]


def test_every_old_name_is_there() -> None:
    lost = []
    for module, name in listed("+"):
        try:
            assert asked(module, name) is not None
        except (ImportError, AttributeError) as error:
            lost.append(f"{module}.{name}: {error}")
    assert not lost


def test_every_other_old_name_has_one_clear_error() -> None:
    """It says what to use, and "is not part of Tilewright" of no name that a module for users has."""
    homes = (te, tir, topi, topi.nn, topi.utils, nd, arith, autotvm, runtime, transform)
    poor = []
    for module, name in listed("-"):
        try:
            holder = import_module(module)
            found = getattr(holder, name)
        except UserError as error:
            said = str(error)
            exists = any(name in vars(home) for home in homes)
            if not error.fix or (exists and f"{name} is not part of" in said):
                poor.append(said)
        else:
            poor.append(f"{module}.{name} is {found}")
    assert not poor


SAME = {
    "tvm.scan": te.scan, "tvm.extern": te.extern, "tvm.decl_tensor_intrin": te.decl_tensor_intrin,
    "tvm.call_packed": tir.call_packed, "tvm.call_extern": tir.call_extern, "tvm.call_intrin": tir.call_intrin,
    "tvm.call_pure_intrin": tir.call_intrin, "tvm.ir_builder": tir.ir_builder, "tvm.tag_scope": te.tag_scope,
    "tvm.fmod": te.fmod, "tvm.save_json": tilewright.ir.save_json, "tvm.load_json": tilewright.ir.load_json,
    "tvm.api": tilewright, "tvm.module": runtime, "tvm.module.load": runtime.load_module, "tvm.ndarray": nd,
    "tvm.expr.Select": tir.Select, "tvm.expr.Expr": tir.PrimExpr, "tvm.stmt.For": tir.For,
    "tvm.tensor.Tensor": te.Tensor,
    "tvm.schedule.InferBound": te.schedule.InferBound, "tvm.generic.add": te.add, "tvm.hybrid.script": te.hybrid.script,
    "tvm.arith.DeduceBound": arith.deduce_bound, "tvm.target.current_target": tilewright.target.Target.current,
    "tvm.build_module.lower": driver.lower, "tvm.build_module.BuildConfig": transform.PassContext,
    "tvm.intrin.exp": te.exp, "tvm.intrin.dp4a": intrin.dp4a, "tvm.TVMContext": nd.Device,
    "tvm.contrib.util.tempdir": tilewright.contrib.utils.tempdir, "tvm.autotvm.util": autotvm.utils,
    "tvm.autotvm.task.register": autotvm.template, "topi.util.get_const_tuple": topi.utils.get_const_tuple,
    "topi.nn.util.get_pad_tuple": topi.nn.utils.get_pad_tuple, "topi.broadcast_mul": topi.multiply,
    "topi.cuda.schedule_l2norm": topi.cuda.schedule_l2_normalize, "topi.nn.flatten.flatten": topi.nn.flatten,
    "topi.generic.nn.schedule_dense": topi.generic.schedule_dense, "topi.nn.softmax": topi.nn.softmax,
}  # fmt: skip


def test_old_names_are_the_objects_of_today() -> None:
    for path, object_ in SAME.items():
        module, _, name = path.rpartition(".")
        assert asked(module, name) is object_, path


def test_importing_a_module_leaves_the_function_of_its_name() -> None:
    """`topi.nn.softmax` is a function, and a module that scripts import from."""
    softmax = topi.nn.softmax
    exec("from topi.nn.softmax import softmax\nfrom topi.nn.batch_matmul import batch_matmul\nimport topi.nn.flatten")
    assert topi.nn.softmax is softmax
    assert callable(topi.nn.batch_matmul)
    assert callable(topi.nn.flatten)


def test_names_of_today_that_look_old_stay_absent() -> None:
    for name in ("lowr", "sorft"):
        with pytest.raises(AttributeError):
            getattr(tilewright, name)
    assert not hasattr(tilewright, "relay")


@pytest.mark.parametrize("part", ["nnvm", "nnvm.compiler", "tvm.ir.instrument", "tvm.relay", "tvm.contrib.cublas"])
def test_a_missing_module_has_the_shape_of_every_error(part: str) -> None:
    with pytest.raises(ImportError, match="is not part of Tilewright") as raised:
        import_module(part)
    said = str(raised.value).splitlines()
    assert [line.split()[0] for line in said[1:]] == ["fix:", "at:"]
    with pytest.raises(AttributeError, match=r"ir\.Op is not part of Tilewright\n  fix: use tir\.call_intrin"):
        tilewright.ir.Op


FAMILIES = ["scan", "extern", "tensor_intrin", "packed", "json", "build_config", "operators", "intrinsics"]


def test_programs_of_2017() -> None:
    """One program with a function for each family of names; each checks its results."""
    assert run("programs_of_2017.py", *FAMILIES).split() == FAMILIES


def test_old_names_cost_an_import_nothing() -> None:
    program = "import tilewright, sys; print('tilewright.compat' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_modules_of_the_legacy_package_can_be_imported_under_both_names() -> None:
    """Also without `legacy.install`: the names of a release stand below `tilewright` as they did below `tvm`."""
    program = """
import importlib, importlib.util
from tilewright.compat.legacy.spellings import MODULES
for path, home in MODULES.items():
    name = f"tilewright.{path}"
    assert importlib.util.find_spec(name) is not None, name
    found = importlib.import_module(name)
    stands = found.__name__.replace(".compat.hybrid", ".te.hybrid").replace(".compat.", ".")
    assert home == "tir.ir_builder" or stands in (name, f"tilewright.{home}".rstrip(".")), name
from tilewright.driver.build_module import schedule_to_module
from tilewright.topi.cuda.conv2d import conv2d_nchw
from tilewright.runtime.ndarray import NDArray
from tilewright.autotvm.measure import executor
from tilewright.topi.cuda import conv2d
from tilewright.te.hybrid import parser
try:
    import tilewright.relay
except ImportError:
    print("absent modules are absent")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert done.stdout == "absent modules are absent\n", done.stderr


def test_kinds_of_devices_without_a_driver_can_be_named() -> None:
    kinds = {"aocl": 5, "sdaccel": 6, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10, "ext_dev": 12, "hexagon": 14}
    for kind, code in (*kinds.items(), ("webgpu", 15)):
        named = tilewright.device(kind, 1)
        assert (named.exist, named.device_type, str(named)) == (False, code, f"{kind}(1)")
        assert getattr(tilewright, kind)(1) is getattr(nd, kind)(1) is getattr(runtime, kind)(1) is named
        assert not runtime.enabled(kind)
    assert tilewright.device("mtl") is tilewright.metal()
