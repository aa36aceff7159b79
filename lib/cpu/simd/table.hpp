// Fills the table of one instruction set. Included last by kernels_*.cpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class T, class... Unary, class... Parametric, class... Binary, class... Loss>
constexpr FloatKernels<T> make_kernels(std::tuple<Unary...>*, std::tuple<Parametric...>*, std::tuple<Binary...>*,
                                       std::tuple<Loss...>*) {
  return {
      .unary = {&unary<Unary, T>...},
      .unary_backward = {&unary_backward<Unary, T>...},
      .parametric = {&parametric<Parametric, T>...},
      .parametric_backward = {&parametric_backward<Parametric, T>...},
      .binary = {&binary<Binary, T>...},
      .loss = {&loss<Loss, T>...},
      .loss_left = {&loss_left<Loss, T>...},
      .loss_right = {&loss_right<Loss, T>...},
      .sum = &sum<T>,
      .max = &extreme<kernels::Maximum, T>,
      .min = &extreme<kernels::Minimum, T>,
      .add_rows = &add_rows<T>,
      .spread = &spread<T>,
      .spread_rows = &spread_rows<T>,
      .max_rows = &extreme_rows<kernels::Maximum, T>,
      .min_rows = &extreme_rows<kernels::Minimum, T>,
      .shifted_sum_of_exp = &shifted_sum_of_exp<T>,
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
      .lanes = Lanes<T>::size,
      .panel = kTileLanes * Lanes<T>::size,
      .offset_gemm = &offset_gemm<T>,
      .filter_input = &filter_input<T>,
      .filter_output = &filter_output<T>,
      .filter_gradient = &filter_gradient<T>,
      .slide = &slide<T>,
      .overlap = &overlap<T>,
      .max_pool_row = &max_pool_row<T>,
      .avg_pool_row = &avg_pool_row<T>,
      .norm_rows = &norm_rows<T>,
      .norm_totals = &norm_totals<T>,
      .norm_gradients = &norm_gradients<T>,
      .plane_moments = &plane_moments<T>,
      .plane_products = &plane_products<T>,
      .plane_rule = &plane_rule<T>,
      .column_distances = &column_distances<T>,
      .column_products = &column_products<T>,
      .column_rule = &column_rule<T>,
      .decide = &decide,
      .keep = &keep<T>,
      .rnn_forward = &rnn_forward<T>,
      .rnn_backward = &rnn_backward<T>,
      .tanh_gates = &rnn_gates<kernels::Tanh, T>,
      .relu_gates = &rnn_gates<kernels::Relu, T>,
      .gru_gates = &gru_gates<T>,
      .lstm_gates = &lstm_gates<T>,
      .lstm_step = &lstm_step<T>,
      .tanh_gradients = &rnn_gradients<kernels::Tanh, T>,
      .relu_gradients = &rnn_gradients<kernels::Relu, T>,
      .gru_gradients = &gru_gradients<T>,
      .lstm_gradients = &lstm_gradients<T>,
      .attention_weights = &attention_weights<T>,
      .attention_backward = &attention_backward<T>,
      .steps = make_steps<T>(static_cast<kernels::StepRules*>(nullptr)),
      .lamb_norms = &lamb_norms<T>,
      .lamb_move = &lamb_move<T>,
  };
}

template <class T> constexpr FloatKernels<T> make_kernels() {
  return make_kernels<T>(static_cast<kernels::UnaryOps*>(nullptr), static_cast<kernels::ParametricOps*>(nullptr),
                         static_cast<kernels::BinaryOps*>(nullptr), static_cast<kernels::LossOps*>(nullptr));
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
