// Runs all cases; with CAPSTAN_TEST_DEVICE=cuda tensors that name no device are made on the first GPU.
#include <cstdlib>
#include <optional>
#include <string_view>

#include <capstan/device.hpp>

#if defined(CAPSTAN_CATCH2_V3)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
  const char* device = std::getenv("CAPSTAN_TEST_DEVICE");
  std::optional<capstan::DeviceScope> scope;
  if (device != nullptr && std::string_view(device) == "cuda") scope.emplace(capstan::cuda(0));
  return Catch::Session().run(argc, argv);
}
