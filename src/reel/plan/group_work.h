// The work of the heads of one Ulysses group together, as items to deal. Internal to this room.
#pragma once

#include "reel/plan/balance.h"

namespace reel::plan {

class GroupWork {
 public:
  // `alike` as in Items, for rows_by_keys and columns_by_rows.
  GroupWork(const Counts& work, const Indices& heads, bool alike);

  // Rows, with a dimension for each position of the keys. Exact: what a row costs at each ring step.
  Items rows_by_keys(const Indices& key_place, int ring) const;
  // Columns, with a dimension for each position of the rows, and their sums. Without Counts::cost.fixed, which does not
  // belong to a column.
  Items columns_by_rows(const Indices& row_place, int ring) const;
  const Items& columns() const { return columns_; }

 private:
  template <class Sum>
  void add_heads();

  const Counts& work_;
  const Indices& heads_;
  bool alike_;
  std::vector<float> work_of_, by_column_;  // [rows][columns] and [columns][rows]: either is summed along its lines
  Items columns_;
};

// The sums of rows_by_keys over the positions: one dimension. Takes a fraction of the time of a GroupWork.
Items row_sums(const Counts& work, const Indices& heads, const Indices& key_place, int ring);

}  // namespace reel::plan
