"""Keys of an encrypted database: key files, KEYS and its copy, heads of files, seals."""

import os
import pickle
import secrets
import threading
from pathlib import Path

import pytest

from dynalsm import errors
from dynalsm._core import files, keyring, seam
from dynalsm._core.keyring import KEYS, KEYS_COPY, FileSeal, Keyring

pytest.importorskip("cryptography", reason="encryption needs the package cryptography")

MASTER = bytes(range(32))
OTHER = bytes(range(1, 33))


@pytest.fixture(autouse=True)
def quiet_seam():
    yield
    seam.clear_fault()


@pytest.fixture
def home(tmp_path):
    return str(tmp_path)


def opens(keys: Keyring, head: bytes) -> bool:
    try:
        keys.open_head(head, b"table")
    except errors.EncryptionError:
        return False
    return True


# ---- master keys


@pytest.mark.parametrize(
    "content",
    [
        MASTER,
        MASTER.hex().encode(),
        MASTER.hex().upper().encode() + b"\n",
        b" AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
    ],
)
def test_key_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    assert keyring.read_key_file(path) == MASTER
    assert keyring.master_key(str(path)) == keyring.master_key(path) == MASTER


@pytest.mark.parametrize("content", [b"", b"short", MASTER + b"x", MASTER.hex().encode()[1:]])
def test_files_that_hold_no_key(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(errors.EncryptionError, match="no key file") as caught:
        keyring.read_key_file(path)
    assert content not in str(caught.value).encode() or not content


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_key_file_that_others_may_use(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(MASTER)
    path.chmod(mode)
    with pytest.raises(errors.EncryptionError, match=f"mode {mode:04o}.*chmod 600"):
        keyring.read_key_file(path)


def test_key_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(errors.EncryptionError, match="No such file"):
        keyring.read_key_file(tmp_path / "none")


def test_new_key_file_is_private_and_never_replaces_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    keyring.write_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    key = keyring.read_key_file(path)
    with pytest.raises(errors.StorageIOError):
        keyring.write_key_file(path)
    assert keyring.read_key_file(path) == key


def test_keys_by_function_and_as_other_buffers() -> None:
    assert keyring.master_key(lambda: MASTER) == MASTER
    assert keyring.master_key(bytearray(MASTER)) == MASTER  # type: ignore[arg-type]


def test_what_is_no_key() -> None:
    with pytest.raises(ValueError, match="32 bytes; this one has 5"):
        keyring.master_key(b"short")
    with pytest.raises(TypeError, match="not int"):
        keyring.master_key(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not str"):
        keyring.master_key(lambda: "text")  # type: ignore[arg-type, return-value]


# ---- KEYS


def test_keys_come_back(home: str) -> None:
    made = Keyring.create(home, MASTER)
    head, _, key_id = made.new_head(b"table")
    again = Keyring.load(home, MASTER)
    assert again.key_id == made.key_id == key_id != 0
    assert opens(again, head)


def test_wrong_master_key(home: str) -> None:
    Keyring.create(home, MASTER)
    before = (Path(home) / KEYS).read_bytes()
    with pytest.raises(errors.EncryptionError, match="not the database's encryption key"):
        Keyring.load(home, OTHER)
    assert (Path(home) / KEYS).read_bytes() == before


def test_every_flipped_byte_of_keys_is_found_and_the_copy_used(home: str) -> None:
    made = Keyring.create(home, MASTER)
    path = Path(home) / KEYS
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        assert Keyring.load(home, MASTER).key_id == made.key_id
        assert keyring.damaged(home) == [str(path)]
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert Keyring.load(home, MASTER).key_id == made.key_id
    path.unlink()
    assert keyring.damaged(home) == [str(path)]
    Keyring.load(home, MASTER).settle()
    assert keyring.damaged(home) == []


def test_keys_that_are_damaged_twice(home: str) -> None:
    Keyring.create(home, MASTER)
    for name in (KEYS, KEYS_COPY):
        (Path(home) / name).write_bytes(b"DLSMKEYS")
    with pytest.raises(errors.CorruptionError, match="incomplete"):
        Keyring.load(home, MASTER)
    assert len(keyring.damaged(home)) == 2


def test_a_newer_format_is_refused(home: str) -> None:
    Keyring.create(home, MASTER)
    for name in (KEYS, KEYS_COPY):
        path = Path(home) / name
        content = bytearray(path.read_bytes())
        content[8] = 9
        crc = keyring.checksum(bytes(content[64:]), keyring.checksum(bytes(content[:60])))
        content[60:64] = crc.to_bytes(4, "little")
        path.write_bytes(content)
    with pytest.raises(errors.FormatError, match="newer"):
        Keyring.load(home, MASTER)


def test_neither_file_holds_a_key(home: str) -> None:
    made = Keyring.create(home, MASTER)
    made.add_key()
    for name in (KEYS, KEYS_COPY):
        content = (Path(home) / name).read_bytes()
        assert (Path(home) / name).stat().st_mode & 0o777 == 0o600
        assert MASTER not in content
        assert all(key.secret not in content for key in made._keys.values())


def test_keys_are_not_shown(home: str) -> None:
    made = Keyring.create(home, MASTER)
    for text in (repr(made), str(made), f"{made._newest!r}"):
        assert MASTER.hex() not in text
        assert repr(made._newest.secret) not in text
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(made)


# ---- rotation


def test_rewrap(home: str) -> None:
    made = Keyring.create(home, MASTER)
    head, _, _ = made.new_head(b"table")
    made.rewrap(OTHER)
    with pytest.raises(errors.EncryptionError):
        Keyring.load(home, MASTER)
    assert opens(Keyring.load(home, OTHER), head)
    assert made.is_master(OTHER) and not made.is_master(MASTER)


def test_new_data_key(home: str) -> None:
    made = Keyring.create(home, MASTER)
    old = made.new_head(b"table")[0]
    made.add_key()
    fresh = made.new_head(b"table")[0]
    again = Keyring.load(home, MASTER)
    assert again.count == 2
    assert again.key_id == made.key_id
    assert opens(again, old) and opens(again, fresh)


def test_key_that_the_writer_made_after_we_looked(home: str) -> None:
    made = Keyring.create(home, MASTER)
    reader = Keyring.load(home, MASTER)
    made.add_key()
    assert opens(reader, made.new_head(b"table")[0])


def test_key_of_another_database(tmp_path: Path) -> None:
    keys = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        keys.append(Keyring.create(str(tmp_path / name), MASTER))
    head = keys[0].new_head(b"table")[0]
    with pytest.raises(errors.EncryptionError, match="not in KEYS"):
        keys[1].open_head(head, b"table")


@pytest.mark.parametrize("change", ["rewrap", "add_key"])
def test_every_failing_operation_of_a_change(home: str, change: str) -> None:
    """Whatever fails, KEYS opens with one of the two master keys and knows the files' keys."""
    made = Keyring.create(home, MASTER)
    head = made.new_head(b"table")[0]
    for operation in range(100):
        seam.set_fault(nth=operation + 1)
        try:
            made.rewrap(OTHER) if change == "rewrap" else made.add_key()
            done = True
        except errors.StorageIOError:
            done = False
        seam.clear_fault()
        opened = [master for master in (MASTER, OTHER) if can_load(home, master)]
        assert len(opened) == 1
        assert opens(Keyring.load(home, opened[0]), head)
        assert opens(made, head)
        if done:
            break
        # A refused change leaves the old key in force (one failure can be undone).
        assert opened == [MASTER]
    assert operation > 4
    if change == "rewrap":
        assert opened == [OTHER]


def can_load(home: str, master: bytes) -> bool:
    try:
        Keyring.load(home, master)
    except errors.EncryptionError:
        return False
    return True


def test_crash_between_the_two_files(home: str) -> None:
    made = Keyring.create(home, MASTER)
    old = (Path(home) / KEYS_COPY).read_bytes()
    made.rewrap(OTHER)
    (Path(home) / KEYS_COPY).write_bytes(old)
    with pytest.raises(errors.EncryptionError):
        Keyring.load(home, MASTER)
    Keyring.load(home, OTHER).settle()
    assert (Path(home) / KEYS_COPY).read_bytes() == (Path(home) / KEYS).read_bytes()


def test_threads_that_ask_while_keys_are_made(home: str) -> None:
    made = Keyring.create(home, MASTER)
    heads = [made.new_head(b"table")[0]]
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(200):
                heads.append(made.new_head(b"table")[0])
                made.open_head(secrets.choice(heads), b"table")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        made.add_key()
    for thread in threads:
        thread.join()
    assert not failures
    assert made.count == 11


# ---- files


def test_a_head_for_every_file(home: str) -> None:
    made = Keyring.create(home, MASTER)
    heads = {made.new_head(b"table")[0] for _ in range(100)}
    assert len(heads) == 100
    assert {len(head) for head in heads} == {keyring.HEAD_BYTES}


def test_every_flipped_byte_of_a_head_is_found(home: str) -> None:
    made = Keyring.create(home, MASTER)
    head = made.new_head(b"table")[0]
    for place in range(len(head)):
        wrong = head[:place] + bytes([head[place] ^ 1]) + head[place + 1 :]
        with pytest.raises(errors.CorruptionError, match="head"):
            made.open_head(wrong, b"table")


def test_seals(home: str) -> None:
    made = Keyring.create(home, MASTER)
    head, seal = FileSeal.create(made, b"backup")
    again = FileSeal.find(made, head, b"backup", "file", 0)
    sealed = seal.seal(b"text", b"here")
    assert seal.seal(b"text", b"here") != sealed
    assert len(sealed) == 4 + seal.ADDED_BYTES
    assert again.open(sealed, b"here", "file", 7) == b"text"
    for wrong, place in ((sealed[:-1] + b"?", b"here"), (sealed, b"there"), (b"", b"here")):
        with pytest.raises(errors.CorruptionError) as caught:
            again.open(wrong, place, "file", 7)
        assert (caught.value.path, caught.value.offset) == ("file", 7)


def test_kinds_of_files_have_different_keys(home: str) -> None:
    made = Keyring.create(home, MASTER)
    head, seal = FileSeal.create(made, b"backup")
    other = FileSeal.find(made, head, b"manifest", "file", 0)
    with pytest.raises(errors.CorruptionError):
        other.open(seal.seal(b"text", b""), b"", "file", 0)


def test_seal_without_keys(home: str) -> None:
    head, _ = FileSeal.create(Keyring.create(home, MASTER), b"backup")
    with pytest.raises(errors.EncryptionError, match="no key was given"):
        FileSeal.find(None, head, b"backup", "file", 0)


def test_names_are_those_that_are_written(home: str) -> None:
    Keyring.create(home, MASTER)
    assert set(os.listdir(home)) == {KEYS, KEYS_COPY} < keyring.NAMES
    keyring.remove(home)
    assert files.list_directory(home) == []
