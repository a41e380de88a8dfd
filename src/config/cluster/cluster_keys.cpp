#include "config/cluster/cluster_keys.h"

namespace tributary::config {
namespace {

constexpr double kMostRate = 1e19;
// No device is below this rate: the value was written in TFLOP/s or GB/s.
constexpr double kLeastRate = 1e6;
constexpr double kLeastLinkRate = 1e5;
constexpr double kMostSeconds = 1e3;

constexpr ConstantKey<DeviceModel> kDeviceKeys[]{
    {"matrix_flops_per_s", &DeviceModel::matrix_flops_per_s, kLeastRate, kMostRate, true,
     "FLOP/s, dense products in the training dtype, by the maker"},
    {"memory_bytes_per_s", &DeviceModel::memory_bytes_per_s, kLeastRate, kMostRate, true,
     "B/s, by the maker"},
    {"matrix_share", &DeviceModel::matrix_share, 1e-3, 1, false,
     "of matrix_flops_per_s that a large product reaches"},
    {"matrix_ramp_flops", &DeviceModel::matrix_ramp_flops, 0, 1e13, false,
     "FLOP, a product of this size reaches half of that"},
    {"misaligned_share", &DeviceModel::misaligned_share, 1e-2, 1, false,
     "of matrix_share, where a width is no multiple of 8"},
    {"attention_share", &DeviceModel::attention_share, 1e-3, 1, false,
     "of matrix_flops_per_s that a fused attention core reaches"},
    {"memory_share", &DeviceModel::memory_share, 1e-3, 1, false,
     "of memory_bytes_per_s that element-wise kernels reach"},
    {"cache_bytes_per_s", &DeviceModel::cache_bytes_per_s, 0, kMostRate, false,
     "B/s, all units together from the cache; 0: a part has its part of the memory"},
    {"launch_s", &DeviceModel::launch_s, 0, 1, false, "s, host time per kernel"},
    {"launch_blend", &DeviceModel::launch_blend, 1, 64, false,
     "exponent of the smooth maximum of host and device time"},
    {"microbatch_s", &DeviceModel::microbatch_s, 0, kMostSeconds, false,
     "s, host time per microbatch that nothing hides"},
    {"logit_bytes", &DeviceModel::logit_bytes, 0, 1e4, false,
     "B, memory traffic of the loss per logit"},
    {"overlap_slowdown", &DeviceModel::overlap_slowdown, 1, 10, false,
     "of compute beside a collective"},
};

constexpr ConstantKey<LinkLevel> kLevelKeys[]{
    {"bytes_per_s", &LinkLevel::bytes_per_s, kLeastLinkRate, kMostRate, true,
     "B/s, one device and direction"},
    {"message_start_s", &LinkLevel::message_start_s, 0, kMostSeconds, false, "s, of one message"},
    {"start_s", &LinkLevel::start_s, 0, kMostSeconds, false, "s, of one collective"},
    {"hop_s", &LinkLevel::hop_s, 0, kMostSeconds, false, "s, of each step of a ring"},
    {"low_latency_start_s", &LinkLevel::low_latency_start_s, 0, kMostSeconds, false,
     "s, of a collective of few bytes; 0: no such protocol"},
    {"low_latency_hop_s", &LinkLevel::low_latency_hop_s, 0, kMostSeconds, false,
     "s, of each step of its ring"},
    {"low_latency_slowdown", &LinkLevel::low_latency_slowdown, 1, 10, false,
     "of its bytes against the other protocol"},
    {"seconds_per_byte", &LinkLevel::seconds_per_byte, 0, 1, false,
     "s/B, of the bus in a large group; 0: 1 / bytes_per_s"},
    {"seconds_per_byte_pair", &LinkLevel::seconds_per_byte_pair, 0, 1, false,
     "s/B, what a group of n takes more, times n-1"},
};

}  // namespace

std::span<const ConstantKey<DeviceModel>> device_keys() { return kDeviceKeys; }
std::span<const ConstantKey<LinkLevel>> level_keys() { return kLevelKeys; }

}  // namespace tributary::config
