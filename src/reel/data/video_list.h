// The video files of a data set, with what is known about each.
#pragma once

#include <string>
#include <vector>

namespace reel::data {

struct VideoList {
  struct Entry {
    std::string path;   // to open
    std::string name;   // below the folder, or as the CSV file has it
    std::string where;  // of its line in the CSV file, "train.csv:7: ", for warnings; empty in a folder
    std::string caption;
    int label = -1;
  };
  std::vector<Entry> entries;
  std::vector<std::string> labels;
};

// A folder: every file below it with the extension of a video, sorted by name; hidden ones are left out. Where all of
// them lie in folders of their own, these are the classes: their names, sorted, are label and caption.
//
// A CSV file (name ends in .csv): a column `path`, relative to the CSV file; `text` or `caption`; `label`. Other
// columns do not matter. Labels are whole numbers from 0 on, taken as they are, or names, numbered in sorted order; an
// empty cell is no label. Files are not looked at: those that are missing are found when they are read.
VideoList list_videos(const std::string& path);

}  // namespace reel::data
