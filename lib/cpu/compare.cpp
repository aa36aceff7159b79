// Comparisons, logic and selection by a condition.
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {
namespace {

template <class T, class F>
void compare_with(const TensorImpl& a, const TensorImpl& b, TensorImpl& out, F holds) {
  bool* to = out.as<bool>();
  for_runs<2>(Loops<2>(out.shape, {&a, &b}), out.numel(), kCheapGrain,
              [&](std::int64_t begin, std::int64_t count, const std::byte* const* data, const std::int64_t* step) {
                const auto* x = reinterpret_cast<const T*>(data[0]);
                const auto* y = reinterpret_cast<const T*>(data[1]);
                const std::int64_t sx = step[0], sy = step[1];
                for (std::int64_t i = 0; i < count; ++i) to[begin + i] = holds(x[i * sx], y[i * sy]);
              });
}

template <class Word>
void select_words(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  Word* to = out.as<Word>();
  for_runs<3>(Loops<3>(out.shape, {&condition, &a, &b}), out.numel(), kCheapGrain,
              [&](std::int64_t begin, std::int64_t count, const std::byte* const* data, const std::int64_t* step) {
                const auto* c = reinterpret_cast<const bool*>(data[0]);
                const auto* x = reinterpret_cast<const Word*>(data[1]);
                const auto* y = reinterpret_cast<const Word*>(data[2]);
                const std::int64_t sc = step[0], sx = step[1], sy = step[2];
                for (std::int64_t i = 0; i < count; ++i) to[begin + i] = c[i * sc] ? x[i * sx] : y[i * sy];
              });
}

}  // namespace

void compare(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  using kernels::Compare;
  core::visit(a.dtype, [&]<class T>(core::Type<T>) {
    switch (op) {
      case Compare::equal: return compare_with<T>(a, b, out, [](T x, T y) { return x == y; });
      case Compare::not_equal: return compare_with<T>(a, b, out, [](T x, T y) { return x != y; });
      case Compare::less: return compare_with<T>(a, b, out, [](T x, T y) { return x < y; });
      case Compare::less_equal: return compare_with<T>(a, b, out, [](T x, T y) { return x <= y; });
    }
  });
}

void logical(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (op == 0) compare_with<bool>(a, b, out, [](bool x, bool y) { return x && y; });
  else if (op == 1) compare_with<bool>(a, b, out, [](bool x, bool y) { return x || y; });
  else compare_with<bool>(a, b, out, [](bool x, bool) { return !x; });
}

void select(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  const std::int64_t element = size_of(out.dtype);
  if (element == 4) select_words<std::uint32_t>(condition, a, b, out);
  else if (element == 8) select_words<std::uint64_t>(condition, a, b, out);
  else select_words<std::uint8_t>(condition, a, b, out);
}

}  // namespace capstan::on_cpu
