#pragma once
// All of libtorch (torch/torch.h) would more than double what every file costs: compilers read the
// whole of a precompiled header.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
