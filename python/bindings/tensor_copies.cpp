#include "tensor_copies.hpp"

#include <utility>

#include "exchange_table.hpp"

namespace tranship::python {
TensorCopy::TensorCopy(const std::shared_ptr<Engine>& engine, int priority, nb::handle stream)
    : engine_(engine), priority_(priority) {
  if (engine->gpu_side() == nullptr) return;
  const bool given = !stream.is_none();
  if (given) stream_ = stream_in(stream);
  described_ = given == stream_.has_value();
  numbers_->assign({priority, given ? 1 : 0});
}

/// All tensors lie on one GPU, and the copy runs in a stream of it.
bool TensorCopy::lies_on(int device) {
  if (device_ < 0) device_ = device;
  const bool elsewhere = stream_ && stream_->device >= 0 && stream_->device != device;
  return device == device_ && !elsewhere;
}

/// The streams that tensors name are the one in which the copy runs.
bool TensorCopy::runs_in(std::uintptr_t stream) {
  if (!stream_) stream_ = CallerStream{stream, device_};
  return stream_->handle == stream;
}

bool TensorCopy::add(nb::handle object, bool writable) {
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
  if (has_stream_of_its_own(tensor.dtype)) {
    std::uintptr_t stream = 0;
    if (!current_stream(*found.table, device_, stream) || !runs_in(stream)) return false;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  const std::int64_t type = (std::int64_t{tensor.dtype.code} << 32) |
                            (std::int64_t{tensor.dtype.bits} << 16) | tensor.dtype.lanes;
  const bool dense = tensor.strides == nullptr;
  std::vector<std::int64_t>& numbers = *numbers_;
  numbers.insert(numbers.end(),
                 {static_cast<std::int64_t>(address), type,
                  (std::int64_t{device_} << 32) | (tensor.ndim << 1) | (dense ? 1 : 0)});
  numbers.insert(numbers.end(), tensor.shape, tensor.shape + tensor.ndim);
  if (!dense) numbers.insert(numbers.end(), tensor.strides, tensor.strides + tensor.ndim);
  return true;
}

bool TensorCopy::add(nb::handle source, nb::handle target) {
  described_ = described_ && add(source, false) && add(target, true);
  return described_;
}

bool TensorCopy::add_all(nb::handle pairs, nb::object& held) {
  described_ = described_ && (PyList_CheckExact(pairs.ptr()) || PyTuple_CheckExact(pairs.ptr()));
  if (!described_) return false;
  // What asks a tensor may run any code, which may change the list.
  held = nb::steal(PySequence_Tuple(pairs.ptr()));
  if (!held.is_valid()) throw nb::python_error();
  const Py_ssize_t count = PyTuple_GET_SIZE(held.ptr());
  described_ = count > 0;
  for (Py_ssize_t k = 0; k < count && described_; ++k) {
    PyObject* pair = PyTuple_GET_ITEM(held.ptr(), k);
    described_ = PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 &&
                 add(nb::handle(PyTuple_GET_ITEM(pair, 0)), nb::handle(PyTuple_GET_ITEM(pair, 1)));
  }
  return described_;
}

std::span<const std::int64_t> TensorCopy::description() const {
  const bool pairs_were_added = described_ && device_ >= 0;
  return pairs_were_added ? std::span<const std::int64_t>(*numbers_)
                          : std::span<const std::int64_t>();
}

std::optional<BoundEvent> TensorCopy::start(std::shared_ptr<void> held) const {
  if (description().empty()) return {};
  CopyOptions options;
  options.priority = priority_;
  options.interrupted = interrupted;
  take_stream(stream_, options);
  auto event = run([&] { return engine_->start_described(*numbers_, options, std::move(held)); });
  if (!event) return {};
  return BoundEvent{unwrap(std::move(*event)), engine_};
}

}  // namespace tranship::python
