#!/usr/bin/env python3
"""Tests of check_rooms.py: each breaks one promise and expects the place to be named."""

import unittest

import check_rooms

CMAKE = """
function(reel_room room)
endfunction()
reel_room(base LINKS fmt::fmt)
reel_room(kernels USES base LINKS PkgConfig::HWY)
reel_room(attention
  USES kernels)
  reel_room(app USES base kernels attention)
"""
ROOMS = {"base": [], "kernels": ["base"], "attention": ["kernels"], "app": ["base", "kernels", "attention"]}
TABLE = """
| room | holds | may use |
|---|---|---|
| base | buffers | - |
| kernels | loops | base |
| attention | attention | kernels |
| tape (planned) | tensors | base |
| app | commands | all |
"""


class CheckRooms(unittest.TestCase):
    def includes(self, room, text):
        return list(check_rooms.check_includes(ROOMS, room, f"src/reel/{room}/a.cpp", text))

    def table(self, page):
        return list(check_rooms.check_table(ROOMS, page))

    def test_reads_declarations(self):
        self.assertEqual(check_rooms.declared(CMAKE), ROOMS)

    def test_what_a_used_room_uses_may_be_used(self):
        self.assertEqual(self.includes("attention", '#include "reel/base/error.h"\n#include <vector>\n'), [])
        self.assertEqual(self.includes("kernels", '#define HWY_TARGET_INCLUDE "reel/kernels/a.cpp"\n'), [])

    def test_forbidden_include_is_named_with_its_line(self):
        problems = self.includes("kernels", '#include "reel/base/error.h"\n#include "reel/attention/lists.h"\n')
        self.assertEqual(len(problems), 1)
        self.assertIn("src/reel/kernels/a.cpp:2: room kernels may not use attention", problems[0])

    def test_include_without_room_is_named(self):
        self.assertIn('write it from src/, like "reel/base/error.h"', self.includes("base", '#include "error.h"\n')[0])

    def test_cycles_unknown_rooms_and_stray_folders_are_named(self):
        rooms = {"base": ["kernels"], "kernels": ["base"], "app": ["tape"]}
        problems = "\n".join(check_rooms.check_declarations(rooms, ["base", "attic"]))
        self.assertIn("base and kernels use each other", problems)
        self.assertIn("app uses tape", problems)
        self.assertIn("src/reel/attic: not a room", problems)

    def test_table_that_agrees_is_quiet(self):
        self.assertEqual(self.table(TABLE), [])

    def test_table_that_differs_is_named(self):
        self.assertIn('architecture.md:6: room attention may use "base"', self.table(TABLE.replace("| kernels |\n", "| base |\n"))[0])
        self.assertIn("has no row for kernels", self.table(TABLE.replace("| kernels | loops | base |\n", ""))[0])
        self.assertIn("no room tape", self.table(TABLE.replace(" (planned)", ""))[0])
        self.assertIn("take away (planned)", self.table(TABLE.replace("| base |", "| base (planned) |", 1))[0])

    def test_rows_go_from_the_bottom_to_the_top(self):
        row = "| base | buffers | - |\n"
        problems = self.table(TABLE.replace(row, "") + row)
        self.assertIn("room kernels stands before base", problems[0])

    def test_picture_shows_every_room_above_those_it_uses(self):
        picture = "\n    app\n    attention\n    kernels\n    base\n\n    some code\n"
        self.assertEqual(list(check_rooms.check_picture(ROOMS, picture)), [])
        beside = picture.replace("attention\n    kernels", "attention  kernels")
        self.assertIn("does not show attention above kernels", list(check_rooms.check_picture(ROOMS, beside))[0])
        self.assertIn("has no room app", list(check_rooms.check_picture(ROOMS, picture.replace("app\n", "\n")))[0])


if __name__ == "__main__":
    unittest.main()
