// Operations touch no memory beside their operands: these lie against a page that nobody may touch, first at one end,
// then at the other. Whoever reads or writes there ends the program, at the case and operand that are printed.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <span>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

enum class Fence { before, behind };

/// Pages between two that nobody may touch.
class FencedPages {
 public:
  explicit FencedPages(std::size_t bytes) : inside_((bytes + page() - 1) / page() * page()) {
    void* all = mmap(nullptr, inside_ + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    begin_ = static_cast<std::byte*>(all) + page();
    REQUIRE(mprotect(begin_, inside_, PROT_READ | PROT_WRITE) == 0);
  }
  FencedPages(const FencedPages&) = delete;
  FencedPages& operator=(const FencedPages&) = delete;
  ~FencedPages() { munmap(begin_ - page(), inside_ + 2 * page()); }

  std::byte* place(std::size_t bytes, Fence side) const {
    return side == Fence::before ? begin_ : begin_ + inside_ - bytes;
  }

 private:
  static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

  std::size_t inside_;
  std::byte* begin_;
};

template <class T>
Tensor fenced_as(const Tensor& x, Fence side) {
  const Tensor rows = x.contiguous();
  const auto bytes = static_cast<std::size_t>(x.numel()) * sizeof(T);
  auto* pages = new FencedPages(bytes + 1);
  std::byte* to = pages->place(bytes, side);
  if (bytes > 0) std::memcpy(to, rows.data<T>(), bytes);
  return from_memory(
      reinterpret_cast<T*>(to), x.shape(), [](void* p) { delete static_cast<FencedPages*>(p); }, pages);
}

/// The same values against a fence; of other types than these itself.
Tensor fenced(const Tensor& x, Fence side) {
  if (!x.defined()) return x;
  switch (x.dtype()) {
    case DType::float32: return fenced_as<float>(x, side);
    case DType::float64: return fenced_as<double>(x, side);
    case DType::int32: return fenced_as<std::int32_t>(x, side);
    case DType::int64: return fenced_as<std::int64_t>(x, side);
    default: return x;
  }
}

Tensor fenced_random(const Shape& shape, DType type, Fence side) {
  return fenced(random_in(-1, 1, shape, type, static_cast<std::uint64_t>(shape.numel())), side);
}

template <class Use>
void for_fences(Use use) {
  for (const DType type : {DType::float32, DType::float64})
    for (const Fence side : {Fence::before, Fence::behind}) {
      INFO(name(type) << (side == Fence::before ? ", fence before" : ", fence behind"));
      use(type, side);
    }
}

/// What an operation gives, and its gradients, with operands against fences and with others.
void check_fenced(const TensorFunction& function, const std::vector<Tensor>& inputs, Fence side) {
  const auto run = [&](const std::vector<Tensor>& operands) {
    GradientTape tape;
    for (const Tensor& x : operands) tape.watch(x);
    const Tensor y = function(operands);
    std::vector<Tensor> results{y};
    if (y.numel() > 0)
      for (const Tensor& gradient : tape.gradient(y, operands)) results.push_back(gradient);
    return results;
  };
  std::vector<Tensor> operands, others;
  for (const Tensor& x : inputs) {
    others.push_back(x.contiguous());
    operands.push_back(fenced(x, side));
  }
  const std::vector<Tensor> plain = run(others), results = run(operands);
  REQUIRE(results.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    REQUIRE(results[i].defined() == plain[i].defined());
    if (plain[i].defined()) CHECK(same(results[i], plain[i]));
  }
}

}  // namespace

TEST_CASE("no operation touches memory beside its operands", "[memory]") {
  for (const GradientCase& c : all_gradient_cases())
    for (const Fence side : {Fence::before, Fence::behind}) {
      INFO(c.op << ": " << c.usage << (side == Fence::before ? ", fence before" : ", fence behind"));
      check_fenced(c.function, c.inputs, side);
    }
}

TEST_CASE("elementwise operations and sums keep to rows of every length", "[memory]") {
  const auto function = [](const std::vector<Tensor>& x) {
    const Tensor y = sigmoid(x[0]) * x[1] + exp(x[1]) - tanh(x[0]);
    return sum(softmax(y, -1) * y, {-1}) + max(y, -1) + sum(y, {0}).index({0}) + log_softmax(y, -1).index({all, 0});
  };
  for_fences([&](DType type, Fence side) {
    for (std::int64_t columns = 1; columns <= 70; ++columns) {
      INFO(columns << " columns");
      check_fenced(function, {random_in(-2, 2, {3, columns}, type, 1), random_in(-2, 2, {3, columns}, type, 2)}, side);
    }
  });
}

TEST_CASE("products keep to operands of every size and order", "[memory]") {
  const auto product = [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); };
  const auto turned = [](const std::vector<Tensor>& x) { return matmul(transpose(x[0]), transpose(x[1])); };
  for_fences([&](DType type, Fence side) {
    for (const auto& [m, k, n] : {std::array{1, 5, 3},
                                  {7, 1, 17},
                                  {13, 33, 65},
                                  {50, 129, 200},
                                  {97, 70, 131},
                                  {5, 600, 77},
                                  {260, 270, 390}}) {
      INFO(m << " x " << k << " x " << n);
      const Tensor a = random_in(-1, 1, {m, k}, type, 1), b = random_in(-1, 1, {k, n}, type, 2);
      check_fenced(product, {a, b}, side);
      check_fenced(turned, {transpose(a).copy(), transpose(b).copy()}, side);
    }
  });
}

TEST_CASE("convolutions keep to images and weights of many channels", "[memory]") {
  const auto forward = [](const std::vector<Tensor>& x) { return conv2d(x[0], x[1], x[2], {.padding = 1}); };
  const auto transposed = [](const std::vector<Tensor>& x) { return conv_transpose2d(x[0], x[1], x[2]); };
  for_fences([&](DType type, Fence side) {
    for (const auto& [from, to] : {std::pair{5, 16}, {5, 34}, {18, 70}}) {
      INFO(from << " to " << to << " channels");
      const Tensor x = random_in(-1, 1, {2, from, 6, 7}, type, 1), bias = random_in(-1, 1, {to}, type, 2);
      check_fenced(forward, {x, random_in(-1, 1, {to, from, 3, 3}, type, 3), bias}, side);
      check_fenced(transposed, {x, random_in(-1, 1, {from, to, 3, 3}, type, 4), bias}, side);
    }
  });
}

TEST_CASE("what is written in place keeps to its tensor", "[memory]") {
  for_fences([](DType type, Fence side) {
    for (std::int64_t columns = 1; columns <= 70; ++columns) {
      INFO(columns << " columns");
      const Tensor other = random_in(0.5, 1, {5, columns}, type, 3);
      Tensor x = fenced_random({5, columns}, type, side);
      const Tensor before = x.copy();
      x += other;
      CHECK(same(x, before + other));
      x *= other;
      CHECK(same(x, (before + other) * other));
      x.assign(transpose(transpose(other).copy()));
      CHECK(same(x, other));
      x.fill(2);
      CHECK(same(x, full({5, columns}, 2, {.dtype = type})));
    }
  });
}

TEST_CASE("optimizers keep to parameters, gradients and states", "[memory]") {
  for_fences([](DType type, Fence side) {
    for (std::int64_t count = 1; count <= 70; ++count) {
      INFO(count << " values");
      const auto place = [&](bool by_fence, std::uint64_t seed) {
        const Tensor x = random_in(0.5, 1, {count}, type, seed);
        return by_fence ? fenced(x, side) : x;
      };
      const auto updated = [&](bool by_fence) {
        const ParameterUpdate u{.rule = UpdateRule::amsgrad,
                                .parameter = place(by_fence, 1),
                                .gradient = place(by_fence, 2),
                                .states = {place(by_fence, 3), place(by_fence, 4), place(by_fence, 5)},
                                .numbers = {.rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8}};
        apply_updates("amsgrad", std::span(&u, 1));
        return u.parameter;
      };
      CHECK(same(updated(true), updated(false)));
    }
  });
}
