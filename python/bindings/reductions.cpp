// Numbers that staging servers reduce.
#include <nanobind/stl/complex.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cmath>
#include <complex>

#include "staging.hpp"

namespace tranship::python {
namespace {

staging::ReductionKind reduction_kind(const std::string& name) {
  if (name == "histogram") return staging::ReductionKind::histogram;
  return name == "summary" ? staging::ReductionKind::summary : staging::ReductionKind::block_sums;
}

/// Returns the sum of numbers that were reduced.
nb::object sum_of(const staging::ReducedBox& box) {
  const staging::Reduced& all = box.result;
  const auto whole = [](double sum, double rest) { return std::isfinite(sum) ? sum + rest : sum; };
  switch (box.numbers) {
    case staging::NumberClass::integers:
      return nb::cast(static_cast<std::int64_t>(all.integer_sum));
    case staging::NumberClass::whole: return nb::cast(all.integer_sum);
    case staging::NumberClass::complexes:
      return nb::cast(
          std::complex<double>(whole(all.sum, all.rest), whole(all.imaginary, all.imaginary_rest)));
    default: return nb::cast(whole(all.sum, all.rest));
  }
}

/// Returns a bound of numbers that were reduced; None for complex ones.
nb::object bound_of(staging::NumberClass numbers, std::uint64_t bits) {
  switch (numbers) {
    case staging::NumberClass::integers: return nb::cast(static_cast<std::int64_t>(bits));
    case staging::NumberClass::whole: return nb::cast(bits);
    case staging::NumberClass::complexes: return nb::none();
    default: return nb::cast(std::bit_cast<double>(bits));
  }
}

nb::dict reduce(BoundClient& self, const std::string& variable, const std::string& which,
                std::int64_t version, const std::vector<std::int64_t>& lower,
                const std::vector<std::int64_t>& upper, const std::string& kind,
                const std::vector<double>& edges, const std::vector<std::int64_t>& origin,
                const std::vector<std::int64_t>& extents, double timeout) {
  const GetRequest request = request_of(variable, which, version, lower, upper);
  const staging::Reduction reduction{reduction_kind(kind), edges, origin, extents};
  const staging::ReducedBox box =
      unwrap(run([&] { return self.client->reduce(request, reduction, milliseconds(timeout)); }));
  nb::dict found;
  found["version"] = box.version;
  found["count"] = box.result.count;
  found["sum"] = sum_of(box);
  found["least"] = bound_of(box.numbers, box.result.least);
  found["greatest"] = bound_of(box.numbers, box.result.greatest);
  found["counts"] = nb::cast(box.result.counts);
  const std::vector<double>& sums = box.result.sums;
  found["sums"] = nb::bytes(sums.data(), sums.size() * sizeof(double));
  return found;
}

}  // namespace

void bind_reductions(nb::class_<BoundClient>& client) {
  client.def("reduce", &reduce, nb::arg("variable"), nb::arg("which"), nb::arg("version"),
             nb::arg("lower"), nb::arg("upper"), nb::arg("kind"), nb::arg("edges"),
             nb::arg("origin"), nb::arg("extents"), nb::arg("timeout"),
             nb::sig("def reduce(self, variable: str, which: str, version: int, "
                     "lower: Sequence[int], upper: Sequence[int], kind: str, "
                     "edges: Sequence[float], origin: Sequence[int], extents: Sequence[int], "
                     "timeout: float) -> dict[str, typing.Any]"));
}

}  // namespace tranship::python
