"""Names that scripts of the legacy API use of the compiler for the CPU, of types, and of the tuner."""

from __future__ import annotations

import tilewright as tw
from tests.errors.refused import refused

CONVOLUTION = (("TENSOR", (1, 4, 8, 8), "float32"), ("TENSOR", (4, 4, 3, 3), "float32"), 1, 1, 1, "float32")


def test_facts_about_the_compiler_for_the_cpu() -> None:
    assert tw.target.codegen.llvm_version_major() >= 15
    assert tw.target.codegen.llvm_get_system_triple().count("-") >= 2
    assert tw.target.codegen.llvm_get_system_cpu()


def test_types_have_the_codes_of_dlpack() -> None:
    names = ("int8", "uint8", "float16", "handle", "bfloat16", "bool")
    assert [tw.DataType(name).type_code for name in names] == [0, 1, 2, 3, 4, 1]
    assert (tw.DataTypeCode.HANDLE, tw.runtime.DataTypeCode.BFLOAT) == (3, 4)


def test_results_of_measurements_by_their_old_modules() -> None:
    assert tw.runtime.module.BenchmarkResult([1, 2, 2, 5]).median == 2
    assert tw.autotvm.record.MeasureResult is tw.autotvm.MeasureResult


def test_records_of_a_database_that_fit() -> None:
    database = tw.autotvm.database.DummyDatabase()
    task = tw.autotvm.task.create("conv2d_nchw.cuda", CONVOLUTION, "cuda")
    for index in range(3):
        inp = tw.autotvm.MeasureInput(task.target, task, task.config_space.get(index))
        database.save(inp, tw.autotvm.MeasureResult((1.0 + index,), 0, 1.0, 0.0))
    found = database.filter(lambda _, results: results[0].costs[0] < 3)
    assert [inp.config.index for inp, _ in found] == [0, 1]
    with refused("database.filter", "3 is not a function", fix="results"):
        database.filter(3)  # type: ignore[arg-type]


def test_the_search_shows_its_results_and_its_cost_model() -> None:
    task = tw.autotvm.task.create("conv2d_nchw.cuda", CONVOLUTION, "cuda")
    records = [
        (tw.autotvm.MeasureInput(task.target, task, task.config_space.get(i)), tw.autotvm.MeasureResult((i,), 0, 1, 0))
        for i in range(1, 9)
    ]
    tuner = tw.autotvm.tuner.XGBTuner(task, feature_type="knob", model="numpy")
    tuner.load_history(records, min_seed_records=9)
    assert tuner.cost_model.base_model is None
    tuner.load_history(records, min_seed_records=8)
    assert tuner.cost_model.base_model is not None
    tuner.update([inp for inp, _ in records[:5]], [result for _, result in records[:5]])
    assert tuner.xs == [1, 2, 3, 4, 5]
    assert tuner.visited == set(tuner.xs)
    assert tuner.ys == sorted(tuner.ys, reverse=True)
    assert len(tuner.cost_model.predict([6, 7])) == 2
