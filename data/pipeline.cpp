// Passes over pipelines, and where they stand.
#include <capstan/data/pipeline.hpp>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/fail.hpp"
#include "data/stage.hpp"

namespace capstan::data::detail {

/// Where a pipeline stands.
struct Progress {
  std::int64_t next_pass = 0;
  std::shared_ptr<const Seeds> seeds;
  Run* running = nullptr;    // the loop that was begun last, while it runs
  std::int64_t pass = 0;     // of `at`
  std::optional<State> at;   // where the last loop was left, or where the next one begins
  std::int64_t skipped = 0;  // elements behind `at` that were given out as well
  bool resumes = false;      // whether the next loop begins there
  Where restored{};          // where the program has said so

  void take_from(const Run& run);
};

/// One pass. Its place is that of its cursor, or after an error the one it was opened at and the elements since.
class Run {
 public:
  Run(const StageRef& stage, Pass pass, Progress* progress)
      : stage_(stage), pass_(std::move(pass)), progress_(progress), cursor_(stage_->open(pass_)) {
    if (progress->resumes) resume(*progress);
    cursor_->save(begin_);
  }
  ~Run() {
    if (progress_ == nullptr) return;
    progress_->running = nullptr;
    progress_->at.reset();
    try {
      if (!ended_) progress_->take_from(*this);
    } catch (...) {  // no memory for the place: the pipeline then stands before the next pass
    }
  }

  bool next(Item& item) {
    try {
      ended_ = !cursor_->next(item);
    } catch (...) {
      failed_ = true;
      throw;
    }
    given_ += !ended_;
    return !ended_;
  }
  /// The pipeline is gone, or has begun another loop.
  void detach() noexcept { progress_ = nullptr; }

  const Pass& pass() const noexcept { return pass_; }
  State state() const {
    if (failed_) return begin_;
    State state;
    cursor_->save(state);
    return state;
  }
  /// Elements behind `state()` that were given out, too.
  std::int64_t given_since() const noexcept { return failed_ ? given_ : 0; }

 private:
  void resume(const Progress& progress) {
    try {
      StateReader reader(*progress.at);
      cursor_->load(reader);
      if (!reader.at_end()) throw BadState{"the state has more numbers than the stages take"};
      if (progress.skipped > 0) cursor_->skip(progress.skipped);
    } catch (const BadState& bad) {
      fail<Error>(progress.restored, "Pipeline::restore: ", bad.text, "; it must be what Pipeline::state gave.");
    }
  }

  StageRef stage_;
  Pass pass_;
  Progress* progress_;  // null if detached
  std::unique_ptr<Cursor> cursor_;
  State begin_;
  std::int64_t given_ = 0;
  bool failed_ = false, ended_ = false;
};

void Progress::take_from(const Run& run) {
  at = run.state();
  pass = run.pass().number;
  skipped = run.given_since();
}

namespace {

constexpr std::string_view kFormat = "capstan pipeline 1", kEnd = "end";

/// All stages, those before first.
void collect(const Stage& stage, std::vector<const Stage*>& stages) {
  for (const StageRef& from : stage.from()) collect(*from, stages);
  stages.push_back(&stage);
}

/// The names of all stages. `counted`: a state has a number of elements that the last one gave.
std::string recipe_of(const Stage& stage, bool counted) {
  std::string text;
  for (const StageRef& from : stage.from()) text += recipe_of(*from, counted || stage.counts()) + " ";
  return text + (counted ? stage.name_if_counted() : stage.name());
}

std::string_view part_of(std::string_view& text) {
  const std::size_t end = text.find(';');
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

template <class T>
bool parse(std::string_view text, std::vector<T>& numbers) {
  while (!text.empty()) {
    if (text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    T number;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || (end != text.data() + text.size() && *end != ' ')) return false;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return true;
}

template <class T>
void append(std::string& text, std::string_view name, const T& numbers) {
  text += ';';
  text += name;
  for (const auto number : numbers) text += ' ' + std::to_string(number);
}

/// What follows the name in the next part of a state; nothing if the part has another name or no numbers.
template <class T>
std::optional<std::vector<T>> numbers_of(std::string_view& text, std::string_view name) {
  std::string_view part = part_of(text);
  std::vector<T> numbers;
  if (part.substr(0, name.size()) != name || !parse(part.substr(name.size()), numbers)) return std::nullopt;
  return numbers;
}

constexpr const char* kMovedFrom = "Pipeline: it was moved from; use the one that it was moved to.";

}  // namespace

PipelineBase::PipelineBase(StageRef stage) : stage_(std::move(stage)), progress_(new Progress) {}

PipelineBase::PipelineBase(const PipelineBase& other)
    : stage_(other.progress_ != nullptr ? other.stage_ : throw Error(kMovedFrom)) {  // a copy has no place to name
  auto progress = std::make_unique<Progress>(*other.progress_);
  const Run* running = std::exchange(progress->running, nullptr);
  if (running != nullptr) progress->take_from(*running);
  progress_ = progress.release();
}

PipelineBase::PipelineBase(PipelineBase&& other) noexcept
    : stage_(std::move(other.stage_)), progress_(std::exchange(other.progress_, nullptr)) {}

PipelineBase& PipelineBase::operator=(const PipelineBase& other) { return *this = PipelineBase(other); }
PipelineBase& PipelineBase::operator=(PipelineBase&& other) noexcept {
  std::swap(stage_, other.stage_);
  std::swap(progress_, other.progress_);
  return *this;
}

PipelineBase::~PipelineBase() {
  if (progress_ != nullptr && progress_->running != nullptr) progress_->running->detach();
  delete progress_;
}

const StageRef& PipelineBase::stage(Where where) const {
  if (progress_ == nullptr) fail<Error>(where, kMovedFrom);
  return stage_;
}

std::int64_t PipelineBase::size(Where where) const { return stage(where)->size(); }

Run* PipelineBase::start(Where where) {
  const StageRef& recipe = stage(where);
  Progress& progress = *progress_;
  const std::int64_t number = progress.resumes ? progress.pass : progress.next_pass;
  auto run = std::make_unique<Run>(recipe, Pass{number, progress.seeds}, &progress);
  if (progress.running != nullptr) progress.running->detach();
  progress.running = run.get();
  progress.resumes = false;
  progress.next_pass = number + 1;
  return run.release();
}

std::string PipelineBase::state(Where where) const {
  std::vector<const Stage*> stages;
  collect(*stage(where), stages);
  Progress now = *progress_;
  if (now.running != nullptr) now.take_from(*now.running);
  std::vector<std::uint64_t> seeds;
  for (const Stage* stage : stages)
    if (stage->seed() != nullptr) seeds.push_back(stage->seed_in({0, now.seeds}));

  std::string text(kFormat);
  text += ';' + recipe_of(*stage_, now.skipped > 0);
  append(text, "pass", std::vector<std::int64_t>{now.at ? now.pass : now.next_pass});
  append(text, "seeds", seeds);
  if (now.at) {
    append(text, "skipped", std::vector<std::int64_t>{now.skipped});
    append(text, "at", *now.at);
  }
  text += ';';
  text += kEnd;
  return text;
}

void PipelineBase::restore(std::string_view state, Where where) {
  std::vector<const Stage*> stages;
  collect(*stage(where), stages);
  const std::string recipe = recipe_of(*stage_, false), counted = recipe_of(*stage_, true);
  if (part_of(state) != kFormat) fail<Error>(where, "Pipeline::restore: the text is no state of a pipeline.");
  const std::string_view other = part_of(state);
  if (const bool sized = other.find("batch(") != other.npos; other != recipe && other != counted)
    fail<Error>(where, "Pipeline::restore: the state is that of `", other, "` but the pipeline is `",
                sized ? counted : recipe, "`; both must have the same stages",
                sized ? ", and batches of the same size where they are counted." : ".");
  const auto pass = numbers_of<std::int64_t>(state, "pass");
  const auto seeds = numbers_of<std::uint64_t>(state, "seeds");
  auto progress = std::make_unique<Progress>();
  auto restored = std::make_shared<Seeds>();
  bool good = pass && pass->size() == 1 && pass->front() >= 0 && pass->front() < kEndless / 2 && seeds;
  if (good) {
    progress->next_pass = progress->pass = pass->front();
    std::size_t used = 0;
    for (const Stage* stage : stages) {
      if (stage->seed() == nullptr) continue;
      if (used < seeds->size()) restored->emplace_back(stage, (*seeds)[used]);
      ++used;
    }
    good = used == seeds->size();
    const bool own = std::all_of(restored->begin(), restored->end(),
                                 [](const auto& entry) { return *entry.first->seed() == entry.second; });
    if (!own) progress->seeds = std::move(restored);  // else caches stay good
  }
  if (good && state != kEnd) {
    const auto skipped = numbers_of<std::int64_t>(state, "skipped");
    progress->at = numbers_of<std::int64_t>(state, "at");
    good = skipped && skipped->size() == 1 && skipped->front() >= 0 && progress->at && state == kEnd;
    if (good && skipped->front() > 0 && other != counted)
      fail<Error>(where, "Pipeline::restore: the state counts batches and has no size of theirs; the pipeline is `",
                  counted, "`.");
    progress->skipped = good ? skipped->front() : 0;
    progress->resumes = true;
    progress->restored = where;
  }
  if (!good) fail<Error>(where, "Pipeline::restore: the state is damaged; it must be what Pipeline::state gave.");
  if (progress_->running != nullptr) progress_->running->detach();
  delete std::exchange(progress_, progress.release());
}

bool advance(Run* run, Item& item) { return run->next(item); }
void finish(Run* run) noexcept { delete run; }

}  // namespace capstan::data::detail
