// Writes a step, or puts back what a step has that somebody else wrote:
// steps CONTACT write|echo|leave NUMBER. Built by tests/python/test_c_api_steps.py.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tranship/tranship.hpp>
#include "expect.hpp"

static void write(ts::Staging& staging, std::int64_t number, bool leave) {
  std::vector<double> energy(12);
  for (int k = 0; k < 12; ++k) energy[static_cast<std::size_t>(k)] = k / 7.0;
  const std::vector<std::int32_t> ids{100, 50, 0, -50, -100};
  ts::StepWriter step = staging.begin_step(number);
  const ts::Request request =
      step.put_async("energy", ts::Array(energy.data() + 4, {2, 4}).at({1, -2}));
  step.put("energy", ts::Array(energy.data(), {1, 4}).at({0, -2}));
  step.put("ids", ts::Array(ids));
  step.set("time", 0.1);
  step.set("count", std::numeric_limits<std::int64_t>::min());
  step.set("label", std::string("a \"label\"\n\twith \xc3\xa4, \x01 and \\"));
  step.set_json("sizes", "[3, 4, {\"deep\": null}]");
  step.set("energy", "unit", "eV");
  step.set("energy", "unit", std::string_view("J").data());  // the later value holds
  if (leave) throw std::runtime_error("left");
  step.end();
  EXPECT(throws<ts::InvalidArgument>([&] { step.put("ids", ts::Array(ids)); }));
  EXPECT(throws<ts::InvalidArgument>([&] { step.end(); }));
}

static void echo_variable(ts::Staging& staging, const ts::Step& step, const std::string& name) {
  const ts::Variable variable = step.describe(name);
  std::vector<std::int64_t> extents;
  for (std::size_t k = 0; k < variable.lower.size(); ++k) {
    extents.push_back(variable.upper[k] - variable.lower[k]);
  }
  const auto echo = [&]<typename T>(T) {
    const auto count =
        std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<T> values(static_cast<std::size_t>(count));
    const ts::Array array =
        ts::Array(values.data(), ts::Array::Indices(extents)).at(variable.lower);
    step.get(name, array);
    staging.put("echo of " + name, step.number(), array);
  };
  if (variable.type == "f8") echo(double{});
  if (variable.type == "i4") echo(std::int32_t{});
  for (const std::string& key : step.attributes(name).names()) {
    staging.set_json(name, key, step.attributes(name).json(key));
  }
}

static void echo(ts::Staging& staging, std::int64_t number) {
  const ts::Step step = staging.next_step(number - 1).value();
  for (const std::string& name : step.variables()) echo_variable(staging, step, name);
  const ts::Attributes attributes = step.attributes();
  for (const std::string& key : attributes.names()) staging.set_json(key, attributes.json(key));
  std::cout << step.number() << " " << std::setprecision(17) << attributes.get<double>("time")
            << " " << attributes.get<std::int64_t>("count") << " "
            << attributes.get<std::string>("label") << "\n";
}

// Attributes of every type, and of the wrong one.
static void check_types(ts::Staging& staging) {
  staging.set("true", true);
  staging.set("large", std::numeric_limits<std::uint64_t>::max());
  staging.set("small", 3.5F);
  staging.set("whole", short{-3});
  staging.set("of a variable", "unit", "J");
  const ts::Attributes all = staging.attributes();
  EXPECT((all.get<bool>("true")));
  EXPECT(all.json("large") == "18446744073709551615");
  EXPECT((all.get<double>("small") == 3.5 && all.get<double>("whole") == -3));
  EXPECT(throws<ts::InvalidArgument>([&] { (void)all.get<std::int64_t>("large"); }));
  EXPECT(throws<ts::InvalidArgument>([&] { (void)all.get<std::int64_t>("small"); }));
  EXPECT(throws<ts::InvalidArgument>([&] { (void)all.get<bool>("whole"); }));
  EXPECT(throws<ts::NotFound>([&] { (void)all.json("nothing"); }));
  EXPECT(throws<ts::InvalidArgument>([&] { staging.set("x", std::string("a\0b", 3)); }));
  EXPECT(all.contains("true") && !all.contains("nothing"));
  EXPECT((staging.attributes("of a variable").get<std::string>("unit") == "J"));
  staging.unset("true");
  staging.unset("of a variable", "unit");
  EXPECT(throws<ts::NotFound>([&] { staging.unset("true"); }));
  EXPECT(!staging.attributes().contains("true") && all.contains("true"));
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  ts::Staging staging(argv[1]);
  const std::string_view what = argv[2];
  const std::int64_t number = std::atoll(argv[3]);
  if (what == "echo") {
    echo(staging, number);
  } else if (what == "leave") {
    bool left = false;
    try {
      write(staging, number, true);
    } catch (const std::runtime_error& error) {
      left = error.what() == std::string("left");
    }
    EXPECT(left && throws<ts::NotFound>([&] { (void)staging.step(number); }));
  } else {
    write(staging, number, false);
    check_types(staging);
    EXPECT(staging.latest_step().number() == number);
    EXPECT((staging.step(number).variables() == std::vector<std::string>{"energy", "ids"}));
    staging.begin_step(number + 1).end();
    staging.discard_step(number + 1);
    EXPECT(throws<ts::NotFound>([&] { (void)staging.step(number + 1); }));
  }
  staging.close();
  return 0;
}
