// 16-bit floating types from and to float32. Included by kernels_*.cpp. Plain loops, which compilers vectorize where
// they do not compile for size.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class H> void widen(const H* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}
template <class H> void round_to(const float* from, H* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = H(from[i]);
}

template <class H> constexpr HalfKernels<H> make_half_kernels() { return {.widen = &widen<H>, .round = &round_to<H>}; }

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
