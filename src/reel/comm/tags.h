// Tags that keep the messages of groups apart: which ones a group's messages have on their way.
//
// Groups overlap: the same two ranks may be in several, and use them in different orders. So each group has kTags tags
// of its own between any two of its members, counted by pair: in the k-th group that ranks a and b share, messages
// between a and b have the tags from k * kTags on. Nobody has to talk, since both ends count the same, as long as any
// two ranks make the groups that they share in the same order. Groups cannot collide, since every new group raises the
// count of each of its pairs. A group that is made again (same name, same ranks in the same order) is the same group
// and keeps its tags, so that groups may come and go for as long as a run lasts.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reel::comm {

constexpr int kTags = 8;  // of a group

class Tags {
 public:
  // The first tag between this rank and each of the members, which are ranks of the world. An Error where it would be
  // above `most` less kTags: MPI promises tags up to 32767 only, enough for 4096 groups of a pair.
  const std::vector<int>& of(const std::string& name, const std::vector<int>& members, int most);

 private:
  std::map<std::pair<std::string, std::vector<int>>, std::vector<int>> known_;
  std::map<int, int> groups_;  // that this rank shares with another one
};

}  // namespace reel::comm
