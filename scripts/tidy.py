#!/usr/bin/env python3
"""clang-tidy on the sources that changed, within a time that CI can afford.

Changed means: against where this branch left origin/main, or else against the commit before, plus what is not committed;
a changed header stands for the source of the same name. Without git history every source is a candidate, one of each
room in turn. No new file is begun after TIDY_SECONDS=75; TIDY=all checks every file, however long it takes. Tests are left
to the sanitizers: they use moved-from objects on purpose, and g++ takes C++20 that clang 14 does not.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def git(*arguments):
    """Words of the answer; none where there is no git or no history."""
    if not shutil.which("git"):
        return []
    run = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return run.stdout.split() if run.returncode == 0 else []


def base():
    head = git("rev-parse", "HEAD")
    left = git("merge-base", "HEAD", "origin/main")
    return left if left and left != head else git("rev-parse", "--verify", "--quiet", "HEAD~1")


def candidates():
    sources = sorted(p for p in ROOT.glob("src/reel/*/*.cpp") if not p.stem.endswith(("_test", "_fuzz")))
    if not sources:
        sys.exit("tidy: there is no src/reel/*/*.cpp")
    since = [] if os.environ.get("TIDY") == "all" else base()
    if since:
        names = git("diff", "--name-only", "--relative", *since) + git("ls-files", "--others", "--exclude-standard")
        stems = {str(ROOT / name).rsplit(".", 1)[0].removesuffix("-inl") for name in names if name.endswith((".h", ".cpp"))}
        sources = [p for p in sources if str(p.with_suffix("")) in stems]
    turn = {}

    def order(path):
        turn[path.parent] = turn.get(path.parent, 0) + 1
        return turn[path.parent], path

    return sorted(sources, key=order)


def commands():
    """The folder of the commands that compile each source by itself, without g++'s compiled headers, which clang cannot read."""
    folder = ROOT / "build/tidy"
    configure = ["cmake", "--preset", "release", "-B", folder, "-DREEL_BATCHES=OFF", "-DREEL_TESTS=OFF"]
    run = subprocess.run(configure, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout)
    path = folder / "compile_commands.json"
    path.write_text(re.sub(r"-Winvalid-pch -include \S+", "", path.read_text()))
    return folder


def tidy(path, folder):
    command = ["clang-tidy", "--quiet", "-p", folder, "--extra-arg=-Wno-unknown-warning-option", path]
    if "HWY_TARGET_INCLUDE" in path.read_text():
        # One instruction set is enough: the others are the same source. The path-sensitive analyzer takes most of the time
        # in unrolled tiles and reports only loops over initializer lists that it believes to be empty.
        command += ["--extra-arg=-DHWY_COMPILE_ONLY_STATIC", "--checks=-clang-analyzer-*"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main():
    end = float("inf") if os.environ.get("TIDY") == "all" else time.time() + float(os.environ.get("TIDY_SECONDS", 75))
    paths = candidates()
    folder = commands()
    bad = []
    skipped = []

    def work(path):
        if time.time() > end:
            skipped.append(path)
            return
        run = tidy(path, folder)
        if run.returncode != 0:
            bad.append(path)
            print(run.stdout or run.stderr, end="", flush=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, paths))
    print(f"tidy: {len(paths) - len(skipped)} of {len(paths)} files checked, {len(bad)} with findings")
    if skipped:
        print("tidy: no time for " + " ".join(str(p.relative_to(ROOT)) for p in sorted(skipped)) + "; TIDY=all checks them")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
