#include "reel/report/study_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/report/testing.h"

namespace reel::report {
namespace {

StudySummary study_of(std::size_t heads, double value) {
  StudySummary s;
  s.title = "Attention of <qk>";
  s.headline = {{"keys of a query", "12 %"}};
  s.break_even = 0.4;
  s.predictors = {"true", "rank 16", "random"};
  s.shares = {0.05, 0.1};
  s.blocks = {1, 64};
  s.distances = {0, 1, 2, 3};
  for (std::size_t h = 0; h < heads; ++h) {
    StudySummary::Head head{0.125, 0.25, 0.5, 0.75, {}, {}, {}, {}, {}, {}};
    head.covered = head.recall = head.error = {value, value, value};
    head.carried = {{value, value}, {value, value}, {value, value}};
    head.block_covered = head.block_needed = {value, value};
    s.heads.push_back(head);
    s.figures.layers.push_back({std::vector<double>(40, 1.0 / 40), 0.5, {0.5, 1}, {0.25, 0.5, 1}});
  }
  s.figures.part = "head";
  s.figures.curve = {0.1, 1};
  s.figures.critical_within = s.figures.all_within = {0.25, 0.5, 1};
  return s;
}

std::string checked(const StudySummary& s) {
  const std::string page = study_page(s);
  EXPECT_EQ(markup_fault(page), "");
  EXPECT_TRUE(holds_only_finite_numbers(page.substr(page.find("</style>"))));
  EXPECT_EQ(page, study_page(s)) << "not the same bytes";
  return page;
}

TEST(StudyPage, ShowsEveryHeadAndPredictor) {
  const std::string page = checked(study_of(3, 0.625));
  for (const char* text : {"Attention of &lt;qk&gt;", "head 2", "break-even", "rank 16", "blocks of 64",
                           "head 1, predictor rank 16: 62.5\u00a0%", "Head by head", "Where critical keys lie"}) {
    EXPECT_NE(page.find(text), page.npos) << text;
  }
  EXPECT_EQ(page.find("layer 0"), page.npos) << "these are heads";
}

TEST(StudyPage, ManyHeadsAndMissingNumbersLeaveAPage) {
  EXPECT_LT(checked(study_of(200, 0.5)).size(), 1000000u);
  StudySummary s = study_of(2, NAN);
  s.break_even = NAN;
  checked(s);
}

}  // namespace
}  // namespace reel::report
