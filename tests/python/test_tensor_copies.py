"""Copies between tensors of one GPU that come again: the engine remembers how it carried them."""

import gc
import io
import os
import weakref

import numpy as np
import pytest
from exchange_tables import BFLOAT, CUDA, FLOAT, OfPytorch

import tranship
from tranship.errors import Closed, InvalidArgument

BYTES = 1 << 16
TIMES = 5
"""The first time a copy is seen, the second it is remembered, from the third on it is known."""


@pytest.fixture
def engine():
    with tranship.Engine(emulated_gpus=2, threads=1) as opened:
        yield opened


class Memory:
    """Bytes of a GPU, and a host array in which the same copies are made."""

    def __init__(self, engine, seed=0, device=0):
        self.engine, self.device = engine, device
        self.here = engine.empty((BYTES,), "u1", memory=f"device{device}")
        self.address = self.here.__cuda_array_interface__["data"][0]
        self.random = np.random.default_rng(seed)
        self.expected = np.zeros(BYTES, "u1")
        self.fill()

    def fill(self):
        self.expected[:] = self.random.integers(0, 256, BYTES, dtype="u1")
        self.engine.copy(self.expected, self.here).wait()

    def same(self):
        return np.array_equal(self.here.numpy(), self.expected)

    def view(self, offset, shape, dtype="f4", strides=None):
        return np.ndarray(shape, dtype, self.expected, offset, strides)

    def tensor(self, view):
        offset = view.ctypes.data - self.expected.ctypes.data
        code = BFLOAT if view.dtype == np.dtype("u2") else FLOAT
        return OfPytorch(view, CUDA, self.device, self.address + offset, code)


def tensors_of(memory, views):
    return [tuple(memory.tensor(view) for view in pair) for pair in views]


def copy_expected(views):
    for source, target in views:
        target[...] = source


@pytest.mark.parametrize("stream", [None, 1])
def test_a_copy_that_comes_again_is_not_described_again(engine, stream):
    memory = Memory(engine)
    views = [(memory.view(0, (4, 6)), memory.view(1024, (4, 6)))]
    ((source, target),) = tensors_of(memory, views)
    for _ in range(TIMES):
        memory.fill()
        event = engine.copy(source, target, stream=stream)
        event.wait()
        assert event.plan.path == "node0/device0 > node0/device0"
        copy_expected(views)
        assert memory.same()
    assert source.reads == target.reads == 2 * 2 + (TIMES - 2)
    ((source, target),) = tensors_of(memory, views)  # other objects for the same memory
    engine.copy(source, target, stream=stream).wait()
    assert (source.reads, target.reads) == (1, 1)


@pytest.mark.parametrize("count", [40, 100])
def test_a_list_that_comes_again_is_not_described_again(engine, count):
    memory = Memory(engine)
    columns = memory.view(0, (64, count)).T
    rows = [(columns[k], memory.view(32768 + 256 * k, (64,))) for k in range(count)]
    pairs = tensors_of(memory, rows)
    for _ in range(TIMES):
        memory.fill()
        engine.copy_all(pairs, stream=1).wait()
        copy_expected(rows)
        assert memory.same()
    assert {end.reads for pair in pairs for end in pair} == {2 * 2 + (TIMES - 2)}
    pairs[7] = pairs[7][0], memory.tensor(memory.view(65536 - 256, (64,)))
    rows[7] = rows[7][0], memory.view(65536 - 256, (64,))
    memory.fill()
    engine.copy_all(pairs, stream=1).wait()
    copy_expected(rows)
    assert memory.same()


@pytest.mark.parametrize("seed", range(8))
def test_long_lists_of_dense_tensors_go_by_their_addresses(engine, seed):
    memory = Memory(engine, seed)
    random = memory.random
    count = int(random.integers(64, 130))
    grain = int(random.choice([1, 2, 4, 64]))
    equal = seed % 2 == 0
    items = random.permutation(count), random.permutation(count)
    views = []
    for from_, to in zip(*items, strict=True):
        size = 240 // grain if equal else int(random.integers(1, 240 // grain + 1))
        dtype = random.choice(["u1", "u2"]) if grain > 1 else "u1"
        shape = (size * grain // np.dtype(dtype).itemsize,)
        if shape[0] % 2 == 0 and random.random() < 0.5:
            shape = (2, shape[0] // 2)
        shift = int(random.integers(0, 240 - size * grain + 1)) // grain * grain
        views.append(
            (
                memory.view(250 // grain * grain * from_ + shift, shape, dtype),
                memory.view(32768 + 250 // grain * grain * to + shift, shape, dtype),
            )
        )
    pairs = tensors_of(memory, views)
    for _ in range(3):
        memory.fill()
        event = engine.copy_all(pairs, stream=random.choice([None, 1]))
        event.wait()
        assert event.plan.path == "node0/device0 > node0/device0"
        copy_expected(views)
        assert memory.same()
    # The second time they are remembered, and read as any other arrays.
    assert {end.reads for pair in pairs for end in pair} == {4}
    views[5] = views[5][0], views[5][0]
    pairs[5] = pairs[5][0], pairs[5][0]
    with pytest.raises(InvalidArgument, match=r"pairs\[5\]: source and target overlap"):
        engine.copy_all(pairs)
    pairs[5] = pairs[5][0], memory.tensor(memory.view(65000, (views[5][0].nbytes + 1,), "u1"))
    with pytest.raises(InvalidArgument):
        engine.copy_all(pairs)
    assert memory.same()


def random_view(memory, begin, end):
    """Returns a view of random shape, order and steps within a part of the memory."""
    random = memory.random
    dtype = np.dtype(random.choice(["u2", "f4", "f8"]))
    shape = tuple(random.integers(1, 5, random.integers(1, 4)))
    steps = random.integers(1, 3, len(shape))
    extents = [count * step for count, step in zip(shape, steps, strict=True)]
    first = begin + int(random.integers(0, 4)) * dtype.itemsize
    whole = np.ndarray(extents, dtype, memory.expected, first)
    assert first + whole.nbytes <= end
    view = whole[tuple(slice(None, None, step) for step in steps)]
    return view.transpose(random.permutation(view.ndim))


def target_like(memory, source, begin):
    order = memory.random.permutation(source.ndim)
    shape = [source.shape[k] for k in order]
    dense = np.ndarray(shape, source.dtype, memory.expected, begin)
    return dense.transpose(np.argsort(order))


@pytest.mark.parametrize("seed", range(12))
def test_random_copies_that_come_again(engine, seed):
    memory = Memory(engine, seed)
    random = memory.random
    part = 4 << 10
    cases = []
    for _ in range(12):
        count = int(random.integers(1, 8))
        views = []
        for k in range(count):
            source = random_view(memory, part * k, part * (k + 1))
            views.append((source, target_like(memory, source, 32768 + part * k)))
        cases.append((views, tensors_of(memory, views)))
    for _ in range(100):
        views, pairs = cases[random.integers(len(cases))]
        options = {"stream": 1 if random.random() < 0.5 else None}
        if random.random() < 0.2:
            options["priority"] = 1
        if random.random() < 0.3:
            memory.fill()
        if len(pairs) == 1 and random.random() < 0.7:
            engine.copy(*pairs[0], **options).wait()
        else:
            engine.copy_all(pairs, **options).wait()
        copy_expected(views)
        assert memory.same()


class AnsweredInC(OfPytorch, io.BytesIO):
    """A tensor that C functions answer for, as PyTorch's: whether its file is closed."""

    requires_grad = io.BytesIO.closed
    is_neg = io.BytesIO.isatty

    def __new__(cls, *arguments):
        return io.BytesIO.__new__(cls)


@pytest.mark.parametrize("end", ["source", "target"])
def test_what_c_functions_answer_is_heeded(engine, end):
    memory = Memory(engine)
    views = [(memory.view(0, (64,)), memory.view(1024, (64,)))]
    ((source, target),) = tensors_of(memory, views)
    asked = AnsweredInC(views[0][end == "target"], CUDA, 0, 0, FLOAT)
    asked.described = (source if end == "source" else target).described
    pair = (asked, target) if end == "source" else (source, asked)
    for _ in range(TIMES):
        engine.copy(*pair).wait()
        engine.copy_all([pair]).wait()
    copy_expected(views)
    assert memory.same()
    asked.close()  # it requires a gradient from here on
    for call in (lambda: engine.copy(*pair), lambda: engine.copy_all([pair])):
        with pytest.raises((InvalidArgument, ValueError)):
            call()
    assert memory.same()


def test_what_is_refused_stays_refused_when_the_copy_is_known(engine):
    memory = Memory(engine)
    views = [(memory.view(0, (64,)), memory.view(1024, (64,)))]
    ((source, target),) = tensors_of(memory, views)
    for _ in range(TIMES):
        engine.copy(source, target).wait()
    copy_expected(views)
    target.requires_grad = True
    with pytest.raises(InvalidArgument):
        engine.copy(source, target)
    with pytest.raises(InvalidArgument):
        engine.copy_all([(source, target)])
    target.requires_grad = False
    source.lazily = "neg"
    with pytest.raises(InvalidArgument):
        engine.copy(source, target)
    source.lazily = ""
    engine.copy(source, target).wait()
    assert memory.same()
    overlapping = memory.tensor(memory.view(128, (64,)))
    for _ in range(TIMES):
        with pytest.raises(InvalidArgument, match="overlap"):
            engine.copy(source, overlapping)
        with pytest.raises(InvalidArgument, match="overlap"):
            engine.copy_all([(source, target), (source, overlapping)])
    with pytest.raises(InvalidArgument, match="streams"):
        engine.copy(source, target, stream=99)
    copy_expected(views)
    assert memory.same()


def test_streams_that_do_not_exist_are_refused_when_the_copy_is_known(engine):
    memory = Memory(engine)
    views = [(memory.view(64 * k, (16,)), memory.view(32768 + 64 * k, (16,))) for k in range(100)]
    pairs = tensors_of(memory, views)
    for _ in range(TIMES):
        engine.copy(*pairs[0], stream=1).wait()
        with pytest.raises(InvalidArgument, match="streams"):
            engine.copy(*pairs[0], stream=99)
        with pytest.raises(InvalidArgument, match="streams"):
            engine.copy_all(pairs[::2] + pairs[1::2], stream=99)


def test_a_tensor_that_changes_while_it_is_read_is_not_remembered_as_it_was(engine):
    memory = Memory(engine)
    views = [(memory.view(256 * k, (16,)), memory.view(4096 + 256 * k, (16,))) for k in range(2)]

    class Moving(OfPytorch):
        __module__ = "torch"
        turns = 0

        def is_neg(self):
            self.turns += 1
            if self.turns % 2 == 0:  # between the description and the reading of the array
                self.described["data"] = memory.address + 256
            return False

    still = memory.tensor(views[0][0])
    target = memory.tensor(views[0][1])
    for _ in range(TIMES):
        moving = Moving(views[0][0], CUDA, 0, memory.address)
        engine.copy(moving, target).wait()
    memory.fill()
    engine.copy(still, target).wait()
    views[0][1][...] = views[0][0]
    assert memory.same()


def test_an_error_of_the_library_is_raised(engine):
    memory = Memory(engine)

    class Failing(OfPytorch):
        __module__ = "torch"

        def is_neg(self):
            raise KeyboardInterrupt

    source = Failing(memory.view(0, (16,)), CUDA, 0, memory.address)
    with pytest.raises(KeyboardInterrupt):
        engine.copy(source, memory.tensor(memory.view(4096, (16,))))
    assert memory.same()


def test_neighbours_of_different_allocations_are_not_joined(engine):
    count, length = 80, 96 << 10
    for size in (length, 512):
        # allocations that follow each other, as many as the system gives
        sources, targets = (
            [engine.empty((size,), "u1", memory="device0") for _ in range(count)] for _ in range(2)
        )
        values = np.random.default_rng(size).integers(0, 256, (count, size), dtype="u1")
        addresses = [
            [one.__cuda_array_interface__["data"][0] for one in side] for side in (sources, targets)
        ]
        order = np.lexsort((addresses[1], addresses[0]))
        for one, numbers in zip(sources, values, strict=True):
            engine.copy(numbers, one).wait()
        pairs = [
            tuple(OfPytorch(values[k], CUDA, 0, side[k], FLOAT) for side in addresses)
            for k in order
        ]
        for pair in pairs:
            for end in pair:
                end.described["code"] = 1  # whole numbers
        for _ in range(3):
            engine.copy_all(pairs, stream=1).wait()
        for one, numbers in zip(targets, values, strict=True):
            assert np.array_equal(one.numpy(), numbers)


def test_options_that_change_a_copy_are_heard_when_it_is_known(engine):
    memory = Memory(engine)
    views = [(memory.view(0, (8, 8)), memory.view(1024, (8, 8)))]
    ((source, target),) = tensors_of(memory, views)
    for _ in range(TIMES):
        engine.copy(source, target).wait()
    copy_expected(views)
    memory.fill()
    event = engine.copy(source, target, after=engine.copy(memory.expected, memory.here))
    event.wait()
    copy_expected(views)
    assert memory.same()
    memory.fill()
    engine.copy(source, target, region={"d0": (2, 4)}).wait()
    views[0][1][2:4] = views[0][0][2:4]
    assert memory.same()


def test_engines_and_gpus_are_told_apart(engine):
    near, far = Memory(engine, 1), Memory(engine, 2, device=1)
    here = [(near.view(0, (64,)), near.view(1024, (64,)))]
    ((source, target),) = tensors_of(near, here)
    there = far.tensor(far.view(1024, (64,)))
    for _ in range(TIMES):
        engine.copy_all([(source, target), (source, there)]).wait()
    copy_expected(here)
    far.view(1024, (64,))[...] = here[0][0]
    assert near.same() and far.same()
    for _ in range(TIMES):
        engine.copy(source, target).wait()
    with tranship.Engine(emulated_gpus=1, threads=1) as other:
        with pytest.raises(InvalidArgument, match="reach"):
            other.copy(source, target)  # an emulated GPU has memory of its own
        elsewhere = Memory(other, 3)
        views = [(elsewhere.view(0, (64,)), elsewhere.view(1024, (64,)))]
        pairs = tensors_of(elsewhere, views)
        for _ in range(TIMES):
            other.copy(*pairs[0]).wait()
        copy_expected(views)
        assert elsewhere.same()
    with pytest.raises(Closed):
        other.copy(*pairs[0])


def test_tensors_are_kept_no_longer_than_a_copy_takes(engine):
    memory = Memory(engine)
    views = [(memory.view(256 * k, (16,)), memory.view(4096 + 256 * k, (16,))) for k in range(3)]
    gone = []
    for _ in range(TIMES):
        pairs = tensors_of(memory, views)
        gone += [weakref.ref(end) for pair in pairs for end in pair]
        engine.copy_all(pairs).wait()
        engine.copy(*pairs[0]).wait()
        del pairs
    engine.copy(np.zeros(4), np.zeros(4)).wait()  # drops what ended copies kept
    gc.collect()
    assert not any(one() for one in gone)


def test_a_list_may_change_while_it_is_read(engine):
    memory = Memory(engine)
    views = [(memory.view(256 * k, (16,)), memory.view(4096 + 256 * k, (16,))) for k in range(4)]
    pairs = tensors_of(memory, views)

    class Shrinking(OfPytorch):
        __module__ = "torch"

        def is_neg(self):
            if len(pairs) > 1:
                del pairs[1:]
                engine.copy(*pairs[0]).wait()
            return False

    source = views[0][0]
    pairs.insert(0, (Shrinking(source, CUDA, 0, memory.address), memory.tensor(views[0][1])))
    engine.copy_all(pairs).wait()
    copy_expected(views)
    assert memory.same()


def test_a_forked_child_is_refused(engine):
    memory = Memory(engine)
    ((source, target),) = tensors_of(memory, [(memory.view(0, (8,)), memory.view(64, (8,)))])
    for _ in range(TIMES):
        engine.copy(source, target).wait()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            engine.copy(source, target)
        except Closed:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
