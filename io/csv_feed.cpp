#include "io/csv_feed.hpp"

#include <algorithm>
#include <vector>

#if defined(CAPSTAN_HAS_CSV)
#include <csv.h>
#endif

#include "lib/base/text.hpp"

namespace capstan::io {

std::string_view csv_trimmed(std::string_view text, char delimiter) {
  const auto passes = [delimiter](char c) { return (c == ' ' || c == '\t') && c != delimiter; };
  while (!text.empty() && passes(text.front())) text.remove_prefix(1);
  while (!text.empty() && passes(text.back())) text.remove_suffix(1);
  return text;
}

bool CsvRows::row(std::string_view line, char delimiter) {
  fields(line, delimiter);
  return end_row();
}

void CsvRows::fields(std::string_view rest, char delimiter) {
  while (true) {
    const std::size_t end = rest.find(delimiter);
    field(csv_trimmed(rest.substr(0, end), delimiter));
    if (end == std::string_view::npos) return;
    rest.remove_prefix(end + 1);
  }
}

#if defined(CAPSTAN_HAS_CSV)

namespace {

constexpr std::size_t kFirstBytes = 1 << 16;  // of the first chunk, from which the types are known
constexpr std::size_t kChunkBytes = 1 << 20;
constexpr std::size_t kBlockBytes = 1 << 16;  // libcsv's buffer for one field grows by so much
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Where the lines of a chunk end. An end that was found is kept until it is passed: a chunk without \r is searched for
/// it once, not in every line.
class LineEnds {
 public:
  explicit LineEnds(std::string_view chunk) : chunk_(chunk), newline_(next('\n', 0)), return_(next('\r', 0)) {}
  /// The byte behind the line that `begin` is in, with its end, or the end of the chunk.
  std::size_t after(std::size_t begin) {
    if (newline_ < begin) newline_ = next('\n', begin);
    if (return_ < begin) return_ = next('\r', begin);
    if (newline_ < return_) return newline_ + 1;
    if (return_ == chunk_.size()) return return_;
    return return_ + (return_ + 1 < chunk_.size() && chunk_[return_ + 1] == '\n' ? 2 : 1);
  }

 private:
  std::size_t next(char end, std::size_t begin) const { return std::min(chunk_.find(end, begin), chunk_.size()); }
  std::string_view chunk_;
  std::size_t newline_, return_;
};

/// Whether a \r ends a line by itself, or stands within one.
bool has_lone_return(std::string_view lines) {
  std::size_t at = lines.find('\r');
  while (at != std::string_view::npos && at + 1 < lines.size() && lines[at + 1] == '\n') at = lines.find('\r', at + 2);
  return at != std::string_view::npos;
}

}  // namespace

/// libcsv's state.
struct CsvFeed::Parser {
  explicit Parser(const CsvOptions& options) {
    csv_init(&state, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_delim(&state, static_cast<unsigned char>(options.delimiter));
    csv_set_quote(&state, static_cast<unsigned char>(options.quote));
    csv_set_blk_size(&state, kBlockBytes);
  }
  ~Parser() { csv_free(&state); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  csv_parser state;
};

// The buffer has room for the field, the quote behind it, and up to a block more.
CsvFeed::CsvFeed(ByteReader& file, const CsvOptions& options)
    : file_(file),
      options_(options),
      max_field_(static_cast<std::size_t>(options.max_field_bytes)),
      max_buffer_(max_field_ + 2 * kBlockBytes),
      parser_(std::make_unique<Parser>(options)) {}

void CsvFeed::on_field(void* text, std::size_t size, void* feed) noexcept {
  auto& self = *static_cast<CsvFeed*>(feed);
  if (self.error_) return;
  try {
    if (size > self.max_field_) self.fail_for_length();
    self.rows_->field({static_cast<const char*>(text), size});
  } catch (...) { self.error_ = std::current_exception(); }
}

void CsvFeed::on_row(int, void* feed) noexcept {
  auto& self = *static_cast<CsvFeed*>(feed);
  self.row_ended_ = true;
  if (self.error_) return;
  try {
    if (!self.rows_->end_row()) self.enough_ = true;
  } catch (...) { self.error_ = std::current_exception(); }
}

void CsvFeed::run(CsvRows& rows) {
  rows_ = &rows;
  std::vector<unsigned char> buffer(kChunkBytes);
  for (bool first = true, last = false; !last && !enough_; first = false) {
    std::int64_t offset = file_.position();
    const std::size_t wanted = first ? kFirstBytes : buffer.size(), size = file_.read(buffer.data(), wanted);
    last = size < wanted;
    std::string_view chunk(reinterpret_cast<const char*>(buffer.data()), size);
    if (first && (chunk.starts_with("\xFF\xFE") || chunk.starts_with("\xFE\xFF")))
      file_.fail("the mark of UTF-16 stands at offset 0; the file must be UTF-8.");
    if (first && chunk.starts_with(kByteOrderMark)) {
      chunk.remove_prefix(kByteOrderMark.size());
      offset += static_cast<std::int64_t>(kByteOrderMark.size());
    }
    take_chunk(chunk, offset);
  }
  if (!enough_) finish();
}

void CsvFeed::take_chunk(std::string_view chunk, std::int64_t offset) {
  plain_ = chunk.find(options_.quote) == std::string_view::npos;
  LineEnds ends(chunk);
  bool tried = false;
  for (std::size_t begin = 0; begin < chunk.size() && !enough_;) {
    if (!tried && line_begins_) {  // behind the line that the last chunk has begun
      tried = true;
      begin += take_block(chunk.substr(begin));
      if (begin == chunk.size()) break;
    }
    const std::size_t end = ends.after(begin);
    take_line(chunk.substr(begin, end - begin), offset + static_cast<std::int64_t>(begin));
    begin = end;
  }
}

/// The lines of a chunk that are whole, if all of them are plain. How many bytes that were.
std::size_t CsvFeed::take_block(std::string_view chunk) {
  const bool plain = plain_ && !after_return_ && !row_open_ && options_.comment == '\0' && line_ >= options_.skip_rows;
  const std::size_t end = plain ? chunk.rfind('\n') + 1 : 0;  // npos + 1 is 0
  if (end == 0 || has_lone_return(chunk.substr(0, end))) return 0;
  const std::int64_t lines = rows_->block(chunk.substr(0, end), options_.delimiter, max_field_);
  if (lines < 0) return 0;
  line_ += lines;
  return end;
}

/// A line, or a part of one where a chunk begins or ends; a \n alone may belong to the \r at the end of the last chunk.
void CsvFeed::take_line(std::string_view piece, std::int64_t offset) {
  const char last = piece.back();
  const bool same_end = after_return_ && piece.front() == '\n';
  if (line_begins_ && !same_end) {
    ++line_;
    passing_ =
        !row_open_ && (line_ <= options_.skip_rows || (options_.comment != '\0' && piece.front() == options_.comment));
    if (!row_open_) {
      row_line_ = line_;
      row_offset_ = offset;
    }
  }
  const bool whole = line_begins_ && (last == '\n' || last == '\r');
  line_begins_ = last == '\n' || last == '\r';
  after_return_ = last == '\r';
  if (!passing_ && !(whole && take_plain(piece))) parse(piece, offset);
}

/// A whole line, if it has no quotes and belongs to no row that is open, and no field can be too long; else false.
bool CsvFeed::take_plain(std::string_view piece) {
  if (!plain_ || row_open_ || piece.size() > max_field_) return false;
  while (!piece.empty() && (piece.back() == '\n' || piece.back() == '\r')) piece.remove_suffix(1);
  if (!csv_trimmed(piece, options_.delimiter).empty()) enough_ = !rows_->row(piece, options_.delimiter);
  return true;
}

void CsvFeed::parse(std::string_view piece, std::int64_t offset) {
  if (options_.quote == '\0' && piece.find('\0') != std::string_view::npos)  // libcsv would take it for a quote
    file_.fail("the row in ", row_place(), " holds a zero byte; without quotes there must be none.");
  csv_parser& state = parser_->state;
  const std::size_t done = csv_parse(&state, piece.data(), piece.size(), &on_field, &on_row, this);
  if (error_) std::rethrow_exception(error_);
  if (done < piece.size()) {
    if (csv_error(&state) != CSV_EPARSE)
      base::fail<OutOfMemoryError>(file_.where(), "read_csv: ", file_.path(), ": no memory is left for a field.");
    file_.fail("a quote in line ", line_, " neither begins nor ends a field, at ",
               file_.place(offset + static_cast<std::int64_t>(done)),
               "; a field with quotes must be quoted, and each of them doubled.");
  }
  if (csv_get_buffer_size(&state) > max_buffer_) fail_for_length();
  row_open_ = !row_ended_ && (row_open_ || piece.find_first_not_of(" \t\r\n") != std::string_view::npos);
  row_ended_ = false;
}

void CsvFeed::finish() {
  const int result = csv_fini(&parser_->state, &on_field, &on_row, this);
  if (error_) std::rethrow_exception(error_);
  if (result != 0)
    file_.fail("the quotes in the row that begins in ", row_place(),
               " are never closed; the file must end behind them.");
}

void CsvFeed::fail_for_length() const {
  file_.fail("a field of the row that begins in ", row_place(), " has more than ", options_.max_field_bytes,
             " bytes; its quotes must be closed, and max_field_bytes be as long as the longest field.");
}

#else

struct CsvFeed::Parser {};

CsvFeed::CsvFeed(ByteReader& file, const CsvOptions& options) : file_(file), options_(options) {
  base::fail<MissingLibraryError>(
      file.where(), "read_csv: this build has no libcsv; install libcsv-dev (Debian, Ubuntu) and build again.");
}

void CsvFeed::run(CsvRows&) {}

#endif

CsvFeed::~CsvFeed() = default;

std::string CsvFeed::row_place() const {
  return "line " + std::to_string(row_line_) + " at " + file_.place(row_offset_);
}

}  // namespace capstan::io
