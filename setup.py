"""Build the Cython modules. All static metadata lives in pyproject.toml."""

import os
import platform
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# DYNALSM_DEBUG=1: assertions, bounds checks, scribbling over freed buffers.
DEBUG = os.environ.get("DYNALSM_DEBUG") == "1"
# DYNALSM_SANITIZE=address,undefined: instrument all modules; `python -m tests.sanitize` does both.
SANITIZE = os.environ.get("DYNALSM_SANITIZE", "")

DIRECTIVES = {
    "language_level": 3,
    "embedsignature": True,
    "auto_pickle": False,
    "cdivision": True,
    "wraparound": False,
    "boundscheck": DEBUG,
    "initializedcheck": DEBUG,
    "freethreading_compatible": False,
}

# No fused multiply-add: scores of vectors are the same on every machine (model/vector_kernel.h).
cflags = ["-O3", "-fno-strict-aliasing", "-ffp-contract=off"]
cflags += ["-Wno-unused-function", "-Wno-unreachable-code"]
ldflags: list[str] = []
macros: list[tuple[str, str | None]] = []
if DEBUG:
    cflags = ["-O1", "-g1", *cflags[1:]]
    macros.append(("DYNALSM_DEBUG", "1"))
else:
    macros.append(("CYTHON_WITHOUT_ASSERTIONS", "1"))
if SANITIZE:
    flags = [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    cflags += ["-O1", "-g1", *flags]
    ldflags += flags
if platform.system() == "Linux":
    ldflags += ["-pthread"]

sources = sorted(Path("dynalsm").rglob("*.pyx"))
if not sources:
    raise SystemExit("no .pyx found: broken source distribution (see MANIFEST.in)")
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        define_macros=macros,
        extra_compile_args=cflags,
        extra_link_args=ldflags,
    )
    for path in sources
]
setup(
    ext_modules=cythonize(
        extensions,
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
        nthreads=2,
    )
)
