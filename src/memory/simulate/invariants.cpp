#include "memory/simulate/invariants.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::memory {
namespace {

void require(bool holds, const char* invariant, const std::string& found = {}) {
  TRIB_CHECK(holds, .what = str("memory: invariant ", invariant, " is broken"), .found = found);
}

}  // namespace

void Invariants::check(const SimulatedProcess& process) {
  Memory& memory = memories_[{process.identity.process, process.life}];
  if (process.owner) check_owner(process, memory);
  if (process.controller) check_controller(*process.controller, memory);
}

void Invariants::check_owner(const SimulatedProcess& process, Memory& memory) {
  const OwnerCore& owner = *process.owner;
  check_pages(owner.objects());
  check_states(owner.objects(), memory);
  check_leases(process);
  const CreditLedger& credits = owner.credits();
  require(credits.consumed() <= credits.granted(), "I10: consumed pages were granted");
  require(owner.low() >= memory.low, "I16: the watermark never falls");
  memory.low = owner.low();
}

void Invariants::check_pages(const ObjectTable& objects) {
  const Arena& arena = objects.arena();
  std::vector<int> users(arena.total_pages());
  std::uint64_t used = 0;
  const auto count = [&](PageRun run) {
    require(run.count > 0 && run.first + run.count <= users.size(), "I1: pages exist");
    for (std::uint32_t page = run.first; page < run.first + run.count; ++page) ++users[page];
  };
  for (const auto& [id, slot] : objects.slots()) {
    for (const PageRun& run : slot.runs) count(run);
    used += slot.pages;
  }
  std::uint32_t end = 0;
  bool is_first = true;
  for (const auto& [first, pages] : arena.free_runs()) {
    count({.first = first, .count = pages});
    require(is_first || first > end, "I2: free runs are maximal");
    end = first + pages;
    is_first = false;
  }
  require(std::ranges::all_of(users, [](int n) { return n == 1; }), "I1: every page has one user");
  require(used == arena.used_pages(), "I1: free and used pages are all",
          str(used, " used, ", arena.free_pages(), " free"));
  std::uint64_t held = 0;  // as counted by step, by which the owner admits objects
  for (const auto& [step, pages] : objects.held()) held += pages;
  require(held <= arena.total_pages(), "I11: sealed and reserved objects fit into the segment");
}

void Invariants::check_states(const ObjectTable& objects, Memory& memory) {
  std::map<SlotId, ObjectState> states;
  for (const auto& [id, slot] : objects.slots()) {
    states[id] = slot.state;
    const auto before = memory.states.find(id);
    const bool is_new = before == memory.states.end();
    require(!is_new || static_cast<std::uint64_t>(id) > memory.newest_slot,
            "I5: a slot is not used again");
    require(is_new || before->second <= slot.state, "I5: states follow their order");
    if (slot.state < ObjectState::kSealed) {
      require(slot.leases.empty(), "I5: only sealed objects are read");
      continue;
    }
    const bool is_sealed_now = is_new || before->second < ObjectState::kSealed;
    const std::uint64_t generation = slot.handle.fields.generation;
    require(!is_sealed_now || generation > memory.generation, "I7: generations rise");
    if (is_sealed_now) memory.generation = generation;
    require(slot.state != ObjectState::kRetired || !slot.leases.empty(),
            "I5: a retired object without readers is free");
  }
  if (!states.empty())
    memory.newest_slot =
        std::max(memory.newest_slot, static_cast<std::uint64_t>(states.rbegin()->first));
  memory.states = std::move(states);
}

void Invariants::check_leases(const SimulatedProcess& process) {
  const ObjectTable& objects = process.owner->objects();
  const TableView& table = process.owner->member().table();
  std::size_t grants = 0;
  for (const auto& [grant, sent] : process.grants) {
    if (sent.epoch < table.epoch_of(sent.to)) continue;  // of a reader that is fenced
    ++grants;
    const std::uint64_t generation = process.generations[sent.runs.front().first].load();
    for (const PageRun& run : sent.runs)
      for (std::uint32_t page = run.first; page < run.first + run.count; ++page)
        require(generation != 0 && process.generations[page].load() == generation,
                "I8: leased pages are not used again", str("grant ", grant));
  }
  require(objects.leases() == grants, "I9: leases are those of grants under way",
          str(objects.leases(), " leases, ", grants, " grants"));
}

void Invariants::check_controller(const ControllerCore& controller, Memory& memory) {
  require(controller.low() >= memory.low, "I16: the watermark never falls");
  memory.low = controller.low();
  for (const auto& [key, record] : controller.objects().records()) {
    if (!record.handle) continue;
    const MemberRecord* owner = controller.membership().find(record.handle->fields.process);
    require(
        owner != nullptr && owner->is_in() && owner->identity.epoch == record.handle->fields.epoch,
        "I18: no object of a fenced process is handed on");
  }
}

}  // namespace tributary::memory
