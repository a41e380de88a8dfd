#include "parallel/observe_attention.h"

#include <ATen/ATen.h>

#include "parallel/pass_observer.h"
#include "parallel/unit_chain.h"

namespace tributary::parallel {

at::Tensor observe_attention(const UnitChain* chain, const at::Tensor& qkv,
                             const std::function<at::Tensor(const at::Tensor& qkv)>& attend) {
  PassObserver* observer = chain != nullptr ? chain->observer() : nullptr;
  if (observer == nullptr) return attend(qkv);
  const auto tell = [observer](AttentionMark mark) {
    return [observer, mark](const at::Tensor& /*gradient*/) { observer->on_attention(mark); };
  };
  observer->on_attention(AttentionMark::kBegin);
  at::Tensor attended = attend(qkv);
  observer->on_attention(AttentionMark::kEnd);
  if (!attended.requires_grad()) return attended;
  // Backward comes from the other side: the core begins when the gradient of its result is there.
  attended.register_hook(tell(AttentionMark::kBegin));
  qkv.register_hook(tell(AttentionMark::kEnd));
  return attended;
}

}  // namespace tributary::parallel
