#pragma once
// The fields of a CSV file, one after another. libcsv takes the text apart. It is given one line at a time, so that the
// place of every row is known and comments can be left out; that costs a call and a memchr a line. Lines without a quote,
// which most files have alone, need no rules of quoting: they go to whoever takes the rows as they are, who finds the
// delimiters where the numbers end.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include <capstan/io/csv.hpp>

#include "io/byte_reader.hpp"

namespace capstan::io {

/// Who takes them. What it throws ends the reading and reaches the caller of CsvFeed::run.
class CsvRows {
 public:
  virtual void field(std::string_view text) = 0;  ///< valid until it returns
  virtual bool end_row() = 0;                     ///< whether another row is wanted
  /// A whole row without quotes or line end. Here by `field` and `end_row`.
  virtual bool row(std::string_view line, char delimiter);
  /// Many whole rows without quotes, each with a "\n" behind it, and none longer than `longest`. How many lines they are;
  /// -1 if that cannot be done, and then nothing was done.
  virtual std::int64_t block(std::string_view, char, std::size_t) { return -1; }

 protected:
  /// The rest of a row, by `field`: text between delimiters without the spaces and tabs around it.
  void fields(std::string_view rest, char delimiter);
  ~CsvRows() = default;
};

/// Without the spaces and tabs around it that are no delimiters: what libcsv does to fields without quotes.
std::string_view csv_trimmed(std::string_view text, char delimiter);

class CsvFeed {
 public:
  /// Both must live as long as it does. Throws MissingLibraryError in a build without libcsv.
  CsvFeed(ByteReader& file, const CsvOptions& options);
  ~CsvFeed();
  CsvFeed(const CsvFeed&) = delete;
  CsvFeed& operator=(const CsvFeed&) = delete;

  /// Gives all rows from the file's beginning, where it must stand.
  void run(CsvRows& rows);
  /// Of the row that is being given: "line 17 at offset 1203".
  std::string row_place() const;

 private:
  struct Parser;
  static void on_field(void* text, std::size_t size, void* feed) noexcept;
  static void on_row(int end, void* feed) noexcept;
  void take_chunk(std::string_view chunk, std::int64_t offset);
  void take_line(std::string_view piece, std::int64_t offset);
  std::size_t take_block(std::string_view chunk);
  bool take_plain(std::string_view piece);
  void parse(std::string_view piece, std::int64_t offset);
  void finish();
  [[noreturn]] void fail_for_length() const;

  ByteReader& file_;
  const CsvOptions& options_;
  std::size_t max_field_, max_buffer_;
  std::unique_ptr<Parser> parser_;
  CsvRows* rows_ = nullptr;
  std::exception_ptr error_;  // what a callback threw: it must not pass through libcsv, which is C
  std::int64_t line_ = 0;     // lines that have begun, as editors count them
  std::int64_t row_line_ = 1, row_offset_ = 0;
  bool line_begins_ = true;    // the next byte is the first of a line
  bool after_return_ = false;  // the last byte was \r: a \n now belongs to it
  bool plain_ = false;         // no byte of the chunk is a quote
  bool passing_ = false;       // the line is not given to libcsv
  bool row_open_ = false;      // the row goes on in the next line
  bool row_ended_ = false;     // libcsv has just said so
  bool enough_ = false;        // no more rows are wanted
};

}  // namespace capstan::io
