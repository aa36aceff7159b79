// Gradients of every differentiable operation, of first and second order, and what happens at kinks and ties.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

void check_all(const std::vector<GradientCase>& cases) {
  for (const GradientCase& c : cases) {
    INFO(c.op << ": " << c.usage);
    expect_gradient(c.function, c.inputs);
  }
}

std::vector<GradientCase> all_cases() {
  std::vector<GradientCase> list;
  for (const auto& part :
       {cell_gradient_cases(),       cell_wrapper_gradient_cases(), convolution_gradient_cases(),
        ctc_gradient_cases(),        elementwise_gradient_cases(),  math_gradient_cases(),
        activation_gradient_cases(), attention_gradient_cases(),    memory_attention_gradient_cases(),
        reduction_gradient_cases(),  shaping_gradient_cases(),      index_gradient_cases(),
        neural_gradient_cases(),     rearranging_gradient_cases(),  moments_gradient_cases(),
        order_gradient_cases(),      pooling_gradient_cases(),      normalization_gradient_cases(),
        resampling_gradient_cases(), layer_gradient_cases(),        linalg_gradient_cases(),
        losses_gradient_cases(),     sampled_gradient_cases(),      recurrent_gradient_cases(),
        training_gradient_cases(),   unroll_gradient_cases(),       recurrent_layer_gradient_cases()})
    list.insert(list.end(), part.begin(), part.end());
  return list;
}

// Operations whose result does not depend smoothly on a floating input.
const std::set<std::string> without_gradient = {"accidental_hits",
                                                "log_uniform_candidates",
                                                "uniform_candidates",
                                                "all_of",
                                                "any_of",
                                                "argmax",
                                                "argwhere",
                                                "count_nonzero",
                                                "nonzero",
                                                "equal",
                                                "greater",
                                                "greater_equal",
                                                "less",
                                                "less_equal",
                                                "logical_and",
                                                "logical_not",
                                                "logical_or",
                                                "not_equal",
                                                "one_hot",
                                                "sequence_mask",
                                                "argmin",
                                                "argsort",
                                                "bincount",
                                                "bucketize",
                                                "histogram",
                                                "searchsorted",
                                                "unique",
                                                "unique_all",
                                                "matrix_rank",
                                                "bitwise_and",
                                                "bitwise_left_shift",
                                                "bitwise_not",
                                                "bitwise_or",
                                                "bitwise_right_shift",
                                                "bitwise_xor",
                                                "is_close",
                                                "isfinite",
                                                "isinf",
                                                "isnan",
                                                "logical_xor",
                                                "nextafter",
                                                "alibi_bias",
                                                "causal_mask",
                                                "ctc_beam_search_decode",
                                                "ctc_greedy_decode",
                                                "sinusoidal_positions"};

std::filesystem::path headers() {
  return std::filesystem::path(__FILE__).parent_path().parent_path() / "include/capstan/ops";
}

/// Names of the functions that a public header declares with tensors as their result.
std::set<std::string> declared_in(const std::filesystem::path& header) {
  std::set<std::string> names;
  std::ifstream in(header);
  for (std::string line; std::getline(in, line);)
    for (const std::string prefix :
         {"Tensor ",          "std::vector<Tensor> ", "Candidates ",    "CtcBeamResult ", "CtcGreedyResult ",
          "RnnResult ",       "LstmState ",           "LstmResult ",    "Moments ",       "SortResult ",
          "TopkResult ",      "KthResult ",           "ExtremeResult ", "UniqueResult ",  "HistogramResult ",
          "SlogdetResult ",   "LstsqResult ",         "QrResult ",      "SvdResult ",     "EighResult ",
          "AttentionResult ", "BatchNormResult ",     "MaxPoolResult ", "ScaledResult "}) {
      const std::size_t open = line.find('(');
      if (line.rfind(prefix, 0) == 0 && open != std::string::npos)
        names.insert(line.substr(prefix.size(), open - prefix.size()));
    }
  return names;
}

/// Names of the cells that the headers of layers declare.
std::set<std::string> declared_cells() {
  const std::string prefix = "class ", suffix = "Cell";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(headers().parent_path() / "nn")) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (line.rfind(prefix, 0) != 0) continue;
      const std::string name = line.substr(prefix.size(), line.find_first_of(" <", prefix.size()) - prefix.size());
      if (name.ends_with(suffix)) names.insert(name);
    }
  }
  return names;
}

/// d sum(f(x)) / dx.
template <class F>
Tensor slope(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

}  // namespace

namespace tests {
std::vector<GradientCase> all_gradient_cases() { return all_cases(); }

std::set<std::string> public_operations() {
  std::set<std::string> names;
  if (!std::filesystem::is_directory(headers())) return names;
  for (const auto& entry : std::filesystem::directory_iterator(headers())) names.merge(declared_in(entry.path()));
  return names;
}
}  // namespace tests

TEST_CASE("gradients of recurrent cells match central differences twice", "[gradient]") {
  check_all(cell_gradient_cases());
}
TEST_CASE("gradients of cells around cells match central differences twice", "[gradient]") {
  check_all(cell_wrapper_gradient_cases());
}
TEST_CASE("gradients of convolutions match central differences twice", "[gradient]") {
  check_all(convolution_gradient_cases());
}
TEST_CASE("gradients of the loss of alignments match central differences twice", "[gradient]") {
  check_all(ctc_gradient_cases());
}
TEST_CASE("gradients of elementwise operations match central differences twice", "[gradient]") {
  check_all(elementwise_gradient_cases());
}
TEST_CASE("gradients of mathematical functions match central differences twice", "[gradient]") {
  check_all(math_gradient_cases());
}
TEST_CASE("gradients of activations match central differences twice", "[gradient]") {
  check_all(activation_gradient_cases());
}
TEST_CASE("gradients of reductions match central differences twice", "[gradient]") {
  check_all(reduction_gradient_cases());
}
TEST_CASE("gradients of sorting, choosing by rank and running totals match central differences twice", "[gradient]") {
  check_all(order_gradient_cases());
}
TEST_CASE("gradients of shaping operations match central differences twice", "[gradient]") {
  check_all(shaping_gradient_cases());
}
TEST_CASE("gradients of choosing and writing by index match central differences twice", "[gradient]") {
  check_all(index_gradient_cases());
}
TEST_CASE("gradients of repeating, moving and padding match central differences twice", "[gradient]") {
  check_all(rearranging_gradient_cases());
}
TEST_CASE("gradients of products of elements and variances match central differences twice", "[gradient]") {
  check_all(moments_gradient_cases());
}
TEST_CASE("gradients of attention and transformers match central differences twice", "[gradient]") {
  check_all(attention_gradient_cases());
}
TEST_CASE("gradients of attention over a memory match central differences twice", "[gradient]") {
  check_all(memory_attention_gradient_cases());
}
TEST_CASE("gradients of dropout, embeddings and other layers match central differences twice", "[gradient]") {
  check_all(layer_gradient_cases());
}
TEST_CASE("gradients of linear algebra match central differences twice", "[gradient]") {
  check_all(linalg_gradient_cases());
}
TEST_CASE("gradients of resampling, windows as columns and layouts match central differences twice", "[gradient]") {
  check_all(resampling_gradient_cases());
}
TEST_CASE("gradients of layers that normalize match central differences twice", "[gradient]") {
  check_all(normalization_gradient_cases());
}
TEST_CASE("gradients of pooling match central differences twice", "[gradient]") { check_all(pooling_gradient_cases()); }
TEST_CASE("gradients of losses match central differences twice", "[gradient]") { check_all(losses_gradient_cases()); }
TEST_CASE("gradients of products and dropout match central differences twice", "[gradient]") {
  check_all(neural_gradient_cases());
}

TEST_CASE("gradients of losses of sequences and of large vocabularies match central differences twice", "[gradient]") {
  check_all(sampled_gradient_cases());
}

TEST_CASE("gradients of recurrent operations match central differences twice", "[gradient]") {
  check_all(recurrent_gradient_cases());
}
TEST_CASE("gradients of recurrent layers match central differences twice", "[gradient]") {
  check_all(recurrent_layer_gradient_cases());
}
TEST_CASE("gradients of cells that are run over sequences match central differences twice", "[gradient]") {
  check_all(unroll_gradient_cases());
}

TEST_CASE("gradients of clipping and of lists match central differences twice", "[gradient]") {
  check_all(training_gradient_cases());
}

TEST_CASE("every public operation is in the gradient list or has no gradient", "[gradient]") {
  if (!std::filesystem::is_directory(headers())) {
    WARN("the headers are not beside the tests: this case checked nothing");
    return;
  }
  std::set<std::string> checked;
  for (const GradientCase& c : all_cases()) checked.insert(c.op);
  int declared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(headers()))
    for (const std::string& name : declared_in(entry.path())) {
      INFO(name << " of " << entry.path().filename().string());
      CHECK(checked.count(name) + without_gradient.count(name) == 1u);
      ++declared;
    }
  CHECK(declared > 60);  // the headers were really read
}

TEST_CASE("every cell and every cell around cells is in the gradient list", "[gradient]") {
  if (!std::filesystem::is_directory(headers())) {
    WARN("the headers are not beside the tests: this case checked nothing");
    return;
  }
  const std::vector<GradientCase> cases = all_cases();
  const std::set<std::string> cells = declared_cells();
  for (const std::string& cell : cells) {
    INFO(cell);
    const auto uses = [&](const GradientCase& c) { return c.usage.find("nn::" + cell) != std::string::npos; };
    CHECK(std::any_of(cases.begin(), cases.end(), uses));
  }
  CHECK(cells.size() >= 10u);  // the headers were really read
}

TEST_CASE("the gradient of a cast is cast back", "[gradient]") {
  const Tensor x = {1.5, -2.0, 3.25};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = cast(x, DType::float32);
  const Tensor g = tape.gradient(y * y, x);
  CHECK(same(g, {3.0, -4.0, 6.5}));  // 2x, exact in float32, and float64 like its source
}

TEST_CASE("operands of different floating types get gradients of their own type", "[gradient]") {
  const Tensor a = {1.0f, 2.0f}, b = {3.0, 4.0};
  GradientTape tape;
  tape.watch({a, b});
  const auto [da, db] = tape.gradient(a * b, a, b);
  CHECK(same(da, {3.0f, 4.0f}));
  CHECK(same(db, {1.0, 2.0}));
}

TEST_CASE("maximum and minimum give each operand half of the gradient at a tie", "[gradient]") {
  const Tensor a = {1.0, 2.0, 3.0}, b = {1.0, 5.0, -3.0};
  for (const bool larger : {true, false}) {
    GradientTape tape;
    tape.watch({a, b});
    const auto [da, db] = tape.gradient(larger ? maximum(a, b) : minimum(a, b), a, b);
    CHECK(same(da, larger ? Tensor{0.5, 0.0, 1.0} : Tensor{0.5, 1.0, 0.0}));
    CHECK(same(db, larger ? Tensor{0.5, 1.0, 0.0} : Tensor{0.5, 0.0, 1.0}));
  }
  CHECK(same(slope([](const Tensor& x) { return maximum(x, 2.0); }, a), {0.0, 0.5, 1.0}));  // with a number too
}

TEST_CASE("max and min share the gradient evenly among ties", "[gradient]") {
  const Tensor x = {{1.0, 4.0, 4.0}, {2.0, 2.0, 2.0}};
  CHECK(same(slope([](const Tensor& t) { return max(t, 1); }, x), {{0.0, 0.5, 0.5}, {1 / 3.0, 1 / 3.0, 1 / 3.0}}));
  CHECK(same(slope([](const Tensor& t) { return max(t); }, x), {{0.0, 0.5, 0.5}, {0.0, 0.0, 0.0}}));
  CHECK(same(slope([](const Tensor& t) { return min(t, 0); }, x), {{1.0, 0.0, 0.0}, {0.0, 1.0, 1.0}}));
}

TEST_CASE("kinks have the documented gradients", "[gradient]") {
  const Tensor x = {-1.0, 0.0, 2.0};
  CHECK(same(slope([](const Tensor& t) { return relu(t); }, x), {0.0, 0.0, 1.0}));         // 0 at 0
  CHECK(same(slope([](const Tensor& t) { return abs(t); }, x), {-1.0, 0.0, 1.0}));         // 0 at 0
  CHECK(same(slope([](const Tensor& t) { return clip(t, -1, 1); }, x), {1.0, 1.0, 0.0}));  // passes at the bounds
  CHECK(same(slope([](const Tensor& t) { return clip(t, 0, 2); }, x), {0.0, 1.0, 1.0}));
}

TEST_CASE("the gradient of pow at 0 is its limit", "[gradient]") {
  const Tensor zero = {0.0, 0.0, 0.0, 0.0}, powers = {0.0, 1.0, 2.0, 3.5};
  GradientTape tape;
  tape.watch({zero, powers});
  const auto [da, db] = tape.gradient(pow(zero, powers), zero, powers);
  CHECK(same(da, {0.0, 1.0, 0.0, 0.0}));  // b * 0^(b-1), and 0 for b = 0
  CHECK(same(db, {0.0, 0.0, 0.0, 0.0}));
  CHECK(same(slope([](const Tensor& t) { return pow(t, 2); }, zero), {0.0, 0.0, 0.0, 0.0}));
}

TEST_CASE("where lets nothing through from the side that is not taken, even if it is not a number", "[gradient]") {
  const Tensor a = {kNaN, 1.0}, b = {2.0, kInfinity};
  GradientTape tape;
  tape.watch({a, b});
  const Tensor chosen = where(Tensor{false, true}, a, b);
  const auto [da, db] = tape.gradient(chosen, a, b);
  CHECK(same(da, {0.0, 1.0}));
  CHECK(same(db, {1.0, 0.0}));
}

TEST_CASE("rows that are gathered several times add up", "[gradient]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}};
  const Tensor words = {2, 0, 2, 2};
  CHECK(same(slope([&](const Tensor& t) { return gather(t, words); }, x), {{1.0, 1.0}, {0.0, 0.0}, {3.0, 3.0}}));
}

TEST_CASE("the gradient of softmax cross entropy is the softmax less the labels", "[gradient]") {
  const Tensor logits = random_in(-3, 3, {4, 5}, DType::float64, 61), labels = {1, 0, 4, 4};
  const Tensor g = slope([&](const Tensor& t) { return sparse_softmax_cross_entropy(t, labels); }, logits);
  CHECK(close(g, softmax(logits) - one_hot(labels, 5, 1, 0, DType::float64), tolerance::roundings64));
}

TEST_CASE("softmax cross entropy of enormous logits has a finite gradient", "[gradient]") {
  const Tensor logits = {{1000.0, -1000.0, 0.0}}, labels = {1};
  CHECK(same(sparse_softmax_cross_entropy(logits, labels), {2000.0}));
  CHECK(same(slope([&](const Tensor& t) { return sparse_softmax_cross_entropy(t, labels); }, logits),
             {{1.0, -1.0, 0.0}}));
}
