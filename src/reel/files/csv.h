// Tables in text files: comma-separated values (RFC 4180), UTF-8, the first line names the columns.
//
// Fields may be quoted; inside quotes commas, line ends and doubled quotes are text. LF and CRLF both end a line, the
// last one may be missing; blank lines and a byte order mark are skipped. A row with another number of fields than the
// header is an Error, as is everything that two readers could read differently. Errors name file and line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "reel/base/error.h"

namespace reel {

class Csv {
 public:
  static Csv load(const std::string& path);
  static Csv parse(std::string_view text, const std::string& name);  // `name` stands for the file in errors

  const std::vector<std::string>& columns() const { return columns_; }
  std::size_t rows() const { return lines_.size(); }
  std::size_t line(std::size_t row) const { return lines_[row]; }  // where the row begins in the file, from 1

  bool has(std::string_view column) const;
  std::size_t column(std::string_view name) const;  // its index; an Error names the nearest column there is

  const std::string& text(std::size_t row, std::size_t column) const { return cells_[row * columns_.size() + column]; }
  const std::string& text(std::size_t row, std::string_view name) const { return text(row, column(name)); }
  double number(std::size_t row, std::size_t column) const;  // nan and inf are numbers; nothing is not
  double number(std::size_t row, std::string_view name) const { return number(row, column(name)); }
  std::int64_t integer(std::size_t row, std::size_t column) const;
  std::int64_t integer(std::size_t row, std::string_view name) const { return integer(row, column(name)); }

 private:
  [[noreturn]] void wrong_cell(std::size_t row, std::size_t column, const char* needed) const;

  std::string name_;
  std::vector<std::string> columns_;
  std::vector<std::string> cells_;  // rows * columns
  std::vector<std::size_t> lines_;  // of each row
};

// A table in the making. Numbers are written with as many digits as it takes to read the same number back.
class CsvWriter {
 public:
  explicit CsvWriter(const std::vector<std::string>& columns);

  template <class... Cells>  // strings and numbers, one for each column
  void add(const Cells&... cells) {
    add_row({format(cells)...});
  }
  void add_row(const std::vector<std::string>& cells);

  const std::string& text() const { return text_; }
  void write(const std::string& path) const;  // atomically (file.h)

 private:
  template <class Cell>
  static std::string format(const Cell& cell) {
    return fmt::format("{}", cell);
  }
  std::size_t columns_;
  std::string text_;
};

}  // namespace reel
