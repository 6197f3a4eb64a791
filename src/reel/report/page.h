// A page of results: one HTML file that stands for itself.
//
// The style sheet is inlined, images are data: addresses, there are no scripts, and the page forbids the browser to
// load anything else. It follows the reader's choice of light or dark, fits a phone, and prints. Every text that is
// handed in is shown as it is (escape() in html.h); only Html is taken as markup.
//
//   Page page("reel run: bouncing shapes", "latte, 12.3M parameters");
//   page.section("Training");
//   page.figure(line_chart(loss));
//   page.write("report.html");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reel/report/html.h"

namespace reel::report {

struct Fact {
  std::string name, value;
};

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // a cell for each column; columns of numbers are aligned to the right
};

struct Picture {
  std::string png;  // the bytes of the file
  std::string caption;
};

class Page {
 public:
  explicit Page(std::string title, std::string subtitle = {});

  // What follows belongs to the section. A blank line in `text` begins a paragraph.
  void section(std::string_view heading, std::string_view text = {});
  void text(std::string_view text);
  void headline(const std::vector<Fact>& numbers);      // the few numbers to see first, large
  void notices(const std::vector<std::string>& texts);  // what went wrong or needs attention; nothing when empty

  void figure(const Html& figure);                 // over the whole width
  void figures(const std::vector<Html>& figures);  // beside each other where there is room
  void facts(const std::vector<Fact>& facts);
  void table(const Table& table);
  void images(const std::vector<Picture>& images);
  void folded(std::string_view summary, std::string_view verbatim);  // long text, shown when asked for

  std::string html() const;
  void write(const std::string& path) const;  // atomically (files/file.h)

 private:
  std::string title_, subtitle_;
  std::string body_;
  bool in_section_ = false;
};

Html facts_list(const std::vector<Fact>& facts);  // what Page::facts adds, as a part of something else

}  // namespace reel::report
