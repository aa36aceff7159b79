#pragma once
// Scopes in which tapes listen differently: what the library needs when it runs a user's function again.
#include <unordered_set>
#include <vector>

#include "autograd/log.hpp"

namespace capstan::autograd {

enum class Others : std::uint8_t { as_they_are, silent };

/// Tapes that begin inside it record even if a NoGrad is on. The tapes that were there before are then as silent as the
/// NoGrad had made them, and are in any case if asked.
class Awake {
 public:
  explicit Awake(Others others = Others::as_they_are);
  ~Awake();
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

 private:
  Log& log_;
  int no_grad_;
  TapeBits silenced_;
};

/// The arguments of a function that is to be differentiated. A tensor that is given several times is copied, since each
/// place has a gradient of its own.
std::vector<Tensor> told_apart(std::span<const Tensor> inputs, Where where);

/// Finds the tensors from outside that a function uses and that tapes follow, while no tape records the function. Tapes
/// that the function opens itself record for themselves. To be made only while some tape listens.
class Probe {
 public:
  /// What is in `known` is not looked for; it must outlive the probe.
  Probe(std::span<const Tensor> known, Where where);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void see(std::span<const Tensor* const> tensors);
  std::vector<Tensor>& found() noexcept { return found_; }
  /// The tapes that would have recorded the function.
  TapeBits listeners() const noexcept { return listeners_; }

 private:
  Log& log_;
  Probe* outer_;
  TapeBits listeners_, silenced_, others_;
  std::unordered_set<const TensorImpl*> known_;
  std::vector<Tensor> found_;
  GradientTape ear_;  // follows nothing; while it records, operations call in
};

}  // namespace capstan::autograd
