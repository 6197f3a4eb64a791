#include "reel/study/block_form.h"

#include <algorithm>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::study {

namespace {

std::int64_t size_of(const std::vector<std::int32_t>& starts, std::int64_t i) {
  return starts[sized(i) + 1] - starts[sized(i)];
}

// Listed pairs in each column for the queries of one row.
class Counts {
 public:
  Counts(const lists::KeyLists& lists, const BlockForm& form) : lists_(lists), form_(form) {
    for (std::int64_t c = 0; c < form.column_count(); ++c) {
      column_of_.insert(column_of_.end(), sized(size_of(form.column_starts, c)), static_cast<std::int32_t>(c));
    }
  }

  // [columns]; their sum is `pairs`.
  const std::vector<std::int64_t>& of(std::int64_t b, std::int64_t h, std::int64_t row) {
    counts_.assign(sized(form_.column_count()), 0);
    const std::int32_t first = form_.row_starts[sized(row)], end = form_.row_starts[sized(row) + 1];
    const std::vector<std::int32_t>& groups = lists_.group_starts;
    for (auto g = std::upper_bound(groups.begin(), groups.end(), first) - groups.begin() - 1;
         g < lists_.groups() && groups[sized(g)] < end; ++g) {
      const std::int64_t queries = std::min(end, groups[sized(g) + 1]) - std::max(first, groups[sized(g)]);
      lists_.tokens(b, h, g, tokens_);
      for (const std::int32_t token : tokens_) counts_[sized(column_of_[sized(token)])] += queries;
    }
    return counts_;
  }

 private:
  const lists::KeyLists& lists_;
  const BlockForm& form_;
  std::vector<std::int32_t> column_of_, tokens_;
  std::vector<std::int64_t> counts_;
};

// Columns of which the largest share is listed, until they hold as many pairs as are listed, ascending. By share and
// not by number: of ragged tiles a short one that is listed as a whole comes before a long one that is half.
std::vector<std::int32_t> within_budget(const std::vector<std::int64_t>& counts, const BlockForm& form,
                                        std::int64_t queries) {
  std::vector<std::int32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return counts[sized(a)] * size_of(form.column_starts, b) > counts[sized(b)] * size_of(form.column_starts, a);
  });
  std::int64_t left = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::size_t taken = 0;
  for (; taken < order.size() && left > 0 && counts[sized(order[taken])] > 0; ++taken) {
    left -= queries * size_of(form.column_starts, order[taken]);
  }
  order.resize(taken);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

double BlockForm::density() const {
  double pairs = 0;
  for (std::int64_t i = 0; i < batch * heads * rows(); ++i) {
    for (const std::int32_t column : row(0, i / rows(), i % rows())) {
      pairs += static_cast<double>(size_of(row_starts, i % rows()) * size_of(column_starts, column));
    }
  }
  return pairs / (static_cast<double>(batch * heads) * row_starts.back() * column_starts.back());
}

BlockForm block_form(const lists::KeyLists& lists, std::vector<std::int32_t> row_starts,
                     std::vector<std::int32_t> column_starts, Fit fit) {
  REEL_CHECK(row_starts.back() == lists.queries() && column_starts.back() == lists.keys_tokens);
  BlockForm form{lists.batch, lists.heads, std::move(row_starts), std::move(column_starts), {0}, {}, {}};
  Counts counts(lists, form);
  for (std::int64_t head = 0; head < lists.batch * lists.heads; ++head) {
    for (std::int64_t r = 0; r < form.rows(); ++r) {
      const std::int64_t queries = size_of(form.row_starts, r);
      const std::vector<std::int64_t>& pairs = counts.of(head / lists.heads, head % lists.heads, r);
      std::vector<std::int32_t> columns;
      if (fit == Fit::kBudget) {
        columns = within_budget(pairs, form, queries);
      } else {
        for (std::int64_t c = 0; c < form.column_count(); ++c) {
          if (pairs[sized(c)] > 0) columns.push_back(static_cast<std::int32_t>(c));
        }
      }
      for (const std::int32_t c : columns) {
        form.columns.push_back(c);
        form.full.push_back(pairs[sized(c)] == queries * size_of(form.column_starts, c) ? 1 : 0);
      }
      form.offsets.push_back(static_cast<std::int64_t>(form.columns.size()));
    }
  }
  return form;
}

QueryRows query_rows(const BlockForm& form) {
  return {form.row_starts, [&form](std::int64_t b, std::int64_t h, std::int64_t row, std::vector<std::int32_t>& out) {
            out.clear();
            for (const std::int32_t c : form.row(b, h, row)) {
              for (std::int32_t token = form.column_starts[sized(c)]; token < form.column_starts[sized(c) + 1];
                   ++token) {
                out.push_back(token);
              }
            }
          }};
}

}  // namespace reel::study
