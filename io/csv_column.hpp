#pragma once
// A column that grows row by row, and learns its type on the way where none was asked for: from integers it goes on to
// floating numbers, and from both to text.
//
// The texts of numbers are not kept, and "007" or "1.50" cannot be made from 7 and 1.5. To keep them all in case one
// comes that is no number would cost every file of numbers more than the numbers do; to look at a thousand rows first
// would not do, for it may come in the row behind them. So a column that turns to text counts the rows before as lost,
// and the file is read once more for them: for all such columns together, up to the last lost row (io/csv.cpp).
// A text in the first row, as most columns of text have, loses nothing.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/io/csv.hpp>

#include "io/numbers.hpp"

namespace capstan::io {

class CsvColumn {
 public:
  /// `fallback` is what empty fields stand for, or null. It must live as long as the column.
  CsvColumn(std::string name, ColumnType asked, const CsvValue* fallback)
      : name_(std::move(name)), asked_(asked), type_(asked), fallback_(fallback) {}

  const std::string& name() const noexcept { return name_; }
  /// So far; automatic if all fields were empty.
  ColumnType type() const noexcept { return type_; }

  /// The field of the next row. What it must be if it cannot be taken, else null.
  const char* add(std::string_view text);
  const char* add_empty();
  /// A number of the column's type that begins at `at` and ends at the delimiter or at `end`: where that is. Null if there
  /// is none, or it is written in another way; then nothing was added. No number may hold the delimiter.
  const char* add_number(const char* at, const char* end, char delimiter) {
    if (type_ == ColumnType::float64) return add_number(doubles_, at, end, delimiter);
    if (type_ == ColumnType::int64) return add_number(integers_, at, end, delimiter);
    if (type_ == ColumnType::float32) return add_number(floats_, at, end, delimiter);
    return nullptr;
  }
  /// An empty column that takes what this one takes without changing its type, and what it has taken, which is moved here.
  CsvColumn like() const { return CsvColumn(name_, type_, fallback_); }
  void append(CsvColumn& rows);
  /// Makes room for so many rows, where there is memory for them: that is a guess, and costs only time if it is wrong.
  void reserve(std::size_t rows) noexcept;
  /// There are no more rows.
  void finish();

  /// Rows at the beginning whose texts are lost.
  std::int64_t lost_rows() const noexcept { return lost_rows_; }
  /// What those of them are that were empty.
  std::string_view empty_text() const noexcept;
  void put_lost(std::vector<std::string> texts);

  /// The values, which the column then has no more: [rows], on the CPU.
  Tensor take_numbers(Where where);
  std::vector<std::string> take_texts() noexcept { return std::move(texts_); }

 private:
  template <class T>
  static const char* add_number(std::vector<T>& values, const char* at, const char* end, char delimiter) {
    T value;
    const char* behind = parse_prefix(at, end, value);
    if (behind == nullptr || (behind != end && *behind != delimiter)) return nullptr;
    values.push_back(value);
    return behind;
  }
  const char* add_first(std::string_view text);
  const char* add_misfit(std::string_view text);
  bool has_integer_default() const noexcept;
  double floating_default() const noexcept;
  void widen();
  void turn_to_text();

  std::string name_;
  ColumnType asked_, type_;
  const CsvValue* fallback_;
  std::int64_t empty_rows_ = 0;  // at the beginning, as long as the type is open
  std::int64_t lost_rows_ = 0;
  std::vector<std::int64_t> integers_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
  std::vector<std::string> texts_;  // without the lost ones
};

}  // namespace capstan::io
