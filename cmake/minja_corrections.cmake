# Where minja says something else than Jinja, as Pith compiles it: a copy of its header, with these places written anew. A place
# that a version of minja does not have, or has mended, stays as it is, and a line says so.
#   pith_correct_minja(FOLDER OUT)   FOLDER holds minja/minja.hpp; OUT gets the corrected copy

function(_pith_correct name from to) # of text, in the caller
  string(FIND "${text}" "${from}" _at)
  if(_at EQUAL -1)
    set(unknown ${unknown} "${name}" PARENT_SCOPE)
    return()
  endif()
  string(REPLACE "${from}" "${to}" _corrected "${text}")
  set(text "${_corrected}" PARENT_SCOPE)
endfunction()

function(pith_correct_minja folder out)
  file(READ "${folder}/minja/minja.hpp" text)
  set(unknown "")
  _pith_correct("texts" "#pragma once" "#pragma once\n#include \"text/jinja_strings.h\"")
  # `a and b` is one of the two, not whether both hold.
  _pith_correct("and, where the first fails" "if (!l.to_bool()) return Value(false);" "if (!l.to_bool()) return l;")
  _pith_correct("and" "return right->evaluate(context).to_bool();" "return right->evaluate(context);")
  _pith_correct("empty mappings" "if (is_array()) return !empty();" "if (is_array() || is_object()) return !empty();")
  _pith_correct("in, of what is false" "if (item.to_bool() && item == value) return true;" "if (item == value) return true;")
  _pith_correct("is undefined" "if (name == \"defined\") return !l.is_null();"
          "if (name == \"defined\") return !l.is_null();\n              if (name == \"undefined\") return l.is_null();")
  _pith_correct("is sequence" "if (name == \"sequence\") return l.is_array();" "if (name == \"sequence\") return l.is_iterable();")
  # Characters of a text, and slices that reach beyond an end.
  _pith_correct("text[i]" "return target_value.get(index_value);"
    "if (target_value.is_string() && index_value.is_number_integer()) {
            const auto text = target_value.get<std::string>();
            const auto len = pith::jinja::length(text);
            auto at = index_value.get<int64_t>();
            if (at < 0) at += len;
            return at >= 0 && at < len ? Value(pith::jinja::slice(text, at, at + 1, 1)) : Value();
          }
          return target_value.get(index_value);")
  _pith_correct("slices' length" "          auto len = target_value.size();"
    "          const auto text = target_value.is_string() ? target_value.get<std::string>() : std::string();
          auto len = target_value.is_string() ? static_cast<size_t>(pith::jinja::length(text)) : target_value.size();")
  _pith_correct("slices" "          if (target_value.is_string()) {
            std::string s = target_value.get<std::string>();

            std::string result;
            if (start < end && step == 1) {
              result = s.substr(start, end - start);
            } else {
              for (int64_t i = start; step > 0 ? i < end : i > end; i += step) {
                result += s[i];
              }
            }
            return result;
"
    "          pith::jinja::clamp_slice(static_cast<int64_t>(len), step, start, end);
          if (target_value.is_string()) {
            return pith::jinja::slice(text, start, end, step);
")
  # Cuts.
  _pith_correct("split's arguments" "vargs.expectArgs(\"split method\", {1, 1}, {0, 0});" "vargs.expectArgs(\"split method\", {0, 2}, {0, 2});")
  _pith_correct("rsplit" "} else if (method->get_name() == \"split\") {" "} else if (method->get_name() == \"split\" || method->get_name() == \"rsplit\") {")
  _pith_correct("split" "            auto sep = vargs.args[0].get<std::string>();\n            auto parts = split(str, sep);"
    "            auto given = vargs.args.empty() ? vargs.get_named(\"sep\") : vargs.args[0];
            auto most = vargs.args.size() > 1 ? vargs.args[1] : vargs.get_named(\"maxsplit\");
            std::string sep;
            if (!given.is_null()) sep = given.get<std::string>();
            if (!given.is_null() && sep.empty()) throw std::runtime_error(\"empty separator\");
            auto parts = pith::jinja::split(str, given.is_null() ? nullptr : &sep, most.is_null() ? -1 : most.get<int64_t>(),
                                            method->get_name() == \"rsplit\");")

  if(unknown)
    list(JOIN unknown ", " unknown)
    message(STATUS "Pith: this minja is another one than was corrected; left as they are: ${unknown}")
  endif()
  file(WRITE "${out}/minja/minja.hpp.new" "${text}")
  file(COPY_FILE "${out}/minja/minja.hpp.new" "${out}/minja/minja.hpp" ONLY_IF_DIFFERENT)
  file(REMOVE "${out}/minja/minja.hpp.new")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/minja/minja.hpp")
endfunction()
