#include "reel/files/folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "reel/base/testing.h"
#include "reel/files/file.h"
#include "reel/files/folder_testing.h"

namespace reel {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return temp_ / name; }
  void write(const std::string& text) const {
    write_folder_atomically(path("a"), [&](const std::string& folder) { write_file_atomically(folder + "/x", text); });
  }
  TempFolder temp_;
};

TEST_F(Folder, StandsThereAsAWholeInPlaceOfTheOldOne) {
  write("old");
  write_file_atomically(path("a/left"), "");
  write("new");
  EXPECT_EQ(read_file(path("a/x")), "new");
  EXPECT_FALSE(fs::exists(path("a/left")));
  EXPECT_FALSE(fs::exists(path(".writing")));
}

TEST_F(Folder, AFailureLeavesTheOldOneAndNoTemporary) {
  write("old");
  EXPECT_THROW(write_folder_atomically(path("a"),
                                       [](const std::string& folder) {
                                         write_file_atomically(folder + "/x", "half");
                                         throw std::runtime_error("interrupted");
                                       }),
               std::runtime_error);
  EXPECT_EQ(read_file(path("a/x")), "old");
  EXPECT_FALSE(fs::exists(path(".writing")));
}

TEST_F(Folder, WhatAKilledProcessLeftIsNotTakenOver) {
  write("old");
  const pid_t child = ::fork();
  if (child == 0) {
    write_folder_atomically(path("a"), [](const std::string& folder) {
      write_file_atomically(folder + "/left", "half");
      ::raise(SIGKILL);
    });
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(path("a/x")), "old");
  EXPECT_TRUE(fs::exists(path(".writing/left")));
  write("new");
  EXPECT_EQ(read_file(path("a/x")), "new");
  EXPECT_FALSE(fs::exists(path("a/left")));
}

TEST_F(Folder, WhatCannotBeWrittenIsNamedWithTheReason) {
  write_file_atomically(path("file"), "");
  const std::string below = path("file/below");
  for (const std::string& message :
       {message_of([&] { make_folder(below); }), message_of([&] { AppendFile file(below); }),
        message_of([&] { AppendFile::create(below); }), message_of([&] { point_link(below, "x"); }),
        message_of([&] { FileLock::take(below); }), message_of([&] { write_file_atomically(below, ""); })}) {
    EXPECT_EQ(message,
              below + ": cannot be written: Not a directory | check the path; folders are not created on the way");
  }
  EXPECT_EQ(message_of([&] { write_folder_atomically(below, [](const std::string&) {}); }),
            path("file/.writing") + ": cannot be removed: Not a directory | check the path");
}

TEST_F(Folder, ALinkIsMovedAtOnce) {
  for (const char* target : {"nowhere", "somewhere"}) {
    point_link(path("link"), target);
    EXPECT_EQ(fs::read_symlink(path("link")), target);
    EXPECT_FALSE(fs::exists(fs::symlink_status(path(".link"))));
  }
}

TEST_F(Folder, RemovingWhatIsGoneIsFine) {
  write("x");
  remove_folder(path("a"));
  EXPECT_FALSE(fs::exists(path("a")));
  EXPECT_NO_THROW(remove_folder(path("a")));
}

TEST_F(Folder, OneProcessHoldsALockUntilItEnds) {
  int to_child[2], to_parent[2];
  ASSERT_TRUE(::pipe(to_child) == 0 && ::pipe(to_parent) == 0);
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = FileLock::take(path("lock"));
    byte = held ? 'y' : 'n';
    (void)!::write(to_parent[1], &byte, 1);
    (void)!::read(to_child[0], &byte, 1);  // until it is killed
    ::_exit(0);
  }
  ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_FALSE(FileLock::take(path("lock")));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(FileLock::take(path("lock")));
  EXPECT_TRUE(FileLock::take(path("lock"))) << "the one before was let go of";
}

TEST_F(Folder, AppendingKeepsWhatIsThereAndCreatingDoesNot) {
  for (const char* text : {"one", "two"}) AppendFile(path("log")).write(text);
  EXPECT_EQ(read_file(path("log")), "onetwo");
  EXPECT_FALSE(AppendFile::create(path("log")));
  AppendFile::create(path("new"))->write("three");
  EXPECT_EQ(read_file(path("new")), "three");
}

TEST_F(Folder, AppendingToAFullDiskIsAnError) {
  EXPECT_EQ(
      message_of([&] { AppendFile("/dev/full").write("x"); }),
      "/dev/full: cannot be written: No space left on device | free some space or write to another disk; what was "
      "there before is untouched");
}

}  // namespace
}  // namespace reel
