#include "config/study/study_names.h"

#include <algorithm>

#include "core/error.h"
#include "core/join.h"
#include "core/nearest_name.h"

namespace tributary::config {
namespace {

ErrorParts problem_at(const std::string& where, const std::string& found,
                      const std::string& expected) {
  return {
      .what = "config: value cannot be used", .where = where, .found = found, .expected = expected};
}

/// Checks the names of methods outside the study's list of methods.
class MethodNames {
 public:
  MethodNames(const ArtifactObject& root, const Study& study, const std::vector<StudyMethod>& known,
              Problems& problems)
      : root_(root), study_(study), known_(known), problems_(problems) {
    for (const StudyMethod& method : known_) names_.push_back(method.name);
  }

  void check_listed() {
    const std::vector<std::string>& listed = study_.methods;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      const std::string key = str("methods.", i);
      if (!is_known(listed[i])) {
        refuse_unknown(key, listed[i]);
        has_unknown_ = true;
      }
      const auto before = listed.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(listed.begin(), before, listed[i]) != before)
        problems_.add(problem_at(root_.where(key), listed[i], "each method once"));
    }
  }

  void check(const std::string& key, const std::string& name) {
    if (name.empty() || runs(name)) return;
    if (!is_known(name)) return refuse_unknown(key, name);
    // The name may be right, and only misspelt in the list.
    if (has_unknown_) return;
    problems_.add(problem_at(root_.where(key), name,
                             study_.methods.empty() ? "a method that runs without `methods`"
                                                    : "a method of the study's `methods`"));
  }

 private:
  [[nodiscard]] bool is_known(const std::string& name) const {
    return names_.empty() || std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  [[nodiscard]] bool runs(const std::string& name) const {
    const std::vector<std::string>& listed = study_.methods;
    if (!listed.empty()) return std::find(listed.begin(), listed.end(), name) != listed.end();
    return known_.empty() ||
           std::any_of(known_.begin(), known_.end(), [&](const StudyMethod& method) {
             return method.in_all && method.name == name;
           });
  }

  void refuse_unknown(const std::string& key, const std::string& name) {
    const std::string nearest = nearest_name(name, names_);
    const char* kind = study_.kind == StudyKind::kPipeline ? "pipeline" : "sharing";
    problems_.add({.what = "config: unknown method",
                   .where = root_.where(key),
                   .found = name,
                   .expected = str("a method of kind ", kind, ": ", join(names_)),
                   .fix = nearest.empty() ? "" : str("did you mean ", nearest, "?")});
  }

  const ArtifactObject& root_;
  const Study& study_;
  const std::vector<StudyMethod>& known_;
  Problems& problems_;
  std::vector<std::string> names_;
  bool has_unknown_ = false;  // in the list
};

/// The keys of the names of a ranked method.
struct RankedKeys {
  std::string setting, method, against;
};

/// Fields that all entries share are passed to `visit` only with the first entry, so that each
/// problem is reported once.
template <class Visit>
void for_each_ranked(const PublishedOrder& order, std::size_t index, const Visit& visit) {
  const std::string key = str("orders.", index, ".");
  const bool is_of_settings = !order.is_of_one_setting();
  for (std::size_t k = 0; k < order.ranked.size(); ++k) {
    RankedMethod each = order.ranked[k];
    if (is_of_settings) {
      if (k > 0) each.method = each.against = "";
      visit(each, RankedKeys{str(key, "settings.", k), key + "method", key + "against"});
    } else {
      if (k > 0) each.setting = "";
      const bool has_pairs = order.by == RankedBy::kSpeedup;
      const std::string place = str(key, has_pairs ? "speedups." : "methods.", k);
      visit(each, RankedKeys{key + "setting", has_pairs ? place + ".0" : place, place + ".1"});
    }
  }
}

}  // namespace

void check_settings(const ArtifactObject& root, const Study& study, Problems& problems) {
  const auto check = [&](const std::string& key, const std::string& name) {
    const bool is_there = name.empty() || std::any_of(study.settings.begin(), study.settings.end(),
                                                      [&](const StudySetting& setting) {
                                                        return setting.name == name;
                                                      });
    if (!is_there) problems.add(problem_at(root.where(key), name, "a setting of the study"));
  };
  const auto check_all = [&](const std::string& list, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) check(str(list, i), names[i]);
  };
  for (std::size_t i = 0; i < study.figures.size(); ++i) {
    const PublishedFigure& figure = study.figures[i];
    check(str("figures.", i, ".setting"), figure.setting);
    check(str("figures.", i, ".against_setting"), figure.against_setting);
    check_all(str("figures.", i, ".settings."), figure.settings);
  }
  for (std::size_t i = 0; i < study.orders.size(); ++i)
    for_each_ranked(study.orders[i], i, [&](const RankedMethod& each, const RankedKeys& keys) {
      check(keys.setting, each.setting);
    });
  for (std::size_t i = 0; i < study.settings.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      if (study.settings[i].name == study.settings[k].name)
        problems.add(problem_at(root.where(str("settings.", i, ".name")), study.settings[i].name,
                                "a name of its own"));
  }
}

void check_methods(const ArtifactObject& root, const Study& study,
                   const std::vector<StudyMethod>& known, Problems& problems) {
  MethodNames names(root, study, known, problems);
  names.check_listed();
  names.check("against", study.against);
  for (std::size_t i = 0; i < study.figures.size(); ++i) {
    names.check(str("figures.", i, ".method"), study.figures[i].method);
    names.check(str("figures.", i, ".against"), study.figures[i].against);
  }
  for (std::size_t i = 0; i < study.orders.size(); ++i)
    for_each_ranked(study.orders[i], i, [&](const RankedMethod& each, const RankedKeys& keys) {
      names.check(keys.method, each.method);
      names.check(keys.against, each.against);
    });
}

}  // namespace tributary::config
