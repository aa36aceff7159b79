#pragma once
// From the rows of a CSV file to a table: names, types, and the texts that a second pass brings.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/csv_column.hpp"
#include "io/csv_feed.hpp"

namespace capstan::io {

/// Whether a field counts as empty.
class CsvMissing {
 public:
  explicit CsvMissing(const std::vector<std::string>& texts);  ///< which must live as long
  bool operator()(std::string_view text) const;

 private:
  const std::vector<std::string>& texts_;
  std::array<bool, 256> begins_{};  // the first bytes of these texts: most fields need no comparison
};

/// Makes the columns from the header or the first row, and fills them.
class CsvBuilder final : public CsvRows {
 public:
  /// All must live as long as it does.
  CsvBuilder(const ByteReader& file, const CsvFeed& feed, const CsvOptions& options);
  void field(std::string_view text) override;
  bool end_row() override;
  bool row(std::string_view line, char delimiter) override;
  std::int64_t block(std::string_view lines, char delimiter, std::size_t longest) override;
  /// All rows were given.
  void finish();

  /// The column of each field of a row, null for those that are not kept.
  const std::vector<CsvColumn*>& columns() const noexcept { return fields_; }
  /// What the columns hold, which they then have no more.
  CsvTable take_table();

 private:
  struct Part;
  bool take_part(Part& part, char delimiter, std::size_t longest) const;
  bool take_row(Part& part, std::string_view line, char delimiter) const;
  std::size_t likely_rows(double density, double bytes) const;
  void make_room(double density);
  void begin();
  void name_columns(std::vector<std::string> names);
  void check_header(const std::vector<std::string>& names) const;
  void check_wanted(const std::vector<std::string>& names) const;
  const CsvValue* default_of(const std::string& name, ColumnType type) const;

  const ByteReader& file_;
  const CsvFeed& feed_;
  const CsvOptions& options_;
  CsvMissing missing_;
  const bool by_number_;  // fields may be read without a search for their ends
  std::map<std::string_view, ColumnType> types_;
  std::map<std::string_view, const CsvValue*> defaults_;
  std::optional<CsvValue> number_default_;
  std::vector<std::string> first_row_;  // until the columns are there
  std::vector<CsvColumn> columns_;      // those that are kept; never moves
  std::vector<CsvColumn*> fields_;
  std::size_t field_ = 0;  // of the row that is being given
  std::int64_t rows_ = 0;
  bool begun_ = false, has_room_ = false;
};

/// Reads the rows again whose texts are lost.
class CsvLostTexts final : public CsvRows {
 public:
  CsvLostTexts(const ByteReader& file, const CsvOptions& options, const std::vector<CsvColumn*>& columns);
  bool needed() const noexcept { return rows_ > 0; }
  void field(std::string_view text) override;
  bool end_row() override;
  /// Gives the columns their texts.
  void finish();

 private:
  const ByteReader& file_;
  CsvMissing missing_;
  const std::vector<CsvColumn*>& columns_;
  std::vector<std::vector<std::string>> texts_;  // of each field of a row
  std::size_t field_ = 0;
  std::int64_t row_, rows_ = 0;  // row -1 is the header
};

}  // namespace capstan::io
