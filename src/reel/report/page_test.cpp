#include "reel/report/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "reel/files/file.h"
#include "reel/report/animation.h"
#include "reel/report/chart.h"
#include "reel/report/testing.h"

namespace reel::report {
namespace {

Page full_page(const std::string& text) {
  Page page(text, text);
  page.headline({{text, text}});
  page.notices({text, text});
  page.section(text, text + "\n\n" + text);
  page.text(text);
  page.figure(line_chart({.title = text, .series = {{text, {0, 1}, {1, 2}, false}}}));
  page.figures({bar_chart({.title = text, .bars = {{text, 1}}}), facts_list({{text, text}})});
  page.section(text);
  page.facts({{text, text}});
  page.table({{text, text}, {{text, text}, {"1", text}}});
  page.images({{"bytes", text}});
  page.folded(text, text);
  return page;
}

TEST(Page, HostileTextStaysTextEverywhere) {
  const std::string page = full_page("</style></title><script>alert(1)</script><img src=x onerror=\"y\">'&\xff").html();
  EXPECT_EQ(markup_fault(page), "");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(count_of(page, "<img"), 1u);
  EXPECT_EQ(count_of(page, "</style>"), 1u);
}

TEST(Page, LoadsNothingFromElsewhere) {
  const std::string page = full_page("text").html();
  for (const char* outside : {"http:", "https:", "//", "@import", "url(", "<script", "<link", "href"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("src=\"data:image/png;base64,Ynl0ZXM=\""), std::string::npos);
}

TEST(Page, EveryClassIsStyled) {
  Page page = full_page("text");
  const std::vector<double> many(100, 1);
  page.figure(line_chart({.log_y = true, .series = {{"a", many, many, true}}, .references = {{1, "r"}}}));
  page.figure(line_chart({}));
  page.figure(bar_chart({.bars = {{"a", 1, true}, {"b", 2}}, .references = {{1, "r"}}}));
  page.figure(stacked_bars({.parts = {"a", "b"}, .bars = {{"c", {1, 2}}}}));
  page.figure(histogram({.values = {1, 2, 3}}));
  page.figure(heat_map({.rows = 1, .columns = 2, .values = {1, NAN}}));
  page.figure(
      clip_grid({{"step 0", {{.png = "x", .width = 8, .height = 8}}}}, {{.png = "x", .width = 8, .height = 8}}));
  const std::string html = page.html();
  std::set<std::string> styled;
  const std::string style = all_between(html, "<style>", "</style>").at(0);
  for (std::size_t at = style.find('.'); at != style.npos; at = style.find('.', at + 1)) {
    styled.insert(style.substr(at + 1, style.find_first_not_of("abcdefghijklmnopqrstuvwxyz01234567", at + 1) - at - 1));
  }
  for (const std::string& names : all_between(html.substr(html.find("</style>")), " class=\"", "\"")) {
    for (std::size_t begin = 0; begin < names.size();) {
      const std::size_t end = std::min(names.find(' ', begin), names.size());
      EXPECT_TRUE(styled.contains(names.substr(begin, end - begin))) << names;
      begin = end + 1;
    }
  }
}

TEST(Page, ABlankLineBeginsAParagraph) {
  Page page("t");
  page.section("s", "one\ntwo\n\nthree");
  EXPECT_NE(page.html().find("<p>one\ntwo</p>\n<p>three</p>"), std::string::npos);
}

TEST(Page, ColumnsOfNumbersAreAlignedToTheRight) {
  Page page("t");
  page.table({{"name", "count", "change"}, {{"a", "1,234", "-3 %"}, {"b", "–", ""}}});
  EXPECT_NE(page.html().find("<tr><td>a</td><td class=\"number\">1,234</td><td class=\"number\">-3 %</td></tr>"),
            std::string::npos);
}

TEST(Page, IsWrittenAsItIs) {
  const std::string path = testing::TempDir() + "reel_page_test.html";
  const Page page = full_page("text");
  page.write(path);
  EXPECT_EQ(read_file(path), page.html());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace reel::report
