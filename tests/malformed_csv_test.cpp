// CSV files that are broken or not what was asked for, options that are wrong, and columns that are not there.
#include "tests/support.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/broken_gzip.hpp"
#include "tests/files.hpp"

using namespace capstan;
using namespace tests;
using io::ColumnType;
using io::CsvOptions;
using io::CsvTable;

namespace {

const std::string file = "malformed_csv_test.cpp";

ReadFile reading(const CsvOptions& options = {}) {
  return [options](const std::string& path) { io::read_csv(path, options); };
}

/// A row of a table of broken files: what, text, reason.
Malformed row(const std::string& what, std::string_view text, const std::string& reason) {
  return {what, bytes_of(text), reason};
}

void check(const std::vector<Malformed>& rows, const CsvOptions& options = {}, Where where = Where::current()) {
  check_malformed(rows, "read_csv", "table.csv", reading(options), where);
}

/// Whether the beginning of a good file of three columns is itself one: all quotes are closed, and the last row has as
/// many fields as there are names, which the header may have fewer of.
bool is_whole(std::string_view text) {
  bool open = false, any = false;
  int rows = 0, delimiters = 0;
  for (const char c : text) {
    if (!open && (c == '\n' || c == '\r')) {
      rows += any ? 1 : 0;
      any = false;
      delimiters = 0;
      continue;
    }
    any = true;
    if (c == '"') open = !open;
    else if (!open && c == ',') ++delimiters;
  }
  if (open) return false;
  if (!any) return rows > 0;
  return rows == 0 ? text.back() != ',' : delimiters == 2;
}

const std::string kNoRows = "there are no rows up to offset ";
const std::string kNoPlaceForQuote = " neither begins nor ends a field, at offset ";

}  // namespace

// --- broken files ------------------------------------------------------------------------------------------------

TEST_CASE("CSV files without rows or with an impossible header are errors", "[io][csv][errors][malformed][host]") {
  check({row("nothing", "", kNoRows + "0; there must be one with the names of the columns."),
         row("blank lines alone", "\n \r\n\t\n", kNoRows + "6"),
         row("a byte order mark alone", "\xEF\xBB\xBF", kNoRows + "3"),
         {"gzip of nothing", gzip({}), kNoRows + "0 of the unpacked data"},
         row("an empty name", "a,,c\n1,2,3\n",
             "the header in line 1 at offset 0 has no name for column 1; every column must have one."),
         row("an empty name at the end", "\n\na,b,\n", "the header in line 3 at offset 2 has no name for column 2"),
         row("UTF-16", std::string_view("\xFF\xFE" "a\0\n\0", 6),
             "the mark of UTF-16 stands at offset 0; the file must be UTF-8."),
         row("UTF-16, the other way", std::string_view("\xFE\xFF\0a\0\n", 6), "the mark of UTF-16 stands at offset 0"),
         row("an empty name in quotes", "\"\",b\n", "has no name for column 0"),
         row("a name twice", "a,b,a\n1,2,3\n",
             "the header in line 1 at offset 0 has the name 'a' more than once; every column must have its own."),
         row("a name twice but for spaces", " a,b,\"a\"\n", "has the name 'a' more than once"),
         row("data instead of a header", "1,2,1\n3,4,5\n", "has the name '1' more than once")});
}

TEST_CASE("CSV rows with too few or too many fields are errors", "[io][csv][errors][malformed][host]") {
  check(
      {row("too few", "a,b\n1,2\n3\n4,5\n",
           "row 1 in line 3 at offset 8 has 1 fields; it must have 2, one for each column."),
       row("too many", "a,b\n1,2,3\n", "row 0 in line 2 at offset 4 has 3 fields; it must have 2"),
       row("a delimiter at the end", "a,b\n1,2,\n", "row 0 in line 2 at offset 4 has 3 fields"),
       row("the wrong delimiter", "a,b\n1;2\n", "row 0 in line 2 at offset 4 has 1 fields"),
       row("too few, behind lines in quotes", "a,b\n\"x\n\ny\",1\n\n2\n", "row 1 in line 6 at offset 14 has 1 fields"),
       row("too few, at the end of the file", "a,b\n1", "row 0 in line 2 at offset 4 has 1 fields"),
       row("too few, lines ending with \\r\\n", "a,b\r\n1,2\r\n3\r\n", "row 1 in line 3 at offset 10 has 1 fields"),
       row("too few, lines ending with \\r", "a,b\r1,2\r3\r", "row 1 in line 3 at offset 8 has 1 fields"),
       row("an empty line in quotes", "a,b\n\"\"\n", "row 0 in line 2 at offset 4 has 1 fields"),
       {"too few, packed", gzip(bytes_of("a,b\n1\n")), "row 0 in line 2 at offset 4 of the unpacked data has 1 fields"},
       row("a million delimiters", "a,b\n1,2\n" + std::string(1000000, ',') + "\n",
           "row 1 in line 3 at offset 8 has 1000001 fields")});
  check({row("too many, between delimiters that could be signs", "a-b\n1-2\n5--3\n",
             "row 1 in line 3 at offset 8 has 3 fields; it must have 2")},
        {.delimiter = '-'});
}

TEST_CASE("quotes in the wrong places of CSV files are errors", "[io][csv][errors][malformed][host]") {
  check(
      {row("inside of a field", "a\nx\"y\n",
           "a quote in line 2" + kNoPlaceForQuote + "3; a field with quotes must be quoted, and each of them doubled."),
       row("inside of a name", "a\"b\n", "a quote in line 1" + kNoPlaceForQuote + "1;"),
       row("text behind it", "a\n\"x\"y\n", "a quote in line 2" + kNoPlaceForQuote + "5;"),
       row("text behind it and a space", "a\n\"x\" y\n", "a quote in line 2" + kNoPlaceForQuote + "6;"),
       row("another one behind a space", "a\n\"x\" \"\n", "a quote in line 2" + kNoPlaceForQuote + "6;"),
       row("in the second line of a field", "a\n\"x\ny\"z\n", "a quote in line 3" + kNoPlaceForQuote + "7;"),
       row("never closed", "a\n\"x\n",
           "the quotes in the row that begins in line 2 at offset 2 are never closed; "
           "the file must end behind them."),
       row("never closed in the header", "\"a", "begins in line 1 at offset 0 are never closed"),
       row("doubled at the end", "a\n\"x\"\"", "begins in line 2 at offset 2 are never closed"),
       row("one alone at the end", "a,b\n1,\"", "begins in line 2 at offset 4 are never closed"),
       row("closed by the next row's", "a,b\n1,\"x\n2,y\n3,z\n", "begins in line 2 at offset 4 are never closed"),
       {"never closed, packed", gzip(bytes_of("a\n\"x")), "at offset 2 of the unpacked data are never closed"}});
}

TEST_CASE("CSV fields without an end and endless columns are errors", "[io][csv][errors][malformed][host]") {
  const std::string too_long =
      " has more than 1048576 bytes; its quotes must be closed, and max_field_bytes be as long as the longest field.";
  const std::string many(3 << 20, 'x');
  std::string names = "c0";
  for (int i = 1; i <= 65536; ++i) names += ",c" + std::to_string(i);
  check({row("an endless field", "a\n" + many, "a field of the row that begins in line 2 at offset 2" + too_long),
         row("an endless name", many, "begins in line 1 at offset 0" + too_long),
         row("endless quotes", "a\n\"" + many, "begins in line 2 at offset 2" + too_long),
         row("endless quotes with lines", "a\n\"x\n" + std::string(3 << 20, '\n'), "in line 2 at offset 2" + too_long),
         row("endless doubled quotes", "a\n\"" + std::string(3 << 20, '"'), "in line 2 at offset 2" + too_long),
         row("endless spaces behind a field", "a\nx" + std::string(3 << 20, ' ') + "\n", "at offset 2" + too_long),
         row("a byte too long", "a\n" + std::string((1 << 20) + 1, '1') + "\n", "at offset 2" + too_long),
         {"an endless field, packed", gzip(Bytes(8 << 20, 0)),
          "begins in line 1 at offset 0 of the unpacked data" + too_long},
         row("too many names", names, "the row in line 1 at offset 0 has more than 65536 fields"),
         row("a line of delimiters", std::string(1 << 20, ','), "the row in line 1 at offset 0 has more than 65536")});
  check({row("longer than allowed", "a\n12345\n", "line 2 at offset 2 has more than 4 bytes")}, {.max_field_bytes = 4});
  check({row("more than allowed", "a,b,c\n",
             "the row in line 1 at offset 0 has more than 2 fields; max_columns must allow for as many.")},
        {.max_columns = 2});
}

TEST_CASE("damaged gzip is an error of read_csv", "[io][csv][errors][malformed][host]") {
  check_malformed(broken_gzip(bytes_of("a,b\n1,2\n")), "read_csv", "table.csv.gz", reading());
}

TEST_CASE("a CSV file that is cut is an error, or the rows that are whole", "[io][csv][errors][malformed][host]") {
  const std::string good = "a,b,c\n1,2.5,x\n\n3,,\"q,\"\"r\"\r\n4,5,\"z\n\"\n";
  std::vector<std::size_t> whole;
  for (std::size_t length = 0; length < good.size(); ++length)
    if (is_whole(std::string_view(good).substr(0, length))) whole.push_back(length);
  check_prefixes(bytes_of(good), "read_csv", "table.csv", reading(), whole);
  check_prefixes(gzip(bytes_of(good)), "read_csv", "table.csv.gz", reading(), {1});  // one byte: a name, and no row
}

TEST_CASE("CSV files that cannot be opened are errors", "[io][csv][errors][malformed][host]") {
  const TemporaryFolder folder;
  for (const std::string& path : {folder.path("none.csv"), folder.path("")}) {
    const std::string said = message_of<IoError>([&] { io::read_csv(path); });
    INFO(said);
    CHECK(said.rfind("read_csv: " + path + ": ", 0) == 0);
  }
}

// --- files that are not what was asked for -------------------------------------------------------------------------

TEST_CASE("CSV fields that are not of the type asked for are errors", "[io][csv][errors][malformed][host]") {
  const CsvOptions integer{.types = {{"n", ColumnType::int64}}, .missing = {"NA"}};
  const std::string must = " in column 'n'; it must be an integer of 64 bits.";
  check({row("text", "n,t\n1,x\nx,y\n", "row 1 in line 3 at offset 8 has 'x'" + must),
         row("a fraction", "n,t\n1.0,x\n", "row 0 in line 2 at offset 4 has '1.0'" + must),
         row("beyond int64", "n,t\n9223372036854775808,x\n", "has '9223372036854775808'" + must),
         row("infinity", "n,t\ninf,x\n", "has 'inf'" + must),
         row("two numbers", "n,t\n1 2,x\n", "has '1 2'" + must),
         row("bytes of a line in quotes", "n,t\n\"1\n2\",x\n", "row 0 in line 2 at offset 4 has '1\\x0A2'" + must),
         row("a long one", "n,t\n" + std::string(100, 'z') + ",x\n", "has '" + std::string(60, 'z') + "...'" + must),
         row("empty", "n,t\n,x\n",
             "row 0 in line 2 at offset 4 has '' in column 'n'; it must be an integer of 64 bits, "
             "for empty fields have no default."),
         row("missing", "n,t\n1,x\nNA,x\n", "row 1 in line 3 at offset 8 has 'NA' in column 'n'; it must be"),
         {"text, packed", gzip(bytes_of("n\nx\n")), "row 0 in line 2 at offset 2 of the unpacked data has 'x'" + must}},
        integer);
  for (const ColumnType type : {ColumnType::float32, ColumnType::float64})
    check({row("text", "n\n1\nx\n", "row 1 in line 3 at offset 4 has 'x' in column 'n'; it must be a number."),
           row("hexadecimal", "n\n0x10\n", "has '0x10' in column 'n'; it must be a number.")},
          {.types = {{"n", type}}});
}

TEST_CASE("CSV files without a header must have rows of the same length", "[io][csv][errors][malformed][host]") {
  check({row("nothing", "", kNoRows + "0; there must be one from which the columns can be counted."),
         row("a longer second row", "1,2\n3,4,5\n", "row 1 in line 2 at offset 4 has 3 fields; it must have 2"),
         row("a shorter second row", "1,2\n3\n", "row 1 in line 2 at offset 4 has 1 fields; it must have 2")},
        {.header = false});
  check({row("fewer fields than names", "1,2\n", "row 0 in line 1 at offset 0 has 2 fields; it must have 3"),
         row("more fields than names", "1,2,3,4\n", "row 0 in line 1 at offset 0 has 4 fields; it must have 3")},
        {.names = {"a", "b", "c"}});
}

TEST_CASE("lines that are passed over count in CSV errors", "[io][csv][errors][malformed][host]") {
  check({row("behind comments", "#x\na,b\n#y\n1\n", "row 0 in line 4 at offset 10 has 1 fields"),
         row("comments alone", "#x\n#y", kNoRows + "5")},
        {.comment = '#'});
  check({row("behind lines at the beginning", "\"\nx\n\na,b\n1\n", "row 0 in line 5 at offset 9 has 1 fields"),
         row("not so many lines", "a\nb\n", kNoRows + "4")},
        {.skip_rows = 3});
  check({{"a zero byte where there are no quotes", bytes_of(std::string_view("a\nx\0y\n", 6)),
          "the row in line 2 at offset 2 holds a zero byte; without quotes there must be none."}},
        {.quote = '\0'});
}

// --- options and columns -------------------------------------------------------------------------------------------

// A row's __LINE__ must stand on the line of its call.
// clang-format off

TEST_CASE("read_csv refuses options that contradict each other", "[io][csv][errors][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.write_text("table.csv", "a,b\n1,x\n"), start = "read_csv: " + path + ": ";
  const std::string other = "; it must be another character.", there = ", which is not there; the file has 'a', 'b'.";
  const std::string delimiter = "read_csv: the delimiter ends lines or is a zero byte" + other;
  const std::string quote = "read_csv: the quote is a space, ends lines or is the delimiter" + other;
  const std::string comment = "read_csv: the comment ends lines, or is the delimiter or the quote" + other;
  const std::string of_that_type = "; the default must be of that type.";
  const CsvOptions fraction{.types = {{"a", ColumnType::int64}}, .defaults = {{"a", 0.5}}};
  const CsvOptions word{.types = {{"a", ColumnType::float64}}, .defaults = {{"a", "none"}}};
  const CsvOptions number{.types = {{"b", ColumnType::text}}, .defaults = {{"b", 1}}};
  check_errors({
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.delimiter = '\n'}); }, delimiter},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.delimiter = '\0'}); }, delimiter},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.delimiter = '"'}); }, quote},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.quote = ' '}); }, quote},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.quote = '\r'}); }, quote},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.comment = ','}); }, comment},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.comment = '"'}); }, comment},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.skip_rows = -1}); },
       "read_csv: skip_rows is -1; it must be at least 0."},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.max_field_bytes = 0}); },
       "read_csv: max_field_bytes is 0; it must be at least 1."},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.max_columns = 0}); },
       "read_csv: max_columns is 0; it must be at least 1."},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.names = {"x", ""}}); },
       "read_csv: one of the names is empty; every column must have one."},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, {.names = {"x", "y", "x"}}); },
       "read_csv: two of the names are 'x'; every column must have its own."},
      {__LINE__, message_of<IndexError>, [&] { io::read_csv(path, {.columns = {"a", "c"}}); },
       start + "columns name column 'c'" + there},
      {__LINE__, message_of<IndexError>, [&] { io::read_csv(path, {.types = {{"A", ColumnType::text}}}); },
       start + "types name column 'A'" + there},
      {__LINE__, message_of<IndexError>, [&] { io::read_csv(path, {.defaults = {{"c", 0}}}); },
       start + "defaults name column 'c'" + there},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, fraction); },
       start + "the default of column 'a' is 0.5 and its type is int64" + of_that_type},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, word); },
       start + "the default of column 'a' is 'none' and its type is float64" + of_that_type},
      {__LINE__, message_of<Error>, [&] { io::read_csv(path, number); },
       start + "the default of column 'b' is 1 and its type is text" + of_that_type},
  }, file);
}

TEST_CASE("columns of a CSV table that are not there, or of another type, are errors", "[io][csv][errors][host]") {
  const TemporaryFolder folder;
  const CsvTable table = io::read_csv(folder.write_text("table.csv", "a,b\n1,x\n"));
  std::string wide = "c0";
  for (int i = 1; i < 25; ++i) wide += ",c" + std::to_string(i);
  const CsvTable many = io::read_csv(folder.write_text("wide.csv", wide));
  std::string first = "'c0'";
  for (int i = 1; i < 20; ++i) first += ", 'c" + std::to_string(i) + "'";
  const std::string none = ": there is no column 'z'; the table has 'a', 'b'.";
  const std::string text =
      ": column 'b' is text; it must be numbers. text(name) and categories(name) give what it holds.";
  const std::string number = ": column 'a' is int64; it must be text.";
  const std::vector<std::string> names = {"a", "b"};
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { table["z"]; }, "CsvTable::operator[]" + none},
      {__LINE__, message_of<IndexError>, [&] { table.type("z"); }, "CsvTable::type" + none},
      {__LINE__, message_of<IndexError>, [&] { table.text("z"); }, "CsvTable::text" + none},
      {__LINE__, message_of<IndexError>, [&] { table.categories("z"); }, "CsvTable::categories" + none},
      {__LINE__, message_of<IndexError>, [&] { table.matrix({"a", "z"}); }, "CsvTable::matrix" + none},
      {__LINE__, message_of<IndexError>, [&] { many.type("z"); },
       "CsvTable::type: there is no column 'z'; the table has " + first + " and 5 more."},
      {__LINE__, message_of<DTypeError>, [&] { table["b"]; }, "CsvTable::operator[]" + text},
      {__LINE__, message_of<DTypeError>, [&] { table.matrix({"b"}); }, "CsvTable::matrix" + text},
      {__LINE__, message_of<DTypeError>, [&] { table.matrix(names); }, "CsvTable::matrix" + text},
      {__LINE__, message_of<DTypeError>, [&] { table.text("a"); }, "CsvTable::text" + number},
      {__LINE__, message_of<DTypeError>, [&] { table.categories("a"); }, "CsvTable::categories" + number},
  }, file);
}
