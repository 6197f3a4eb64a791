#include "reel/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reel/base/error.h"
#include "reel/files/file.h"
#include "reel/report/style.h"

namespace reel::report {

namespace {

std::string paragraphs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view paragraph = text.substr(0, text.find("\n\n"));
    text.remove_prefix(std::min(paragraph.size() + 2, text.size()));
    if (!paragraph.empty()) out += fmt::format("<p>{}</p>\n", escape(paragraph));
  }
  return out;
}

bool looks_like_a_number(const std::string& cell) {
  const std::size_t first = cell.starts_with('-') || cell.starts_with('+') ? 1 : 0;
  return cell.empty() || cell == "–" || (first < cell.size() && cell[first] >= '0' && cell[first] <= '9');
}

}  // namespace

Page::Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::section(std::string_view heading, std::string_view text_below) {
  if (in_section_) body_ += "</section>\n";
  in_section_ = true;
  body_ += fmt::format("<section>\n<h2>{}</h2>\n", escape(heading));
  text(text_below);
}

void Page::text(std::string_view text) { body_ += paragraphs(text); }

void Page::headline(const std::vector<Fact>& numbers) {
  if (numbers.empty()) return;
  body_ += "<dl class=\"headline\">\n";
  for (const Fact& fact : numbers) {
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(fact.name), escape(fact.value));
  }
  body_ += "</dl>\n";
}

void Page::notices(const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  body_ += "<ul class=\"notices\">\n";
  for (const std::string& text : texts) body_ += fmt::format("<li>{}</li>\n", escape(text));
  body_ += "</ul>\n";
}

void Page::figure(const Html& figure) { body_ += figure.markup; }

void Page::figures(const std::vector<Html>& figures) {
  if (figures.empty()) return;
  body_ += "<div class=\"grid\">\n";
  for (const Html& figure : figures) body_ += "<div>\n" + figure.markup + "</div>\n";
  body_ += "</div>\n";
}

void Page::facts(const std::vector<Fact>& facts) { body_ += facts_list(facts).markup; }

void Page::table(const Table& table) {
  std::vector<const char*> kinds;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool number = std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<std::string>& row) {
      REEL_CHECK(row.size() == table.columns.size());
      return looks_like_a_number(row[i]);
    });
    kinds.push_back(number && !table.rows.empty() ? " class=\"number\"" : "");
  }
  const auto add_row = [&](const std::vector<std::string>& cells, const char* tag) {
    body_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
      body_ += fmt::format("<{}{}>{}</{}>", tag, kinds[i], escape(cells[i]), tag);
    body_ += "</tr>\n";
  };
  body_ += "<div class=\"wide\"><table>\n<thead>";
  add_row(table.columns, "th");
  body_ += "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) add_row(row, "td");
  body_ += "</tbody>\n</table></div>\n";
}

void Page::images(const std::vector<Picture>& images) {
  body_ += "<div class=\"images\">\n";
  for (const Picture& image : images) {
    const std::string caption = escape(image.caption);
    body_ +=
        fmt::format("<figure><img src=\"data:image/png;base64,{}\" alt=\"{}\"/><figcaption>{}</figcaption></figure>\n",
                    base64(image.png), caption, caption);
  }
  body_ += "</div>\n";
}

void Page::folded(std::string_view summary, std::string_view verbatim) {
  body_ +=
      fmt::format("<details>\n<summary>{}</summary>\n<pre>{}</pre>\n</details>\n", escape(summary), escape(verbatim));
}

std::string Page::html() const {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:\"/>\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{}</h1>\n",
      escape(title_), style_sheet(), escape(title_));
  if (!subtitle_.empty()) out += fmt::format("<p class=\"subtitle\">{}</p>\n", escape(subtitle_));
  out += "</header>\n" + body_;
  if (in_section_) out += "</section>\n";
  return out + "</main>\n</body>\n</html>\n";
}

void Page::write(const std::string& path) const { write_file_atomically(path, html()); }

Html facts_list(const std::vector<Fact>& facts) {
  if (facts.empty()) return {};
  std::string out = "<dl class=\"facts\">\n";
  for (const Fact& fact : facts) {
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(fact.name), escape(fact.value));
  }
  return {out + "</dl>\n"};
}

}  // namespace reel::report
