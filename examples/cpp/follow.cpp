// Follows the steps of a wave to the end, and prints the time and the energy of each.
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <tranship/tranship.hpp>

namespace ts = tranship;

static double energy_of(const ts::Step& step) {
  const ts::Variable found = step.describe("height");
  std::vector<double> height(static_cast<std::size_t>(found.upper[0] - found.lower[0]));
  std::vector<double> speed(height.size());
  step.get("height", ts::Array(height));
  step.get("speed", ts::Array(speed));
  double energy = 0;
  for (std::size_t i = 0; i + 1 < height.size(); ++i) {
    const double stretch = height[i + 1] - height[i];
    energy += (speed[i] * speed[i] + stretch * stretch) / 2;
  }
  return energy;
}

static void run() {
  ts::Staging staging("staging.contact");
  std::int64_t last = ts::Staging::before_first;
  std::cout << std::fixed;
  while (const std::optional<ts::Step> step = staging.next_step(last)) {
    last = step->number();
    const ts::Attributes attributes = step->attributes();
    std::cout << last << " " << attributes.get<double>("time") << " " << energy_of(*step) << "\n";
  }
  std::cout << "of " << staging.attributes().get<std::string>("code") << "\n";
}

int main() {
  try {
    run();
  } catch (const ts::Error& error) {
    std::cerr << error.name() << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}
