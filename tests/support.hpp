#pragma once
// What many tests share: numbers to feed in, comparisons that explain themselves, and the messages of exceptions.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <capstan/capstan.hpp>

#include "tests/catch.hpp"
#include "tests/tolerance.hpp"

namespace tests {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// --- numbers ---------------------------------------------------------------------------------------------------

/// Numbers converted to `dtype` by C++'s own rules.
capstan::Tensor from_doubles(const std::vector<double>& numbers, const capstan::Shape& shape,
                             capstan::DType dtype = capstan::DType::float64);
/// Uniform in [low, high), from the standard library's generator: independent of what is under test.
capstan::Tensor random_in(double low, double high, const capstan::Shape& shape,
                          capstan::DType dtype = capstan::DType::float64, std::uint64_t seed = 1);
/// The same elements in memory that is not row-major.
capstan::Tensor strided(const capstan::Tensor& x);

/// All elements, row-major, as double.
std::vector<double> values(const capstan::Tensor& t);
/// The only element, of any type.
double number(const capstan::Tensor& t);

/// Whether computing something rounded to a number without all its digits, for which Intel's processors take many times
/// as long: this thread's flag of underflow shows it, unless the number is exact.
template <class Compute>
bool lacks_digits(Compute compute) {
  std::feclearexcept(FE_UNDERFLOW);
  compute();
  return std::fetestexcept(FE_UNDERFLOW) != 0;
}

// --- comparisons -----------------------------------------------------------------------------------------------

/// Largest |actual - expected| over largest |expected|. NaN and infinities must stand in the same places.
double relative_error(const std::vector<double>& actual, const std::vector<double>& expected);
/// Infinite if the shapes differ.
double relative_error(const capstan::Tensor& actual, const capstan::Tensor& expected);
/// Same shape, type and values, NaN equal to NaN. Prints both if not.
bool same(const capstan::Tensor& actual, const capstan::Tensor& expected);
/// Same shape, and `relative_error` within the tolerance. Prints both if not.
bool close(const capstan::Tensor& actual, const capstan::Tensor& expected, double tolerance);
/// Same bytes: tells -0 from 0 and one NaN from another.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// How many representable numbers lie between a and b; NaN equals NaN.
template <class T>
double ulps_between(T a, T b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return kInfinity;
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  const auto position = [](T x) {
    Bits bits;
    std::memcpy(&bits, &x, sizeof(T));
    return static_cast<std::int64_t>(bits < 0 ? std::numeric_limits<Bits>::min() - bits : bits);
  };
  const std::int64_t at = position(a), bt = position(b);
  if ((at < 0) != (bt < 0)) return std::fabs(static_cast<double>(at)) + std::fabs(static_cast<double>(bt));
  return std::fabs(static_cast<double>(at - bt));
}

// --- exceptions ------------------------------------------------------------------------------------------------

using Call = std::function<void()>;

/// What an exception of exactly the type E says. Ends the test if another one comes, or none.
template <class E>
std::string message_of(const Call& call) {
  std::string instead = "nothing was thrown";
  try {
    call();
  } catch (const std::exception& error) {
    if (typeid(error) == typeid(E)) return error.what();
    instead = std::string("another type was thrown, saying: ") + error.what();
  }
  FAIL("expected " << typeid(E).name() << ", but " << instead);
  return {};
}

/// `text (file:line)` taken apart; without a place, `file` is empty and `line` 0.
struct Message {
  std::string text, file;
  unsigned line = 0;
};
Message split_message(const std::string& what);

inline constexpr unsigned kNoPlace =
    0;  ///< for calls that cannot know their caller: x[i], x += y, x.at<T>(i). Not checked.

/// A call that must fail, and how.
struct ErrorRow {
  unsigned line;                         ///< __LINE__ of the call, or kNoPlace
  std::string (*catch_it)(const Call&);  ///< message_of<the expected type>
  Call call;
  std::string message;  ///< word for word, without the place
};
/// Runs every row twice: once for type, text and place, once to see that no memory is lost.
void check_errors(const std::vector<ErrorRow>& rows, const std::string& file);

// --- surroundings ----------------------------------------------------------------------------------------------

/// While one lives, fresh memory is full of this value: finds elements that are never written.
class PoisonedBuffers {
 public:
  explicit PoisonedBuffers(double value);
  ~PoisonedBuffers();
  PoisonedBuffers(const PoisonedBuffers&) = delete;
  PoisonedBuffers& operator=(const PoisonedBuffers&) = delete;
};

/// Another number of threads for a while.
class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(capstan::threads()) { capstan::set_threads(count); }
  ~ThreadCount() { capstan::set_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace tests
