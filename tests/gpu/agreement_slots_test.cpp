// Every entry of core::Backend has uses on which GPU and CPU are compared.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/gpu/agreement.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// The names in `struct Backend`; none if the header is not beside the tests.
std::vector<std::string> backend_entries() {
  const std::filesystem::path here = __FILE__;
  std::ifstream file(here.parent_path().parent_path().parent_path() / "lib" / "core" / "backend.hpp");
  std::vector<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "struct Backend {") inside = true;
    else if (line == "};") inside = false;
    if (!inside) continue;
    line = line.substr(0, line.find("//"));
    const std::size_t begin = line.find("(*"), end = line.find(")(");
    if (begin != std::string::npos && end != std::string::npos && begin < end)
      names.push_back(line.substr(begin + 2, end - begin - 2));
  }
  return names;
}

/// The cases of each slot.
std::map<std::string, std::set<std::string>> cases_by_slot() {
  const DeviceScope on_cpu(cpu());
  std::map<std::string, std::set<std::string>> found;
  for (const auto& list : {attention_agreement_cases, choosing_agreement_cases,   convolution_agreement_cases,
                           counting_agreement_cases,  layer_agreement_cases,      linalg_agreement_cases,
                           loss_agreement_cases,      moving_agreement_cases,     normalization_agreement_cases,
                           optimizer_agreement_cases, order_agreement_cases,      pooling_agreement_cases,
                           question_agreement_cases,  random_agreement_cases,     recurrent_agreement_cases,
                           reduction_agreement_cases, resampling_agreement_cases, sequence_agreement_cases,
                           training_agreement_cases,  writing_agreement_cases})
    for (const AgreementCase& c : list())
      for (const std::string& slot : c.slots) found[slot].insert(c.name);
  for (const auto& [slot, name] : elementwise_agreement_slots()) found[slot].insert(name);
  return found;
}

}  // namespace

TEST_CASE("every entry of a backend has cases on which GPU and CPU are compared", "[gpu][agreement]") {
  const std::vector<std::string> entries = backend_entries();
  if (entries.empty()) {
    WARN("not tested: lib/core/backend.hpp is not beside the tests");
    return;
  }
  CHECK(entries.size() > 100);
  const auto cases = cases_by_slot();
  for (const std::string& entry : entries) {
    INFO(entry);
    CHECK(cases.count(entry) == 1u);
  }
  const std::set<std::string> known(entries.begin(), entries.end());
  for (const auto& [slot, names] : cases) {
    INFO(slot << " of \"" << *names.begin() << '"');
    CHECK(known.count(slot) == 1u);
  }
}
