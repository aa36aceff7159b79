#include "io/csv_column.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include <capstan/create.hpp>

#include "io/numbers.hpp"

namespace capstan::io {
namespace {

template <class T>
Tensor moved_to_tensor(std::vector<T>& values, Where where) {
  Tensor result = empty({static_cast<std::int64_t>(values.size())}, {.dtype = dtype_of<T>(), .device = cpu()}, where);
  std::copy(values.begin(), values.end(), result.mutable_data<T>(where));
  std::vector<T>().swap(values);  // gives the memory back before the next column
  return result;
}

}  // namespace

const char* CsvColumn::add(std::string_view text) {
  switch (type_) {
    case ColumnType::automatic: return add_first(text);
    case ColumnType::int64: {
      std::int64_t value = 0;
      if (!parse_integer(text, value)) return add_misfit(text);
      integers_.push_back(value);
      return nullptr;
    }
    case ColumnType::float32: {
      float value = 0;
      if (!parse_number(text, value)) return add_misfit(text);
      floats_.push_back(value);
      return nullptr;
    }
    case ColumnType::float64: {
      double value = 0;
      if (!parse_number(text, value)) return add_misfit(text);
      doubles_.push_back(value);
      return nullptr;
    }
    case ColumnType::text: break;
  }
  texts_.emplace_back(text);
  return nullptr;
}

/// The first field that is not empty, of an automatic column.
const char* CsvColumn::add_first(std::string_view text) {
  std::int64_t integer = 0;
  double number = 0;
  if (parse_integer(text, integer)) type_ = ColumnType::int64;
  else type_ = parse_number(text, number) ? ColumnType::float64 : ColumnType::text;
  for (; empty_rows_ > 0; --empty_rows_) add_empty();
  return add(text);
}

/// A field that does not fit the column's numbers.
const char* CsvColumn::add_misfit(std::string_view text) {
  if (asked_ == ColumnType::int64) return "it must be an integer of 64 bits";
  if (asked_ != ColumnType::automatic) return "it must be a number";
  double number = 0;
  if (type_ == ColumnType::int64 && parse_number(text, number)) widen();
  else turn_to_text();
  return add(text);
}

const char* CsvColumn::add_empty() {
  if (fallback_ != nullptr && !fallback_->is_number) return add(fallback_->text);
  switch (type_) {
    case ColumnType::automatic: ++empty_rows_; return nullptr;
    case ColumnType::int64:
      if (has_integer_default()) {
        integers_.push_back(fallback_->number.as_int64());
        return nullptr;
      }
      if (asked_ == ColumnType::int64) return "it must be an integer of 64 bits, for empty fields have no default";
      widen();
      break;
    case ColumnType::float32: floats_.push_back(static_cast<float>(floating_default())); return nullptr;
    case ColumnType::float64: break;
    case ColumnType::text: texts_.emplace_back(); return nullptr;
  }
  doubles_.push_back(floating_default());
  return nullptr;
}

void CsvColumn::append(CsvColumn& rows) {
  const auto move_to = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_to(integers_, rows.integers_);
  move_to(floats_, rows.floats_);
  move_to(doubles_, rows.doubles_);
  move_to(texts_, rows.texts_);
}

void CsvColumn::reserve(std::size_t rows) noexcept {
  try {
    if (type_ == ColumnType::int64) integers_.reserve(rows);
    if (type_ == ColumnType::float32) floats_.reserve(rows);
    if (type_ == ColumnType::float64) doubles_.reserve(rows);
    if (type_ == ColumnType::text) texts_.reserve(rows);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {}  // they grow as rows come
}

void CsvColumn::finish() {
  if (type_ != ColumnType::automatic) return;
  type_ = has_integer_default() && empty_rows_ > 0 ? ColumnType::int64 : ColumnType::float64;
  for (; empty_rows_ > 0; --empty_rows_) add_empty();
}

bool CsvColumn::has_integer_default() const noexcept {
  return fallback_ != nullptr && fallback_->is_number && fallback_->number.kind() != Scalar::Kind::floating &&
         !fallback_->number.too_large();
}

double CsvColumn::floating_default() const noexcept {
  return fallback_ != nullptr && fallback_->is_number ? fallback_->number.as_double()
                                                      : std::numeric_limits<double>::quiet_NaN();
}

std::string_view CsvColumn::empty_text() const noexcept {
  return fallback_ != nullptr && !fallback_->is_number ? std::string_view(fallback_->text) : std::string_view();
}

/// Each integer is rounded once, as its text would be.
void CsvColumn::widen() {
  doubles_.reserve(integers_.capacity());
  for (const std::int64_t value : integers_) doubles_.push_back(static_cast<double>(value));
  std::vector<std::int64_t>().swap(integers_);
  type_ = ColumnType::float64;
}

void CsvColumn::turn_to_text() {
  lost_rows_ = static_cast<std::int64_t>(integers_.size() + doubles_.size());
  std::vector<std::int64_t>().swap(integers_);
  std::vector<double>().swap(doubles_);
  type_ = ColumnType::text;
}

void CsvColumn::put_lost(std::vector<std::string> texts) {
  texts.insert(texts.end(), std::make_move_iterator(texts_.begin()), std::make_move_iterator(texts_.end()));
  texts_ = std::move(texts);
  lost_rows_ = 0;
}

Tensor CsvColumn::take_numbers(Where where) {
  if (type_ == ColumnType::int64) return moved_to_tensor(integers_, where);
  if (type_ == ColumnType::float32) return moved_to_tensor(floats_, where);
  return moved_to_tensor(doubles_, where);
}

}  // namespace capstan::io
