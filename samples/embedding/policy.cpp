#include "policy.hpp"

#include <capstan/capstan.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

namespace cs = capstan;

/// The force for a ship, as a share of what its engine has.
struct Net {
  cs::nn::Linear fc1{2, 32}, fc2{32, 1};

  cs::Tensor operator()(const cs::Tensor& ships) const {  // [ships, 2] -> [ships, 1], from -1 to 1
    return cs::tanh(fc2(cs::tanh(fc1(ships))));
  }
};

namespace {

constexpr std::int64_t kShips = 64, kFrames = 40;  // of a flight to learn from

/// One that lets the engines rest until it has learned something.
Net make_net(cs::Rng& rng) {
  return {.fc1 = cs::nn::Linear(2, 32, {}, rng),
          .fc2 = cs::nn::Linear(32, 1, {.weight_init = cs::nn::init::zeros()}, rng)};
}

/// Nothing is thrown past this line.
template <class Body>
Status guarded(Body&& body) noexcept {
  Status status;
  try {
    body();
  } catch (const std::exception& error) {  // those of Capstan name operation, shapes, file and line
    status.right = false;
    std::snprintf(status.why, sizeof status.why, "%s", error.what());
  } catch (...) {
    status.right = false;
    std::snprintf(status.why, sizeof status.why, "%s", "an exception of an unknown type");
  }
  return status;
}

}  // namespace

struct Pilot::Inside {
  PilotOptions options;
  cs::Rng rng{options.seed};  // of its own, whatever thread trains
  Net acting = make_net(rng);
  Net learning = acting;  // a copy that shares nothing
  cs::optim::Adam adam{cs::nn::parameters(learning), {.learning_rate = 3e-3}};

  /// How far ships are from home, and how fast, over a flight: the laws of the world are operations, too, and gradients
  /// go back through them to the network.
  cs::Tensor loss_of_flight() {
    cs::Tensor place = cs::uniform({kShips, 1}, -1, 1, rng), speed = cs::uniform({kShips, 1}, -1, 1, rng);
    cs::Tensor loss = cs::zeros({});
    for (std::int64_t i = 0; i < kFrames; ++i) {
      const cs::Tensor force = options.strongest * learning(cs::concat({place, speed}, 1));
      speed = speed + options.frame * (force - options.drag * speed);
      place = place + options.frame * speed;
      loss = loss + cs::mean(cs::square(place)) + 0.1 * cs::mean(cs::square(speed));
    }
    return loss / kFrames;
  }
};

Pilot::Pilot(std::unique_ptr<Inside> inside) noexcept : inside_(std::move(inside)) {}
Pilot::~Pilot() = default;

std::unique_ptr<Pilot> Pilot::create(const PilotOptions& options, Status& status) noexcept {
  std::unique_ptr<Pilot> pilot;
  status = guarded([&] {
    cs::set_threads(options.threads);                      // the game owns the processors,
    cs::memory::set_limit(cs::cpu(), options.most_bytes);  // and the memory
    pilot.reset(new Pilot(std::unique_ptr<Inside>(new Inside{.options = options})));
  });
  return pilot;
}

Status Pilot::act(std::span<const float> ships, std::span<float> forces) noexcept {
  return guarded([&] {
    const auto count = static_cast<std::int64_t>(forces.size());
    const cs::Tensor shares = inside_->acting(cs::from_span(ships, {count, 2}));
    const cs::Tensor result = shares * inside_->options.strongest;
    std::ranges::copy(result.span<float>(), forces.begin());
  });
}

Status Pilot::train(int steps, float& loss) noexcept {
  return guarded([&] {
    Inside& in = *inside_;
    for (int step = 0; step < steps; ++step) {
      cs::GradientTape tape;
      const cs::Tensor flight = in.loss_of_flight();
      in.adam.apply(tape.gradient(flight, in.adam.parameters()));
      loss = flight.item<float>();
    }
  });
}

Status Pilot::publish() noexcept {
  return guarded([&] { cs::nn::copy_parameters(inside_->learning, inside_->acting); });
}
