// 16-bit floating types from and to float32. Included by kernels_*.cpp. Where the processor converts float16 itself, it
// does; all else is plain loops, which compilers vectorize where they do not compile for size.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if defined(__AVX512F__)
CAPSTAN_INLINE void widen_register(const float16* from, float* to) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
CAPSTAN_INLINE void round_register(const float* from, float16* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__AVX2__) && defined(__F16C__)
CAPSTAN_INLINE void widen_register(const float16* from, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
CAPSTAN_INLINE void round_register(const float* from, float16* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#endif

/// As many values as fill whole registers; how many that were.
template <class H>
CAPSTAN_INLINE std::int64_t widen_registers([[maybe_unused]] const H* from, [[maybe_unused]] float* to,
                                            [[maybe_unused]] std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX2__) && defined(__F16C__)
  if constexpr (std::is_same_v<H, float16>)
    for (; i + Floats::size <= count; i += Floats::size) widen_register(from + i, to + i);
#endif
  return i;
}
template <class H>
CAPSTAN_INLINE std::int64_t round_registers([[maybe_unused]] const float* from, [[maybe_unused]] H* to,
                                            [[maybe_unused]] std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX2__) && defined(__F16C__)
  if constexpr (std::is_same_v<H, float16>)
    for (; i + Floats::size <= count; i += Floats::size) round_register(from + i, to + i);
#endif
  return i;
}

template <class H> void widen(const H* from, float* to, std::int64_t count) {
  for (std::int64_t i = widen_registers(from, to, count); i < count; ++i) to[i] = from[i];
}
template <class H> void round_to(const float* from, H* to, std::int64_t count) {
  for (std::int64_t i = round_registers(from, to, count); i < count; ++i) to[i] = H(from[i]);
}

template <class H> constexpr HalfKernels<H> make_half_kernels() { return {.widen = &widen<H>, .round = &round_to<H>}; }

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
