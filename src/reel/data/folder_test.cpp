#include "reel/data/folder.h"

#include <gtest/gtest.h>

#include <set>

#include "reel/base/testing.h"
#include "reel/data/testing.h"
#include "reel/data/video_file.h"

namespace reel::data {
namespace {

namespace fs = std::filesystem;

class VideoLists : public Files {
 protected:
  void touch(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    write_file_atomically(path(name), "");
  }
  std::string csv_error(const std::string& text) {
    write_file_atomically(path("train.csv"), text);
    return message_of([&] { list_videos(path("train.csv")); });
  }
};

std::vector<std::string> names_of(const VideoList& list) {
  std::vector<std::string> names;
  for (const auto& entry : list.entries) names.push_back(entry.name);
  return names;
}

TEST_F(VideoLists, FoldersAreSearchedInSortedOrder) {
  for (const char* name : {"b.mp4", "a/z.MKV", "a/b/c.webm", "notes.txt", ".hidden.mp4", ".cache/x.mp4"}) touch(name);
  const VideoList list = list_videos(path());
  EXPECT_EQ(names_of(list), (std::vector<std::string>{"a/b/c.webm", "a/z.MKV", "b.mp4"}));
  EXPECT_EQ(list.entries[0].path, path("a/b/c.webm"));
  EXPECT_TRUE(list.labels.empty());  // b.mp4 is in no class
  EXPECT_EQ(list.entries[0].label, -1);
}

TEST_F(VideoLists, FoldersInsideAreClasses) {
  for (const char* name : {"run/1.mp4", "run/2.mp4", "jump/deep/1.mp4"}) touch(name);
  const VideoList list = list_videos(path());
  EXPECT_EQ(list.labels, (std::vector<std::string>{"jump", "run"}));
  EXPECT_EQ(list.entries[0].label, 0);
  EXPECT_EQ(list.entries[2].label, 1);
  EXPECT_EQ(list.entries[2].caption, "run");
}

TEST_F(VideoLists, ATableNamesPathTextAndLabel) {
  write_file_atomically(
      path("train.csv"),
      "id,path,text,label,fps\n1,a.mp4,\"a dog, running\",dog,24\n2,/x/b.mp4,,,\n3,c/d.mp4,cat,cat,5\n");
  const VideoList list = list_videos(path("train.csv"));
  ASSERT_EQ(list.entries.size(), 3u);
  EXPECT_EQ(list.entries[0].path, path("a.mp4"));
  EXPECT_EQ(list.entries[0].caption, "a dog, running");
  EXPECT_EQ(list.entries[1].path, "/x/b.mp4");
  EXPECT_EQ(list.entries[2].where, path("train.csv") + ":4: ");
  EXPECT_EQ(list.labels, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(list.entries[0].label, 1);
  EXPECT_EQ(list.entries[1].label, -1);
}

TEST_F(VideoLists, NumbersAreLabelsAsTheyAre) {
  write_file_atomically(path("train.csv"), "path,caption,label\na.mp4,x,10\nb.mp4,y,2\n");
  const VideoList list = list_videos(path("train.csv"));
  EXPECT_EQ(list.entries[0].label, 10);
  EXPECT_EQ(list.entries[1].label, 2);
  EXPECT_EQ(list.labels.size(), 11u);
  EXPECT_EQ(list.labels[10], "10");
  EXPECT_EQ(list.entries[1].caption, "y");
}

TEST_F(VideoLists, MistakesNameFileAndLine) {
  EXPECT_NE(csv_error("file,text\na.mp4,x\n").find("train.csv:1: there is no column 'path'"), std::string::npos);
  EXPECT_NE(csv_error("path,text\na.mp4,x\n,y\n").find("train.csv:3: the path is empty"), std::string::npos);
  EXPECT_NE(csv_error("path,text\na.mp4,x,y\n").find("train.csv:2: 3 fields"), std::string::npos);
  EXPECT_NE(csv_error("path,label\na.mp4,1\nb.mp4,99999999\n").find("train.csv:3: label 99999999 is too large"),
            std::string::npos);
  EXPECT_NE(csv_error("path\n").find("train.csv: there are no rows"), std::string::npos);
  EXPECT_NE(message_of([&] { list_videos(path("none")); }).find("none: No such file"), std::string::npos);
  fs::create_directory(path("empty"));
  EXPECT_NE(message_of([&] { list_videos(path("empty")); }).find("empty: no video files"), std::string::npos);
}

class Folders : public Files {
 protected:
  std::unique_ptr<Source> open(const std::string& where, DataConfig config = {.validation = 0}) {
    config.source = "folder";
    config.path = where;
    return make_source(config, kFormat, collect());
  }
  static constexpr Format kFormat{
      .channels = 3, .frames = 4, .height = 16, .width = 16, .text_tokens = 2, .text_width = 4};
};

// The number of the first frame of a clip made of numbered frames.
std::int64_t start_of(const Clip& clip, const Format& format) { return number_of(images_of(clip.values, format)[0]); }

TEST_F(Folders, ClipsHaveTheWantedFormAndStartElsewhereInEachEpoch) {
  REEL_NEEDS_VIDEO();
  write_mp4(path("a.mp4"), numbered_frames(28, 24, 32), 10, 1);
  const auto source = open(path(), {.stride = 2, .validation = 0}),
             again = open(path(), {.stride = 2, .validation = 0});
  std::set<std::int64_t> starts;
  for (int epoch = 0; epoch < 12; ++epoch) {
    Clip clip, twin;
    ASSERT_TRUE(source->read(Split::kTraining, epoch, clip));
    ASSERT_TRUE(again->read(Split::kTraining, epoch, twin));
    EXPECT_TRUE(same(clip, twin));
    ASSERT_EQ(clip.values.size(), kFormat.values());
    const std::int64_t start = start_of(clip, kFormat);
    const auto frames = images_of(clip.values, kFormat);
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(number_of(frames[static_cast<std::size_t>(i)]), start + 2 * i);
    starts.insert(start);
  }
  EXPECT_GT(starts.size(), 5u);  // 12 draws of 22
}

TEST_F(Folders, BrokenFilesAreSkippedWithOneWarningEach) {
  REEL_NEEDS_VIDEO();
  write_mp4(path("good.mp4"), numbered_frames(8, 16, 16), 10, 1);
  write_mp4(path("short.mp4"), numbered_frames(3, 16, 16), 10, 1);
  write_file_atomically(path("empty.mp4"), "");
  write_file_atomically(path("train.csv"), "path,text\ngood.mp4,red fish\nshort.mp4,x\nempty.mp4,x\nmissing.mp4,x\n");
  const auto source = open(path("train.csv"));
  ASSERT_EQ(source->size(Split::kTraining), 4);
  Clip clip;
  for (int index = 0; index < 12; ++index) EXPECT_EQ(source->read(Split::kTraining, index, clip), index % 4 == 0);
  EXPECT_EQ(source->skipped(), 3);
  ASSERT_EQ(warnings_.size(), 3u);
  EXPECT_NE(warnings_[0].find("train.csv:3: " + path("short.mp4") + ": it lasts 0.30 s"), std::string::npos)
      << warnings_[0];
  EXPECT_NE(warnings_[1].find("empty.mp4: "), std::string::npos);
  EXPECT_NE(warnings_[2].find("train.csv:5: " + path("missing.mp4") + ": No such file"), std::string::npos);
  ASSERT_TRUE(source->read(Split::kTraining, 0, clip));
  EXPECT_EQ(clip.caption, "red fish");
  EXPECT_TRUE(same(clip.text, source->text_of("red fish")));
}

TEST_F(Folders, ValidationFilesAreNotTrainedOn) {
  REEL_NEEDS_VIDEO();
  for (int i = 0; i < 6; ++i) {
    fs::create_directory(path(fmt::format("class{}", i)));
    write_mp4(path(fmt::format("class{}/a.mp4", i)), numbered_frames(4, 16, 16), 10, 1);
  }
  const auto source = open(path(), {.validation = 2});
  EXPECT_EQ(source->size(Split::kTraining), 4);
  EXPECT_EQ(source->size(Split::kValidation), 2);
  std::set<int> labels;
  Clip clip;
  for (const Split split : {Split::kTraining, Split::kValidation}) {
    for (int i = 0; i < source->size(split); ++i) {
      ASSERT_TRUE(source->read(split, i, clip));
      EXPECT_TRUE(labels.insert(clip.label).second);
      EXPECT_EQ(source->labels()[static_cast<std::size_t>(clip.label)], clip.caption);
    }
  }
}

TEST_F(Folders, WithoutFfmpegThereIsAnError) {
  if (video_supported()) GTEST_SKIP() << "this build has FFmpeg";
  EXPECT_NE(message_of([&] { open(path()); }).find("FFmpeg was left out of this build"), std::string::npos);
}

}  // namespace
}  // namespace reel::data
