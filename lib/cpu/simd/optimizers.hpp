// Steps of optimizers. Included by kernels_*.cpp behind products.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class Rule, class... Others> constexpr bool kIsOneOf = (std::is_same_v<Rule, Others> || ...);
/// Whether the rule's states are means and sums that fade where there are no gradients, and nothing but their size counts.
template <class Rule>
constexpr bool kFades = !kIsOneOf<Rule, kernels::LionStep, kernels::RpropStep, kernels::AsgdStep, kernels::AdagradStep>;

/// States below this have faded and become 0: numbers without all their digits. They would stay such numbers for good,
/// since 0.9 of the smallest one is rounded to itself, and take Intel's processors twenty times as long in every step.
/// 0 where that would show beside an epsilon to which the root of a state is added.
template <class Rule, class T> T faded_below(const UpdateNumbers& n) {
  constexpr bool kDivides = !kIsOneOf<Rule, kernels::MomentumStep, kernels::NesterovStep>;
  return kDivides && n.epsilon < 1e-15 ? T(0) : Format<T>::smallest;
}

template <class Rule, class T>
void optimizer_step(T* p, const T* g, T* const* given, std::int64_t count, const UpdateNumbers& numbers) {
  using L = Lanes<T>;
  constexpr int kStates = Rule::states, kRoom = kStates > 0 ? kStates : 1;
  const UpdateNumbers n = numbers;  // a copy of one's own: no store can change it
  T* states[kRoom] = {};
  for (int k = 0; k < kStates; ++k) states[k] = given[k];
  const L least(faded_below<Rule, T>(n));
  [[maybe_unused]] const auto kept = [least](L state) __attribute__((always_inline)) {
    return kFades<Rule> ? select(abs(state) < least, L(0), state) : state;
  };
  std::int64_t i = 0;
  for (; i + L::size <= count; i += L::size) {
    L x = L::load(p + i), s[kRoom];
    if constexpr (kStates > 0)
      unrolled<kStates>([&](auto k) __attribute__((always_inline)) { s[k] = L::load(states[k] + i); });
    Rule::step(x, L::load(g + i), s, n);
    x.store(p + i);
    if constexpr (kStates > 0)
      unrolled<kStates>([&](auto k) __attribute__((always_inline)) { kept(s[k]).store(states[k] + i); });
  }
  if (i == count) return;
  const std::int64_t rest = count - i;
  L x = load_part(p + i, rest), s[kRoom];
  if constexpr (kStates > 0)
    unrolled<kStates>([&](auto k) __attribute__((always_inline)) { s[k] = load_part<T>(states[k] + i, rest); });
  Rule::step(x, load_part(g + i, rest), s, n);
  store_part(x, p + i, rest);
  if constexpr (kStates > 0)
    unrolled<kStates>([&](auto k) __attribute__((always_inline)) { store_part(kept(s[k]), states[k] + i, rest); });
}

/// Adds the squares of p and of the direction that it is to take.
template <class T>
void lamb_norms(const T* p, const T* mean, const T* square, std::int64_t count, const UpdateNumbers& numbers,
                double* squares) {
  using L = Lanes<T>;
  constexpr std::int64_t kPart = 256;
  const UpdateNumbers n = numbers;
  T part[kPart];
  double first = 0, second = 0;
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    const std::int64_t size = count - begin < kPart ? count - begin : kPart;
    for (std::int64_t i = 0; i < size; i += L::size) {
      const std::int64_t at = begin + i, width = size - i < L::size ? size - i : L::size;
      const L x = load_part(p + at, width), m = load_part(mean + at, width), v = load_part(square + at, width);
      store_part(kernels::LambStep::direction(x, m, v, n), part + i, width);
    }
    spread(p + begin, T(0), size, &first, &second);
    squares[0] += second;
    spread<T>(part, T(0), size, &first, &second);
    squares[1] += second;
  }
}

template <class T>
void lamb_move(T* p, const T* mean, const T* square, std::int64_t count, const UpdateNumbers& numbers) {
  using L = Lanes<T>;
  const UpdateNumbers n = numbers;
  for (std::int64_t i = 0; i < count; i += L::size) {
    const std::int64_t width = count - i < L::size ? count - i : L::size;
    const L x = load_part<T>(p + i, width), m = load_part(mean + i, width), v = load_part(square + i, width);
    store_part(x - L(n.rate) * kernels::LambStep::direction(x, m, v, n), p + i, width);
  }
}

template <class T, class... Rules> constexpr StepTable<T> make_steps(std::tuple<Rules...>*) {
  return {{&optimizer_step<Rules, T>...}};
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
