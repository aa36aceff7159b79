#pragma once
// What the game knows of its pilot: plain numbers, no exceptions, nothing of Capstan.
#include <cstdint>
#include <memory>
#include <span>

/// How a call went.
struct Status {
  bool right = true;
  char why[240] = "";  ///< what was wrong: a text that fits without asking for memory
};

struct PilotOptions {
  std::uint64_t seed = 1;
  int threads = 1;                    ///< that one call may use, the caller's included; 1: the pilot never starts one
  std::int64_t most_bytes = 1 << 26;  ///< of memory for tensors
  float frame = 0.05f;                ///< seconds of the world from one frame to the next
  float drag = 0.2f;                  ///< of the ships, a second
  float strongest = 4;                ///< force that a ship's engine has
};

/// A network that tells ships which force brings them home, and another one that learns it meanwhile.
///
/// Threads   `act` on one thread while `train` runs on another; `publish` when neither of them runs.
/// Output    none
class Pilot {
 public:
  /// Null if it could not be made.
  static std::unique_ptr<Pilot> create(const PilotOptions& options, Status& status) noexcept;
  ~Pilot();

  /// One force for each ship, given its place and speed: twice as many numbers as forces.
  Status act(std::span<const float> ships, std::span<float> forces) noexcept;
  /// So many steps of training, on the caller's thread. `loss` is that of the last.
  Status train(int steps, float& loss) noexcept;
  /// From now on `act` asks what has been learned by now.
  Status publish() noexcept;

 private:
  struct Inside;
  explicit Pilot(std::unique_ptr<Inside> inside) noexcept;
  std::unique_ptr<Inside> inside_;
};
