#include "tensor_copies.hpp"

#include <algorithm>
#include <utility>

#include "exchange_table.hpp"
#include "gpu/gpus.hpp"
#include "numpy_array.hpp"

namespace tranship::python {
namespace {

/// Fewest pairs that go as blocks: fewer are found again sooner than they are planned.
constexpr Py_ssize_t blocks_least = 64;

/// Returns the bytes of a tensor whose elements fill one block in the order of its dimensions; 0 of
/// any other, and of one without elements.
std::int64_t block_bytes(const nb::dlpack::dltensor& tensor) {
  const std::int64_t bits = std::int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  std::int64_t points = 1;
  for (int k = tensor.ndim - 1; k >= 0; --k) {
    if (tensor.strides != nullptr && tensor.shape[k] != 1 && tensor.strides[k] != points) return 0;
    points *= tensor.shape[k];
  }
  return bits % 8 == 0 ? points * (bits / 8) : 0;
}

/// Takes one tensor from the front of a description, and returns whether the array lies there and
/// has its shape and strides.
bool takes(const Array& array, std::span<const std::int64_t>& description) {
  if (description.size() < 3) return false;
  const auto rank = static_cast<std::size_t>((description[2] >> 1) & 0xffff);
  const bool strided = (description[2] & 1) == 0;
  const std::size_t count = 3 + (strided ? 2 * rank : rank);
  const Mapping& mapping = *array.view.mapping;
  if (description.size() < count || mapping.space().size() != rank) return false;
  bool same = reinterpret_cast<std::uintptr_t>(array.place.address) ==
              static_cast<std::uintptr_t>(description[0]);
  const Placement& field = mapping.fields()[0];
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t extent = description[3 + k];
    same = same && array.view.extents[k] == extent;
    if (!strided || extent < 2) continue;
    same =
        same && field.dimension[k].level[0].stride == description[3 + rank + k] * field.field.bytes;
  }
  description = description.subspan(count);
  return same;
}

}  // namespace

TensorCopy::TensorCopy(const std::shared_ptr<Engine>& engine, int priority, nb::handle stream)
    : engine_(engine), priority_(priority) {
  if (engine->gpu_side() == nullptr) return;
  const StreamChoice choice = stream_choice(stream);
  follows_ = choice.follows;
  stream_ = choice.own;
  described_ = !stream_ || exists(*stream_);
  numbers_->assign({priority, follows_ == Follows::nothing ? 0 : 1});
}

bool TensorCopy::exists(const CallerStream& stream) const {
  const Gpus& gpus = *engine_->gpu_side()->gpus();
  const int device = std::max(stream.device >= 0 ? stream.device : device_, 0);
  return gpus.has_stream({device, reinterpret_cast<void*>(stream.handle)});
}

/// All tensors lie on one GPU, and the copy runs in a stream of it.
bool TensorCopy::lies_on(int device) {
  if (device_ < 0) device_ = device;
  const bool elsewhere = stream_ && stream_->device >= 0 && stream_->device != device;
  return device == device_ && !elsewhere;
}

/// The copy runs in the current stream of the tensors' libraries, if that is one for all.
bool TensorCopy::follows_library(const ExchangeTable& table) {
  if (follows_ != Follows::current || asked_ == &table) return true;
  CallerStream stream{0, device_};
  if (!current_stream(table, device_, stream.handle) || !exists(stream)) return false;
  if (!stream_) stream_ = stream;
  asked_ = &table;
  return *stream_ == stream;
}

bool TensorCopy::add(nb::handle object, bool writable, Tensor& read) {
  if (plain_numpy(object) != nullptr) return false;  // to ask its type for a table costs more
  const TypeTable found = table_of(Py_TYPE(object.ptr()));
  const bool readable = found.table != nullptr && found.table->to_tensor != nullptr;
  if (!readable || (writable && !found.always_writable)) return false;
  nb::dlpack::dltensor tensor{};
  if (found.table->to_tensor(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  if (tensor.device.device_type != on_cuda || tensor.data == nullptr) return false;
  if (tensor.ndim > dimensions_max || needs_checks(object, tensor.dtype)) return false;
  if (!lies_on(tensor.device.device_id)) return false;
  if (!follows_library(*found.table)) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  const std::int64_t type = (std::int64_t{tensor.dtype.code} << 32) |
                            (std::int64_t{tensor.dtype.bits} << 16) | tensor.dtype.lanes;
  const bool no_strides = tensor.strides == nullptr;
  std::vector<std::int64_t>& numbers = *numbers_;
  numbers.insert(numbers.end(),
                 {static_cast<std::int64_t>(address), type,
                  (std::int64_t{device_} << 32) | (tensor.ndim << 1) | (no_strides ? 1 : 0)});
  read = {static_cast<std::int64_t>(address), type, block_bytes(tensor), numbers.size(),
          static_cast<std::size_t>(tensor.ndim)};
  numbers.insert(numbers.end(), tensor.shape, tensor.shape + tensor.ndim);
  if (!no_strides) numbers.insert(numbers.end(), tensor.strides, tensor.strides + tensor.ndim);
  return true;
}

bool TensorCopy::add(nb::handle source, nb::handle target) {
  Tensor from;
  Tensor to;
  described_ = described_ && add(source, false, from) && add(target, true, to);
  if (!described_ || !blocks_) return described_;
  const auto shape = [&](const Tensor& one) {
    return std::span(*numbers_).subspan(one.shape_at, one.rank);
  };
  blocks_ = from.block_bytes > 0 && to.block_bytes > 0 && from.type == to.type &&
            std::ranges::equal(shape(from), shape(to));
  sources_.push_back(from.address);
  targets_.push_back(to.address);
  lengths_.push_back(from.block_bytes);
  return true;
}

bool TensorCopy::add_all(nb::handle pairs, nb::object& held) {
  described_ = described_ && (PyList_CheckExact(pairs.ptr()) || PyTuple_CheckExact(pairs.ptr()));
  if (!described_) return false;
  // What asks a tensor may run any code, which may change the list.
  held = nb::steal(PySequence_Tuple(pairs.ptr()));
  if (!held.is_valid()) throw nb::python_error();
  const Py_ssize_t count = PyTuple_GET_SIZE(held.ptr());
  described_ = count > 0;
  blocks_ = count >= blocks_least;
  for (Py_ssize_t k = 0; k < count && described_; ++k) {
    PyObject* pair = PyTuple_GET_ITEM(held.ptr(), k);
    described_ = PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 &&
                 add(nb::handle(PyTuple_GET_ITEM(pair, 0)), nb::handle(PyTuple_GET_ITEM(pair, 1)));
  }
  return described_;
}

std::span<const std::int64_t> TensorCopy::description_of(std::span<const CopyPair> pairs) const {
  const auto all = description();
  if (all.empty()) return {};
  std::span<const std::int64_t> rest = all.subspan(2);
  for (const CopyPair& pair : pairs) {
    if (!takes(pair.source, rest) || !takes(pair.target, rest)) return {};
  }
  return rest.empty() ? all : std::span<const std::int64_t>();
}

std::span<const std::int64_t> TensorCopy::description() const {
  const bool pairs_were_added = described_ && device_ >= 0;
  return pairs_were_added ? std::span<const std::int64_t>(*numbers_)
                          : std::span<const std::int64_t>();
}

CopyOptions TensorCopy::options() const {
  CopyOptions options;
  options.priority = priority_;
  options.interrupted = interrupted;
  take_stream(stream_, options);
  return options;
}

std::optional<BoundEvent> TensorCopy::start_blocks(std::shared_ptr<void> held) const {
  if (description().empty() || !blocks_) return {};
  const PieceLists blocks{sources_, targets_, lengths_};
  auto event = unwrap(
      run([&] { return engine_->copy_blocks(device_, blocks, options(), std::move(held)); }));
  if (!event) return {};
  return BoundEvent{std::move(*event), engine_};
}

std::optional<BoundEvent> TensorCopy::start(std::shared_ptr<void> held) const {
  if (description().empty()) return {};
  auto event = run([&] { return engine_->start_described(*numbers_, options(), std::move(held)); });
  if (!event) return {};
  return BoundEvent{unwrap(std::move(*event)), engine_};
}

}  // namespace tranship::python
