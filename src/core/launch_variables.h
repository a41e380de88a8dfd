#pragma once

#include <array>
#include <string_view>

namespace tributary {

// The environment variables by which `tributary launch` speaks to the processes that it starts.

/// Which process of a job a rank is, and how many there are.
inline constexpr const char* kRankVariable = "TRIB_RANK";
inline constexpr const char* kWorldVariable = "TRIB_WORLD_SIZE";
/// How often the job was started before.
inline constexpr const char* kAttemptVariable = "TRIB_ATTEMPT";
/// Where the store of the job is; for rank 0 also a descriptor, the socket that listens there.
inline constexpr const char* kStorePortVariable = "TRIB_STORE_PORT";
inline constexpr const char* kStoreDescriptorVariable = "TRIB_STORE_DESCRIPTOR";
/// The words to type before a verb to run it as a rank was run.
inline constexpr const char* kCommandVariable = "TRIB_COMMAND";
/// Where rank 0 of a run that may change the number of encoders writes what it wants: a descriptor
/// of a pipe on which each line is a number.
inline constexpr const char* kEncodersDescriptorVariable = "TRIB_ENCODERS_DESCRIPTOR";
/// Which device of the machine an encoder has: those before belong to ranks and encoders.
inline constexpr const char* kEncoderDeviceVariable = "TRIB_ENCODER_DEVICE";

inline constexpr std::array<std::string_view, 8> kLaunchVariables{kRankVariable,
                                                                  kWorldVariable,
                                                                  kAttemptVariable,
                                                                  kStorePortVariable,
                                                                  kStoreDescriptorVariable,
                                                                  kCommandVariable,
                                                                  kEncodersDescriptorVariable,
                                                                  kEncoderDeviceVariable};

}  // namespace tributary
