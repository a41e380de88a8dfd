// Controller, readers and producers as threads of one process.

#include <gmock/gmock.h>

#include "memory/progress/pool_directory.h"
#include "tests/memory/built_engines.h"
#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

using End = PoolProducer::End;

class PoolOverEngine : public testing::TestWithParam<Engine> {};

TEST_P(PoolOverEngine, BringsEveryObjectToItsReader) {
  Pool pool(0, 2);
  for (const std::uint32_t reader : {0, 1})
    pool.add_reader(
        {.consumer = reader, .engines = {Engine::kMemfd, GetParam()}, .device = pool.device});
  PoolProducerOptions options = producer_options(pool.directory.path());
  options.engines = {GetParam()};
  if (GetParam() == Engine::kCudaMap) options.device = std::make_shared<HostDevice>(1);
  Encoder one(options);
  Encoder other(options);
  ASSERT_TRUE(pool.know_producers(2));
  constexpr std::uint64_t kSteps = 50;
  const auto read = [&](std::uint32_t reader) {
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      if (reader == 0) pool.plan_until(std::min(kSteps, step + 3));
      EXPECT_EQ(pool.take_step(reader, step), 4) << step;
    }
  };
  std::jthread second([&] { read(1); });
  read(0);
  second.join();
  EXPECT_TRUE(until([&] { return pool.controller->low() == kSteps; }));
  for (const auto& reader : pool.readers) {
    const PoolReaderCounts counts = reader->counts();
    EXPECT_EQ(counts.objects, 4 * kSteps);
    EXPECT_EQ(counts.missed, 0);
    for (const auto& [process, engine] : counts.engines) EXPECT_EQ(engine, GetParam());
    EXPECT_EQ(counts.engines.size(), 2);
  }
  const auto made = [](Encoder& encoder) { return encoder.producer().counts().objects; };
  EXPECT_EQ(made(one) + made(other), 8 * kSteps);
  EXPECT_GT(std::min(made(one), made(other)), kSteps);  // both had their share
  EXPECT_TRUE(until([&] { return one.producer().counts().pages_used == 0; }));
  EXPECT_EQ(pool.on_device, GetParam() == Engine::kCudaMap ? 8 * kSteps : 0);
  EXPECT_EQ(pool.device->allocations, 0);

  pool.controller->finish();
  EXPECT_TRUE(until([&] { return one.producer().end() == End::kFinished; }));
  EXPECT_TRUE(until([&] { return other.producer().end() == End::kFinished; }));
  EXPECT_FALSE(one.producer().next(kLong));  // at once
  EXPECT_FALSE(find_pool(pool.directory.path()));
}

INSTANTIATE_TEST_SUITE_P(Engines, PoolOverEngine, testing::ValuesIn(socket_engines()),
                         engine_of_case);

TEST(Pool, TakesNothingAtOnceWhereNobodyEncodes) {
  Pool pool;
  const Stopwatch waited;
  EXPECT_EQ(pool.run_step(0), 0);
  EXPECT_LT(waited.seconds(), 5);
  EXPECT_TRUE(until([&] { return pool.controller->low() == 1; }));
  EXPECT_EQ(pool.readers[0]->counts().missed, 4);
}

TEST(Pool, TakesObjectsOfProducersThatComeAndGo) {
  Pool pool;
  EXPECT_EQ(pool.run_step(0), 0);
  auto first = std::make_unique<Encoder>(producer_options(pool.directory.path()));
  ASSERT_TRUE(pool.know_producers(1));
  EXPECT_EQ(pool.run_step(1), 4);
  const Encoder second(producer_options(pool.directory.path()));
  ASSERT_TRUE(pool.know_producers(2));
  EXPECT_EQ(pool.run_step(2), 4);
  first.reset();  // with objects of steps 3 and 4
  for (std::uint64_t step = 3; step < 10; ++step) EXPECT_EQ(pool.run_step(step), 4) << step;
  const PoolCounts counts = pool.controller->counts();
  EXPECT_EQ(counts.producers, 1);
  EXPECT_EQ(counts.joined, 2);
  EXPECT_EQ(counts.left, 1);
  EXPECT_EQ(counts.fenced, 0);
  EXPECT_EQ(counts.pages_total, 160);
  EXPECT_EQ(counts.stopped, "");
}

TEST(Pool, TakesNothingMoreOnceTheLastProducerHasLeft) {
  Pool pool;
  auto encoder = std::make_unique<Encoder>(producer_options(pool.directory.path()), false);
  ASSERT_TRUE(pool.know_producers(1));
  pool.plan_until(2);
  std::jthread leave([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    encoder.reset();
  });
  const Stopwatch waited;
  EXPECT_EQ(pool.take_step(0, 0), 0);
  EXPECT_LT(waited.seconds(), 5);
}

TEST(Pool, WaitsNoLongerThanItsPatience) {  // I17
  Pool pool;
  Encoder encoder(producer_options(pool.directory.path()), false);
  ASSERT_TRUE(pool.know_producers(1));
  const Stopwatch waited;
  EXPECT_EQ(pool.run_step(0, milliseconds(30)), 0);
  EXPECT_GE(waited.seconds(), 0.119);
  EXPECT_LT(waited.seconds(), 5);
  encoder.works = true;
  EXPECT_EQ(pool.run_step(1), 4);  // what was too late harms nothing
  EXPECT_GT(pool.readers[0]->counts().waited_seconds, 0.1);
}

TEST(Pool, SaysAtOnceThatAnObjectCannotBeMade) {
  Pool pool;
  Encoder encoder(producer_options(pool.directory.path()));
  ASSERT_TRUE(pool.know_producers(1));
  encoder.broken_sample = keys_of(1, 1, 0)[2].sample;
  EXPECT_EQ(pool.run_step(0), 4);
  EXPECT_EQ(pool.run_step(1), 3);
  EXPECT_EQ(pool.run_step(2), 4);
  EXPECT_EQ(pool.readers[0]->counts().empty, 1);
  EXPECT_EQ(encoder.producer().counts().failed, 3);
  EXPECT_EQ(pool.controller->counts().stopped, "");
}

TEST(Pool, HandsAnObjectOverOnce) {
  Pool pool;
  const Encoder encoder(producer_options(pool.directory.path()));
  ASSERT_TRUE(pool.know_producers(1));
  pool.plan_until(1);
  const Key key = keys_of(0, 1, 0)[0];
  EXPECT_TRUE(pool.readers[0]->take(key, kLong));
  EXPECT_FALSE(pool.readers[0]->take(key, kLong));
}

TEST(Pool, SaysAtOnceThatNobodyHasRoomForAnObject) {
  Pool pool;
  PoolProducerOptions options = producer_options(pool.directory.path());
  options.capacity_bytes = (kLargest + 1) * kPoolPage;
  const Encoder small(options);
  ASSERT_TRUE(pool.know_producers(1));
  pool.plan_until(1);
  ASSERT_TRUE(until([&] { return pool.controller->counts().unassigned > 0; }));
  const std::uint64_t unassigned = pool.controller->counts().unassigned;
  EXPECT_EQ(pool.take_step(0, 0), 4 - unassigned);
  const Encoder large(producer_options(pool.directory.path()));
  ASSERT_TRUE(pool.know_producers(2));
  EXPECT_EQ(pool.run_step(1), 4);
}

TEST(Pool, CountsBlockedTimeOfAProducerWithoutRoom) {
  Pool pool;
  PoolProducerOptions options = producer_options(pool.directory.path());
  options.capacity_bytes = (kLargest + 20) * kPoolPage;  // hardly more than a step
  Encoder encoder(options);
  ASSERT_TRUE(pool.know_producers(1));
  pool.plan_until(2);
  ASSERT_TRUE(until([&] { return encoder.producer().counts().blocked_seconds > 0.05; }));
  for (std::uint64_t step = 0; step < 5; ++step) pool.run_step(step);
  EXPECT_TRUE(until([&] { return pool.controller->low() == 5; }));
}

TEST(Pool, WaitsForNoReaderThatHasLeft) {
  Pool pool(2);
  EXPECT_EQ(pool.run_step(0), 0);
  pool.plan_until(4);
  pool.readers[1].reset();
  for (std::uint64_t step = 1; step < 4; ++step) pool.readers[0]->finish_step(step);
  EXPECT_TRUE(until([&] { return pool.controller->low() == 4; }));
  EXPECT_EQ(pool.controller->counts().stopped, "");
  EXPECT_THROW(
      PoolReader({.directory = pool.directory.path(), .consumer = 1, .patience = milliseconds(50)}),
      Error);  // and it does not come back
}

TEST(Pool, LetsAReaderInLate) {
  Pool pool(0);
  const Encoder encoder(producer_options(pool.directory.path()));
  pool.controller->plan(planned_step(0, 1));
  ASSERT_TRUE(until([&] { return pool.controller->counts().objects_made == 4; }));
  pool.add_reader({});
  ASSERT_TRUE(pool.know_producers(1));
  EXPECT_EQ(pool.take_step(0, 0), 4);
}

TEST(Pool, EndsProducersWhenTheControllerIsGone) {
  Pool pool;
  Encoder encoder(producer_options(pool.directory.path()));
  ASSERT_TRUE(pool.know_producers(1));
  const Stopwatch waited;
  pool.controller.reset();
  EXPECT_TRUE(until([&] { return encoder.producer().end() == End::kControllerLost; }));
  EXPECT_LT(waited.seconds(), 5);
  EXPECT_FALSE(pool.readers[0]->take(keys_of(0, 1, 0)[0], kLong));
  EXPECT_NE(pool.readers[0]->counts().stopped, "");
}

TEST(Pool, LetsProducersIntoTheNextJobOfADirectory) {
  Pool pool;
  pool.controller.reset();
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    pool.readers.clear();
    pool.controller =
        std::make_unique<PoolController>(PoolControllerOptions{.directory = pool.directory.path(),
                                                               .page_bytes = kPoolPage,
                                                               .reserve_pages = kLargest,
                                                               .timers = short_timers()});
  });
  const Encoder encoder(producer_options(pool.directory.path()));
  later.join();
  pool.add_reader({});
  ASSERT_TRUE(pool.know_producers(1));
  EXPECT_EQ(pool.run_step(0), 4);
}

TEST(Pool, SharesMemoryUnderALongPath) {
  const JobDirectory parent;
  const std::string directory = parent.path() + "/" + std::string(150, 'x');
  PoolController controller(
      {.directory = directory, .page_bytes = kPoolPage, .reserve_pages = kLargest});
  PoolReader reader({.directory = directory});
  const Encoder encoder(producer_options(directory));
  ASSERT_TRUE(until([&] { return reader.counts().producers == 1; }));
  controller.plan(planned_step(0, 1));
  EXPECT_TRUE(reader.take(keys_of(0, 1, 0)[0], kLong));
  EXPECT_EQ(reader.counts().engines.begin()->second, Engine::kMemfd);
}

TEST(Pool, CancelsTasksOfLaterStepsForWhatALostProducerLeaves) {
  Pool pool;
  PoolProducerOptions options = producer_options(pool.directory.path());
  options.capacity_bytes = (kLargest + 16) * kPoolPage;  // a step and the largest object
  options.encoders = UINT32_MAX;
  PoolProducer producer(options);
  auto lost = std::make_unique<PoolProducer>(options);
  ASSERT_TRUE(pool.know_producers(2));
  for (const std::uint64_t step : {0, 1}) {
    StepPlanned planned{.plan = {.step = step, .microbatches = {{}}}};
    for (std::uint64_t sample = 4 * step; sample < 4 * step + 4; ++sample) {
      planned.plan.microbatches[0].keys.push_back({.sample = sample});
      planned.objects.push_back({.key = {.sample = sample}, .pages = 4});
    }
    pool.controller->plan(planned);
  }
  const auto bytes_of_task = [](const PoolProducer::Task& task) {
    return std::vector<std::byte>(4 * kPoolPage, static_cast<std::byte>(task.key.sample));
  };
  const auto next_of_step = [&](std::uint64_t step) {
    const auto task = producer.next(kLong);
    EXPECT_TRUE(task && task->step == step);
    return task.value();
  };
  std::vector<PoolProducer::Task> tasks = {next_of_step(0), next_of_step(0)};
  const PoolProducer::Task one = next_of_step(1), other = next_of_step(1);
  EXPECT_FALSE(producer.is_cancelled(one));
  lost.reset();
  EXPECT_TRUE(until([&] { return producer.is_cancelled(one) && producer.is_cancelled(other); }));
  EXPECT_FALSE(producer.finish(one, bytes_of_task(one), {}));
  producer.fail(other, "its pages are taken");
  EXPECT_EQ(producer.counts().objects + producer.counts().failed, 0);

  for (const std::uint64_t step : {0, 1}) {
    while (tasks.size() < 4) tasks.push_back(next_of_step(step));
    for (const PoolProducer::Task& task : tasks) {
      EXPECT_TRUE(producer.finish(task, bytes_of_task(task), {}));
      const auto object = pool.readers[0]->take(task.key, kLong);
      ASSERT_TRUE(object);
      EXPECT_TRUE(pool.read_host(object->bytes) == bytes_of_task(task));
    }
    tasks.clear();
    pool.readers[0]->finish_step(step);
  }
  EXPECT_TRUE(until([&] { return producer.counts().pages_used == 0; }));
  EXPECT_EQ(producer.counts().objects, 8);
}

TEST(Pool, LetsProducersReadWhatAReaderLends) {
  Pool pool;
  PoolProducerOptions options = producer_options(pool.directory.path());
  PoolProducer producer(options);
  options.process = lender_process(/*consumers=*/1, /*consumer=*/0);
  PoolProducer lender(options);
  ASSERT_TRUE(pool.know_producers(1));  // the lender is none of them
  const Key made{.sample = 1}, needed{.sample = 2};
  pool.controller->plan({.plan = {.step = 0, .microbatches = {{.keys = {made}}}},
                         .objects = {{.key = made, .pages = 1},
                                     {.key = needed, .pages = 2, .lender = options.process}}});
  const auto task = producer.next(kLong);
  ASSERT_TRUE(task && task->key == made);
  producer.ask(needed, 0);
  EXPECT_FALSE(producer.take(needed));
  const auto lent = lender.next(kLong);
  ASSERT_TRUE(lent && lent->key == needed);
  const std::vector<std::byte> bytes(kPoolPage + 100, std::byte{7});
  lender.finish(*lent, bytes, {.tokens = 3});
  EXPECT_FALSE(producer.next(kLong));  // ends, since something has come
  const auto object = producer.take(needed);
  ASSERT_TRUE(object);
  EXPECT_TRUE(std::ranges::equal(object->bytes.span(), bytes));
  EXPECT_EQ(object->fields.tokens, 3);
  EXPECT_FALSE(producer.take(needed));  // handed over once
  producer.drop(*task);
  EXPECT_FALSE(pool.readers[0]->take(made, kLong));  // and its reader knows
  pool.readers[0]->finish_step(0);
  EXPECT_TRUE(until([&] { return producer.low() == 1; }));
}

TEST(Pool, LetsProducersReadFromAnOwnerThatHasComeBack) {
  Pool pool;
  PoolProducerOptions options = producer_options(pool.directory.path());
  options.process = lender_process(/*consumers=*/1, /*consumer=*/0);
  PoolProducer asking(options);
  options.process = lender_process(1, 0) - 1;  // of an encoder, which takes it twice
  for (std::uint64_t step = 0; step < 2; ++step) {
    Encoder owner(options);
    pool.plan_until(step + 1);
    const Key key = keys_of(step, 1, 0).front();
    asking.ask(key, step);
    std::optional<PoolObject> object;
    ASSERT_TRUE(until([&] { return (object = asking.take(key)).has_value(); })) << step;
    EXPECT_TRUE(std::ranges::equal(object->bytes.span(), bytes_of(key)));
    pool.readers[0]->finish_step(step);
  }
}

}  // namespace
}  // namespace tributary::memory
