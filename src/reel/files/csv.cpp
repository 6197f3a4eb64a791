#include "reel/files/csv.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <utility>

#include "reel/base/sized.h"
#include "reel/files/file.h"
#include "reel/files/nearest.h"
#include "reel/files/text.h"
#include "reel/files/utf8.h"

namespace reel {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Takes the text apart, one record (a line, or several where quotes hold line ends) at a time.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  // The next record that is not a blank line; false at the end.
  bool next(std::vector<std::string>& fields) {
    while (line_end()) {
    }
    if (at_ == text_.size()) return false;
    fields.clear();
    first_line_ = line_;
    for (;;) {
      fields.push_back(text_.substr(at_).starts_with('"') ? quoted() : plain());
      if (at_ == text_.size() || line_end()) return true;
      ++at_;  // the comma
    }
  }
  std::size_t first_line() const { return first_line_; }
  [[noreturn]] void fail(const std::string& what, const char* hint) const {
    throw Error(fmt::format("{}:{}: {}", name_, line_, what), hint);
  }

 private:
  bool line_end() {
    if (text_.substr(at_).starts_with("\r\n")) {
      at_ += 2;
    } else if (text_.substr(at_).starts_with('\n')) {
      at_ += 1;
    } else {
      return false;
    }
    ++line_;
    return true;
  }

  std::string plain() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
      if (text_[at_] == '"') fail("a quote inside a field that is not quoted", "quote the field and double the quote");
      ++at_;
    }
    if (at_ < text_.size() && text_[at_] == '\r' && !text_.substr(at_).starts_with("\r\n")) {
      fail("a carriage return without a line feed", "end lines with LF or CRLF");
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string quoted() {
    std::string field;
    const std::size_t opened = line_;
    for (++at_;; ++at_) {
      if (at_ == text_.size()) {
        line_ = opened;
        fail("a quoted field has no closing quote", "close it, or double the quote that belongs to the text");
      }
      if (text_[at_] == '"') {
        if (!text_.substr(at_ + 1).starts_with('"')) break;
        ++at_;
      }
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    ++at_;
    const std::string_view rest = text_.substr(at_);
    if (!rest.empty() && rest[0] != ',' && rest[0] != '\n' && !rest.starts_with("\r\n")) {
      fail("text after the closing quote of a field", "double the quotes that belong to the text");
    }
    return field;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0, line_ = 1, first_line_ = 1;
};

void check_characters(std::string_view text, const std::string& name) {
  const std::size_t bad = std::min(find_invalid_utf8(text), text.find('\0'));
  if (bad == text.npos) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
  throw Error(fmt::format("{}:{}: the byte 0x{:02x} is not text", name, line, static_cast<unsigned char>(text[bad])),
              "save the table as UTF-8");
}

// The whole text as one number; from_chars knows no '+'.
template <class Number>
bool convert(std::string_view text, Number& number) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size();
}

}  // namespace

Csv Csv::load(const std::string& path) { return parse(read_file(path), path); }

Csv Csv::parse(std::string_view text, const std::string& name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  check_characters(text, name);
  Csv csv;
  csv.name_ = name;
  Reader reader(text, name);
  if (!reader.next(csv.columns_))
    throw Error(fmt::format("{}: there is no header line", name), "name the columns in it");
  std::set<std::string_view> seen;
  for (const std::string& column : csv.columns_) {
    const std::string where = fmt::format("{}:{}: ", name, reader.first_line());
    if (trimmed(column).empty()) throw Error(where + "a column has no name", "the first line must name every column");
    if (!seen.insert(column).second) throw Error(where + fmt::format("two columns '{}'", column), "rename one of them");
  }
  std::vector<std::string> fields;
  while (reader.next(fields)) {
    if (fields.size() != csv.columns_.size()) {
      throw Error(fmt::format("{}:{}: {} fields, the header has {}", name, reader.first_line(), fields.size(),
                              csv.columns_.size()),
                  "quote fields that contain commas");
    }
    csv.lines_.push_back(reader.first_line());
    std::move(fields.begin(), fields.end(), std::back_inserter(csv.cells_));
  }
  return csv;
}

bool Csv::has(std::string_view column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

std::size_t Csv::column(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end()) {
    throw Error(fmt::format("{}:1: there is no column '{}'", name_, name), nearest_hint(name, columns_, "columns"));
  }
  return sized(found - columns_.begin());
}

double Csv::number(std::size_t row, std::size_t column) const {
  double number = 0;
  if (!convert(text(row, column), number)) wrong_cell(row, column, "a number");
  return number;
}

std::int64_t Csv::integer(std::size_t row, std::size_t column) const {
  std::int64_t number = 0;
  if (!convert(text(row, column), number)) wrong_cell(row, column, "a whole number");
  return number;
}

void Csv::wrong_cell(std::size_t row, std::size_t column, const char* needed) const {
  const std::string& found = text(row, column);
  throw Error(fmt::format("{}:{}: {} must be {}, found {}", name_, line(row), columns_[column], needed,
                          found.empty() ? "nothing" : fmt::format("\"{}\"", found)),
              "correct the cell, or remove the row");
}

CsvWriter::CsvWriter(const std::vector<std::string>& columns) : columns_(columns.size()) {
  REEL_CHECK(!columns.empty());
  add_row(columns);
}

void CsvWriter::add_row(const std::vector<std::string>& cells) {
  REEL_CHECK(cells.size() == columns_);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string& cell = cells[i];
    if (i > 0) text_ += ',';
    const bool blank_line = cells.size() == 1 && cell.empty(), mark = cell.starts_with(kByteOrderMark);
    if (cell.find_first_of(",\"\r\n") == cell.npos && !blank_line && !mark) {
      text_ += cell;
      continue;
    }
    text_ += '"';
    for (char c : cell) {
      if (c == '"') text_ += '"';
      text_ += c;
    }
    text_ += '"';
  }
  text_ += '\n';
}

void CsvWriter::write(const std::string& path) const { write_file_atomically(path, text_); }

}  // namespace reel
