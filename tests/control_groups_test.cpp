// The limits that containers and services have, as Linux keeps them.
#include "lib/base/control_groups.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/files.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// A tree of groups, in files as the kernel has them.
struct Tree {
  TemporaryFolder folder;
  base::ControlGroups groups = {folder.path("list"), folder.path("groups")};

  explicit Tree(const std::string& list) { write("list", list); }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder.path(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
};

}  // namespace

TEST_CASE("the time of processors that control groups allow is rounded up, and what is no limit is none",
          "[control_groups][host]") {
  const auto processors = [](std::string_view text) { return base::processors_of_quota(text); };
  CHECK(processors("200000 100000") == 2);
  CHECK(processors("150000 100000") == 2);
  CHECK(processors("100000 100000") == 1);
  CHECK(processors("1000 100000") == 1);
  CHECK(processors("100001 100000") == 2);
  CHECK(processors("9223372036854775807 1") == INT32_MAX);
  for (const char* none :
       {"max 100000", "-1 100000", "0 100000", "200000 0", "200000 -1", "", " ", "200000", "200000 ", " 200000 100000",
        "200000 100000x", "200000\n100000", "99999999999999999999 100000", "no quota"}) {
    INFO(none);
    CHECK(processors(none) == 0);
  }
}

TEST_CASE("a control group's bytes are a number, and what is no limit is none", "[control_groups][host]") {
  CHECK(base::bytes_of_limit("1073741824") == std::int64_t{1} << 30);
  CHECK(base::bytes_of_limit("9223372036854771712") == 9223372036854771712);
  for (const char* none : {"max", "", "0", "-1", "1 G", "1G", " 1", "1 ", "1\n", "99999999999999999999"}) {
    INFO(none);
    CHECK(base::bytes_of_limit(none) == 0);
  }
}

TEST_CASE("of the groups that a process is in, the least limit counts", "[control_groups][host]") {
  const Tree tree("0::/service/worker");
  CHECK(tree.groups.processors() == 0);  // no group has files
  CHECK(tree.groups.memory_bytes() == 0);
  tree.write("groups/service/worker/cpu.max", "max 100000");
  tree.write("groups/service/worker/memory.max", "3000000");
  CHECK(tree.groups.processors() == 0);
  CHECK(tree.groups.memory_bytes() == 3000000);
  tree.write("groups/service/cpu.max", "150000 100000");
  tree.write("groups/service/memory.max", "2000000");
  CHECK(tree.groups.processors() == 2);
  CHECK(tree.groups.memory_bytes() == 2000000);
  tree.write("groups/cpu.max", "400000 100000");
  tree.write("groups/memory.max", "max");
  tree.write("groups/other/memory.max", "1000");
  CHECK(tree.groups.processors() == 2);
  CHECK(tree.groups.memory_bytes() == 2000000);
}

TEST_CASE("in a container whose group's path is the host's, the root is its own group", "[control_groups][host]") {
  const Tree tree("0::/docker/0123456789");
  tree.write("groups/cpu.max", "50000 100000");
  tree.write("groups/memory.max", "4096000");
  CHECK(tree.groups.processors() == 1);
  CHECK(tree.groups.memory_bytes() == 4096000);
}

TEST_CASE("the first version has a tree of groups for each controller", "[control_groups][host]") {
  const Tree tree("5:memory:/jobs/7\n4:cpu,cpuacct:/jobs\n3:cpuset:/\n1:name=systemd:/jobs/7\n0::/");
  tree.write("groups/cpu/jobs/cpu.cfs_quota_us", "300000");
  tree.write("groups/cpu/jobs/cpu.cfs_period_us", "100000");
  tree.write("groups/cpu/cpu.cfs_quota_us", "-1");
  tree.write("groups/cpu/cpu.cfs_period_us", "100000");
  tree.write("groups/memory/jobs/7/memory.limit_in_bytes", "9223372036854771712");
  tree.write("groups/memory/jobs/memory.limit_in_bytes", "5000000");
  tree.write("groups/cpuset/memory.limit_in_bytes", "1");
  tree.write("groups/cpuset/cpu.cfs_quota_us", "1");
  CHECK(tree.groups.processors() == 3);
  CHECK(tree.groups.memory_bytes() == 5000000);
}

TEST_CASE("lists of groups that cannot be read, or understood, limit nothing", "[control_groups][host]") {
  for (const char* list : {"", "0", "0:", "0::", "::", "garbage", "5:memory"}) {
    INFO(list);
    const Tree tree(list);
    tree.write("groups/memory/memory.limit_in_bytes", "1");
    CHECK(tree.groups.memory_bytes() == 0);
  }
  CHECK(base::ControlGroups{"/nowhere/list", "/nowhere"}.memory_bytes() == 0);
  CHECK(base::ControlGroups{"/nowhere/list", "/nowhere"}.processors() == 0);
}
