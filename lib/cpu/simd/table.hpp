// Fills the table of one instruction set. Included last by kernels_*.cpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class T, class... Unary, class... Parametric, class... Binary>
constexpr FloatKernels<T> make_kernels(std::tuple<Unary...>*, std::tuple<Parametric...>*, std::tuple<Binary...>*) {
  return {
      .unary = {&unary<Unary, T>...},
      .unary_backward = {&unary_backward<Unary, T>...},
      .parametric = {&parametric<Parametric, T>...},
      .parametric_backward = {&parametric_backward<Parametric, T>...},
      .binary = {&binary<Binary, T>...},
      .sum = &sum<T>,
      .max = &extreme<kernels::Maximum, T>,
      .min = &extreme<kernels::Minimum, T>,
      .add_rows = &add_rows<T>,
      .spread = &spread<T>,
      .spread_rows = &spread_rows<T>,
      .max_rows = &extreme_rows<kernels::Maximum, T>,
      .min_rows = &extreme_rows<kernels::Minimum, T>,
      .logsumexp = &logsumexp<T>,
      .softmax = &softmax<T>,
      .log_softmax = &log_softmax<T>,
      .softmax_backward = &softmax_backward<T>,
      .log_softmax_backward = &log_softmax_backward<T>,
      .scaled_exp = &scaled_exp<T>,
      .transpose_tile = &transpose_tile<T>,
      .any_bad = &any_bad<T>,
      .copy_rows = &copy_rows<T>,
      .small_gemm = &small_gemm<T>,
      .rnn_forward = &rnn_forward<T>,
      .rnn_backward = &rnn_backward<T>,
      .adam = &adam<T>,
      .sgd = &sgd<T>,
  };
}

template <class T> constexpr FloatKernels<T> make_kernels() {
  return make_kernels<T>(static_cast<kernels::UnaryOps*>(nullptr), static_cast<kernels::ParametricOps*>(nullptr),
                         static_cast<kernels::BinaryOps*>(nullptr));
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
