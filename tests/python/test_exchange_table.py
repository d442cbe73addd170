"""Tensors that are read through DLPack's C exchange table."""

import numpy as np
import pytest
from exchange_tables import (
    BFLOAT,
    COMPLEX,
    CUDA,
    OPENCL,
    Given,
    OfNewerLibrary,
    OfPytorch,
    kept,
)

import tranship


@pytest.fixture(scope="module")
def engine():
    with tranship.Engine() as engine:
        yield engine


@pytest.mark.parametrize("kind", [Given, OfNewerLibrary])
def test_strided_tensors_are_read_and_written_through_the_table(engine, kind):
    base = np.arange(24.0).reshape(4, 6)
    source, target = kind(base[::2, ::-1]), kind(np.zeros((2, 6)))
    engine.copy(source, target).wait()
    np.testing.assert_array_equal(target.memory, base[::2, ::-1])
    assert (source.reads, source.writes) == (1, 0)
    assert (target.reads, target.writes) == (0, 1)
    assert not kept  # the tensor with flags went back to its library


def test_targets_of_a_library_without_read_only_tensors_need_no_flags(engine):
    source, target = OfPytorch(np.arange(8.0)), OfPytorch(np.zeros(8))
    for _ in range(2):
        engine.copy(source, target).wait()
    np.testing.assert_array_equal(target.memory, source.memory)
    assert (source.reads, source.writes, target.reads, target.writes) == (2, 0, 2, 0)
    prepared = engine.prepare(source, target)  # it keeps the memory that both have now
    assert (source.writes, target.writes, len(kept)) == (1, 1, 2)
    del prepared
    assert not kept


def test_lists_read_tables_too(engine):
    pairs = [(Given(np.full(8, float(k))), Given(np.zeros(8))) for k in range(5)]
    engine.copy_all(pairs).wait()
    for k, (source, target) in enumerate(pairs):
        assert (target.memory == k).all()
        assert source.reads == 1


def test_a_prepared_copy_keeps_the_memory_that_a_tensor_has(engine):
    source, target = Given(np.full(8, 3.0)), Given(np.zeros(8))
    source.flags = 1  # it may only be read
    copy = engine.prepare(source, target)
    assert (source.reads, source.writes, len(kept)) == (0, 1, 2)
    for _ in range(2):
        target.memory[:] = 0
        copy.start().wait()
        assert (target.memory == 3).all()
    assert (source.reads, source.writes) == (0, 1)
    del copy
    assert not kept


def test_types_of_equal_width_are_told_apart(engine):
    numbers = np.arange(6, dtype="u2")
    source = Given(numbers, code=BFLOAT)
    target = Given(np.zeros(6, "u2"), code=BFLOAT)
    engine.copy(source, target).wait()
    np.testing.assert_array_equal(target.memory, numbers)
    with pytest.raises(tranship.InvalidArgument):
        engine.copy(source, Given(np.zeros(6, "u2"))).wait()


def test_tensors_on_gpus():
    with tranship.Engine(emulated_gpus=2, threads=1) as engine:
        memory = [engine.empty((4, 6), memory="device0") for _ in range(2)]
        numbers = np.arange(24.0).reshape(4, 6)
        engine.copy(numbers, memory[0]).wait()
        source, target = (
            Given(numbers, CUDA, 0, one.__cuda_array_interface__["data"][0]) for one in memory
        )
        event = engine.copy(source, target, stream=1)
        event.wait()
        assert event.plan.path == "node0/device0 > node0/device0"
        np.testing.assert_array_equal(memory[1].numpy(), numbers)


@pytest.mark.parametrize(
    "change", ["read-only", "gradient", "conj", "neg", "refused", "null", "device"]
)
def test_what_a_table_does_not_say_is_refused_before_anything_moves(engine, change):
    target = Given(np.zeros(4))
    source = np.ones(4)
    if change == "conj":  # real numbers are not asked
        target, source = Given(np.zeros(4, "c16"), code=COMPLEX), np.ones(4, "c16")
    if change == "read-only":
        target.flags = 1
    elif change == "gradient":
        target.requires_grad = True
    elif change == "refused":
        target.refused = True
    elif change == "null":
        target.described["data"] = None
    elif change == "device":
        target.described["device_type"] = OPENCL
    else:
        target.lazily = change
    with pytest.raises(tranship.InvalidArgument):
        engine.copy(source, target).wait()
    assert not target.memory.any()
    assert not kept
