#include "reel/report/html.h"

#include <gtest/gtest.h>

#include "reel/files/utf8.h"

namespace reel::report {
namespace {

TEST(Escape, HostileTextStaysText) {
  EXPECT_EQ(escape("<script>alert('x')</script>"), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
  EXPECT_EQ(escape("\" onload=\"steal()"), "&quot; onload=&quot;steal()");
  EXPECT_EQ(escape("&lt;"), "&amp;lt;");  // shown as it was given, not decoded
  EXPECT_EQ(escape("]]>-->"), "]]&gt;--&gt;");
  EXPECT_EQ(escape("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(escape("µ · grün"), "µ · grün");
}

TEST(Escape, WhatIsNotTextBecomesTheReplacementCharacter) {
  EXPECT_EQ(escape(std::string("a\0b\x1b[31m\x7f\r", 10)), "a\ufffdb\ufffd[31m\ufffd\ufffd");
  EXPECT_EQ(escape("\xff<\xc3"), "\ufffd&lt;\ufffd");
  EXPECT_EQ(escape("\xc0\xbc"), "\ufffd\ufffd");  // an overlong '<'
}

TEST(Escape, AnyBytesBecomeUtf8WithoutMarkup) {
  std::string all;
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; second += 5) {
      all += static_cast<char>(first);
      all += static_cast<char>(second);
    }
  }
  const std::string safe = escape(all);
  EXPECT_EQ(find_invalid_utf8(safe), std::string::npos);
  EXPECT_EQ(safe.find_first_of(std::string("<>\"'\0\x1f", 6)), std::string::npos);
}

TEST(Base64, MatchesTheVectorsOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64(std::string("\xff\xfe\x00\xfb", 4)), "//4A+w==");
}

}  // namespace
}  // namespace reel::report
