#include "reel/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "reel/base/error.h"
#include "reel/base/testing.h"
#include "reel/files/folder_testing.h"

namespace reel {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(File, WhatWasWrittenIsRead) {
  std::string text(100000, 'x');
  text[500] = '\0';
  write_file_atomically(path("a"), text);
  EXPECT_EQ(read_file(path("a")), text);
  write_file_atomically(path("a"), "");
  EXPECT_EQ(read_file(path("a")), "");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, ErrorsNameTheFileAndTheReason) {
  EXPECT_EQ(message_of([&] { read_file("nowhere/a.toml"); }),
            "nowhere/a.toml: cannot be read: No such file or directory | check the path");
  EXPECT_NE(message_of([&] { read_file(folder_); }).find("it is a folder"), std::string::npos);
  EXPECT_NE(message_of([&] { MappedFile map(folder_); }).find("it is a folder"), std::string::npos);
  EXPECT_NE(message_of([&] { write_file_atomically(folder_, "x"); }).find("it is a folder"), std::string::npos);
  EXPECT_NE(message_of([&] { write_file_atomically(path("no/a"), "x"); }).find("No such file"), std::string::npos);
  EXPECT_THROW(write_file_atomically("", "x"), Error);
  if (::geteuid() != 0) {  // root may read anything
    write_file_atomically(path("secret"), "x");
    ::chmod(path("secret").c_str(), 0);
    EXPECT_NE(message_of([&] { read_file(path("secret")); }).find("Permission denied"), std::string::npos);
  }
}

TEST_F(File, AFailureLeavesTheOldFileAndNoTemporary) {
  write_file_atomically(path("a"), "old");
  EXPECT_THROW(write_file_atomically(path("a"),
                                     [](FileWriter& writer) {
                                       writer.write("half of the n");
                                       throw std::runtime_error("interrupted");
                                     }),
               std::runtime_error);
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

// A limit on the size of files stands in for a full disk: write fails in the same place, with EFBIG for ENOSPC.
TEST_F(File, AFullDiskLeavesTheOldFileAndNoTemporary) {
  write_file_atomically(path("a"), "old");
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight = {4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::string large = message_of([&] { write_file_atomically(path("a"), std::string(1 << 20, 'x')); });
  const std::string buffered = message_of([&] {  // fits the stream's buffer: fails only when it is flushed
    write_file_atomically(path("a"), [](FileWriter& writer) {
      for (int i = 0; i < 4100; ++i) writer.write("x");
    });
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(large.find("/a: cannot be written: File too large | free some space"), std::string::npos) << large;
  EXPECT_NE(buffered.find("/a: cannot be written: File too large | free some space"), std::string::npos) << buffered;
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, DevicesAreWrittenDirectly) {
  EXPECT_NE(message_of([] { write_file_atomically("/dev/full", "x"); }).find("No space left"), std::string::npos);
  write_file_atomically("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(File, WhereThisProcessPrintsIsAppendedTo) {
  write_file_atomically(path("log"), "of others\n");
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO), log = ::open(path("log").c_str(), O_WRONLY | O_APPEND);
  ASSERT_TRUE(before >= 0 && log >= 0);
  ::dup2(log, STDOUT_FILENO);
  std::printf("a table\n");
  write_file_atomically("/dev/stdout", "a file\n");
  std::printf("the end\n");
  std::fflush(stdout);
  ::dup2(before, STDOUT_FILENO);
  ::close(before), ::close(log);
  EXPECT_EQ(read_file(path("log")), "of others\na table\na file\nthe end\n");
}

TEST_F(File, ALinkToNothingYetIsFollowedToo) {
  fs::create_directory(path("folder"));
  fs::create_symlink("folder/real", path("link"));
  write_file_atomically(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("folder/real")), "new");
  fs::create_symlink("circle", path("circle"));
  EXPECT_NE(message_of([&] { write_file_atomically(path("circle"), "x"); }).find("symbolic links"), std::string::npos);
}

TEST_F(File, LinksAndPermissionsSurvive) {
  write_file_atomically(path("real"), "old");
  ASSERT_EQ(::chmod(path("real").c_str(), 0640), 0);
  fs::create_symlink("real", path("link"));
  write_file_atomically(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("real")), "new");
  EXPECT_EQ(static_cast<int>(fs::status(path("real")).permissions()), 0640);
}

TEST_F(File, RelativeNamesWithoutAFolderWork) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_atomically("plain", "x");
  EXPECT_EQ(read_file("plain"), "x");
  fs::current_path(before);
}

TEST_F(File, AMappingShowsTheFileAndMoves) {
  write_file_atomically(path("a"), "hello");
  MappedFile map(path("a"));
  ASSERT_EQ(map.bytes().size(), 5u);
  MappedFile moved(std::move(map));
  EXPECT_EQ(map.bytes().size(), 0u);
  map = std::move(moved);
  EXPECT_EQ(static_cast<char>(map.bytes()[4]), 'o');
  write_file_atomically(path("a"), "");  // replaced, not shrunk: the mapping still shows what it mapped
  EXPECT_EQ(static_cast<char>(map.bytes()[0]), 'h');
  EXPECT_EQ(MappedFile(path("a")).bytes().size(), 0u);
  EXPECT_THROW(MappedFile(path("missing")), Error);
}

}  // namespace
}  // namespace reel
