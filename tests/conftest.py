"""Decides which dynalsm the tests run against.

After `pip install .` it is the installed package, not the source tree beside the tests: the tree
has no compiled modules then. Where the modules are built in place, or the install is editable, it
is the tree. So the repository's root goes to the end of the path (`tests` itself is loaded
already), and a dynalsm that was imported from a tree without compiled modules is forgotten.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _prefer_the_installed_package() -> None:
    here = {str(ROOT), ""} if os.getcwd() == str(ROOT) else {str(ROOT)}
    sys.path[:] = [entry for entry in sys.path if entry not in here] + [str(ROOT)]
    loaded = sys.modules.get("dynalsm")
    is_from_tree = loaded is not None and Path(str(loaded.__file__)).parents[1] == ROOT
    if is_from_tree and not list((ROOT / "dynalsm" / "_core").glob("*.so")):
        for name in [name for name in sys.modules if name.partition(".")[0] == "dynalsm"]:
            del sys.modules[name]


_prefer_the_installed_package()
