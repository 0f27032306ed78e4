"""Of several searches on one GPU, one measures at a time; a stopped process does not stop the others."""

import os
import threading
import time

import pytest

import tilewright as tw
from tilewright.core.cache_folder import DIRECTORY_VARIABLE
from tilewright.measure.exclusive import turn

FOREVER = 60.0


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def overlapping(device, patience, count=4):
    """Return the most turns that are under way at once."""
    inside, most, lock = [0], [0], threading.Lock()

    def measured():
        with turn(device, patience):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.02)
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=measured) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return most[0]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no locks of whole files")
def test_one_measurement_at_a_time_runs_on_a_gpu():
    assert overlapping(tw.cuda(0), FOREVER) == 1
    assert overlapping(tw.cpu(0), FOREVER) > 1, "processors are not locked"


def test_turns_on_two_gpus_overlap(monkeypatch):
    with turn(tw.cuda(0), FOREVER), turn(tw.cuda(1), FOREVER):
        began = time.monotonic()
    assert time.monotonic() - began < FOREVER / 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    with turn(tw.cuda(0), FOREVER):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        with turn(tw.cuda(0), FOREVER):
            pass  # the environment numbers the GPUs otherwise: these are two


def test_a_stopped_process_delays_others_no_longer_than_their_patience():
    with turn(tw.cuda(0), FOREVER):
        began = time.monotonic()
        with turn(tw.cuda(0), 0.05):
            assert 0.04 < time.monotonic() - began < FOREVER / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no forks")
def test_a_fork_does_not_keep_the_turn():
    read, write = os.pipe()
    with turn(tw.cuda(0), FOREVER):
        child = os.fork()
        if not child:
            os.close(write)
            os.read(read, 1)  # until the parent closes its end
            os._exit(0)
    began = time.monotonic()
    with turn(tw.cuda(0), FOREVER):
        os.close(write)
    assert time.monotonic() - began < FOREVER / 2
    os.waitpid(child, 0)
    os.close(read)


@pytest.mark.parametrize("cache", ["0", "/proc/none"])
def test_without_a_folder_nothing_is_locked(monkeypatch, cache):
    monkeypatch.setenv(DIRECTORY_VARIABLE, cache)
    with turn(tw.cuda(0), FOREVER), turn(tw.cuda(0), FOREVER):
        pass
