#pragma once
// Tables of comma-separated values, plain or gzip.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

/// What a column holds. Automatic: int64 if all its fields are integers of 64 bits; float64 if they are numbers or
/// empty, where the sign of -0 is kept only behind the first that is no integer; text otherwise.
enum class ColumnType : std::uint8_t { automatic, int64, float32, float64, text };

/// What an empty field stands for: a number, in columns of numbers; or a text, as if it stood in the file.
struct CsvValue {
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, char>) CsvValue(T value)
  noexcept : number(value), is_number(true) {}
  CsvValue(std::string value) : text(std::move(value)) {}
  CsvValue(const char* value) : text(value) {}
  Scalar number = 0;
  std::string text = {};
  bool is_number = false;
};

struct CsvOptions {
  char delimiter = ',';
  char quote = '"';                                             ///< '\0': none
  char comment = '\0';                                          ///< begins lines that are passed over; '\0': none
  bool header = true;                                           ///< whether the first row names the columns
  std::vector<std::string> names = {};                          ///< of all columns; the first row is then data
  std::int64_t skip_rows = 0;                                   ///< lines at the beginning that are passed over
  std::vector<std::string> columns = {};                        ///< those to keep; empty: all
  std::vector<std::pair<std::string, ColumnType>> types = {};   ///< {name, type}; automatic for all others
  std::vector<std::pair<std::string, CsvValue>> defaults = {};  ///< {name, what an empty field stands for}
  std::optional<Scalar> number_default = {};                    ///< the same for all other columns of numbers
  std::vector<std::string> missing = {};                        ///< what is empty besides "": {"NA", "-999"}
  std::int64_t max_field_bytes = 1 << 20;                       ///< a longer field is an IoError
  std::int64_t max_columns = 1 << 16;                           ///< more columns are an IoError
};

struct CsvCategories {
  Tensor codes;                    ///< int64 [rows]: the place of each row's text in `names`
  std::vector<std::string> names;  ///< the different texts, in the order of their bytes
};

/// The name of a column and the place it is used at. Converted by itself.
struct CsvName {
  std::string_view name;
  Where where;
  template <class T>
  requires std::is_convertible_v<const T&, std::string_view> CsvName(const T& n, Where w = Where::current())
  noexcept : name(n), where(w) {}
};

/// Columns of a file, by name. Throws IndexError for a name that is not there, listing those that are, DTypeError for
/// a column of text where it must be numbers and the reverse, and Error once it was moved from.
class CsvTable {
 public:
  std::int64_t rows(Where where = Where::current()) const;
  std::int64_t columns(Where where = Where::current()) const;
  /// In the order of the file.
  const std::vector<std::string>& names(Where where = Where::current()) const;
  /// Never automatic.
  ColumnType type(std::string_view name, Where where = Where::current()) const;

  /// A column of numbers: int64, float32 or float64 [rows], on the default device; on the CPU always the same tensor.
  Tensor operator[](CsvName column) const;
  /// A column of text, row by row.
  const std::vector<std::string>& text(std::string_view name, Where where = Where::current()) const;
  /// A column of text as numbers. The empty text is one like the others.
  CsvCategories categories(std::string_view name, Where where = Where::current()) const;
  /// Columns of numbers side by side: [rows, names], converted as `to(dtype)` does; a copy on the default device.
  Tensor matrix(std::span<const std::string> names, DType dtype = DType::float32, Where where = Where::current()) const;
  Tensor matrix(std::initializer_list<std::string_view> names, DType dtype = DType::float32,
                Where where = Where::current()) const;

  CsvTable(CsvTable&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  CsvTable& operator=(CsvTable&& other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~CsvTable();

  struct Impl;  // hidden: io/csv_table.hpp
  /// Takes it over. For the library itself.
  explicit CsvTable(Impl* impl) noexcept : impl_(impl) {}

 private:
  const Impl& impl(Where where) const;
  Impl* impl_ = nullptr;
};

/// Reads a table: one row a line, fields between delimiters. Gzip is recognised by its first bytes, a byte order mark
/// of UTF-8 is passed over. RFC 4180, taken apart by libcsv.
///
/// Rows     end with \n, \r\n, \r or the file; all have as many fields as there are columns. Blank lines are passed
///          over. Without a header and `names` columns are called "0", "1", ...
/// Fields   Spaces and tabs around a field are no part of it, unless they are the delimiter or stand in quotes. In
///          quotes everything may stand: delimiters, ends of lines, and a quote as two. Else quotes make no difference.
/// Empty    fields, and those of `missing`, take the column's default. Without one they are "" in text, NaN in floating
///          columns; they make automatic integers float64, as pandas does, and are an error where int64 was asked for.
/// Numbers  [+-]digits[.digits][e[+-]digits], in every locale the same, rounded correctly, so 1e400 is infinity; inf,
///          infinity and nan, in large or small letters. Integers that int64 cannot hold are floating numbers.
/// Cost     one pass; 8 or 4 bytes for a number, a std::string for a text. A second pass for automatic columns that
///          begin with numbers and turn out to be text, up to the row that shows it; a pipe cannot be read again and
///          needs `types` for these
/// Throws   IoError       naming file, line and offset: missing; no row for the header; columns without a name or of
///                        the same name; too few or too many fields; a quote inside of a field that is not quoted, or
///                        text behind a closing quote; quotes never closed; a field of more than max_field_bytes; more
///                        columns than max_columns; a field that is not of the type asked for; damaged gzip
///          IndexError    `columns`, `types` or `defaults` name a column that is not there
///          Error         options that contradict each other
///          MissingLibraryError  this build has no libcsv
CsvTable read_csv(const std::string& path, const CsvOptions& options = {}, Where where = Where::current());

}  // namespace io
}  // namespace capstan
