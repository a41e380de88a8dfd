#include "core/error.h"
#include "data/loader/encode_sample.h"
#include "data/loader/loader.h"
#include "data/loader/source_files.h"

namespace tributary::data {

class HeldOut::Impl {
 public:
  Impl(const config::DataSection& data, const SampleEncoder& encoder)
      : encoder_(encoder), sources_(open_sources(data, answers_of(encoder))) {}

  const SourceFiles& at(int source) const {
    TRIB_CHECK(source >= 0 && source < std::ssize(sources_), .what = "data: no such source",
               .found = str(source), .expected = str("below ", sources_.size()));
    return *sources_[static_cast<std::size_t>(source)];
  }
  const SampleEncoder& encoder() const { return encoder_; }

 private:
  const SampleEncoder& encoder_;
  std::vector<std::unique_ptr<SourceFiles>> sources_;
};

HeldOut::HeldOut(const config::DataSection& data, const SampleEncoder& encoder)
    : impl_(std::make_unique<Impl>(data, encoder)) {}
HeldOut::~HeldOut() = default;

std::int64_t HeldOut::size(int source) const { return impl_->at(source).held_out_size(); }

Result<SampleShape> HeldOut::describe(int source, std::int64_t position) const {
  const Result<Record> record = impl_->at(source).read_held_out(position);
  if (!record) return record.refusal();
  return impl_->encoder().describe_held_out(judged_part(record.value()));
}

Result<HeldOutSample> HeldOut::load(int source, std::int64_t position) const {
  const Result<Record> record = impl_->at(source).read_held_out(position);
  if (!record) return record.refusal();
  Result<HeldOutSample> loaded = impl_->encoder().encode_held_out(record.value());
  if (!loaded) return loaded.refusal();
  HeldOutSample sample = std::move(loaded).value();
  sample.sample.id = position;
  sample.sample.source = source;
  return sample;
}

Result<std::vector<std::string>> HeldOut::answers(int source, std::int64_t position) const {
  const Result<Record> record = impl_->at(source).read_held_out(position);
  if (!record) return record.refusal();
  return impl_->encoder().answers(record.value());
}

}  // namespace tributary::data
