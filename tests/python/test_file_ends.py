"""A file that a copy writes is whole, or recognisably incomplete."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tranship as ts
from support import Slow, eventually

SIDE = 1024
SHAPE = (SIDE, SIDE)


def new_file(path: Path, **options: object) -> ts.File:
    """Opens a new file of the shape that the tests use."""
    return ts.File(path, extents=SHAPE, fields="f4", mode="w", **options)  # type: ignore[arg-type]


def numbers() -> np.ndarray:
    return np.arange(SIDE * SIDE, dtype="f4").reshape(SHAPE)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def cancelled_copy(engine: ts.Engine, target: ts.File) -> None:
    """Cancels a copy into the file before it begins: it comes after slow copies."""
    values = numbers()
    *_, last = Slow().start_many(engine)
    event = engine.copy(values, target, after=last)
    event.cancel()
    with pytest.raises(ts.Cancelled):
        event.wait(timeout=20)
    last.cancel()


@pytest.mark.parametrize("name", ["new.npy", "new.bin"])
def test_a_new_file_takes_its_name_when_it_is_whole(
    engine: ts.Engine, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    target = new_file(path)
    engine.copy(numbers(), target).wait(timeout=20)
    assert not path.exists()
    target.flush()
    assert path.exists() and names_in(tmp_path) == [name]
    loaded = np.load(path) if name.endswith("npy") else np.fromfile(path, "f4").reshape(SHAPE)
    assert np.array_equal(loaded, numbers())


@pytest.mark.parametrize("name", ["old.npy", "old.bin"])
def test_an_old_file_stays_whole_until_it_is_replaced(
    engine: ts.Engine, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    path.chmod(0o640)
    reader = path.open("rb")
    with new_file(path) as target:
        engine.copy(numbers(), target).wait(timeout=20)
        assert path.read_bytes() == b"old"
    assert path.stat().st_size >= numbers().nbytes and reader.read() == b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    reader.close()


def test_flush_waits_for_the_copies_into_the_file(engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "new.npy"
    target = new_file(path)
    for row in range(0, SIDE, 64):
        engine.copy(numbers()[row : row + 64], target[row : row + 64])
    target.flush()
    assert np.array_equal(np.load(path), numbers())


@pytest.mark.parametrize("old", [None, b"old"])
def test_flush_raises_after_a_cancelled_copy(
    engine: ts.Engine, tmp_path: Path, old: bytes | None
) -> None:
    path = tmp_path / "new.npy"
    if old is not None:
        path.write_bytes(old)
    target = new_file(path)
    engine.copy(numbers(), target).wait(timeout=20)
    cancelled_copy(engine, target)
    for _ in range(2):
        with pytest.raises(ts.Error, match=r"incomplete: copy 2 into it.*cancelled.*anew"):
            target.flush()
    with pytest.raises(ts.Error, match="incomplete"):
        target.close()
    del target
    assert names_in(tmp_path) == ([] if old is None else ["new.npy"])
    assert old is None or path.read_bytes() == old


def test_flush_raises_after_a_copy_whose_source_fails(engine: ts.Engine, tmp_path: Path) -> None:
    numbers().tofile(tmp_path / "source.bin")
    source = ts.File(tmp_path / "source.bin", extents=SHAPE, fields="f4")
    os.truncate(tmp_path / "source.bin", 1000)
    target = new_file(tmp_path / "new.npy")
    with pytest.raises(ts.Error, match="truncated"):
        engine.copy(source, target).wait(timeout=20)
    with pytest.raises(ts.Error, match=r"copy 1 into it.*truncated"):
        target.flush()
    del target
    assert names_in(tmp_path) == ["source.bin"]


def test_an_exception_leaves_nothing_under_the_name(engine: ts.Engine, tmp_path: Path) -> None:
    with pytest.raises(KeyError), new_file(tmp_path / "new.npy") as target:
        engine.copy(numbers(), target).wait(timeout=20)
        raise KeyError
    assert names_in(tmp_path) == []


def test_a_closed_file_takes_no_copies(engine: ts.Engine, tmp_path: Path) -> None:
    target = new_file(tmp_path / "new.npy")
    engine.copy(numbers(), target).wait(timeout=20)
    target.close()
    target.close()
    with pytest.raises(ts.Error, match="was closed; open it again"):
        engine.copy(numbers(), target).wait(timeout=20)
    with pytest.raises(ts.Closed, match="closed"):
        target.flush()
    assert np.array_equal(np.load(tmp_path / "new.npy"), numbers())


def test_a_file_that_is_dropped_takes_its_name_if_all_was_written(
    engine: ts.Engine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    engine.copy(numbers(), new_file(tmp_path / "whole.npy")).wait(timeout=20)
    engine.copy(numbers()[:100], new_file(tmp_path / "part.npy")[:100]).wait(timeout=20)
    gc.collect()
    assert eventually(lambda: (tmp_path / "whole.npy").exists())
    assert eventually(lambda: "part.npy' was not made" in capfd.readouterr().err)
    assert names_in(tmp_path) == ["whole.npy"]
    assert np.array_equal(np.load(tmp_path / "whole.npy"), numbers())


def test_a_file_that_nothing_was_copied_to_replaces_no_other(
    engine: ts.Engine, tmp_path: Path
) -> None:
    path = tmp_path / "new.bin"
    target = new_file(path)
    path.write_bytes(b"from elsewhere")
    target.flush()
    assert path.read_bytes() == b"from elsewhere"
    engine.copy(numbers(), target).wait(timeout=20)
    target.close()
    assert np.array_equal(np.fromfile(path, "f4").reshape(SHAPE), numbers())
    with pytest.warns(UserWarning, match="the file that was there stays"), new_file(path):
        pass
    assert np.array_equal(np.fromfile(path, "f4").reshape(SHAPE), numbers())
    with pytest.warns(UserWarning, match="0 of its"), new_file(tmp_path / "zeros.npy"):
        pass
    assert np.array_equal(np.load(tmp_path / "zeros.npy"), np.zeros(SHAPE))
    with ts.File(path, extents=(0, 3), fields="f4", mode="w"):
        pass
    assert path.read_bytes() == b""


def test_two_new_files_of_one_name(engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "new.npy"
    first, second = new_file(path), new_file(path)
    engine.copy(numbers(), first).wait(timeout=20)
    engine.copy(-numbers(), second).wait(timeout=20)
    first.flush()
    assert np.array_equal(np.load(path), numbers())
    second.flush()
    assert np.array_equal(np.load(path), -numbers())
    assert names_in(tmp_path) == ["new.npy"]


def test_links_are_followed_and_stay(engine: ts.Engine, tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(b"old")
    (tmp_path / "link.bin").symlink_to("real.bin")
    with new_file(tmp_path / "link.bin") as target:
        engine.copy(numbers(), target).wait(timeout=20)
    assert (tmp_path / "link.bin").is_symlink()
    assert np.array_equal(np.fromfile(tmp_path / "real.bin", "f4").reshape(SHAPE), numbers())
    (tmp_path / "dangling.bin").symlink_to("nowhere")
    with pytest.raises(ts.NotFound, match="link to a file that is not there; remove"):
        new_file(tmp_path / "dangling.bin")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_changed(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ts.Error, match=r"check the permissions.*its folder.*beside"):
            new_file(tmp_path / "new.npy")
    finally:
        tmp_path.chmod(0o700)


def test_durable_files(engine: ts.Engine, tmp_path: Path) -> None:
    with new_file(tmp_path / "new.npy", durable=True) as target:
        engine.copy(numbers(), target).wait(timeout=20)
    assert np.array_equal(np.load(tmp_path / "new.npy"), numbers())


def test_changes_in_place_need_a_file(tmp_path: Path) -> None:
    for name in ("none.npy", "none.bin"):
        extents = None if name.endswith("npy") else SHAPE
        with pytest.raises(ts.NotFound, match="check the path"):
            ts.File(tmp_path / name, extents=extents, mode="r+")
    with pytest.raises(ts.InvalidArgument, match=r"say its extents.*r\+"):
        ts.File(tmp_path / "none.npy", mode="w")
    assert names_in(tmp_path) == []


def refused(path: Path) -> None:
    """Checks that NumPy and the package refuse to read the file."""
    with pytest.raises(ValueError, match=r"pickle|magic"):
        np.load(path)
    with pytest.raises(ts.InvalidArgument, match=r"not whole.*writers.*flush"):
        ts.File(path)


def test_a_file_that_is_changed_in_place_says_so(engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "old.npy"
    np.save(path, numbers())
    file = ts.File(path, mode="r+")
    assert np.array_equal(np.load(path), numbers())
    engine.copy(-numbers()[:10], file[:10]).wait(timeout=20)
    refused(path)
    file.flush()
    assert np.array_equal(np.load(path)[:10], -numbers()[:10])
    engine.copy(numbers()[:10], file[:10]).wait(timeout=20)
    refused(path)
    file.close()
    assert np.array_equal(np.load(path), numbers())


def test_a_failed_change_in_place_is_remembered(engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "old.npy"
    np.save(path, numbers())
    file = ts.File(path, mode="r+")
    cancelled_copy(engine, file)
    with pytest.raises(ts.Error, match="cancelled"):
        file.close()
    del file
    refused(path)


def test_several_writers_change_one_file(engine: ts.Engine, tmp_path: Path) -> None:
    path = tmp_path / "old.npy"
    np.save(path, np.zeros(SHAPE, "f4"))
    files = [ts.File(path, mode="r+") for _ in range(3)]
    for k, file in enumerate(files):
        engine.copy(numbers()[k::3], file[k::3]).wait(timeout=20)
        refused(path)
    late = ts.File(path, mode="r+")
    for file in files:
        refused(path)
        file.flush()
    late.close()
    assert np.array_equal(np.load(path), numbers())


PART = """
    import sys
    import numpy as np
    import tranship as ts
    path, number = sys.argv[1], int(sys.argv[2])
    values = np.arange(1024 * 1024, dtype="f4").reshape(1024, 1024)
    with ts.Engine(threads=1) as engine, ts.File(path, mode="r+") as file:
        engine.copy(values[number::4], file[number::4]).wait(timeout=20)
"""


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts a process that runs a script."""
    words = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_processes_write_parts_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "old.npy"
    np.save(path, np.zeros(SHAPE, "f4"))
    writers = [python(PART, path, number) for number in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    assert np.array_equal(np.load(path), numbers())


KILLED = """
    import sys, time
    import numpy as np
    import tranship as ts
    engine = ts.Engine(threads=1)
    path, mode = sys.argv[1:]
    made = {"extents": (4096, 4096), "fields": "f4"} if mode == "w" else {}
    out = ts.File(path, mode=mode, **made)
    event = engine.copy(np.full((4096, 4096), 7.0, "f4").T, out)
    print("writing", flush=True)
    event.wait()
    time.sleep(60)
"""


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.5])
@pytest.mark.parametrize("mode", ["w", "r+"])
def test_a_killed_process_leaves_nothing_that_looks_whole(
    tmp_path: Path, mode: str, delay: float
) -> None:
    path = tmp_path / "file.npy"
    if mode == "r+":
        np.save(path, np.zeros((4096, 4096), "f4"))
    writer = python(KILLED, path, mode)
    assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    writer.wait(timeout=20)
    if mode == "w":
        left = names_in(tmp_path)
        assert left == [] or all(name.endswith(".tranship-part") for name in left)
    else:
        refused(path)


FORKED = """
    import os, sys
    import numpy as np
    import tranship as ts
    engine = ts.Engine(threads=1)
    file = ts.File(sys.argv[1], extents=(64, 64), fields="f8", mode="w")
    engine.copy(np.ones((64, 64)), file).wait()
    child = os.fork()
    if child == 0:
        try:
            file.flush()
        except ts.Closed as error:
            print(error, flush=True)
        del file
        os._exit(0)
    os.waitpid(child, 0)
    print(os.path.exists(sys.argv[1]), flush=True)
    file.flush()
"""


def test_a_forked_child_does_not_end_its_parents_file(tmp_path: Path) -> None:
    parent = python(FORKED, tmp_path / "new.npy")
    out, _ = parent.communicate(timeout=60)
    assert "forked" in out.splitlines()[0] and out.splitlines()[1] == "False"
    assert parent.returncode == 0 and np.load(tmp_path / "new.npy").all()


FORKED_WITHIN = """
    import os, sys
    import numpy as np
    import tranship as ts
    engine = ts.Engine(threads=1)
    data = np.arange(1 << 22, dtype="f8").reshape(2048, 2048)
    file = ts.File(sys.argv[1], extents=data.shape, fields="f8", mode="w")
    for call in ("flush", "close", "discard", "copy"):
        event = engine.copy(data, file)
        child = os.fork()
        if child == 0:
            try:
                if call == "copy":
                    ts.Engine(threads=1).copy(data, file).wait(timeout=20)
                else:
                    getattr(file, call)()
            except ts.Closed as error:
                print(call, error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        event.wait(timeout=20)
    file.close()
"""


def test_a_child_that_was_forked_within_a_copy_does_not_wait_for_it(tmp_path: Path) -> None:
    parent = python(FORKED_WITHIN, tmp_path / "new.npy")
    out, _ = parent.communicate(timeout=60)
    said = out.splitlines()
    assert [line.split()[0] for line in said] == ["flush", "copy"]
    assert all("forked" in line for line in said)
    assert parent.returncode == 0
    expected = np.arange(1 << 22, dtype="f8").reshape(2048, 2048)
    assert np.array_equal(np.load(tmp_path / "new.npy"), expected)


TRUNCATED: dict[str, Callable[[bytes], bytes]] = {
    "no data": lambda content: content[:200],
    "half": lambda content: content[: len(content) // 2],
    "no header": lambda content: content[:20],
    "another magic": lambda content: b"\x93NUMPX" + content[6:],
}


@pytest.mark.parametrize("case", TRUNCATED)
def test_files_that_are_not_whole_are_refused(tmp_path: Path, case: str) -> None:
    path = tmp_path / "cut.npy"
    np.save(path, np.arange(1000.0))
    path.write_bytes(TRUNCATED[case](path.read_bytes()))
    with pytest.raises(ts.InvalidArgument, match=r"written to the end|not a readable"):
        ts.File(path)


def test_a_npy_file_that_was_cut_is_not_changed_in_place(tmp_path: Path) -> None:
    """It would be filled up with zeros, which nobody could tell from data afterwards."""
    path = tmp_path / "cut.npy"
    np.save(path, np.arange(1000.0))
    cut = path.read_bytes()[:4000]
    path.write_bytes(cut)
    with pytest.raises(ts.OutOfRange, match="4000 bytes and the array needs 8128"):
        ts.File(path, mode="r+")
    assert path.read_bytes() == cut


def test_a_new_file_that_was_written_in_part_says_so(
    engine: ts.Engine, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """By the bytes that were copied, and where these were copied twice, by the file's holes."""
    with new_file(tmp_path / "whole.npy") as target:
        engine.copy(numbers()[:300], target[:300])
        engine.copy(numbers()[300:], target[300:])
    assert not recwarn
    half = new_file(tmp_path / "half.npy")
    engine.copy(numbers()[:512], half[:512]).wait(timeout=20)
    half.flush()
    with pytest.warns(UserWarning, match="half.npy' was not written whole: 2097152 of its 4194304"):
        half.close()
    half.close()
    assert np.load(tmp_path / "half.npy")[512:].sum() == 0
    twice = new_file(tmp_path / "twice.npy")
    for _ in range(2):
        engine.copy(numbers()[:512], twice[:512]).wait(timeout=20)
    with pytest.warns(UserWarning, match=r"nothing was copied to byte 2\d{6} of"):
        twice.close()


def test_a_file_that_is_dropped_after_half_was_written_twice_is_not_made(
    engine: ts.Engine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = new_file(tmp_path / "twice.npy")
    for _ in range(2):
        engine.copy(numbers()[:512], target[:512]).wait(timeout=20)
    del target
    gc.collect()
    assert eventually(lambda: "twice.npy' was not made" in capfd.readouterr().err)
    assert names_in(tmp_path) == []
