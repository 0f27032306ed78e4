"""`s.draw`: what the pictures say, read back from the numbers behind them and from the files."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.explain.schedules import bind, convolution, product, transpose
from tilewright import intrin, te
from tilewright.bounds.infer import infer_bounds
from tilewright.core.architectures import NVIDIA
from tilewright.core.atoms import ATOMS, WARPGROUP_ATOMS
from tilewright.core.errors import UserError
from tilewright.explain.pictures.banks import phases
from tilewright.explain.pictures.fragments import draw_fragments, fragments
from tilewright.explain.pictures.svg import Picture
from tilewright.explain.pictures.tile import BlockTile, draw_tile, tiles

MEMORY = NVIDIA["sm_90"].warp_memory


def tile(s: te.Schedule) -> BlockTile:
    (found,) = tiles(s.value, infer_bounds(s.value))
    return found


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_threads_of_a_tile_with_vthreads() -> None:
    found = tile(product())
    i, j = np.indices((64, 64))
    # Two vthreads each way take halves; in each half, eight by eight threads have four by four elements.
    assert (found.threads == (i % 32 // 4) * 8 + j % 32 // 4).all()
    assert (found.copies == (i // 32) * 2 + j // 32).all()
    assert "Thread 0 computes 4 × 4 elements at 4 places, 32 rows and 32 columns apart." in texts(product().draw())


def test_a_row_of_elements_is_shown_in_rows_of_a_warp() -> None:
    found = tile(convolution(threads=100))
    assert found.threads.shape == (4, 32)
    assert found.threads.ravel().tolist() == [*range(100), *([-1] * 28)]
    assert any("B: 100 elements of one block" in text for text in texts(convolution(threads=100).draw()))


def test_a_stride_between_the_elements_of_a_thread_shows() -> None:
    A = te.placeholder((1024,), name="A")
    B = te.compute((1024,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    block, i = s[B].split(B.op.axis[0], 64)
    each, thread = s[B].split(i, 16)
    s[B].reorder(block, thread, each)
    bind(s[B], (block, "blockIdx.x"), (thread, "threadIdx.x"))
    assert (tile(s).threads.ravel() == np.arange(64) % 16).all()


def test_large_tiles_are_cut() -> None:
    A = te.placeholder((512, 512), name="A")
    B = te.compute((512, 512), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    bind(s[B], (B.op.axis[0], "threadIdx.x"))
    found = tile(s)
    assert (found.threads.shape, found.shown) == ((64, 64), (512, 512))
    assert any("the first 64 × 64 shown" in text for text in texts(draw_tile(found, 32).document("cut")))


def test_a_tile_ends_where_its_tensor_does() -> None:
    A = te.placeholder((10,), name="A")
    B = te.compute((10,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    bind(s[B], *zip(s[B].split(B.op.axis[0], 16), ("blockIdx.x", "threadIdx.x"), strict=True))
    assert tile(s).threads.ravel().tolist() == list(range(10))


def test_more_threads_than_can_be_drawn() -> None:
    A = te.placeholder((2**40,), name="A")
    B = te.compute((2**40,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    bind(s[B], (B.op.axis[0], "threadIdx.x"))
    with pytest.raises(UserError, match="stage 'B' has 1,099,511,627,776 threads"):
        s.draw(view="tile")


def test_lanes_of_wider_warps_are_all_drawn() -> None:
    (phase,) = phases([(lane, lane * 4) for lane in range(64)], 4, MEMORY, 64)
    assert (phase.lanes, phase.cycles) == (tuple(range(64)), 2)


def test_instructions_of_a_thread_hold_no_fragments() -> None:
    A, B = (te.placeholder((32, 16), "int8", name=name) for name in "AB")
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((32, 32), lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), name="C")
    s = te.create_schedule(C.op)
    bind(s[C], *zip(C.op.axis, ("blockIdx.x", "threadIdx.x"), strict=True))
    s[C].tensorize(s[C].split(k, 4)[1], intrin.dp4a())
    assert any("elements of one block" in text for text in texts(s.draw(target="cuda")))
    with pytest.raises(UserError, match="no stage is tensorized by an instruction with fragments"):
        s.draw(view="fragments", target="cuda")


def test_a_warpgroup_holds_its_sums_alone() -> None:
    assert {*fragments(WARPGROUP_ATOMS["wgmma_float16"])} == {"D"}
    shown = texts(draw_fragments(WARPGROUP_ATOMS["wgmma_float16"], "C").document("C"))
    assert [text for text in shown if "×" in text] == ["sums, m × n: 16 × 8"]


def test_banks_of_a_transpose() -> None:
    column = phases([(lane, lane * 32 * 4) for lane in range(32)], 4, MEMORY, 32)
    assert [phase.cycles for phase in column] == [32]
    padded = phases([(lane, lane * 33 * 4) for lane in range(32)], 4, MEMORY, 32)
    assert [phase.cycles for phase in padded] == [1]
    quarters = phases([(lane, lane * 16) for lane in range(32)], 16, MEMORY, 32)
    assert [(phase.lanes[0], phase.cycles) for phase in quarters] == [(0, 1), (8, 1), (16, 1), (24, 1)]
    shown = texts(transpose().draw(view="banks"))
    assert "one warp: 32 cycles, bank conflicts: 32 times as long" in shown
    assert "one warp: 1 cycle, no bank conflicts" in shown


@pytest.mark.parametrize("name", list(ATOMS))
def test_every_element_of_a_fragment_has_one_place(name: str) -> None:
    atom = ATOMS[name]
    held = {"A": atom.words * atom.halves * atom.per_word, "B": atom.words * atom.per_word, "D": 2 * atom.halves}
    for matrix, (rows, columns, place) in fragments(atom).items():
        found = [place(row, column) for row in range(rows) for column in range(columns)]
        assert sorted(found) == [(lane, k) for lane in range(32) for k in range(held[matrix])]


def test_sums_are_where_the_atom_says() -> None:
    atom = ATOMS["float16"]
    rows, columns, place = fragments(atom)["D"]
    drawn = re.findall(r"(\d+)\.(\d+)", atom.draw().partition("\n")[2])
    assert [place(row, column) for row in range(rows) for column in range(columns)] == [
        (int(lane), int(register)) for lane, register in drawn
    ]


def test_the_graph_names_stages_loops_and_places(tmp_path: Path) -> None:
    path = tmp_path / "schedule.svg"
    svg = product().draw(path, view="schedule")
    assert path.read_text(encoding="utf-8") == svg
    shown = texts(svg)
    for text in ("A.shared", "compute, shared", "sum k.outer", "for i.inner.inner.outer  threadIdx.y", "input"):
        assert text in shown, text
    assert svg.count('class="at"') == 3
    assert svg.count('class="flow"') == 5


def test_without_threads_the_graph_is_drawn() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    C = te.compute((8,), lambda i: B[i] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    assert {"stages", "inlined", "output"} <= set(texts(s.draw()))


def test_names_are_text_and_never_markup() -> None:
    A = te.placeholder((64,), name="<script>&\x07")
    B = te.compute((64,), lambda i: A[i] + 1, name='B"</text>')
    s = te.create_schedule(B.op)
    bind(s[B], (B.op.axis[0], "threadIdx.x"))
    for view in ("tile", "schedule"):
        assert any('B"</text>' in text for text in texts(s.draw(view=view)))


def test_both_schemes_are_in_the_file() -> None:
    made = Picture()
    made.rect(0, 0, 1, 1, "h0")
    assert "prefers-color-scheme:dark" in made.document("x")


def test_mistakes_of_the_user(tmp_path: Path) -> None:
    s = convolution()
    for call, message in {
        lambda: s.draw(view="tiles"): r"there is no view 'tiles'\n.*'tile', 'banks', 'fragments', 'schedule'",
        lambda: s.draw(view="banks"): "no access of shared memory is left",
        lambda: s.draw(view="fragments"): "no stage is tensorized",
        lambda: s.draw("tile.png"): "cannot draw into 'tile.png'",
        lambda: s.draw(3): "cannot draw into 3",
        lambda: s.draw(tmp_path / "none" / "tile.svg"): "cannot write",
    }.items():
        with pytest.raises(tw.UserError, match=message):
            call()


def test_a_tile_needs_extents() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    bind(s[B], (B.op.axis[0], "threadIdx.x"))
    with pytest.raises(tw.UserError, match=r"the extent of 'i' of stage 'B' is `n`, which is not constant"):
        s.draw(view="tile")
