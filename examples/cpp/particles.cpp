// Particles lie as structs in memory. The engine writes them to a file field by field, reads one
// field back, and the staging service gives it to other programs: particles [CONTACT]
#include <cstdint>
#include <iostream>
#include <vector>

#include <tranship/tranship.hpp>

namespace ts = tranship;

struct Particle {
  double position;
  float mass;
  std::int32_t id;
};

static void run(const char* contact) {
  constexpr std::int64_t count = 100'000;
  std::vector<Particle> particles(count);
  for (std::int32_t k = 0; k < count; ++k)
    particles[k] = {0.25 * k, 1.0F + static_cast<float>(k % 7), k};

  const std::vector<ts::Dimension> space{{"n", count}};
  const std::vector<ts::Field> fields{{"position", "f8"}, {"mass", "f4"}, {"id", "i4"}};
  const ts::Layout structs(space, fields, "F, n");   // particle by particle
  const ts::Layout by_field(space, fields, "n, F");  // all positions, all masses, all ids

  ts::Engine engine;
  const ts::Instance source =
      engine.instance(std::as_writable_bytes(std::span(particles)), structs);
  ts::File file = engine.open("particles.bin", by_field, {.mode = "w"});
  std::cout << engine.plan(source, file).explain() << '\n';
  engine.copy(source, file).wait();
  file.close();

  const ts::Layout masses_of_file(space, {{"mass", "f4"}});
  ts::File saved = engine.open("particles.bin", masses_of_file, {.offset = count * 8});
  std::vector<float> masses(count);
  engine.copy(saved, ts::Array(masses)).wait();

  if (contact == nullptr) return;
  ts::Staging staging(contact);
  staging.put("mass", 0, ts::Array(masses));
  std::vector<float> some(1000);  // another program would get them
  staging.get("mass", 0, ts::Array(some).at({500}));
  std::cout << "mass of particle 500: " << some[0] << '\n';
  staging.close();
}

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : nullptr);
  } catch (const ts::Error& error) {
    std::cerr << error.name() << ": " << error.message() << '\n';
    if (!error.hint().empty()) std::cerr << "hint: " << error.hint() << '\n';
    return 1;
  }
}
