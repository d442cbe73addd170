// Plans on the profiles in machines/, as text and as JSON, compared with the files in goldens/.
// `test_plan rewrite_goldens` writes these files again: review the changes.
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "plan/simulated.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

using Json = nlohmann::ordered_json;

const std::string source_dir = TRANSHIP_SOURCE_DIR;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Ends {
  const char* source = "";
  const char* target = "";
  const char* source_layout = "F, x, y";
  const char* target_layout = "F, x, y";
};

struct Array {
  IndexSpace space{{"x", 4096}, {"y", 4096}};
  FieldSpace fields{{"f", "V16", 16}};
};

PlanQuery query_of(const Profile& profile, const Ends& ends, const Array& array) {
  PlanQuery query;
  const auto view = [&](const char* layout) {
    return View::whole(
        Mapping::make(array.space, array.fields, Layout::parse(layout).value()).value());
  };
  query.source = view(ends.source_layout);
  query.target = view(ends.target_layout);
  query.source_memory = profile.find_memory(ends.source);
  query.target_memory = profile.find_memory(ends.target);
  query.planner = PlannerKind::full;
  return query;
}

/// Returns 4 Mi points of eight 4-byte numbers: the instances of Isometry's section 6.
Array evaluation_array() {
  Array array{{{"x", 4 << 20}}, {}};
  for (int k = 0; k < 8; ++k) array.fields.push_back({"f" + std::to_string(k), "i4", 4});
  return array;
}

/// Rounds to six digits, because the last digits depend on the compiler.
void round_numbers(Json& json) {
  for (Json& item : json) {
    if (item.is_structured()) round_numbers(item);
    if (!item.is_number_float() || item.get<double>() == 0) continue;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", item.get<double>());
    item = std::stod(text.data());
  }
}

void compare(const std::string& name, const Profile& profile, const PlanQuery& query) {
  const auto made = plan(query, profile);
  if (!made) return test::record_failure(name.c_str(), 0, made.error().text());
  Json json = Json::parse(explain_json(*made, profile));
  round_numbers(json);
  const std::string text = explain(*made, profile) + json.dump(2) + "\n";
  const std::string path = source_dir + "/tests/plan/goldens/" + name + ".txt";
  if (test::argument(1) == "rewrite_goldens") {
    std::ofstream(path) << text;
    return;
  }
  const std::string golden = text_of(path);
  if (text == golden) return;
  std::istringstream was(golden);
  std::istringstream now(text);
  std::string old_line;
  std::string line;
  int number = 0;
  do {
    ++number;
    old_line.clear();
    line.clear();
  } while (std::getline(was, old_line) && std::getline(now, line) && line == old_line);
  test::record_failure(path.c_str(), number, "was \"" + old_line + "\", is \"" + line + "\"");
}

void compare_on_sapling() {
  const Profile sapling = test::machine_of("sapling");
  const Ends transpose{"node0/device0", "node1/device0", "F, x, y", "F, y, x"};
  PlanQuery query = query_of(sapling, transpose, {});
  compare("worked-example", sapling, query);
  for (const auto kind : {PlannerKind::simple, PlannerKind::spsl, PlannerKind::spdl}) {
    query.planner = kind;
    compare(std::string("worked-example-") + to_string(kind), sapling, query);
  }
  query.planner = PlannerKind::full;
  for (const char* memory :
       {"node0/device0", "node0/host0", "node0/host0", "node1/host0", "node1/device0"}) {
    query.through.push_back(sapling.find_memory(memory));
  }
  compare("forced-through-host", sapling, query);
  query.through.clear();
  query.buffer_bytes_max = 1 << 20;
  compare("worked-example-little-memory", sapling, query);

  const Ends between{"node0/host0", "node1/host0", "x, F", "x, F"};
  PlanQuery plain = query_of(sapling, between, evaluation_array());
  compare("between-hosts", sapling, plain);
  const Plan idle = plan(plain, sapling).value();
  plain.waiting_s.assign(sapling.channels.size(), 0);
  plain.waiting_s[static_cast<std::size_t>(idle.hops.back().channel)] = 1;
  const Plan busy = plan(plain, sapling).value();
  EXPECT(busy.path(sapling) != idle.path(sapling));
  compare("between-hosts-one-way-busy", sapling, plain);
  compare("host-to-file", sapling,
          query_of(sapling, {"node0/host0", "node0/file0", "F, x", "x, F"}, evaluation_array()));
  compare("file-to-far-device", sapling, query_of(sapling, {"node0/file0", "node1/device1"}, {}));
  compare("transpose-in-host", sapling,
          query_of(sapling, {"node0/host0", "node0/host0", "F, x, y", "F, y, x"}, {}));
}

}  // namespace

TEST(plans_are_as_their_goldens_or_rewrite_goldens) {
  compare_on_sapling();
  const Profile h200 = test::machine_of("h200-4");
  const Ends load{"node0/pinned0", "node0/device0", "F, x, y", "F, x, y"};
  PlanQuery query = query_of(h200, load, {{{"x", 16384}, {"y", 16384}}, {{"f", "f4", 4}}});
  compare("one-lane", h200, query);
  query.lanes_max = 4;
  compare("up-to-four-lanes", h200, query);
  compare("transpose-in-device", h200,
          query_of(h200, {"node0/device1", "node0/device1", "F, x, y", "F, y, x"}, {}));
  PlanQuery box = query_of(h200, {"node0/host0", "node0/host0"}, {});
  box.source.extents = {16, 16};
  box.source.lower = {100, 200};
  box.target.extents = box.source.extents;
  box.planner = PlannerKind::automatic;
  compare("small-box-at-once", h200, box);
  const Profile perlmutter = test::machine_of("perlmutter");
  query = query_of(perlmutter, {"node0/device0", "node1/device3"}, {});
  query.lanes_max = 4;
  compare("between-devices-of-two-nodes", perlmutter, query);
}
