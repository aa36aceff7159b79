// Random numbers whose distribution is given by tensors.
#include <capstan/random.hpp>

#include "autograd/drawing.hpp"
#include "autograd/reducing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::next_of;
using autograd::take_numbers;

Tensor bernoulli(const Tensor& probability, Rng& rng, Where where) {
  constexpr auto kind = core::RandomKind::bernoulli;
  const TensorImpl& impl = core::defined("bernoulli", probability, where);
  autograd::require_floating("bernoulli", impl, where);
  const Tensor packed = autograd::dense(probability, where);
  if (impl.numel() > 0) {
    const double low = autograd::extreme_of(kernels::Reduction::min, *packed.impl(), where);
    const double high = autograd::extreme_of(kernels::Reduction::max, *packed.impl(), where);
    if (!(low >= 0 && high <= 1))
      base::fail<Error>(where, "bernoulli: the probabilities are from ", low, " to ", high,
                        "; each must be in [0, 1].");
  }
  Tensor out = autograd::result_like(impl, where);
  backend_of(impl, where).bernoulli(next_of("bernoulli", rng, kind, impl.device(), where), *packed.impl(), *out.impl());
  take_numbers(rng, kind, impl.numel());
  autograd::note("bernoulli", where, {&probability}, {&out});
  return out;
}

Tensor categorical(const Tensor& logits, std::int64_t count, Rng& rng, Where where) {
  constexpr auto kind = core::RandomKind::uniform;  // one number for each choice
  const TensorImpl& impl = core::defined("categorical", logits, where);
  autograd::require_floating("categorical", impl, where);
  if (impl.rank() != 2 || impl.shape[1] == 0)
    base::fail<ShapeError>(where, "categorical: the logits are ", impl.shape,
                           "; they must be [batch, classes] with at least one class.");
  if (count < 0)
    base::fail<ShapeError>(where, "categorical: ", count, " choices were asked for; the count must be >= 0.");
  Tensor out = autograd::result_like(impl, Shape({impl.shape[0], count}, where), DType::int64, where);
  if (out.numel() > 0) {
    const core::Backend& backend = backend_of(impl, where);
    const Tensor packed = autograd::dense(logits, where);
    backend.categorical(next_of("categorical", rng, kind, impl.device(), where), *packed.impl(), *out.impl());
    const core::BadIndex bad = backend.check_indices(*out.impl(), 0, impl.shape[1]);
    if (bad.position >= 0)
      base::fail<Error>(where, "categorical: row ", bad.position / count,
                        " of the logits leaves nothing to choose from; it must have no NaN and no +infinity, and one "
                        "value at least above -infinity.");
    take_numbers(rng, kind, out.numel());
  }
  autograd::note("categorical", where, {&logits}, {&out});
  return out;
}

}  // namespace capstan
