#include "io/csv_builder.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <capstan/threads.hpp>

#include "io/csv_table.hpp"
#include "io/numbers.hpp"
#include "io/quoted.hpp"
#include "lib/base/parallel.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

bool has_header(const CsvOptions& options) { return options.names.empty() && options.header; }

bool contains(const std::vector<std::string>& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

/// Whether it can be a part of a number, which then does not end where the field does.
bool in_numbers(char c) {
  const int small = c | 0x20;  // letters
  return (c >= '0' && c <= '9') || (small >= 'a' && small <= 'z') || c == '+' || c == '-' || c == '.';
}

/// A line without the \r before its \n.
std::string_view without_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Rows for each byte of lines, the last of which may be cut. Blank ones are none.
double row_density(std::string_view lines, char delimiter) {
  std::int64_t rows = 0;
  for (std::size_t begin = 0, end = 0; (end = lines.find('\n', begin)) != std::string_view::npos; begin = end + 1)
    rows += csv_trimmed(without_return(lines.substr(begin, end - begin)), delimiter).empty() ? 0 : 1;
  return static_cast<double>(rows) / static_cast<double>(lines.size());
}

/// A default of a column whose type is known already must be of that type.
bool fits(const CsvValue& value, ColumnType type) {
  std::int64_t integer = 0;
  double number = 0;
  switch (type) {
    case ColumnType::int64:
      if (!value.is_number) return parse_integer(value.text, integer);
      return value.number.kind() != Scalar::Kind::floating && !value.number.too_large();
    case ColumnType::float32:
    case ColumnType::float64: return value.is_number || parse_number(value.text, number);
    case ColumnType::text: return !value.is_number;
    case ColumnType::automatic: break;
  }
  return true;
}

}  // namespace

CsvMissing::CsvMissing(const std::vector<std::string>& texts) : texts_(texts) {
  for (const std::string& text : texts)
    if (!text.empty()) begins_[static_cast<unsigned char>(text.front())] = true;
}

bool CsvMissing::operator()(std::string_view text) const {
  return text.empty() || (begins_[static_cast<unsigned char>(text.front())] && contains(texts_, text));
}

CsvBuilder::CsvBuilder(const ByteReader& file, const CsvFeed& feed, const CsvOptions& options)
    : file_(file),
      feed_(feed),
      options_(options),
      missing_(options.missing),
      by_number_(options.missing.empty() && !in_numbers(options.delimiter)) {
  for (const auto& [name, type] : options.types) types_[name] = type;
  for (const auto& [name, value] : options.defaults) defaults_[name] = &value;
  if (options.number_default) number_default_.emplace(0).number = *options.number_default;
}

void CsvBuilder::field(std::string_view text) {
  if (!begun_) {
    if (static_cast<std::int64_t>(first_row_.size()) >= options_.max_columns)
      file_.fail("the row in ", feed_.row_place(), " has more than ", options_.max_columns,
                 " fields; max_columns must allow for as many.");
    first_row_.emplace_back(text);
    return;
  }
  const std::size_t number = field_++;
  if (number >= fields_.size() || fields_[number] == nullptr) return;
  CsvColumn& column = *fields_[number];
  if (const char* must = missing_(text) ? column.add_empty() : column.add(text); must != nullptr)
    file_.fail("row ", rows_, " in ", feed_.row_place(), " has ", quoted(text), " in column ", quoted(column.name()),
               "; ", must, ".");
}

/// Numbers are read where they stand, and end at a delimiter or are no such field.
bool CsvBuilder::row(std::string_view line, char delimiter) {
  if (!begun_ || !by_number_) return CsvRows::row(line, delimiter);
  const char *at = line.data(), *const end = at + line.size();
  while (true) {
    const char* behind = nullptr;
    if (field_ < fields_.size() && fields_[field_] != nullptr) behind = fields_[field_]->add_number(at, end, delimiter);
    if (behind != nullptr) {
      ++field_;
    } else {
      const auto* found = static_cast<const char*>(std::memchr(at, delimiter, static_cast<std::size_t>(end - at)));
      behind = found != nullptr ? found : end;
      fields({at, static_cast<std::size_t>(behind - at)}, delimiter);
    }
    if (behind == end) return end_row();
    at = behind + 1;
  }
}

// --- many rows at once -----------------------------------------------------------------------------------------------

/// Some of the lines of a block, and columns for them alone.
struct CsvBuilder::Part {
  std::string_view lines;
  std::vector<CsvColumn> columns;    // as the table's
  std::vector<CsvColumn*> fields{};  // of a row, null for those that are not kept
  std::int64_t rows = 0, lines_taken = 0;
  bool good = false;
};

/// Threads take parts of the block, into columns that cannot change their types. If anything in it does not fit these, the
/// rows are taken one by one, which finds the same fault and knows what to do about it.
std::int64_t CsvBuilder::block(std::string_view lines, char delimiter, std::size_t longest) {
  constexpr std::size_t kLeast = 1 << 16;  // bytes for a thread
  const std::size_t count = std::min(static_cast<std::size_t>(threads()), lines.size() / kLeast);
  const auto open = [](const CsvColumn& column) { return column.type() == ColumnType::automatic; };
  if (!begun_ || count < 2 || std::any_of(columns_.begin(), columns_.end(), open)) return -1;
  const double density = row_density(lines.substr(0, kLeast), delimiter);
  make_room(density);
  std::vector<Part> parts;
  for (std::size_t begin = 0, i = 0; i < count && begin < lines.size(); ++i) {
    const std::size_t least = i + 1 == count ? lines.size() - 1 : std::max(begin, lines.size() / count * (i + 1));
    const std::size_t end = lines.find('\n', least) + 1;
    Part& part = parts.emplace_back(Part{lines.substr(begin, end - begin), {}});
    for (const CsvColumn& column : columns_) {
      part.columns.push_back(column.like());
      part.columns.back().reserve(likely_rows(density, static_cast<double>(end - begin)));
    }
    for (const CsvColumn* field : fields_)
      part.fields.push_back(field == nullptr ? nullptr
                                             : &part.columns[static_cast<std::size_t>(field - columns_.data())]);
    begin = end;
  }
  base::parallel_for(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Part& part = parts[static_cast<std::size_t>(i)];
      try {
        part.good = take_part(part, delimiter, longest);
      } catch (...) {  // no memory is left; the rows one by one need less, or say so
      }
    }
  });
  if (!std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.good; })) return -1;
  std::int64_t taken = 0;
  for (Part& part : parts) {
    for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i].append(part.columns[i]);
    rows_ += part.rows;
    taken += part.lines_taken;
  }
  return taken;
}

/// In so many bytes, and a few more; but no more than fit there with a byte in each field.
std::size_t CsvBuilder::likely_rows(double density, double bytes) const {
  const double most = bytes / (2 * static_cast<double>(fields_.size()));
  return static_cast<std::size_t>(std::min(1.02 * density * bytes, most)) + 1;
}

/// For the rows that the file will have if they go on as in these lines.
void CsvBuilder::make_room(double density) {
  if (std::exchange(has_room_, true) || !file_.most_left_is_exact()) return;
  const std::size_t rows = likely_rows(density, static_cast<double>(file_.position() + file_.most_left()));
  for (CsvColumn& column : columns_) column.reserve(rows);
}

bool CsvBuilder::take_part(Part& part, char delimiter, std::size_t longest) const {
  for (std::string_view rest = part.lines; !rest.empty(); ++part.lines_taken) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = without_return(rest.substr(0, end));
    if (line.size() > longest) return false;
    if (!csv_trimmed(line, delimiter).empty()) {
      if (!take_row(part, line, delimiter)) return false;
      ++part.rows;
    }
    rest.remove_prefix(end + 1);
  }
  return true;
}

bool CsvBuilder::take_row(Part& part, std::string_view line, char delimiter) const {
  const char *at = line.data(), *const end = at + line.size();
  for (std::size_t number = 0; number < part.fields.size(); ++number) {
    CsvColumn* const column = part.fields[number];
    const char* behind = column != nullptr && by_number_ ? column->add_number(at, end, delimiter) : nullptr;
    if (behind == nullptr) {
      const auto* found = static_cast<const char*>(std::memchr(at, delimiter, static_cast<std::size_t>(end - at)));
      behind = found != nullptr ? found : end;
      const std::string_view text = csv_trimmed({at, static_cast<std::size_t>(behind - at)}, delimiter);
      if (column != nullptr && (missing_(text) ? column->add_empty() : column->add(text)) != nullptr) return false;
    }
    if (behind == end) return number + 1 == part.fields.size();
    at = behind + 1;
  }
  return false;  // more fields than columns
}

// --- rows one by one -------------------------------------------------------------------------------------------------

bool CsvBuilder::end_row() {
  if (!begun_) {
    begin();
    return true;
  }
  if (field_ != fields_.size())
    file_.fail("row ", rows_, " in ", feed_.row_place(), " has ", field_, " fields; it must have ", fields_.size(),
               ", one for each column.");
  field_ = 0;
  ++rows_;
  return true;
}

/// With the first row, which is the header or the first of data.
void CsvBuilder::begin() {
  begun_ = true;
  if (has_header(options_)) {
    check_header(first_row_);
    name_columns(std::move(first_row_));
    return;
  }
  std::vector<std::string> names = options_.names;
  if (names.empty())
    for (std::size_t i = 0; i < first_row_.size(); ++i) names.push_back(std::to_string(i));
  name_columns(std::move(names));
  for (const std::string& text : first_row_) field(text);
  end_row();
  std::vector<std::string>().swap(first_row_);
}

void CsvBuilder::check_header(const std::vector<std::string>& names) const {
  const char* hint = " With skip_rows and names they can be called otherwise.";
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].empty())
      file_.fail("the header in ", feed_.row_place(), " has no name for column ", i, "; every column must have one.",
                 hint);
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  if (const auto same = std::adjacent_find(sorted.begin(), sorted.end()); same != sorted.end())
    file_.fail("the header in ", feed_.row_place(), " has the name ", quoted(*same),
               " more than once; every column must have its own.", hint);
}

/// Options name columns that are there.
void CsvBuilder::check_wanted(const std::vector<std::string>& names) const {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  const auto check = [&](const char* option, std::string_view name) {
    if (!std::binary_search(sorted.begin(), sorted.end(), name))
      base::fail<IndexError>(file_.where(), "read_csv: ", file_.path(), ": ", option, " name column ", quoted(name),
                             ", which is not there; the file has ", listed(names), ".");
  };
  for (const std::string& name : options_.columns) check("columns", name);
  for (const auto& pair : options_.types) check("types", pair.first);
  for (const auto& pair : options_.defaults) check("defaults", pair.first);
}

const CsvValue* CsvBuilder::default_of(const std::string& name, ColumnType type) const {
  const auto own = defaults_.find(name);
  if (own == defaults_.end()) {
    if (!number_default_ || type == ColumnType::text) return nullptr;
  } else if (!own->second->is_number && own->second->text.empty()) {
    return nullptr;  // an empty text is what there is without it
  }
  const CsvValue* value = own == defaults_.end() ? &*number_default_ : own->second;
  if (!fits(*value, type))
    base::fail<Error>(file_.where(), "read_csv: ", file_.path(), ": the default of column ", quoted(name), " is ",
                      value->is_number ? base::join(value->number) : quoted(value->text), " and its type is ",
                      type_name(type), "; the default must be of that type.");
  return value;
}

void CsvBuilder::name_columns(std::vector<std::string> names) {
  check_wanted(names);
  std::vector<std::string_view> kept(options_.columns.begin(), options_.columns.end());
  std::sort(kept.begin(), kept.end());
  columns_.reserve(names.size());
  for (std::string& name : names) {
    fields_.push_back(nullptr);
    if (!kept.empty() && !std::binary_search(kept.begin(), kept.end(), std::string_view(name))) continue;
    const auto asked = types_.find(name);
    const ColumnType type = asked == types_.end() ? ColumnType::automatic : asked->second;
    const CsvValue* fallback = default_of(name, type);
    columns_.emplace_back(std::move(name), type, fallback);
    fields_.back() = &columns_.back();
  }
}

void CsvBuilder::finish() {
  if (!begun_) {
    if (options_.names.empty())
      file_.fail("there are no rows up to ", file_.place(file_.position()), "; there must be one ",
                 options_.header ? "with the names of the columns." : "from which the columns can be counted.");
    begun_ = true;
    name_columns(options_.names);
  }
  for (CsvColumn& column : columns_) column.finish();
}

CsvTable CsvBuilder::take_table() {
  auto table = std::make_unique<CsvTable::Impl>();
  table->rows = rows_;
  for (CsvColumn& column : columns_) {
    table->names.push_back(column.name());
    CsvTable::Impl::Column& result = table->columns.emplace_back();
    result.type = column.type();
    if (result.type == ColumnType::text) result.texts = column.take_texts();
    else result.numbers = column.take_numbers(file_.where());
  }
  for (std::size_t i = 0; i < table->names.size(); ++i) table->places.emplace(table->names[i], i);
  return CsvTable(table.release());
}

CsvLostTexts::CsvLostTexts(const ByteReader& file, const CsvOptions& options, const std::vector<CsvColumn*>& columns)
    : file_(file),
      missing_(options.missing),
      columns_(columns),
      texts_(columns.size()),
      row_(has_header(options) ? -1 : 0) {
  for (const CsvColumn* column : columns)
    if (column != nullptr) rows_ = std::max(rows_, column->lost_rows());
}

void CsvLostTexts::field(std::string_view text) {
  const std::size_t number = field_++;
  if (row_ < 0 || number >= columns_.size() || columns_[number] == nullptr) return;
  const CsvColumn& column = *columns_[number];
  if (row_ < column.lost_rows()) texts_[number].emplace_back(missing_(text) ? column.empty_text() : text);
}

bool CsvLostTexts::end_row() {
  if (field_ != columns_.size())
    file_.fail("row ", row_, " has ", field_, " fields when it is read again, up to ", file_.place(file_.position()),
               "; it had ", columns_.size(), ", and the file must not change while it is read.");
  field_ = 0;
  return ++row_ < rows_;
}

void CsvLostTexts::finish() {
  if (row_ < rows_)
    file_.fail("there are ", row_, " rows when it is read again, up to ", file_.place(file_.position()),
               "; there were ", rows_, " and more, and the file must not change while it is read.");
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i] != nullptr && columns_[i]->lost_rows() > 0) columns_[i]->put_lost(std::move(texts_[i]));
}

}  // namespace capstan::io
