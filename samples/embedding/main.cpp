// embedding: a game with a main loop of its own, whose ships learn to come home while it runs.
// Shows: a library inside of a program that has its own rules: a frame every few milliseconds; threads that the game
//        starts and nobody else; a bound on memory; no exception and no output that is not the game's.
// Prints: for each round how far ships are from home at its end, and what the last training step said; then how many
//        frames came late.
// Fails:  if ships do not learn to come home, or if an error of the library does not arrive as a status.
//
// embedding [--quick] [SEED]: ten rounds of three seconds, the first without training; --quick plays five,
// four times as fast.
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "policy.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kShips = 16, kFramesOfRound = 60;
constexpr float kFrame = 0.05f, kDrag = 0.2f, kStrongest = 4;  // the world's: seconds, 1 / s, force
constexpr int kStepsOfFrame = 1;                               // of training, behind each frame

/// Ships on a line, whose home is 0.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) { scatter(); }

  void scatter() {
    std::uniform_real_distribution<float> anywhere(-1, 1);
    for (float& number : ships_) number = anywhere(random_);
  }
  void move(const std::vector<float>& forces) {
    for (std::size_t i = 0; i < forces.size(); ++i) {
      float &place = ships_[2 * i], &speed = ships_[2 * i + 1];
      speed += kFrame * (forces[i] - kDrag * speed);
      place += kFrame * speed;
    }
  }
  /// Mean over the ships.
  float distance() const {
    float sum = 0;
    for (std::size_t i = 0; i < ships_.size(); i += 2) sum += std::abs(ships_[i]);
    return sum / kShips;
  }
  const std::vector<float>& ships() const { return ships_; }  ///< place and speed of each

 private:
  std::minstd_rand random_;
  std::vector<float> ships_ = std::vector<float>(2 * kShips);
};

/// The one thread that the game keeps for work between frames.
class Background {
 public:
  explicit Background(Pilot& pilot) : pilot_(pilot), thread_([this] { work(); }) {}
  ~Background() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      steps_ = kGoHome;
    }
    changed_.notify_all();
    thread_.join();
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void begin(int steps) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      steps_ = steps;
    }
    changed_.notify_all();
  }
  /// Waits for what has been begun, and says how it went.
  Status wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return steps_ == 0; });
    return status_;
  }
  float loss() const { return loss_; }  ///< behind `wait`

 private:
  static constexpr int kGoHome = -1;

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return steps_ != 0; });
      if (steps_ == kGoHome) return;
      const int steps = steps_;
      lock.unlock();
      const Status status = pilot_.train(steps, loss_);
      lock.lock();
      status_ = status;
      if (steps_ != kGoHome) steps_ = 0;
      changed_.notify_all();
    }
  }

  Pilot& pilot_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int steps_ = 0;  // to do; 0: none
  Status status_;
  float loss_ = 0;
  std::thread thread_;  // last: it uses the others
};

/// Whether it went well; says why not.
bool check(const Status& status, const char* what) {
  if (!status.right) std::printf("%s: %s\n", what, status.why);
  return status.right;
}

/// What the library throws for wrong sizes comes back as a text.
bool errors_stay_inside(Pilot& pilot) {
  std::vector<float> three(3), forces(2);
  const Status status = pilot.act(three, forces);
  std::printf("a call with wrong sizes says: %s\n", status.why);
  return !status.right && status.why[0] != '\0';
}

struct Score {
  float first = 0, last = 0;  ///< distance from home at the end of the first and of the last round
  int late = 0;               ///< frames
  bool right = true;
};

Score play(Pilot& pilot, unsigned seed, int rounds, Clock::duration frame) {
  World world(seed);
  Background background(pilot);
  std::vector<float> forces(kShips);
  Score score;
  Clock::time_point next = Clock::now();
  for (int i = 0; i < rounds * kFramesOfRound; ++i) {
    // What was learned during the last frame is used from here on. A game that may not be late would not wait for it,
    // and publish what there is when it is there; this one waits, so that it is the same whatever the machine does.
    if (!check(background.wait(), "training") || !check(pilot.publish(), "publishing")) return {.right = false};
    if (i >= kFramesOfRound) background.begin(kStepsOfFrame);

    if (!check(pilot.act(world.ships(), forces), "acting")) return {.right = false};
    world.move(forces);
    if ((i + 1) % kFramesOfRound == 0) {
      score.last = world.distance();
      if (i + 1 == kFramesOfRound) score.first = score.last;
      std::printf("round %2d: %.4f from home\n", (i + 1) / kFramesOfRound, static_cast<double>(score.last));
      world.scatter();
    }

    next += frame;
    if (Clock::now() > next) {
      ++score.late;
      next = Clock::now();
    }
    std::this_thread::sleep_until(next);
  }
  score.right = check(background.wait(), "training");
  std::printf("the last flight that was learned from has a loss of %.4f\n", static_cast<double>(background.loss()));
  return score;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  unsigned seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--quick") quick = true;
    else seed = static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10));
  }
  Status made;
  const std::unique_ptr<Pilot> pilot =
      Pilot::create({.seed = seed, .frame = kFrame, .drag = kDrag, .strongest = kStrongest}, made);
  if (!check(made, "no pilot") || pilot == nullptr) return 2;

  bool right = errors_stay_inside(*pilot);
  const Score score = play(*pilot, seed, quick ? 5 : 10, std::chrono::milliseconds(quick ? 12 : 50));
  right = right && score.right && score.first > 0.5f && score.last < 0.1f;
  std::printf("result: %.4f from home without training, %.4f in the end; %d frames late\n",
              static_cast<double>(score.first), static_cast<double>(score.last), score.late);
  return right ? 0 : 1;
}
