#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reel/files/csv.h"

// Any bytes are either a table that can be written and read again, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto csv = reel::Csv::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    reel::CsvWriter writer(csv.columns());
    for (std::size_t row = 0; row < csv.rows(); ++row) {
      std::vector<std::string> cells;
      for (std::size_t column = 0; column < csv.columns().size(); ++column) {
        cells.push_back(csv.text(row, column));
        try {
          csv.number(row, column);
        } catch (const reel::Error&) {  // not a number
        }
        try {
          csv.integer(row, column);
        } catch (const reel::Error&) {  // not a whole number
        }
      }
      writer.add_row(cells);
    }
    const auto again = reel::Csv::parse(writer.text(), "again");
    if (again.columns() != csv.columns() || again.rows() != csv.rows()) __builtin_trap();
    for (std::size_t row = 0; row < csv.rows(); ++row) {
      for (std::size_t column = 0; column < csv.columns().size(); ++column) {
        if (again.text(row, column) != csv.text(row, column)) __builtin_trap();
      }
    }
    csv.column("no such column");
  } catch (const reel::Error&) {
  }
  return 0;
}
