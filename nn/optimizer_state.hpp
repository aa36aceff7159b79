#pragma once
// Reading the saved state of an optimizer, and checks of options.
#include <span>
#include <string>
#include <vector>

#include <capstan/optim/optimizer.hpp>

#include "lib/base/text.hpp"

namespace capstan::optim::detail {

/// Gives entries by their names, each once. Messages name the optimizer.
class StateReader {
 public:
  StateReader(const char* optimizer, std::span<const NamedTensor> state, Where where)
      : optimizer_(optimizer), where_(where), state_(state), used_(state.size(), false) {}

  /// An integer >= 0, to which others can be added.
  std::int64_t whole(const std::string& name);
  double number(const std::string& name);
  double finite(const std::string& name);
  double within(const std::string& name, double least, double most);
  /// Own elements on the device.
  Tensor tensor(const std::string& name, const Shape& shape, DType dtype, Device device);
  /// Whether there is an entry of that name which was not taken yet.
  bool has(const std::string& name) { return place_of(name) != state_.size(); }
  /// An entry of any shape and type, itself; undefined if there is none.
  Tensor find(const std::string& name);
  /// Throws Error if an entry is left.
  void finish() const;

 private:
  const Tensor& take(const std::string& name, const Shape& shape, DType dtype);
  /// The first entry of a name that was not taken yet; as many as there are if there is none.
  std::size_t place_of(const std::string& name);
  std::size_t search(const std::string& name);

  const char* optimizer_;
  Where where_;
  std::span<const NamedTensor> state_;
  std::vector<bool> used_;
  std::size_t next_ = 0;              // behind the entry that was taken last: as a rule the one that is asked for
  std::vector<std::size_t> by_name_;  // entries in the order of their names; made when the rule first fails
};

/// A tensor without axes, as states hold numbers.
Tensor whole_number(std::int64_t value, Where where);
Tensor real_number(double value, Where where);

/// Checks of options; they throw Error.
struct OptionCheck {
  const char* optimizer;
  Where where;

  void that(bool fits, const char* option, double value, const char* rule) const {
    if (!fits) base::fail<Error>(where, optimizer, ": the option ", option, " is ", value, "; it must be ", rule, ".");
  }
  void amount(const char* option, double value) const;           ///< finite and >= 0
  void beta(const char* option, double value) const;             ///< in [0, 1)
  void betas(double beta1, double beta2, double epsilon) const;  ///< what the family of Adam has
};

}  // namespace capstan::optim::detail
