#include "memory/progress/object_gets.h"

#include <algorithm>

namespace tributary::memory {

void ObjectGets::start(const StartGet& action, const PageTable& table, TimePoint now) {
  const WireHandle& fields = action.handle.fields;
  const auto address = GlobalAddress::from_bits(fields.first_gva);
  PoolObject& object = under_way_[action.request];
  object = {.fields = fields, .bytes = ObjectBuffer(fields.bytes)};
  links_.get(action.request, *table.find(address.value()), action.handle, object.bytes.span(), now);
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
