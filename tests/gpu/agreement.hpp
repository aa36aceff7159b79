#pragma once
// GPU and CPU side by side: uses of operations that are run on both, forward and backward, and must agree.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/gpu.hpp"

namespace tests {

using Tensors = std::vector<capstan::Tensor>;
using Use = std::function<Tensors(const Tensors&)>;

/// How near results must be; tolerance.hpp has the numbers. Those that are not floating must be equal in any case, and
/// gradients need not be nearer than `rounded`.
enum class Nearness : std::uint8_t {
  exact,       ///< bit by bit, but for which NaN it is
  rounded,     ///< a handful of roundings
  summed,      ///< long sums
  decomposed,  ///< matrices taken apart
  chained      ///< step upon step
};

/// The types that inputs of float64 take on, one after the other. All other inputs stay as they are.
enum class Types : std::uint8_t {
  floating,
  wide,  ///< float32 and float64
  integers,
  numbers,  ///< floating and integers
  every,
  given  ///< none: one run with the inputs as they are
};

struct AgreementCase {
  std::string name;
  std::vector<std::string> slots;  ///< of core::Backend: those that it is there to reach
  Tensors inputs;                  ///< on the CPU; may be undefined
  Use use;                         ///< makes tensors where its first operand is, and draws from generators of its own
  Nearness nearness = Nearness::rounded;
  Types types = Types::floating;
};
using AgreementCases = std::vector<AgreementCase>;

/// Runs every case on the CPU and on the first GPU. Gradients are those of the sum of the results times fixed weights.
/// `cases` is called, and the cases are run, while the default device is the CPU.
void check_agreement(AgreementCases (*cases)());

AgreementCases attention_agreement_cases();
AgreementCases choosing_agreement_cases();
AgreementCases convolution_agreement_cases();
AgreementCases counting_agreement_cases();
AgreementCases layer_agreement_cases();
AgreementCases linalg_agreement_cases();
AgreementCases loss_agreement_cases();
AgreementCases moving_agreement_cases();
AgreementCases normalization_agreement_cases();
AgreementCases optimizer_agreement_cases();
AgreementCases order_agreement_cases();
AgreementCases pooling_agreement_cases();
AgreementCases question_agreement_cases();
AgreementCases random_agreement_cases();
AgreementCases recurrent_agreement_cases();
AgreementCases reduction_agreement_cases();
AgreementCases resampling_agreement_cases();
AgreementCases sequence_agreement_cases();
AgreementCases training_agreement_cases();
AgreementCases writing_agreement_cases();
/// Slots that the rows of lib/kernels reach, and what each of them is tried with. They have a list of their own.
std::vector<std::pair<std::string, std::string>> elementwise_agreement_slots();

// --- what the above is made of ---------------------------------------------------------------------------------------

std::vector<capstan::DType> types_of(Types types);

struct Outcome {
  Tensors results, gradients;  ///< gradients for the floating inputs; none if no result has some
};
/// `views`, if given, turns the inputs on that device into what is used and has gradients.
Outcome outcome_on(capstan::Device device, const Tensors& inputs, const Use& use, const Use& views = {});

/// How far off an element may be, by what is expected.
using Allowed = std::function<double(double)>;
/// What tells a tensor of the GPU from one of the CPU, shapes and types included; empty if they agree.
std::string difference(const capstan::Tensor& actual, const capstan::Tensor& expected, const Allowed& allowed);
std::string difference_of_bits(const capstan::Tensor& actual, const capstan::Tensor& expected);
/// Calls `check`, and makes an exception a failure that names it, so that what follows is checked all the same.
void check_on(const std::function<void()>& check);

// --- inputs ----------------------------------------------------------------------------------------------------------

/// In [-1, 1), float64.
inline capstan::Tensor noise(const capstan::Shape& shape, std::uint64_t seed) {
  return random_in(-1, 1, shape, capstan::DType::float64, seed);
}
/// In [0, count), int64.
inline capstan::Tensor places_below(std::int64_t count, const capstan::Shape& shape, std::uint64_t seed) {
  return random_in(0, static_cast<double>(count), shape, capstan::DType::int64, seed);
}
/// Multiples of 0.25 up to 2, so that many are equal.
inline capstan::Tensor with_ties(const capstan::Shape& shape, std::uint64_t seed) {
  return capstan::floor(random_in(-8, 9, shape, capstan::DType::float64, seed)) * 0.25;
}
/// Noise, among which NaN and infinities stand.
capstan::Tensor with_specials(const capstan::Shape& shape, std::uint64_t seed);

}  // namespace tests
