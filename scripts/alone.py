#!/usr/bin/env python3
"""Compiles every source by itself and every header alone, for their syntax only.

Builds compile sources in batches, so a source can lean on what its neighbour includes or declares. A header whose source
includes it first is alone there; the others are compiled as they are. Compiled headers are left out.
"""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tidy

ROOT = tidy.ROOT


def first_include(path):
    match = re.search(r'^\s*#\s*include\s+([<"][^>"]+[>"])', path.read_text(), re.MULTILINE)
    return match[1].strip('"') if match else ""


def jobs(folder):
    """(what, command) of every source, and of every header that no source includes first."""
    entries = json.loads((folder / "compile_commands.json").read_text())
    sources = {}
    for entry in entries:
        path = Path(entry["file"])
        if path.is_relative_to(ROOT / "src"):
            sources[path] = re.sub(r" -o \S+ -c \S+$", "", entry["command"]) + " -fsyntax-only"
    if not sources:
        sys.exit("alone: there are no sources in compile_commands.json")
    shown = {first_include(path) for path in sources}
    command = next(iter(sources.values())) + f" -DREEL_SOURCE_DIR='\"{ROOT}\"' -I{ROOT / 'include'}"
    for path, with_flags in sorted(sources.items()):
        flags = " -DHWY_COMPILE_ONLY_STATIC" if "HWY_TARGET_INCLUDE" in path.read_text() else ""
        yield path, f"{with_flags}{flags} {path}"
    for top in (ROOT / "src", ROOT / "include"):
        for path in sorted(top.rglob("*.h")):
            name = str(path.relative_to(top))
            if name not in shown and not name.endswith("-inl.h"):  # those are parts of a source
                yield path, f"echo '#include \"{name}\"' | {command} -x c++ -"


def main():
    start = time.time()
    bad = []

    def work(job):
        path, command = job
        run = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            bad.append(path)
            print(f"{path.relative_to(ROOT)} does not compile by itself:\n{run.stdout}", flush=True)

    every = list(jobs(tidy.commands()))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, every))
    print(f"alone: {len(every) - len(bad)} of {len(every)} sources and headers compile by themselves, {time.time() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
