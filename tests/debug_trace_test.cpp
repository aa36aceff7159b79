// A line for every operation: what it says, that no operation is missing, and that lines stay whole.
#include "tests/support.hpp"

#include <chrono>
#include <regex>
#include <sstream>
#include <thread>

using namespace capstan;
using namespace tests;

namespace {

/// The lines of what runs while one lives.
class Trace {
 public:
  Trace() { debug::trace(text_); }
  ~Trace() { debug::stop_trace(); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  std::vector<std::string> lines() const {
    std::vector<std::string> list;
    std::istringstream in(text_.str());
    for (std::string line; std::getline(in, line);) list.push_back(line);
    return list;
  }

 private:
  std::ostringstream text_;
};

std::vector<std::string> lines_of(const Call& call) {
  const Trace trace;
  call();
  return trace.lines();
}

/// How many of the lines are of that operation.
int count_of(const std::vector<std::string>& lines, const std::string& op) {
  int count = 0;
  for (const std::string& line : lines) count += line.rfind(op + "  ", 0) == 0;
  return count;
}

/// Whether a line is `before`, a time, ` us  debug_trace_test.cpp:LINE` and `behind`.
bool is_line(const std::string& line, const std::string& before, int at, const std::string& behind = "") {
  const std::string place = " us  debug_trace_test.cpp:" + std::to_string(at) + behind;
  if (line.rfind(before, 0) != 0 || line.size() < before.size() + place.size()) return false;
  const std::string time = line.substr(before.size(), line.size() - before.size() - place.size());
  return line.substr(line.size() - place.size()) == place && std::regex_match(time, std::regex("[0-9]+\\.[0-9]"));
}

}  // namespace

TEST_CASE("a traced line has name, shapes, type, device, time and place", "[debug][host]") {
  const Tensor a = zeros({2, 3}), b = zeros({3, 4}, {.dtype = DType::float64}).to(DType::float32);
  const Trace trace;
  const int line = __LINE__ + 1;
  matmul(a, b);
  sum(a, 0);
  static_cast<void>(a > 1);
  const std::vector<std::string> lines = trace.lines();
  REQUIRE(lines.size() == 3u);
  INFO(lines[0] << "\n" << lines[1] << "\n" << lines[2]);
  CHECK(is_line(lines[0], "matmul  [2, 3] [3, 4] -> [2, 4]  float32 cpu  ", line));
  CHECK(is_line(lines[1], "sum  [2, 3] -> [3]  float32 cpu  ", line + 1));
  CHECK(is_line(lines[2], "greater  [2, 3] [] -> [2, 3]  bool cpu  ", line + 2));
}

TEST_CASE("replays are traced as backward, with the gradients that come in and go out", "[debug][tape][host]") {
  const Tensor x = ones({2, 3}), w = ones({3, 4});
  GradientTape tape;
  tape.watch({x, w});
  const int forward = __LINE__ + 1;
  const Tensor y = matmul(x, w);
  const std::vector<std::string> lines = lines_of([&] { tape.gradient(y, {x, w}); });
  bool found = false;
  for (const std::string& line : lines) {
    INFO(line);
    if (line.rfind("backward ", 0) == 0) {
      CHECK(is_line(line, "backward matmul  [2, 4] -> [2, 3] [3, 4]  float32 cpu  ", forward));
      found = true;
    } else if (line.rfind("matmul", 0) == 0) {
      CHECK_THAT(line, Catch::Matchers::ContainsSubstring("  in the gradient of matmul"));
    }
  }
  CHECK(found);
}

TEST_CASE("operations report under their own names", "[debug]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}}, flags = {{true, false}, {false, true}}, integers = {1, 0};
  Tensor target = zeros({2, 2});
  const std::vector<Tensor> gradients = {ones({2})};
  optim::Sgd sgd({ones({2})});
  optim::Adam adam({ones({2})});
  const struct {
    const char* name;
    Call call;
  } rows[] = {
      {"exp", [&] { exp(x); }},
      {"add", [&] { x + x; }},
      {"add", [&] { x + 1; }},
      {"mul", [&] { integers* integers; }},
      {"equal", [&] { static_cast<void>(x == x); }},
      {"not_equal", [&] { static_cast<void>(x != x); }},
      {"less", [&] { static_cast<void>(x < 1); }},
      {"less_equal", [&] { static_cast<void>(x <= 1); }},
      {"greater", [&] { static_cast<void>(x > x); }},
      {"greater_equal", [&] { static_cast<void>(x >= x); }},
      {"logical_and", [&] { logical_and(flags, flags); }},
      {"logical_or", [&] { logical_or(flags, flags); }},
      {"logical_not", [&] { !flags; }},
      {"where", [&] { where(flags, x, x); }},
      {"where", [&] { where(flags, flags, flags); }},
      {"clip", [&] { clip(x, 2, 3); }},
      {"cast", [&] { cast(x, DType::float64); }},
      {"cast", [&] { x.to(DType::int32); }},
      {"sum", [&] { sum(x); }},
      {"sum", [&] { sum(integers); }},
      {"mean", [&] { mean(x); }},
      {"max", [&] { max(x, 0); }},
      {"min", [&] { min(integers); }},
      {"argmax", [&] { argmax(x, 0); }},
      {"argmin", [&] { argmin(x, 0); }},
      {"sort", [&] { sort(x); }},
      {"sort", [&] { sort(integers); }},
      {"argsort", [&] { argsort(x); }},
      {"unique", [&] { unique(x); }},
      {"unique_all", [&] { unique_all(x); }},
      {"searchsorted", [&] { searchsorted(x[0], x); }},
      {"bucketize", [&] { bucketize(x, x[0]); }},
      {"histogram", [&] { histogram(x, 2); }},
      {"bincount", [&] { bincount(integers); }},
      {"cumsum", [&] { cumsum(x, 0); }},
      {"cumsum", [&] { cumsum(integers, 0); }},
      {"cumprod", [&] { cumprod(x, 0); }},
      {"logcumsumexp", [&] { logcumsumexp(x, 0); }},
      {"all_of", [&] { all_of(flags); }},
      {"any_of", [&] { any_of(flags, 1); }},
      {"logsumexp", [&] { logsumexp(x); }},
      {"softmax", [&] { softmax(x); }},
      {"log_softmax", [&] { log_softmax(x); }},
      {"matmul", [&] { matmul(x, x); }},
      {"linear", [&] { linear(x, x, ones({2})); }},
      {"reshape", [&] { reshape(x, {4}); }},
      {"permute", [&] { transpose(x); }},
      {"expand_dims", [&] { expand_dims(x, 0); }},
      {"broadcast_to",
       [&] {
         broadcast_to(x, {3, 2, 2});
       }},
      {"index", [&] { x[0]; }},
      {"index", [&] { integers[0]; }},
      {"concat",
       [&] {
         concat({x, x});
       }},
      {"concat",
       [&] {
         concat({integers, integers});
       }},
      {"gather", [&] { gather(x, integers); }},
      {"gather", [&] { gather(integers, integers); }},
      {"pick", [&] { pick(x, integers); }},
      {"one_hot", [&] { one_hot(integers, 2); }},
      {"index", [&] { x.index({integers}); }},
      {"index", [&] { x[flags]; }},
      {"take", [&] { take(x, integers); }},
      {"take_along_axis",
       [&] {
         take_along_axis(x, Tensor{{0}, {1}});
       }},
      {"gather_nd",
       [&] {
         gather_nd(x, Tensor{{0}, {1}});
       }},
      {"masked_select", [&] { masked_select(x, flags); }},
      {"masked_fill", [&] { masked_fill(x, flags, 1); }},
      {"nonzero", [&] { nonzero(x); }},
      {"argwhere", [&] { argwhere(x); }},
      {"count_nonzero", [&] { count_nonzero(x); }},
      {"scatter",
       [&] {
         scatter(x, Tensor{{0}, {1}}, 1);
       }},
      {"scatter_add",
       [&] {
         scatter_add(x, Tensor{{0}, {1}}, ones({2, 1}));
       }},
      {"scatter_max",
       [&] {
         scatter_max(x, Tensor{{0}, {1}}, ones({2, 1}));
       }},
      {"index_set", [&] { index_set(x, {integers}, 1); }},
      {"index_add", [&] { index_add(x, {0}, x[1]); }},
      {"scatter_nd",
       [&] {
         scatter_nd(Tensor{{0}, {1}}, x, {3, 2});
       }},
      {"segment_sum", [&] { segment_sum(x, integers, 2); }},
      {"segment_max", [&] { segment_max(x, integers, 2); }},
      {"copy", [&] { x.copy(); }},
      {"copy", [&] { integers.copy(); }},
      {"sparse_softmax_cross_entropy", [&] { sparse_softmax_cross_entropy(x, integers); }},
      {"fill", [&] { target.fill(1); }},
      {"assign", [&] { target.assign(x); }},
      {"set", [&] { target.set(1.0f, 0, 0); }},
      {"index_put", [&] { target.index_put({0}, 2); }},
      {"index_put", [&] { target.index_put({integers}, 2, {.accumulate = true}); }},
      {"operator+=", [&] { target += x; }},
      {"operator-=", [&] { target -= 1; }},
      {"operator*=", [&] { target *= x; }},
      {"operator/=", [&] { target /= 2; }},
      {"Sgd", [&] { sgd.apply(gradients); }},
      {"Adam", [&] { adam.apply(gradients); }},
      {"full", [&] { full({2}, 3); }},
      {"zeros", [&] { zeros({2}); }},
      {"ones", [&] { ones_like(x); }},
      {"arange", [&] { arange(3); }},
      {"linspace", [&] { linspace(0, 1, 3); }},
      {"eye", [&] { eye(2); }},
      {"from_span",
       [&] {
         from_vector(std::vector<float>{1, 2});
       }},
      {"uniform", [&] { uniform(Shape{2}, 0, 1); }},
      {"normal", [&] { normal(Shape{2}); }},
      {"bernoulli", [&] { bernoulli(Shape{2}, 0.5); }},
      {"randint", [&] { randint(0, 3, Shape{2}); }},
  };
  for (const auto& row : rows) {
    const std::vector<std::string> lines = lines_of(row.call);
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    INFO(row.name << " traced as\n" << all);
    CHECK(count_of(lines, row.name) == 1);
  }
}

TEST_CASE("an operation with several results, or that fills what it makes, is one line", "[debug][host]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 5.0f}}, integers = {3, 1};
  const struct {
    const char* name;
    Call call;
  } rows[] = {
      {"topk", [&] { topk(x, 1); }},
      {"topk", [&] { topk(integers, 1); }},
      {"sort_with_indices", [&] { sort_with_indices(x); }},
      {"kthvalue", [&] { kthvalue(x, 1); }},
      {"cummax", [&] { cummax(x, 0); }},
      {"cummin", [&] { cummin(integers, 0); }},
      {"unique_all", [&] { unique_all(x); }},
      {"moments", [&] { moments(x); }},
      {"qr", [&] { qr(x); }},
      {"slogdet", [&] { slogdet(x); }},
      {"custom_gradient",
       [&] {
         custom_gradient(
             [](const std::vector<Tensor>&) {
               return std::vector<Tensor>{Tensor(1.0f), Tensor(2)};
             },
             [](const std::vector<Tensor>&, const std::vector<Tensor>& in, const std::vector<Tensor>&) { return in; },
             {x});
       }},
      {"eye", [&] { eye(2); }},
      {"from_span",
       [&] {
         from_vector(std::vector<float>{1, 2});
       }},
  };
  for (const auto& row : rows) {
    const std::vector<std::string> lines = lines_of(row.call);
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    INFO(row.name << " traced as\n" << all);
    CHECK(lines.size() == 1u);
    CHECK(count_of(lines, row.name) == 1);
  }
  const std::vector<std::string> both = lines_of([&] { topk(x, 1); });
  CHECK(both[0].rfind("topk  [2, 2] -> [2, 1] [2, 1]  float32 cpu  ", 0) == 0);
}

TEST_CASE("what a cell and a loop over time run stands on the caller's line", "[debug][nn]") {
  nn::RnnCell cell(2, 3);
  const Tensor x = ones({1, 2, 2}), lengths = {1};
  for (const Tensor& valid : {Tensor(), lengths})
    for (const std::string& line : lines_of([&] { nn::unroll(cell, x, {.lengths = valid}); }))
      CHECK_THAT(line, Catch::Matchers::ContainsSubstring("debug_trace_test.cpp:"));
}

TEST_CASE("the time of an operation that failed is nobody else's", "[debug]") {
  const Tensor x = ones({2, 3}), outside = {7};
  const debug::Profiler profiler;
  message_of<IndexError>([&] { gather(x, outside); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  exp(x);
  for (const debug::ProfileRow& row : profiler.table())
    if (row.name == "exp") CHECK(row.total_us < 150'000);
}

TEST_CASE("nothing is written after stop_trace, and another stream can take over", "[debug]") {
  const Tensor x = ones({2});
  std::ostringstream first, second;
  debug::trace(first);
  exp(x);
  debug::trace(second);
  log(x);
  debug::stop_trace();
  sqrt(x);
  debug::stop_trace();  // once more does no harm
  CHECK(first.str().rfind("exp  ", 0) == 0);
  CHECK(second.str().rfind("log  ", 0) == 0);
  CHECK(first.str().find('\n') == first.str().size() - 1);
  CHECK(second.str().find('\n') == second.str().size() - 1);
}

TEST_CASE("lines of several threads are whole and say whose they are", "[debug][threads]") {
  constexpr int kEach = 200;
  const Tensor x = ones({3});
  const std::vector<std::string> lines = lines_of([&] {
    exp(x);
    std::vector<std::thread> workers;
    for (int worker = 0; worker < 3; ++worker)
      workers.emplace_back([&x] {
        for (int i = 0; i < kEach; ++i) x + x;
      });
    for (std::thread& worker : workers) worker.join();
  });
  REQUIRE(lines.size() == 1u + 3 * kEach);
  CHECK(lines[0].rfind("exp  ", 0) == 0);  // nobody else was there yet
  const std::regex whole(
      "thread [0-9]+  add  \\[3\\] \\[3\\] -> \\[3\\]  float32 cpu  [0-9]+\\.[0-9] us  debug_trace_test\\.cpp:[0-9]+");
  int whole_lines = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) whole_lines += std::regex_match(lines[i], whole);
  CHECK(whole_lines == 3 * kEach);
}

TEST_CASE("a long list of tensors is cut short", "[debug]") {
  const std::vector<Tensor> parts(9, ones({2}));
  const std::vector<std::string> lines = lines_of([&] { concat(parts); });
  REQUIRE(lines.size() == 1u);
  CHECK_THAT(lines[0], Catch::Matchers::ContainsSubstring("[2] [2] [2] [2] [2] [2] and 3 more -> [18]"));
}
