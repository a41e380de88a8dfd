#include "plan/cost/layer_cost.h"
