#include "plan/cost/collective_cost.h"
