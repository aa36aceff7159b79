#include "data/stage.hpp"

#include <exception>

#include "data/fail.hpp"

namespace capstan::data::detail {

StageRef::StageRef(const StageRef& other) noexcept : stage_(other.stage_) { stage_->retain(); }
StageRef::~StageRef() {
  if (stage_ != nullptr) stage_->release();
}

std::int64_t StateReader::take(std::int64_t least, std::int64_t most) {
  if (at_ == state_.size() || state_[at_] < least || state_[at_] > most)
    throw BadState{"number " + std::to_string(at_) + " of the state is missing or out of range"};
  return state_[at_++];
}

namespace {
/// The finalizer of SplitMix64 (Steele et al. 2014): far inputs and near ones give unrelated numbers.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
}  // namespace

Pass Pass::inner(std::int64_t index) const {
  // Within pass 0 the passes of `repeat` are those of a loop around the pipeline.
  if (number == 0) return {index, seeds};
  const std::uint64_t both = mixed(static_cast<std::uint64_t>(number)) + static_cast<std::uint64_t>(index);
  return {static_cast<std::int64_t>(mixed(both) >> 1), seeds};
}

std::int64_t Cursor::skip(std::int64_t count) {
  Item item;
  for (std::int64_t i = 0; i < count; ++i)
    if (!next(item)) return i;
  return count;
}

std::uint64_t Stage::seed_in(const Pass& pass) const noexcept {
  if (pass.seeds)
    for (const auto& [stage, seed] : *pass.seeds)
      if (stage == this) return seed;
  return *seed();
}

ElementRng::ElementRng(std::uint64_t seed, const Pass& pass, std::int64_t element) : before_(default_rng().state()) {
  Rng rng(mixed(seed + mixed(static_cast<std::uint64_t>(pass.number))));
  default_rng().restore(rng.stream(static_cast<std::uint64_t>(element)).state());
}

void rethrow_at(const char* stage, std::int64_t element) {
  const std::string at = std::string(stage) + ": element " + std::to_string(element) + ": ";
  try {
    throw;
  } catch (const ShapeError& error) { throw ShapeError(at + error.what()); } catch (const DTypeError& error) {
    throw DTypeError(at + error.what());
  } catch (const DeviceError& error) { throw DeviceError(at + error.what()); } catch (const IndexError& error) {
    throw IndexError(at + error.what());
  } catch (const TapeError& error) { throw TapeError(at + error.what()); } catch (const NumericError& error) {
    throw NumericError(at + error.what());
  } catch (const IoError& error) { throw IoError(at + error.what()); } catch (const OutOfMemoryError& error) {
    throw OutOfMemoryError(at + error.what());
  } catch (const MissingLibraryError& error) {
    throw MissingLibraryError(at + error.what());
  } catch (const BackendError& error) { throw BackendError(at + error.what()); } catch (const Error& error) {
    throw Error(at + error.what());
  } catch (const std::exception& error) { std::throw_with_nested(Error(at + error.what())); } catch (...) {
    std::throw_with_nested(Error(at + "an exception that is no std::exception"));
  }
}

}  // namespace capstan::data::detail
