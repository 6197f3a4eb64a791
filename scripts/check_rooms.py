#!/usr/bin/env python3
"""Holds the includes under src/reel to the rooms that CMakeLists.txt declares, and docs/architecture.md to both.

`reel_room(attention USES base kernels ...)` says which rooms attention may include; what a used room uses may be used
too. The table in docs/architecture.md shows the same to people: room | holds | may use, where "-" is nothing, "all" is
every other room and "(planned)" marks a room that does not exist yet. A row stands below the rows of the rooms it uses.
The picture on that page is the block of indented lines that hold nothing but names of rooms; there a room stands above
the rooms it uses.
"""

import re
import sys
from pathlib import Path


def declared(cmake):
    """{room: the rooms its USES names}, from the text of CMakeLists.txt."""
    rooms = {}
    for match in re.finditer(r"^\s*reel_room\(\s*(\w+)([^)]*)\)", cmake, re.MULTILINE):
        uses = re.search(r"\bUSES\b((?:\s+[a-z_]\w*)*)", match[2])
        rooms[match[1]] = uses[1].split() if uses else []
    return rooms


def reachable(rooms, room):
    found, todo = set(), [room]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += rooms.get(name, [])
    return found


def check_declarations(rooms, folders):
    for room, uses in rooms.items():
        for used in uses:
            if used not in rooms:
                yield f"CMakeLists.txt: room {room} uses {used}, which no reel_room declares"
            elif room in reachable(rooms, used):
                yield f"CMakeLists.txt: rooms {room} and {used} use each other; move what they share into a room below both"
    for folder in folders:
        if folder not in rooms:
            yield f"src/reel/{folder}: not a room; add reel_room({folder} USES ...) to CMakeLists.txt"


def check_includes(rooms, room, path, text):
    allowed = reachable(rooms, room)
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*(?:include|define\s+HWY_TARGET_INCLUDE)\s+"([^"]+)"', line)
        if not match:
            continue
        where, _, name = match[1].removeprefix("reel/").partition("/")
        if not match[1].startswith("reel/") or not name or where not in rooms:
            example = f"reel/{room}/{match[1].rpartition('/')[2]}"
            yield f'{path}:{number}: "{match[1]}" does not name its room; write it from src/, like "{example}"'
        elif where not in allowed:
            may = ", ".join(sorted(allowed - {room})) or "no other room"
            yield (
                f"{path}:{number}: room {room} may not use {where} (it may use {may}); move the code to a room that may, "
                f"or add {where} to its USES in CMakeLists.txt and to the table in docs/architecture.md"
            )


def check_table(rooms, page):
    """page: the text of docs/architecture.md."""
    name = "docs/architecture.md"
    shown = {}
    for number, line in enumerate(page.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        match = re.fullmatch(r"`?(\w+)`?( \(planned\))?", cells[0])
        if not line.startswith("|") or len(cells) != 3 or not match or cells[2] == "may use":
            continue
        room, planned = match[1], bool(match[2])
        shown[room] = number
        if planned and room in rooms:
            yield f"{name}:{number}: room {room} exists; take away (planned)"
        elif not planned and room not in rooms:
            yield f"{name}:{number}: CMakeLists.txt has no room {room}; mark it (planned) or remove it"
        elif not planned:
            table = set(rooms) - {room} if cells[2] == "all" else set(re.findall(r"\w+", cells[2]))
            if table != set(rooms[room]):
                uses = ", ".join(rooms[room]) or "-"
                yield f'{name}:{number}: room {room} may use "{cells[2]}" here, but "{uses}" in CMakeLists.txt'
    for room, uses in rooms.items():
        if room not in shown:
            yield f"{name}: the table of rooms has no row for {room}"
        for used in uses:
            if room in shown and shown.get(used, 0) > shown[room]:
                yield f"{name}:{shown[room]}: room {room} stands before {used}, which it uses; rows go from the bottom to the top"


def check_picture(rooms, page):
    name = "docs/architecture.md"
    line_of = {}
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("    ") and line.split() and set(line.split()) <= set(rooms):
            line_of.update((room, number) for room in line.split())
    for room, uses in rooms.items():
        if room not in line_of:
            yield f"{name}: the picture has no room {room}"
        for used in uses:
            if room in line_of and line_of.get(used, line_of[room] + 1) <= line_of[room]:
                yield f"{name}:{line_of[room]}: the picture does not show {room} above {used}, which it uses"


def check(root):
    rooms = declared((root / "CMakeLists.txt").read_text())
    src = root / "src/reel"
    if not any(src.glob("*/*.cpp")):
        yield "src/reel: no sources; the rooms have moved, so must this script"
    yield from check_declarations(rooms, sorted(p.name for p in src.iterdir() if any(p.glob("**/*.*"))))
    for path in sorted(src.glob("**/*")):
        room = path.relative_to(src).parts[0]
        if path.suffix in (".h", ".cpp") and room in rooms:
            yield from check_includes(rooms, room, path.relative_to(root), path.read_text())
    page = (root / "docs/architecture.md").read_text()
    yield from check_table(rooms, page)
    yield from check_picture(rooms, page)


def main():
    problems = list(check(Path(__file__).resolve().parent.parent))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
