#include "memory/protocol/object_requests.h"

#include <algorithm>

namespace tributary::memory {

void ObjectRequests::take(const PublishMessage& message) {
  const auto found = wanted_.find(message.handle.fields.key);
  if (found != wanted_.end() && found->second.request == 0) found->second.handle = message.handle;
}

bool ObjectRequests::take(const GetDone& event, TimePoint now) {
  const auto found = std::ranges::find_if(
      wanted_, [&](const auto& each) { return each.second.request == event.request; });
  if (found == wanted_.end()) return false;
  if (event.status == Status::kOk) {
    wanted_.erase(found);
    return true;
  }
  found->second = {.step = found->second.step, .asked = now};
  return false;
}

void ObjectRequests::advance(TimePoint now, const TableView& table, std::vector<Action>& actions) {
  for (auto& [key, wanted] : wanted_) {
    if (wanted.request != 0) continue;
    if (wanted.handle && table.is_agreed() && table.binds(*wanted.handle)) {
      wanted.request = ++requests_;
      actions.push_back(StartGet{.request = wanted.request, .handle = *wanted.handle});
    } else if (!wanted.asked || now - *wanted.asked >= resend_) {
      wanted.asked = now;
      actions.push_back(Send{.to = controller_, .message = ResolveMessage{.key = key}});
    }
  }
}

void ObjectRequests::forget_before(std::uint64_t step) {
  std::erase_if(wanted_, [step](const auto& each) { return each.second.step < step; });
}

}  // namespace tributary::memory
