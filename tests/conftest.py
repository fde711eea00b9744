"""Decides which dynalsm the tests, and the processes they start, run against.

After `pip install .` it is the installed package, not the source tree beside the tests: the tree
has no compiled modules then. Where the modules are built in place, or the install is editable, it
is the tree. So the repository's root goes to the end of the path (`tests` itself is loaded
already), and a dynalsm that was imported from a tree without compiled modules is forgotten.
Child processes get the same by PYTHONPATH: a directory that holds nothing but `tests`, or the tree.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _prefer_the_installed_package() -> None:
    here = {str(ROOT), ""} if os.getcwd() == str(ROOT) else {str(ROOT)}
    sys.path[:] = [entry for entry in sys.path if entry not in here] + [str(ROOT)]
    if list((ROOT / "dynalsm" / "_core").glob("*.so")):
        _give_to_children(str(ROOT))
        return
    only_tests = tempfile.mkdtemp(prefix="dynalsm-tests-")
    atexit.register(shutil.rmtree, only_tests, ignore_errors=True)
    (Path(only_tests) / "tests").symlink_to(ROOT / "tests")
    _give_to_children(only_tests)
    loaded = sys.modules.get("dynalsm")
    if loaded is not None and Path(str(loaded.__file__)).parents[1] == ROOT:
        for name in [name for name in sys.modules if name.partition(".")[0] == "dynalsm"]:
            del sys.modules[name]


def _give_to_children(directory: str) -> None:
    os.environ["PYTHONSAFEPATH"] = "1"  # `python -c` does not look where it is started
    inherited = os.environ.get("PYTHONPATH")
    entries = [] if inherited is None else inherited.split(os.pathsep)
    kept = [entry for entry in entries if Path(entry).resolve() != ROOT]
    os.environ["PYTHONPATH"] = os.pathsep.join([directory, *kept])


_prefer_the_installed_package()
