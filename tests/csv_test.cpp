// CSV files: rows, quotes, ends of lines, options, the table, and the published files.
#include "tests/support.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/address_limit.hpp"
#include "tests/files.hpp"

using namespace capstan;
using namespace tests;
using io::ColumnType;
using io::CsvOptions;
using io::CsvTable;

namespace {

using Texts = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

CsvTable table_of(std::string_view text, const CsvOptions& options = {}) {
  const TemporaryFolder folder;
  return io::read_csv(folder.write_text("table.csv", text), options);
}

Integers integers(const CsvTable& table, const std::string& name) { return table[name].to_vector<std::int64_t>(); }

double sum_of(const CsvTable& table, const std::string& name) {
  const std::vector<double> numbers = values(table[name]);
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

struct Fit {
  double mean_square = 0, r2 = 0;
};
/// Least squares with an intercept, on the first columns of a table without names.
Fit linear_fit(const CsvTable& table, int columns, const Tensor& wanted) {
  Texts names;
  for (int i = 0; i < columns; ++i) names.push_back(std::to_string(i));
  const Tensor inputs = table.matrix(names, DType::float64), targets = wanted.to(DType::float64);
  const Tensor intercept = ones({table.rows(), 1}, {.dtype = DType::float64});
  const double error = values(lstsq(concat({inputs, intercept}, 1), targets).residuals).at(0);
  const double variation = number(sum(square(targets - mean(targets))));
  return {error / static_cast<double>(table.rows()), 1 - error / variation};
}

constexpr std::size_t kChunk = 1 << 16;  // so much of a file is taken apart first

/// A file that is large enough for threads to share it. Reading it line by line, which a character for comments asks for,
/// must give the same.
std::string large_file(int rows, int fractions_from, int words_from) {
  std::string text = "count,number,word,mixed\n";
  for (int i = 0; i < rows; ++i) {
    text += std::to_string(i) + (i >= fractions_from ? ".5," : ",") + std::to_string(i * 0.37) + ", w " +
            std::to_string(i % 7) + " ," +
            (i % 11 == 0      ? ""
             : i < words_from ? std::to_string(-i)
                              : "x") +
            "\n";
    if (i % 1000 == 999) text += i % 2000 == 999 ? "\n" : " \t\n";
  }
  return text;
}

}  // namespace

// --- rows and fields ---------------------------------------------------------------------------------------------

TEST_CASE("a CSV file gives integers, numbers and texts under the names of its header", "[io][csv][host]") {
  const CsvTable table = table_of("name,count,price\nnut,3,0.5\nbolt,-4,1e2\n");
  CHECK(table.rows() == 2);
  CHECK(table.columns() == 3);
  CHECK(table.names() == Texts{"name", "count", "price"});
  CHECK(table.type("name") == ColumnType::text);
  CHECK(table.type("count") == ColumnType::int64);
  CHECK(table.type("price") == ColumnType::float64);
  CHECK(table.text("name") == Texts{"nut", "bolt"});
  CHECK(same(table["count"], from_doubles({3, -4}, {2}, DType::int64)));
  CHECK(same(table["price"], from_doubles({0.5, 100}, {2})));
}

TEST_CASE("quotes keep delimiters, ends of lines, spaces and doubled quotes", "[io][csv][host]") {
  const CsvTable table = table_of(
      "\"a,b\",c\n\"x, y\",1\n\"two\nlines\r\n\",2\n\"say \"\"hi\"\"\",3\n"
      "\"\"\"\",4\n\"  z\t\",5\n");
  CHECK(table.names() == Texts{"a,b", "c"});
  CHECK(table.text("a,b") == Texts{"x, y", "two\nlines\r\n", "say \"hi\"", "\"", "  z\t"});
  CHECK(integers(table, "c") == Integers{1, 2, 3, 4, 5});
}

TEST_CASE("spaces and tabs around a field are no part of it", "[io][csv][host]") {
  const CsvTable table = table_of(" a ,\tb\n x y\t, \"z \" \n  ,7\n");
  CHECK(table.names() == Texts{"a", "b"});
  CHECK(table.text("a") == Texts{"x y", ""});
  CHECK(table.text("b") == Texts{"z ", "7"});
}

TEST_CASE("every kind of end ends a line, and blank lines are passed over", "[io][csv][host]") {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    INFO("an end of " << end.size() << " bytes, the first of code " << static_cast<int>(end[0]));
    std::string text;
    for (const char* line : {"", "a,b", "", "1,2", "  \t", "3,4", "", ""}) text += line + end;
    for (const std::string& last : {std::string(), std::string("5,6")}) {
      const CsvTable table = table_of(text + last);
      CHECK(integers(table, "a") == (last.empty() ? Integers{1, 3} : Integers{1, 3, 5}));
      CHECK(integers(table, "b") == (last.empty() ? Integers{2, 4} : Integers{2, 4, 6}));
    }
  }
  CHECK(integers(table_of("a\n1\r2\r\n3\n\r4"), "a") == Integers{1, 2, 3, 4});
}

TEST_CASE("ends of lines are recognised where the reader's chunks meet", "[io][csv][host]") {
  for (std::size_t shift = 0; shift < 5; ++shift) {
    INFO("shift " << shift);
    const std::string header = "n,t\r\n", begin = "1,";
    const std::string filler(kChunk - 3 + shift - header.size() - begin.size(), 'x');  // \r then stands there
    const std::string plain = header + begin + filler + "\r\n2,b\r\n3,\"c\r\nd\"\r\n";
    const CsvTable table = table_of(plain);
    CHECK(integers(table, "n") == Integers{1, 2, 3});
    CHECK((table.text("t") == Texts{filler, "b", "c\r\nd"}));

    const std::string quoted = header + begin + '"' + filler.substr(1) + "\r\ny\"\r\n2,b\r\n";
    CHECK((table_of(quoted).text("t") == Texts{filler.substr(1) + "\r\ny", "b"}));

    const TemporaryFolder folder;  // two lines of the row before are one row: lines 1 to 5 are good
    const std::string path = folder.write_text("table.csv", plain + "4\r\n");
    const std::string said = message_of<IoError>([&] { io::read_csv(path); });
    INFO(said);
    const std::string place = "row 3 in line 6 at offset " + std::to_string(plain.size());
    CHECK(said.find(place + " has 1 fields; it must have 2, one for each column.") != std::string::npos);
  }
}

TEST_CASE("a byte order mark is passed over", "[io][csv][host]") {
  const std::string mark = "\xEF\xBB\xBF";
  CHECK(table_of(mark + "a,b\n1,2\n").names() == Texts{"a", "b"});
  CHECK(integers(table_of(mark + "5\n", {.header = false}), "0") == Integers{5});
}

TEST_CASE("zero bytes and bytes that are no UTF-8 are kept in texts", "[io][csv][host]") {
  const std::string odd("\xFF\0\x80", 3);
  CHECK(table_of("a\n" + odd + "\n\"" + odd + "\"\n").text("a") == Texts{odd, odd});
}

TEST_CASE("random tables of text come back as they were written", "[io][csv][host]") {
  const std::string alphabet = "ab ,;\"\n\r\t'#";
  const Tensor draws = random_in(0, 1, {40000}, DType::float64, 11);
  const std::vector<double> numbers = values(draws);
  std::size_t next = 0;
  const auto draw = [&](std::size_t count) {
    return static_cast<std::size_t>(numbers[next++ % numbers.size()] * static_cast<double>(count));
  };
  for (int round = 0; round < 50; ++round) {
    const std::size_t rows = 1 + draw(20);
    std::vector<Texts> columns(1 + draw(4));
    std::string text;
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < columns.size(); ++i) {
        std::string field, written = "\"";
        for (std::size_t left = draw(6); left > 0; --left) field += alphabet[draw(alphabet.size())];
        for (const char c : field) written += c == '"' ? std::string("\"\"") : std::string(1, c);
        columns[i].push_back(field);
        text += written + "\"" + (i + 1 < columns.size() ? "," : "\n");
      }
    const Texts every = {"0", "1", "2", "3"};
    CsvOptions options{.header = false};
    for (std::size_t i = 0; i < columns.size(); ++i) options.types.emplace_back(every[i], ColumnType::text);
    const CsvTable table = table_of(text, options);
    INFO(text);
    for (std::size_t i = 0; i < columns.size(); ++i) CHECK(table.text(every[i]) == columns[i]);
  }
}

// --- options -----------------------------------------------------------------------------------------------------

TEST_CASE("other delimiters and quotes, or no quotes, are taken", "[io][csv][host]") {
  CHECK(integers(table_of("a;b\n1;2\n", {.delimiter = ';'}), "b") == Integers{2});
  const CsvTable tabs = table_of("a\tb\tc\n\t 2\t\"x\ty\"\n", {.delimiter = '\t'});
  CHECK(same(tabs["a"], from_doubles({kNaN}, {1})));
  CHECK(integers(tabs, "b") == Integers{2});
  CHECK(tabs.text("c") == Texts{"x\ty"});
  CHECK(integers(table_of("1 2 3\n4 5 6\n", {.delimiter = ' ', .header = false}), "1") == Integers{2, 5});
  CHECK(table_of("a,b\n'x,''y',\"\n", {.quote = '\''}).text("a") == Texts{"x,'y"});
  const CsvTable bare = table_of("a,b\n5\",\"c\"\n", {.quote = '\0'});
  CHECK(bare.text("a") == Texts{"5\""});
  CHECK(bare.text("b") == Texts{"\"c\""});
}

TEST_CASE("delimiters that numbers may hold end fields", "[io][csv][host]") {
  const CsvTable dates = table_of("y-m-d\n2020-01-05\n2020--05\n", {.delimiter = '-'});
  CHECK(integers(dates, "y") == Integers{2020, 2020});
  CHECK(same(dates["m"], from_doubles({1, kNaN}, {2})));
  CHECK(integers(dates, "d") == Integers{5, 5});
  const CsvTable points = table_of("a.b.c\n1.2.3\n1..3\n4.5.6\n", {.delimiter = '.'});
  CHECK(integers(points, "a") == Integers{1, 1, 4});
  CHECK(same(points["b"], from_doubles({2, kNaN, 5}, {3})));
  CHECK(integers(points, "c") == Integers{3, 3, 6});
  const CsvTable letters = table_of("aeb\n0.5e2\n1e2\n", {.delimiter = 'e'});
  CHECK(same(letters["a"], from_doubles({0.5, 1}, {2})));
  CHECK(integers(letters, "b") == Integers{2, 2});
  CHECK(integers(table_of("a1b\n213\n41\n", {.delimiter = '1', .number_default = 7}), "b") == Integers{3, 7});
}

TEST_CASE("delimiters that numbers may hold end fields in large files, too", "[io][csv][host]") {
  const ThreadCount two(2);
  constexpr std::size_t rows = 60000;
  std::string text = "a.b.c\n1..3\n";
  for (std::size_t i = 1; i < rows; ++i) text += "4.5.6\n";
  const CsvTable table = table_of(text, {.delimiter = '.'});
  Integers first(rows, 4), last(rows, 6);
  first[0] = 1;
  last[0] = 3;
  std::vector<double> middle(rows, 5);
  middle[0] = kNaN;
  CHECK((integers(table, "a") == first));  // in parentheses: not to be printed
  CHECK(relative_error(values(table["b"]), middle) == 0);
  CHECK((integers(table, "c") == last));
}

TEST_CASE("comments and lines at the beginning are passed over, but not inside of quotes", "[io][csv][host]") {
  const CsvTable table = table_of(
      "a title, \"never closed\n#c\n\na,b\n#x,y,z \"\n1,p\n"
      "\"2\",\"q\n#r\"\n#",
      {.comment = '#', .skip_rows = 1});
  CHECK(integers(table, "a") == Integers{1, 2});
  CHECK(table.text("b") == Texts{"p", "q\n#r"});
  CHECK(table_of("a\n#1\n").text("a") == Texts{"#1"});  // nothing is a comment unless asked for
  CHECK(integers(table_of("a\n\nb\n7", {.skip_rows = 2}), "b") == Integers{7});
}

TEST_CASE("columns are named by a header, by the caller, or by numbers", "[io][csv][host]") {
  CHECK(table_of("1,2\n", {.header = false}).names() == Texts{"0", "1"});
  CHECK(table_of("1,2\n", {.names = {"p", "q"}}).names() == Texts{"p", "q"});
  CHECK(integers(table_of("a,b\n1,2\n", {.names = {"p", "q"}, .skip_rows = 1}), "q") == Integers{2});
}

TEST_CASE("a table may have no rows", "[io][csv][host]") {
  for (const CsvTable& table : {table_of("a,b"), table_of("a,b\n\n"), table_of("", {.names = {"a", "b"}})}) {
    CHECK(table.rows() == 0);
    CHECK(table.names() == Texts{"a", "b"});
    CHECK(same(table["b"], from_doubles({}, {0})));
    CHECK(table.matrix({"a", "b"}).shape() == Shape{0, 2});
  }
  const CsvTable text = table_of("a\n", {.types = {{"a", ColumnType::text}}});
  CHECK(text.text("a").empty());
  CHECK(text.categories("a").codes.shape() == Shape{0});
}

TEST_CASE("only the columns asked for are kept, in the order of the file", "[io][csv][host]") {
  const CsvTable table = table_of("a,b,c\n1,x,2\n3,4,5\n", {.columns = {"c", "a"}});
  CHECK(table.names() == Texts{"a", "c"});
  CHECK(integers(table, "c") == Integers{2, 5});
  // A column that is not kept may hold anything.
  CHECK(table_of("a,b\n1,x\n", {.columns = {"a"}, .types = {{"b", ColumnType::int64}}}).names() == Texts{"a"});
}

TEST_CASE("a field of the greatest length is read", "[io][csv][host]") {
  CHECK(table_of("a\n12345\n", {.max_field_bytes = 5}).rows() == 1);
  CHECK(table_of("a\n\"12\"\"\n5\"\n", {.max_field_bytes = 5}).text("a") == Texts{"12\"\n5"});
  const std::string longest(1 << 20, 'x');
  CHECK((table_of("a\n\"" + longest + "\"\n").text("a") == Texts{longest}));
  CHECK(table_of("a,b,c\n1,2,3\n", {.max_columns = 3}).columns() == 3);
}

// --- files that are packed, or flow ------------------------------------------------------------------------------

TEST_CASE("gzip is unpacked on the way", "[io][csv][host]") {
  const TemporaryFolder folder;
  std::string text = "n,t\n";
  Integers expected;
  for (std::int64_t i = 0; i < 50000; ++i) {
    text += std::to_string(i) + ",x\n";
    expected.push_back(i);
  }
  CHECK((integers(io::read_csv(folder.write("table.csv.gz", gzip(bytes_of(text)))), "n") == expected));
}

TEST_CASE("lines may end with \\r\\n, many at a time, and a lone \\r ends one, too", "[io][csv][host][threads]") {
  const TemporaryFolder folder;
  std::string plain = "n,x,t\n", returns = "n,x,t\r\n", mixed = returns;
  for (std::int64_t i = 0; i < 60000; ++i) {
    const std::string line = std::to_string(i) + "," + std::to_string(i % 97) + ".5,t" + std::to_string(i % 7);
    plain += line + "\n";
    returns += line + "\r\n" + (i % 1000 == 0 ? "\r\n" : "");
    mixed += line + (i % 20000 == 19999 ? "\r" : "\r\n");
  }
  const ThreadCount threads_for_now(3);
  const CsvTable expected = io::read_csv(folder.write("plain.csv", bytes_of(plain)));
  for (const std::string& text : {returns, mixed}) {
    const CsvTable table = io::read_csv(folder.write("table.csv", bytes_of(text)));
    REQUIRE(table.rows() == expected.rows());
    CHECK(same(table.matrix({"n", "x"}), expected.matrix({"n", "x"})));
    CHECK((table.text("t") == expected.text("t")));
  }
  std::string texts = "t\nx\n";
  for (int i = 0; i < 100000; ++i) texts += i % 1000 == 999 ? "ab\rcd\n" : "abcd\n";
  const CsvTable table = io::read_csv(folder.write("texts.csv", bytes_of(texts)));
  CHECK(table.rows() == 100101);
  CHECK(table.text("t")[1000] == "ab");
}

TEST_CASE("a pipe is read once, and cannot be where texts must be read again", "[io][csv][host]") {
  const TemporaryFolder folder;
  const auto through_pipe = [&](const std::string& text, const CsvOptions& options) {
    const std::string path = folder.path("pipe" + std::to_string(text.size()) + std::to_string(options.types.size()));
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    std::thread writer([&] { std::ofstream(path) << text; });  // fits into the pipe: it does not wait for the reader
    try {
      CsvTable table = io::read_csv(path, options);
      writer.join();
      return table;
    } catch (...) {
      writer.join();
      throw;
    }
  };
  CHECK(through_pipe("a,b\n1,x\n2,y\n", {}).text("b") == Texts{"x", "y"});
  CHECK(through_pipe("a\n07\nx\n", {.types = {{"a", ColumnType::text}}}).text("a") == Texts{"07", "x"});
  const std::string said = message_of<IoError>([&] { through_pipe("a\n07\nx\n", {}); });
  CHECK(said.find("column 'a' is text from row 1 on, as offset 7 showed; its texts before that must be read again, "
                  "which a pipe does not allow. With ColumnType::text for it in types they need not be.") !=
        std::string::npos);
}

// --- the table ---------------------------------------------------------------------------------------------------

TEST_CASE("a matrix has the columns in the order asked for", "[io][csv][host]") {
  const CsvTable table = table_of("i,x,y\n1,0.5,2\n-3,1.5,4\n", {.types = {{"y", ColumnType::float32}}});
  CHECK(same(table.matrix({"x", "i"}), from_doubles({0.5, 1, 1.5, -3}, {2, 2}, DType::float32)));
  CHECK(same(table.matrix(table.names(), DType::float64), from_doubles({1, 0.5, 2, -3, 1.5, 4}, {2, 3})));
  CHECK(same(table.matrix({"y"}, DType::int64), from_doubles({2, 4}, {2, 1}, DType::int64)));
  CHECK(same(table.matrix({"i", "i"}, DType::int16), from_doubles({1, 1, -3, -3}, {2, 2}, DType::int16)));
}

TEST_CASE("categories number the texts of a column in their order", "[io][csv][host]") {
  const CsvTable table = table_of("n,t\n1,pear\n2,apple\n3,\n4,pear\n5,Zoe\n");
  const io::CsvCategories found = table.categories("t");
  CHECK(found.names == Texts{"", "Zoe", "apple", "pear"});  // by their bytes: large letters first
  CHECK(same(found.codes, from_doubles({3, 2, 0, 3, 1}, {5}, DType::int64)));
}

TEST_CASE("columns of the table are handles to the same elements", "[io][csv][host]") {
  const CsvTable table = table_of("a\n1\n");
  CHECK(table["a"].is_same(table["a"]));
  CHECK_FALSE(table.matrix({"a"}, DType::int64).shares_storage(table["a"]));
}

TEST_CASE("tables move, and one that was moved from says so", "[io][csv][host]") {
  CsvTable first = table_of("a\n1\n");
  CsvTable second = std::move(first);
  CHECK(second.rows() == 1);
  CHECK(message_of<Error>([&] { first.rows(); }).rfind("CsvTable: it was moved from; it must hold a table. (", 0) == 0);
  first = table_of("b\n1\n2\n");
  second = std::move(first);
  CHECK(second.names() == Texts{"b"});
  CHECK(second.rows() == 2);
}

// --- published files ---------------------------------------------------------------------------------------------

TEST_CASE("housing.csv has the rows, empty fields and categories that are known of it", "[io][csv][host]") {
  const std::string path = shared_data("california_housing/housing.csv");
  if (path.empty()) return;
  const CsvTable table = io::read_csv(path);
  CHECK(table.rows() == 20640);
  CHECK(table.columns() == 10);
  const std::vector<double> bedrooms = values(table["total_bedrooms"]);
  std::int64_t missing = 0;
  double sum = 0;
  for (const double value : bedrooms) {
    if (std::isnan(value)) ++missing;
    else sum += value;
  }
  CHECK(missing == 207);
  CHECK(std::isnan(bedrooms[290]));  // the first of them, found with Python's csv module
  CHECK(sum == 10990309);            // all sums below too: of whole numbers, so exact
  CHECK(sum_of(table, "total_rooms") == 54402150);
  CHECK(sum_of(table, "population") == 29421840);
  CHECK(sum_of(table, "median_house_value") == 4269504061);
  CHECK(same(table.matrix({"longitude", "median_income"})[0], from_doubles({-122.23, 8.3252}, {2}, DType::float32)));

  const io::CsvCategories proximity = table.categories("ocean_proximity");
  CHECK(proximity.names == Texts{"<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"});
  Integers counts(5);
  for (const std::int64_t code : proximity.codes.to_vector<std::int64_t>()) ++counts[static_cast<std::size_t>(code)];
  CHECK(counts == Integers{9136, 6551, 5, 2290, 2658});
  CHECK(table.text("ocean_proximity")[0] == "NEAR BAY");

  const CsvTable filled = io::read_csv(path, {.columns = {"total_bedrooms"}, .defaults = {{"total_bedrooms", 0}}});
  CHECK(sum_of(filled, "total_bedrooms") == 10990309);
}

TEST_CASE("cal_housing.data is a table without a header", "[io][csv][host]") {
  const std::string path = shared_data("california_housing/cal_housing.data");
  if (path.empty()) return;
  const CsvTable table = io::read_csv(path, {.header = false});
  CHECK(table.rows() == 20640);
  CHECK(table.columns() == 9);
  const std::vector<double> prices = values(table["8"]);
  std::int64_t capped = 0;
  for (const double price : prices) capped += price == 500001 ? 1 : 0;
  CHECK(capped == 965);
  CHECK(sum_of(table, "8") == 4269504061);
  CHECK(sum_of(table, "4") == 11102215);
  CHECK(prices.back() == 89400);
  if (const std::string other = shared_data("california_housing/housing.csv"); !other.empty())
    CHECK((values(io::read_csv(other)["median_house_value"]) == prices));  // the same rows in the same order
  const Fit fit = linear_fit(table, 8, table["8"]);
  CHECK(std::abs(std::sqrt(fit.mean_square) - 69513.46) < 0.005);
  CHECK(std::abs(fit.r2 - 0.637106) < 5e-7);
}

TEST_CASE("scikit-learn's tables have the rows and classes that are known of them", "[io][csv][host]") {
  if (shared_data("tabular").empty()) return;
  struct Set {
    std::string file, classes;
    std::int64_t rows, columns;
    Integers counts;
  };
  const std::vector<Set> sets = {{"iris.csv", "4", 150, 5, {50, 50, 50}},
                                 {"wine_data.csv", "13", 178, 14, {59, 71, 48}},
                                 {"breast_cancer.csv", "30", 569, 31, {212, 357}}};
  for (const Set& set : sets) {
    INFO(set.file);
    const CsvTable table = io::read_csv(shared_data("tabular/" + set.file), {.header = false, .skip_rows = 1});
    CHECK(table.rows() == set.rows);
    CHECK(table.columns() == set.columns);
    CHECK(table.type("0") == ColumnType::float64);
    Integers counts(set.counts.size());
    for (const std::int64_t of_row : integers(table, set.classes)) ++counts.at(static_cast<std::size_t>(of_row));
    CHECK(counts == set.counts);
  }
}

TEST_CASE("digits and diabetes are read out of gzip", "[io][csv][host]") {
  if (shared_data("tabular").empty()) return;
  const CsvTable digits = io::read_csv(shared_data("tabular/digits.csv.gz"), {.header = false});
  CHECK(digits.rows() == 1797);
  CHECK(digits.columns() == 65);
  Integers counts(10);
  for (const std::int64_t digit : integers(digits, "64")) ++counts.at(static_cast<std::size_t>(digit));
  CHECK(counts == Integers{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  const std::vector<double> all_numbers = values(digits.matrix(digits.names(), DType::int64));
  CHECK(std::accumulate(all_numbers.begin(), all_numbers.end(), 0.0) == 569788);  // found with Python
  CHECK(*std::min_element(all_numbers.begin(), all_numbers.end()) == 0);
  CHECK(*std::max_element(all_numbers.begin(), all_numbers.end()) == 16);

  const CsvTable patients =
      io::read_csv(shared_data("tabular/diabetes_data_raw.csv.gz"), {.delimiter = ' ', .header = false});
  CHECK(patients.rows() == 442);
  CHECK(patients.columns() == 10);
  CHECK(patients.type("0") == ColumnType::int64);  // age
  CHECK(patients.type("2") == ColumnType::float64);
  CHECK(sum_of(patients, "0") == 21445);
  CHECK(same(patients.matrix({"0", "2"}, DType::float64)[0], from_doubles({59, 32.1}, {2})));

  const CsvTable targets = io::read_csv(shared_data("tabular/diabetes_target.csv.gz"), {.names = {"target"}});
  CHECK(targets.rows() == 442);
  CHECK(sum_of(targets, "target") == 67243);  // whole numbers; the mean is 152.1335
  const std::vector<double> all_targets = values(targets["target"]);
  CHECK(*std::min_element(all_targets.begin(), all_targets.end()) == 25);
  CHECK(*std::max_element(all_targets.begin(), all_targets.end()) == 346);
  const Fit fit = linear_fit(patients, 10, targets["target"]);
  CHECK(std::abs(fit.mean_square - 2859.6963) < 1e-4);
  CHECK(std::abs(fit.r2 - 0.517748) < 5e-7);
}

TEST_CASE("large files are read by threads as they are line by line", "[io][csv][host]") {
  const TemporaryFolder folder;
  const int rows = 60000;
  for (const auto& [fractions_from, words_from] :
       {std::pair(rows, rows), std::pair(40000, rows), std::pair(rows, 45001)}) {
    const std::string path = folder.write_text("large.csv", large_file(rows, fractions_from, words_from));
    const CsvTable fast = io::read_csv(path), slow = io::read_csv(path, {.comment = '#'});
    REQUIRE(fast.rows() == rows);
    REQUIRE(fast.names() == slow.names());
    CHECK(fast.type("count") == (fractions_from < rows ? ColumnType::float64 : ColumnType::int64));
    CHECK(fast.type("mixed") == (words_from < rows ? ColumnType::text : ColumnType::float64));
    for (const std::string& name : fast.names()) {
      REQUIRE(fast.type(name) == slow.type(name));
      if (fast.type(name) == ColumnType::text) CHECK(fast.text(name) == slow.text(name));
      else CHECK(same_bits(values(fast[name]), values(slow[name])));
    }
  }
}

TEST_CASE("blank lines cost no memory for rows, however many columns there are", "[io][csv][host]") {
  const ThreadCount two(2);
  std::string names = "c0", numbers = "0";
  for (int i = 1; i < 8000; ++i) {
    names += ",c" + std::to_string(i);
    numbers += ",1";
  }
  const TemporaryFolder folder;
  const std::string path =
      folder.write_text("wide.csv", names + "\n" + numbers + "\n" + std::string(2 << 20, '\n') + numbers + "\n");
  const AddressLimit limit(rlim_t{8} << 30);  // two million rows would need 128 GB
  const CsvTable table = io::read_csv(path);
  CHECK(table.rows() == 2);
  CHECK(table.columns() == 8000);
  CHECK(integers(table, "c0") == Integers{0, 0});
  CHECK(integers(table, "c7999") == Integers{1, 1});
}

TEST_CASE("a large file may begin with the shortest rows and go on with long ones", "[io][csv][host]") {
  const ThreadCount two(2);
  constexpr std::size_t letters = 200000, words = 2000;
  std::string text = "t\n";
  for (std::size_t i = 0; i < letters; ++i) text += "a\n";
  const std::string word(1000, 'b');
  for (std::size_t i = 0; i < words; ++i) text += word + "\n";
  const CsvTable table = table_of(text);
  Texts expected(letters, "a");
  expected.resize(letters + words, word);
  CHECK((table.text("t") == expected));
}

TEST_CASE("a fault late in a large file is told with its line", "[io][csv][host][errors]") {
  const TemporaryFolder folder;
  std::string text = "a,b\n";
  for (int i = 0; i < 100000; ++i) text += i == 77776 ? "1\n" : "1,2\n";  // line 1 is the header
  const std::string path = folder.write_text("large.csv", text);
  const std::string message = message_of<IoError>([&] { io::read_csv(path); });
  CHECK(message.find("row 77776 in line 77778 at offset 311108 has 1 fields; it must have 2") != std::string::npos);
}
