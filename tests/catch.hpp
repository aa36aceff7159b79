#pragma once
// Catch2, version 2 or 3, under the names of version 3.
#include <string>

#if defined(CAPSTAN_CATCH2_V3)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
using Impl::MatcherBase;
}  // namespace Catch::Matchers
#endif
