#include "memory/progress/object_gets.h"

#include <algorithm>

#include "core/log.h"

namespace tributary::memory {

/// An object that lies on a device stays on one, where there is room.
ObjectBuffer ObjectGets::make_buffer(const WireHandle& fields, Engine engine) const {
  if (engine != Engine::kCudaMap || !is_on_device(fields)) return ObjectBuffer(fields.bytes);
  const Result<std::byte*> begin = device_->allocate(fields.bytes);
  if (begin) return {begin.value(), fields.bytes, device_};
  log_warning(str("memory: an object goes to the host: ", begin.refusal().reason));
  return ObjectBuffer(fields.bytes);
}

void ObjectGets::start(const StartGet& action, const PageTable& table, TimePoint now) {
  const WireHandle& fields = action.handle.fields;
  const auto address = GlobalAddress::from_bits(fields.first_gva);
  PoolObject& object = under_way_[action.request];
  object = {.fields = fields, .bytes = {}};
  const auto place = [&](Engine engine) {
    object.bytes = make_buffer(fields, engine);
    return object.bytes.span();
  };
  links_.get(action.request, *table.find(address.value()), action.handle, place, now);
}

bool ObjectGets::poll(TimePoint now, const std::function<void(const GetDone&, PoolObject)>& tell) {
  return links_.poll(now, [&](const GetDone& done) {
    if (auto node = under_way_.extract(done.request)) tell(done, std::move(node.mapped()));
  });
}

void ObjectGets::close_old(const PageTable& table) {
  links_.close_old(
      [&](const SegmentRow& row) { return std::ranges::count(table.rows(), row) > 0; });
}

}  // namespace tributary::memory
