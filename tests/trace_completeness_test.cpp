// Every public operation shows in a trace: under its own name, or as the operations that it is made of.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Names = std::set<std::string>;

/// Operations that are made of others, and what must show in their place, in one use or another.
const std::map<std::string, Names>& made_of() {
  static const std::map<std::string, Names> parts = {
      {"accidental_hits", {"equal", "logical_or"}},
      {"affine_grid", {"matmul"}},
      {"alibi_bias", {"abs", "mul"}},
      {"all_close", {"cast"}},
      {"array_equal", {"equal"}},
      {"array_split", {"index"}},
      {"attention_with_weights", {"matmul", "softmax"}},
      {"broadcast_tensors", {"broadcast_to"}},
      {"causal_mask", {"less_equal"}},
      {"channel_shuffle", {"permute"}},
      {"clip_by_value", {"clip"}},
      {"contiguous", {"copy"}},
      {"conv_kernel_from_hwio", {"permute"}},
      {"conv_transpose_kernel_from_hwoi", {"permute"}},
      {"cosine_embedding_loss", {"mul", "sum"}},
      {"cosine_loss", {"mul", "vector_norm"}},
      {"cosine_similarity", {"mul", "vector_norm"}},
      {"cross", {"mul", "sub"}},
      {"depthwise_conv2d", {"conv2d"}},
      {"depthwise_kernel_from_hwim", {"permute", "reshape"}},
      {"diag", {"diagonal", "embed_diagonal"}},
      {"diff", {"sub"}},
      {"dot", {"matmul"}},
      {"eigvalsh", {"eigh"}},
      {"einsum", {"matmul"}},
      {"flatten", {"reshape"}},
      {"flip", {"index"}},
      {"gaussian_dropout", {"normal", "mul"}},
      {"gaussian_noise", {"normal", "add"}},
      {"glu", {"sigmoid", "mul"}},
      {"hwim_from_depthwise_kernel", {"permute", "reshape"}},
      {"hwio_from_conv_kernel", {"permute"}},
      {"hwoi_from_conv_transpose_kernel", {"permute"}},
      {"kron", {"mul"}},
      {"lp_pool1d", {"avg_pool1d", "pow"}},
      {"lp_pool2d", {"avg_pool2d", "pow"}},
      {"lp_pool3d", {"avg_pool3d", "pow"}},
      {"matrix_norm", {"vector_norm", "svd"}},
      {"matrix_power", {"matmul", "inverse"}},
      {"max_unpool1d", {"scatter"}},
      {"max_unpool2d", {"scatter"}},
      {"max_unpool3d", {"scatter"}},
      {"maxout", {"reshape", "max"}},
      {"median", {"sort"}},
      {"meshgrid", {"broadcast_to"}},
      {"move_axis", {"permute"}},
      {"multi_margin_loss", {"pick", "relu"}},
      {"narrow", {"index"}},
      {"nce_loss", {"embedding", "sigmoid_cross_entropy", "softplus"}},
      {"nchw_from_nhwc", {"permute"}},
      {"nhwc_from_nchw", {"permute"}},
      {"nll_loss", {"pick"}},
      {"normalize", {"vector_norm", "div"}},
      {"outer", {"mul"}},
      {"pairwise_distance", {"vector_norm"}},
      {"pixel_shuffle", {"permute", "reshape"}},
      {"pixel_unshuffle", {"permute", "reshape"}},
      {"quantile", {"sort"}},
      {"repeat", {"broadcast_to", "gather"}},
      {"reverse_sequence", {"gather"}},
      {"roll", {"concat"}},
      {"rotary_embedding", {"gather", "mul"}},
      {"sampled_softmax_loss", {"embedding", "log_softmax"}},
      {"segment_mean", {"segment_sum", "div"}},
      {"separable_conv2d", {"conv2d"}},
      {"sequence_mask", {"less"}},
      {"sinusoidal_positions", {"sin", "cos"}},
      {"slice", {"index"}},
      {"softmax_cross_entropy", {"log_softmax"}},
      {"split", {"index"}},
      {"split_sizes", {"index"}},
      {"stack", {"concat"}},
      {"svdvals", {"svd"}},
      {"tensordot", {"matmul"}},
      {"tile", {"broadcast_to"}},
      {"trace", {"diagonal", "sum"}},
      {"transpose", {"permute"}},
      {"triplet_margin_loss", {"vector_norm"}},
      {"unflatten", {"reshape"}},
      {"unroll", {}},
      {"unroll_bidirectional", {"concat"}},
      {"unroll_stacked_bidirectional", {"concat"}},
      {"unstack", {"index"}},
      {"vecdot", {"mul", "sum"}},
  };
  return parts;
}

/// A line of a trace, taken apart.
struct Line {
  std::string op, file;
  bool backward = false;
};

std::vector<Line> lines_of(const Call& call) {
  std::ostringstream text;
  {
    struct Stop {
      ~Stop() { debug::stop_trace(); }
    };
    const Stop stop{};
    debug::trace(text);
    call();
  }
  std::vector<Line> lines;
  std::istringstream in(text.str());
  const std::string replay = "backward ", before_place = " us  ";
  for (std::string line; std::getline(in, line);) {
    const bool backward = line.rfind(replay, 0) == 0;
    const std::size_t begin = backward ? replay.size() : 0, end = line.find("  ", begin);
    const std::size_t place = line.find(before_place) + before_place.size(), colon = line.find(':', place);
    lines.push_back({line.substr(begin, end - begin), line.substr(place, colon - place), backward});
  }
  return lines;
}

/// The names of the library's own files; none if they are not beside the tests.
Names library_files() {
  Names names;
  for (const char* folder : {"autograd", "include", "io", "lib", "nn"}) {
    const std::filesystem::path path = std::filesystem::path(__FILE__).parent_path().parent_path() / folder;
    if (!std::filesystem::is_directory(path)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      names.insert(entry.path().filename().string());
  }
  return names;
}

/// Lines that say a file of the library where the caller's should stand.
std::string misplaced(const std::vector<Line>& lines) {
  static const Names library = library_files();
  std::string text;
  for (const Line& line : lines)
    if (library.count(line.file) != 0) text += line.op + " at " + line.file + "\n";
  return text;
}

/// Uses of operations that have no gradient, and so are in no list of gradients.
std::vector<std::pair<std::string, Call>> other_uses() {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}}, flags = {{true, false}, {false, true}}, integers = {1, 0};
  return {
      {"accidental_hits",
       [=] {
         accidental_hits(Tensor{{1, 0}}, integers);
       }},
      {"alibi_bias", [=] { alibi_bias(2, 3, 3); }},
      {"all_close", [=] { all_close(x, x); }},
      {"all_of", [=] { all_of(flags); }},
      {"any_of", [=] { any_of(flags, 1); }},
      {"argmax", [=] { argmax(x, 0); }},
      {"argmin", [=] { argmin(x); }},
      {"argsort", [=] { argsort(x); }},
      {"argwhere", [=] { argwhere(x); }},
      {"array_equal", [=] { array_equal(x, x); }},
      {"bincount", [=] { bincount(integers); }},
      {"bitwise_and", [=] { bitwise_and(integers, integers); }},
      {"bitwise_left_shift", [=] { bitwise_left_shift(integers, 1); }},
      {"bitwise_not", [=] { bitwise_not(integers); }},
      {"bitwise_or", [=] { bitwise_or(integers, 1); }},
      {"bitwise_right_shift", [=] { bitwise_right_shift(integers, integers); }},
      {"bitwise_xor", [=] { bitwise_xor(integers, integers); }},
      {"bucketize", [=] { bucketize(x, x[0]); }},
      {"causal_mask", [=] { causal_mask(2, 3); }},
      {"count_nonzero", [=] { count_nonzero(x); }},
      {"ctc_beam_search_decode", [=] { ctc_beam_search_decode(expand_dims(x, 0)); }},
      {"ctc_greedy_decode", [=] { ctc_greedy_decode(expand_dims(x, 0)); }},
      {"equal", [=] { equal(x, x); }},
      {"greater", [=] { greater(x, x); }},
      {"greater_equal", [=] { greater_equal(x, 1); }},
      {"histogram", [=] { histogram(x, 2); }},
      {"is_close", [=] { is_close(x, x); }},
      {"isfinite", [=] { isfinite(x); }},
      {"isinf", [=] { isinf(x); }},
      {"isnan", [=] { isnan(x); }},
      {"less", [=] { less(x, x); }},
      {"less_equal", [=] { less_equal(x, 1); }},
      {"log_uniform_candidates",
       [=] {
         log_uniform_candidates(Tensor{{1, 0}}, 2, 3);
       }},
      {"logical_and", [=] { logical_and(flags, flags); }},
      {"logical_not", [=] { logical_not(flags); }},
      {"logical_or", [=] { logical_or(flags, flags); }},
      {"logical_xor", [=] { logical_xor(flags, flags); }},
      {"matrix_rank", [=] { matrix_rank(x); }},
      {"nextafter", [=] { nextafter(x, x); }},
      {"nonzero", [=] { nonzero(x); }},
      {"not_equal", [=] { not_equal(x, x); }},
      {"one_hot", [=] { one_hot(integers, 2); }},
      {"searchsorted", [=] { searchsorted(x[0], x); }},
      {"sequence_mask", [=] { sequence_mask(integers); }},
      {"sinusoidal_positions", [=] { sinusoidal_positions(3, 4); }},
      {"uniform_candidates",
       [=] {
         uniform_candidates(Tensor{{1, 0}}, 2, 3);
       }},
      {"unique", [=] { unique(x); }},
      {"unique_all", [=] { unique_all(x); }},
  };
}

}  // namespace

TEST_CASE("every public operation is traced, forwards and backwards, at its caller's line", "[debug][gradient]") {
  std::map<std::string, Names> seen;
  for (const GradientCase& c : all_gradient_cases()) {
    INFO(c.op << ": " << c.usage);
    GradientTape tape;
    for (const Tensor& x : c.inputs) tape.watch(x);
    Tensor y;
    const std::vector<Line> forward = lines_of([&] { y = c.function(c.inputs); });
    CHECK_FALSE(forward.empty());
    for (const Line& line : forward) seen[c.op].insert(line.op);
    const std::vector<Line> replay = lines_of([&] { tape.gradient(y, c.inputs); });
    CHECK(std::any_of(replay.begin(), replay.end(), [](const Line& line) { return line.backward; }));
    CHECK(misplaced(forward) + misplaced(replay) == "");
  }
  for (const auto& [op, call] : other_uses()) {
    const std::vector<Line> lines = lines_of(call);
    for (const Line& line : lines) seen[op].insert(line.op);
    CHECK(misplaced(lines) == "");
  }

  for (const auto& [op, names] : seen) {
    if (names.count(op) != 0) continue;
    INFO(op << " does not show under its own name");
    const auto parts = made_of().find(op);
    const bool has_parts = parts != made_of().end();
    CHECK(has_parts);
    if (!has_parts) continue;
    for (const std::string& part : parts->second) {
      INFO("nor as " << part);
      CHECK(names.count(part) == 1u);
    }
  }
  for (const std::string& op : public_operations()) {
    INFO(op << " has neither a gradient case nor a use here");
    CHECK(seen.count(op) == 1u);
  }
}
